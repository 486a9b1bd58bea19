// The commands of lathe-bench. Each returns the exit status: 0, or 1 if a result was wrong. A mistake in the
// arguments is thrown as lathe::Error.
#pragma once
#include <deque>

#include "compiled.hpp"
#include "options.hpp"
#include "peers/peers.hpp"

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
int bounds_command(const Options& options);
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

/// The peers' ways to compute the case, those with a wrong result or an error left out and named on standard
/// error. Each peer reads inputs of its own, which it finds as far away as all others have pushed them: what
/// several read in common lies in the caches for each of them but the first. `copies` outlive the contenders.
std::vector<Contender> verified_contenders(const Case& c, const Reference& want,
                                           const std::vector<Peer>& peers, const CompileOptions& plan,
                                           std::deque<Case>& copies);

bool all_verified(const std::vector<Row>& rows);
/// Prints the rows as a table or as JSON; 1 if any is wrong.
int report(const std::vector<Row>& rows, const Options& options);

} // namespace lathe::bench
