// lathe view: a trace as a page, as text, or checked.
#include <fmt/format.h>

#include "commands.hpp"
#include "lathe/trace.hpp"

namespace lathe::tool {
namespace {

int check(const std::string& path) {
  const TraceCheck found = check_trace(path);
  for (const auto& [kind, count] : found.records) fmt::print("{:<10} {}\n", kind, count);
  fmt::print("{} states replayed\n", found.replayed);
  for (const TraceFault& fault : found.faults) fmt::print("{}\n", fault.message);
  if (found.cut) fmt::print("{}: its last line has no end, and was left out\n", path);
  return found.faults.empty() ? 0 : 1;
}

} // namespace

int view_command(const Options& options) {
  const bool is_page = !options.output.empty(), is_text = !options.print.empty();
  if (is_page + is_text + options.check != 1)
    throw Error(ErrorKind::Value, "view: expected one of -o PAGE, --print PICTURE and --check");
  if (is_page) {
    write_trace_page(options.traces, options.output);
    return 0;
  }
  if (options.traces.size() > 1)
    throw Error(ErrorKind::Value, "view: two traces are compared on a page, expected -o PAGE");
  if (options.check) return check(options.traces[0]);
  fmt::print("{}", print_trace(options.traces[0], {.picture = options.print[0],
                                                   .kernel = options.print.size() > 1 ? options.print[1] : "",
                                                   .compilation = options.compilation}));
  return 0;
}

} // namespace lathe::tool
