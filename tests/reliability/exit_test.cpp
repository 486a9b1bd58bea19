// A process that uses lathe ends when it is told to, whatever its threads, globals and children do meanwhile.
// LATHE_RUNS=n runs each way n times instead of five.
#include <doctest/doctest.h>

#include <sys/wait.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "support/devices.hpp"
#include "support/runs.hpp"

namespace {

void check_ways(const std::string& device, const std::vector<std::string>& ways) {
  for (const std::string& way : ways) {
    CAPTURE(device);
    CAPTURE(way);
#if defined(__SANITIZE_THREAD__) // it can't follow a child that starts threads while its parent had some
    if (way == "run_in_a_child_of_a_busy_process") continue;
#endif
    int failures = 0;
    for (int k = 0; k < lathe::test::runs(5); ++k) { // 124: it did not end
      const int status = std::system(("timeout -k 1 60 " LATHE_EXITS " " + way + " " + device).c_str());
      failures += !WIFEXITED(status) || WEXITSTATUS(status) != 0;
    }
    CHECK(failures == 0);
  }
}

} // namespace

TEST_CASE("every way to end ends well") {
  check_ways("cpu", {"exit_while_others_run", "exit_of_another_thread", "exit_while_compiling",
                     "evaluate_in_a_destructor", "run_in_a_destructor", "exit_in_a_child",
                     "compute_in_a_child", "run_in_a_child_of_a_busy_process"});
}

TEST_CASE("so does every way but a child's where a driver has threads of its own") {
  if (!lathe::has_device("opencl")) return;
  check_ways("opencl", {"exit_while_others_run", "exit_of_another_thread", "exit_while_compiling",
                        "evaluate_in_a_destructor", "run_in_a_destructor", "exit_in_a_child"});
}
