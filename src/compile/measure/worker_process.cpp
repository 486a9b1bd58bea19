#include "compile/measure/worker_process.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "lathe/error.hpp"

extern char** environ;

namespace lathe::pipeline {
namespace {

constexpr const char* kProgram = "lathe-measure";
constexpr double kSilence = 8; // seconds without a message until the process is asked whether it lives

/// Returns the path of lathe-measure, which is built and installed beside this library.
std::string program_path() {
  Dl_info info;
  if (!dladdr(reinterpret_cast<void*>(&run_measuring_worker), &info) || !info.dli_fname) return kProgram;
  return (std::filesystem::path(info.dli_fname).parent_path() / kProgram).string();
}

/// Makes a folder for the files that the process leaves behind when it is ended; empty if that fails.
std::string temporary_folder() {
  std::error_code error;
  std::string path = (std::filesystem::temp_directory_path(error) / "lathe-measure-XXXXXX").string();
  return error || !::mkdtemp(path.data()) ? std::string() : path;
}

/// Removes the folder. A compiler that the process started may still be writing there; removing then fails
/// and is tried again.
void remove_folder(const std::string& folder) {
  constexpr int kMostTries = 80;
  for (int tries = 0; !folder.empty() && tries < kMostTries; ++tries) {
    std::error_code error;
    std::filesystem::remove_all(folder, error);
    if (!error) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(25));
  }
}

/// Returns this process's environment, with `folder` for temporary files.
std::vector<std::string> environment_with(const std::string& folder) {
  std::vector<std::string> out;
  for (char** variable = environ; *variable; ++variable)
    if (folder.empty() || !std::string_view(*variable).starts_with("TMPDIR=")) out.emplace_back(*variable);
  if (!folder.empty()) out.push_back("TMPDIR=" + folder);
  return out;
}

} // namespace

WorkerProcess::WorkerProcess() : WorkerProcess(start()) {}

WorkerProcess::Started WorkerProcess::start() {
  const std::string path = program_path();
  const auto fail = [&](int error) {
    throw Error(ErrorKind::Device,
                fmt::format("tune: {} can't be started ({}), expected it beside liblathe.so", path,
                            std::strerror(error)));
  };
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) fail(errno);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 3);
  char* arguments[] = {const_cast<char*>(kProgram), nullptr};
  std::string folder = temporary_folder();
  std::vector<std::string> variables = environment_with(folder);
  std::vector<char*> environment;
  for (std::string& variable : variables) environment.push_back(variable.data());
  environment.push_back(nullptr);
  pid_t process = 0;
  const int error = ::posix_spawn(&process, path.c_str(), &actions, nullptr, arguments, environment.data());
  posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  if (error != 0) {
    ::close(ends[0]);
    remove_folder(folder);
    fail(error);
  }
  return {ends[0], process, std::move(folder)};
}

MessageReader::State WorkerProcess::wait(double seconds, std::optional<Message>& message) {
  using State = MessageReader::State;
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  for (bool asked = false;;) {
    const double left = seconds - std::chrono::duration<double>(Clock::now() - start).count();
    const State state = reader_.wait(std::min(left, kSilence), message);
    if (state == State::Closed) return state;
    if (state == State::Message) {
      if (message->kind() != WorkerMessage::Alive) return state;
      asked = false;
      continue;
    }
    if (left <= kSilence) return State::Timeout;
    Message question(WorkerMessage::Ask);
    if (asked || !send(question)) return State::Closed;
    asked = true;
  }
}

WorkerProcess::~WorkerProcess() {
  ::kill(process_, SIGKILL);
  ::close(socket_);
  while (::waitpid(process_, nullptr, 0) < 0 && errno == EINTR) {
  }
  remove_folder(folder_);
}

} // namespace lathe::pipeline
