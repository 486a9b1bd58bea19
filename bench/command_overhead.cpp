// lathe-bench overhead: what a call costs besides the work it does, and what compiling costs a new process.
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include <fmt/format.h>

#include "commands.hpp"
#include "temporary_dir.hpp"
#include "timing.hpp"

extern char** environ;

namespace lathe::bench {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kFew = 64, kHalf = 16384; // the halves take some 10 us each and stay in the caches

/// a + b as one kernel, with memory to call it on.
class SmallProgram {
public:
  SmallProgram(const Options& options, int64_t elements, int threads, std::vector<std::string> moves)
      : a_(static_cast<size_t>(elements), 1.5f), b_(a_.size(), 2.25f), y_(a_.size()), shape_{elements},
        executable_(compiled(options, threads, std::move(moves))) {
    call();
    for (const float y : y_)
      if (y != 3.75f) throw InternalError("overhead: the program computes something else than a + b");
  }
  void call() { executable_.run(inputs_, outputs_); }
  void call_with_tensors() { executable_(tensors_); }

private:
  Executable compiled(const Options& options, int threads, std::vector<std::string> moves) const {
    CompileOptions compile = compile_options(options);
    compile.threads = threads;
    compile.use_database = false;
    compile.moves = std::move(moves);
    const Tensor a = Tensor::input("a", shape_), b = Tensor::input("b", shape_);
    return lathe::compile({{"y", a + b}}, compile);
  }

  std::vector<float> a_, b_, y_;
  Shape shape_;
  std::map<std::string, const void*> inputs_{{"a", a_.data()}, {"b", b_.data()}};
  std::map<std::string, void*> outputs_{{"y", y_.data()}};
  NamedTensors tensors_{{"a", Tensor::from(a_, shape_)}, {"b", Tensor::from(b_, shape_)}};
  Executable executable_;
};

/// Median seconds of single calls, each after so long a pause that the workers have gone to sleep.
std::vector<double> after_a_pause(std::vector<SmallProgram*> programs) {
  std::vector<std::vector<double>> samples(programs.size());
  for (int round = 0; round < 101; ++round)
    for (size_t k = 0; k < programs.size(); ++k) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      const auto begin = Clock::now();
      programs[k]->call();
      samples[k].push_back(std::chrono::duration<double>(Clock::now() - begin).count());
    }
  std::vector<double> medians;
  for (auto& s : samples) medians.push_back(median(std::move(s)));
  return medians;
}

/// What `lathe-bench run elementwise` in a process of its own says of its compile time.
double compile_seconds_in_new_process(const Options& options, const std::string& cache) {
  std::vector<std::string> words{"lathe-bench", "run",       "elementwise", "--shape",
                                 "4096",        "--untuned", "--json"};
  if (!options.device.empty()) words.insert(words.end(), {"--device", options.device});
  std::vector<char*> argv, environment;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  std::string cache_variable = "LATHE_CACHE_DIR=" + cache;
  environment.push_back(cache_variable.data());
  for (char** variable = environ; *variable; ++variable)
    if (!std::string_view(*variable).starts_with("LATHE_CACHE_DIR=")) environment.push_back(*variable);
  environment.push_back(nullptr);

  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw Error(ErrorKind::Limit, "overhead: no pipe can be had");
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
  pid_t child = 0;
  const int failed =
      posix_spawn(&child, "/proc/self/exe", &actions, nullptr, argv.data(), environment.data());
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  std::string text;
  char piece[4096];
  for (ssize_t n; !failed && (n = read(ends[0], piece, sizeof piece)) > 0;)
    text.append(piece, static_cast<size_t>(n));
  close(ends[0]);
  int status = 0;
  if (failed || waitpid(child, &status, 0) != child || status != 0)
    throw Error(ErrorKind::Device, "overhead: lathe-bench run elementwise failed in a process of its own");
  return Json::parse(text).at(0).at("compile_ms").get<double>() * 1e-3;
}

} // namespace

int overhead_command(const Options& options) {
  // New processes come first: the program's own memory must not be in their way.
  std::vector<double> cold, known;
  for (int round = 0; round < 11; ++round) {
    const TemporaryDir cache;
    cold.push_back(compile_seconds_in_new_process(options, cache.path()));
    known.push_back(compile_seconds_in_new_process(options, cache.path()));
  }
  const std::vector<std::string> halves{fmt::format("split(t0.i0, {})", kHalf), "parallelise(t0.i0.o)"};
  SmallProgram one(options, kFew, 1, {}), serial(options, 2 * kHalf, 1, halves),
      parallel(options, 2 * kHalf, 2, halves);
  const std::vector<double> hot = median_seconds({[&] { one.call(); }, [&] { one.call_with_tensors(); },
                                                  [&] { serial.call(); }, [&] { parallel.call(); }});
  const std::vector<double> paused = after_a_pause({&serial, &parallel});

  struct Line {
    const char *field, *meaning;
    double seconds;
  };
  const Line lines[] = {
      {"call_us", "a call on raw memory, one kernel, 64 elements", hot[0]},
      {"call_tensors_us", "the same with tensors in and out", hot[1]},
      {"fork_join_us", "fork and join of two threads: beyond half the work", hot[3] - hot[2] / 2},
      {"fork_join_idle_us", "the same 2 ms after the last", paused[1] - paused[0] / 2},
      {"compile_us", "elementwise compiled in a new process, empty cache", median(cold)},
      {"compile_known_us", "the same with its object on disk", median(known)},
  };
  Json json;
  for (const Line& line : lines) {
    json[line.field] = line.seconds * 1e6;
    if (!options.json) fmt::print("{:<52} {:>10}\n", line.meaning, duration(line.seconds));
  }
  if (options.json) fmt::print("{}\n", json.dump(2));
  return 0;
}

} // namespace lathe::bench
