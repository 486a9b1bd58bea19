// Ways to end a process that uses lathe, one for each word of kWays, on a device: exit_test runs them many
// times. Ends with 0 if all went well.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <lathe/lathe.hpp>

using namespace lathe;

namespace {

constexpr int64_t kRows = 256, kInner = 128, kColumns = 256;
std::string device = "cpu";

Executable make(int64_t rows) {
  const Tensor a = Tensor::input("a", {rows, kInner}), b = Tensor::input("b", {kInner, kColumns});
  return compile({{"p", a.matmul(b)}, {"s", (a * 2.0f).exp().sum(-1)}}, {.device = device, .threads = 2});
}

bool run(const Executable& program, int64_t rows, float value) {
  const auto size = [](int64_t m, int64_t n) { return static_cast<size_t>(m * n); };
  const std::vector<float> a(size(rows, kInner), value), b(size(kInner, kColumns), 2);
  std::vector<float> p(size(rows, kColumns), -1), s(size(rows, 1), -1);
  program.run({{"a", a.data()}, {"b", b.data()}}, {{"p", p.data()}, {"s", s.data()}});
  for (const float x : p)
    if (x != 2 * value * kInner) return false;
  return true;
}

void sleep_for(int milliseconds) { std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds)); }
/// Another number for each process, so that many runs meet many moments.
int some_milliseconds(int most) { return static_cast<int>(::getpid()) * 7 % most; }

void exit_after(int milliseconds) {
  std::thread([=] {
    sleep_for(milliseconds);
    std::exit(0);
  }).detach();
}

/// A program that has run once. PoCL compiles a kernel when it first runs, in a thread of its own, and does
/// not bear an exit meanwhile: see docs/reliability.md.
Executable make_and_run() {
  const Executable program = make(kRows);
  run(program, kRows, 1);
  return program;
}

int exit_while_others_run() {
  const Executable program = make_and_run(); // each thread holds it
  for (int i = 0; i < 2; ++i)
    std::thread([program] {
      for (;;) run(program, kRows, 1);
    }).detach();
  sleep_for(20 + some_milliseconds(30));
  std::exit(0);
}

int exit_of_another_thread() {
  const Executable program = make_and_run();
  exit_after(20 + some_milliseconds(30));
  for (;;) run(program, kRows, 1);
}

int exit_while_compiling() {
  exit_after(50 + some_milliseconds(100));
  for (int64_t rows = 30;; ++rows) make(rows);
}

// ---- Globals whose destructors use lathe: made before main, and before anything of lathe's was used ----

struct Late {
  std::optional<Tensor> tensor;
  std::optional<Executable> program;
  ~Late() {
    try {
      if (tensor && (*tensor + 1.0f).sum().item<float>() != 9) std::_Exit(1);
      if (program && !run(*program, kRows, 3)) std::_Exit(1);
    } catch (const Error&) { // OpenCL's driver has ended
      if (device != "opencl") std::_Exit(1);
    }
  }
};
Late late;

int evaluate_in_a_destructor() {
  late.tensor = Tensor::from({1.0f, 2.0f, 3.0f});
  return late.tensor->sum().item<float>() == 6 ? 0 : 1;
}
int run_in_a_destructor() {
  late.program = make(kRows);
  return run(*late.program, kRows, 1) ? 0 : 1;
}

// ---- Children ----

bool is_a_child = false;

int in_a_child(const std::function<bool()>& child) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    is_a_child = true;
    std::exit(child() ? 0 : 1);
  }
  int status = -1;
  ::waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

int exit_in_a_child() {
  const Executable program = make(kRows);
  run(program, kRows, 1);
  sleep_for(some_milliseconds(5)); // the workers are awake, or asleep
  return in_a_child([] { return true; });
}
int compute_in_a_child() {
  const Executable program = make(kRows);
  run(program, kRows, 1);
  sleep_for(some_milliseconds(5));
  return in_a_child([&] {
    return run(program, kRows, 3) && run(make(kRows + 8), kRows + 8, 1) &&
           (Tensor::from({1.0f, 2.0f}) + 1.0f).sum().item<float>() == 5;
  });
}
int run_in_a_child_of_a_busy_process() {
  const Executable program = make(kRows);
  std::atomic<bool> stop{false};
  std::thread busy([&] {
    while (!stop) run(program, kRows, 1);
  });
  sleep_for(5 + some_milliseconds(10));
  const int failed = in_a_child([&] { return run(program, kRows, 3); });
  stop = true;
  busy.join();
  return failed;
}

/// 3 if nothing can be measured. Not among the ways of exit_test.
int tune() {
  const TuneOptions options{.budget_seconds = 2};
  const Tensor a = Tensor::input("a", {40, 30});
  try {
    compile({{"y", a.exp().sum(-1)}}, {.threads = 1, .tune = options});
  } catch (const Error& e) {
    std::puts(e.what());
    return 3;
  }
  return 0;
}

const std::map<std::string, int (*)()> kWays = {
    {"exit_while_others_run", exit_while_others_run},
    {"exit_of_another_thread", exit_of_another_thread},
    {"exit_while_compiling", exit_while_compiling},
    {"evaluate_in_a_destructor", evaluate_in_a_destructor},
    {"run_in_a_destructor", run_in_a_destructor},
    {"exit_in_a_child", exit_in_a_child},
    {"compute_in_a_child", compute_in_a_child},
    {"run_in_a_child_of_a_busy_process", run_in_a_child_of_a_busy_process},
    {"tune", tune},
};

} // namespace

// LeakSanitizer asks. What the stacks of its parent's other threads hold is out of a child's reach.
extern "C" int __lsan_is_turned_off() { return is_a_child; }

int main(int count, char** words) {
  if (count < 2 || count > 3) {
    for (const auto& [name, way] : kWays) std::puts(name.c_str());
    return 2;
  }
  if (count == 3) device = words[2];
  set_default_device(device);
  return kWays.at(words[1])();
}
