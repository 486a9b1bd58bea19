// The commands of lathe-bench. Each returns the exit status: 0, or 1 if a result was wrong. A mistake in the
// arguments is thrown as lathe::Error.
#pragma once
#include "compiled.hpp"
#include "options.hpp"

namespace lathe::bench {

int list_command(const Options& options);
int run_command(const Options& options);
int tune_command(const Options& options);
int compare_command(const Options& options);
int emit_command(const Options& options);
int machine_command(const Options& options);
int overhead_command(const Options& options);
int matrices_command(const Options& options);
int joint_command(const Options& options);
int demo_command(const Options& options);
int explain_command(const Options& options);
int rank_command(const Options& options);
int constants_command(const Options& options);
int moves_command(const Options& options);
int tracing_command(const Options& options);
int db_command(const Options& options);

/// A tuned case: its row, with what the search did among its extra fields, and its program.
struct Tuned {
  Row row;
  double untuned_seconds;
  Executable executable;
};
/// Searches (or replays options.replay), verifies, and times against the untuned program.
Tuned tune_case(const Case& c, const Reference& want, const Options& options);
/// The kernels with their moves and predicted times, for people.
std::string schedule_text(const Executable& executable);

bool all_verified(const std::vector<Row>& rows);
/// Prints the rows as a table or as JSON; 1 if any is wrong.
int report(const std::vector<Row>& rows, const Options& options);

} // namespace lathe::bench
