// The net: random programs on a device, against an oracle that shares nothing with lathe.
//
//   net [--programs N] [--from N] [--seconds T] [--seed S] [--device cpu|c|opencl|interp] [--dtypes f32,i32]
//   [--tuned] [--quick]
//       [--only sum,movement] [--avoid pow,norm] [--batch K] [--jobs J] [--gradients] [--symbolic] [--empty] [--replay
//       SEED:INDEX]
//       [--dump FILE] [--functions]
//
// A worker process runs the programs; this one watches it, so that a crash or a hang is a finding like any
// other and the rest goes on. Exits with 1 if anything was found.
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <map>

#include <fmt/format.h>

#include "net/options.hpp"
#include "net/worker.hpp"

using namespace lathe::net;

namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

constexpr int kNoDevice = 77; // asked in a worker: a device's threads would not live through a fork

/// A worker with what it last said.
struct Child {
  pid_t pid = -1;
  int fd = -1;
  uint64_t at = 0; // the first program of its batch
  double heard = 0;
  std::string line;
};

Child started(const Options& options, uint64_t from, uint64_t step) {
  int ends[2];
  if (pipe(ends) != 0) throw std::runtime_error("pipe");
  std::fflush(nullptr);
  const pid_t pid = fork();
  if (pid == 0) {
    close(ends[0]);
    if (!device_there(options.device)) _exit(kNoDevice);
    work(options, from, step, ends[1]);
    std::fflush(nullptr);
    _exit(0);
  }
  close(ends[1]);
  return {pid, ends[0], from, now(), {}};
}

struct Totals {
  uint64_t programs = 0, findings = 0, elements = 0, undecided = 0;
};

/// Reads what has come; false at the end of the worker.
bool listen(Child& child, Totals& totals) {
  char buffer[4096];
  const ssize_t n = read(child.fd, buffer, sizeof buffer);
  if (n <= 0) return false;
  child.heard = now();
  child.line.append(buffer, static_cast<size_t>(n));
  for (size_t end; (end = child.line.find('\n')) != std::string::npos; child.line.erase(0, end + 1)) {
    const std::string line = child.line.substr(0, end);
    uint64_t a = 0, b = 0, c = 0, d = 0;
    if (std::sscanf(line.c_str(), "at %lu", &a) == 1) child.at = a;
    if (std::sscanf(line.c_str(), "done %lu %lu %lu %lu", &a, &b, &c, &d) == 4) {
      totals.programs += a;
      totals.findings += b;
      totals.elements += c;
      totals.undecided += d;
    }
  }
  return true;
}

void finish(Child& child) {
  close(child.fd);
  child.fd = -1;
}

} // namespace

int main(int argc, char** argv) {
  Options options;
  try {
    options = parse_options(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "net: {}\n", error.what());
    return 2;
  }
  if (options.list) {
    for (const Function& f : functions()) fmt::print("{} ({})\n", f.name, f.theme);
    return 0;
  }
  fmt::print("net: seed {}, device {}, {} programs{}\n", options.seed, options.device, options.programs,
             options.tuned ? ", random moves" : "");
  if (options.replay) return replay(options);
  const double begin = now();
  Totals totals;
  std::vector<Child> children;
  const auto jobs = static_cast<uint64_t>(options.jobs);
  const uint64_t stride = jobs * static_cast<uint64_t>(options.batch);
  for (uint64_t j = 0; j < jobs; ++j)
    children.push_back(started(options, options.from + j * static_cast<uint64_t>(options.batch), stride));
  for (size_t open = children.size(); open > 0;) {
    std::vector<pollfd> polls;
    for (const Child& c : children) polls.push_back({c.fd, POLLIN, 0});
    poll(polls.data(), polls.size(), 1000);
    for (size_t k = 0; k < children.size(); ++k) {
      Child& child = children[k];
      if (child.fd < 0) continue;
      const bool hangs = now() - child.heard > options.patience;
      if (hangs) kill(child.pid, SIGKILL);
      if (!hangs && (!(polls[k].revents & (POLLIN | POLLHUP)) || listen(child, totals))) continue;
      finish(child);
      int status = 0;
      waitpid(child.pid, &status, 0);
      if (WIFEXITED(status) && WEXITSTATUS(status) == kNoDevice) {
        fmt::print("net: skipped, no device {}\n", options.device);
        return 0;
      }
      if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
        --open;
        continue;
      }
      ++totals.findings;
      fmt::print("\n==== {} in one of programs {}:{} to {} ====\n", hangs ? "HANGS" : "CRASHES", options.seed,
                 child.at, child.at + static_cast<uint64_t>(options.batch) - 1);
      child = started(options, child.at + stride, stride);
    }
    std::fflush(nullptr);
  }
  const double seconds = now() - begin;
  fmt::print("net: {} programs on {} in {:.1f} s, {:.1f} a second; {} findings; {} elements compared, {:.2f} "
             "% undecided; seed {}\n",
             totals.programs, options.device, seconds, static_cast<double>(totals.programs) / seconds,
             totals.findings, totals.elements,
             totals.elements
                 ? 100.0 * static_cast<double>(totals.undecided) / static_cast<double>(totals.elements)
                 : 0,
             options.seed);
  const double blind =
      totals.elements ? static_cast<double>(totals.undecided) / static_cast<double>(totals.elements) : 0;
  if (totals.programs > 200 && blind > 0.25) {
    fmt::print("net: more than a quarter of the elements is undecided\n");
    return 1;
  }
  return totals.findings ? 1 : 0;
}
