#include "runtime/c_compiler.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <fmt/format.h>

#include "lathe/error.hpp"
#include "runtime/object_cache.hpp"

extern char** environ;

namespace lathe::runtime {
namespace fs = std::filesystem;
namespace {

/// A private folder. The destructor removes it with its files.
class TemporaryDir {
public:
  TemporaryDir() {
    std::error_code error;
    path_ = (fs::temp_directory_path(error) / "lathe-XXXXXX").string();
    if (error || !mkdtemp(path_.data()))
      throw Error(ErrorKind::Device,
                  fmt::format("c: no temporary folder at {} ({}), expected one that can be written", path_,
                              std::strerror(errno)));
  }
  ~TemporaryDir() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  TemporaryDir(const TemporaryDir&) = delete;
  TemporaryDir& operator=(const TemporaryDir&) = delete;
  std::string file(const char* name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }

private:
  std::string path_;
};

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

constexpr int kAnswerSeconds = 20;   // limit for a compiler to print its version
constexpr int kCompileSeconds = 600; // limit for a compiler to compile a file

/// Whether the process ends within the time. Returns true at once if the system can't watch the process; the
/// caller then waits without a limit.
bool ends_within(pid_t process, int seconds) {
  const auto handle = static_cast<int>(::syscall(SYS_pidfd_open, process, 0));
  if (handle < 0) return true;
  pollfd ended{handle, POLLIN, 0};
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  int ready = 0;
  do {
    const auto left = deadline - std::chrono::steady_clock::now();
    const auto milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(left).count();
    ready = ::poll(&ended, 1, static_cast<int>(std::max<int64_t>(0, milliseconds)));
  } while (ready < 0 && errno == EINTR);
  ::close(handle);
  return ready != 0;
}

/// Runs a program without a shell and writes its output to `log`. Returns false if the program can't be
/// started, fails, or takes too long. After `seconds`, kills the program and the processes that it has
/// started.
bool run(const std::vector<std::string>& command, const std::string& log, int seconds) {
  std::vector<char*> argv;
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  posix_spawnattr_t group;
  posix_spawnattr_init(&group);
  posix_spawnattr_setflags(&group, POSIX_SPAWN_SETPGROUP);
  pid_t child = 0;
  const int failed = posix_spawnp(&child, argv[0], &actions, &group, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&group);
  if (failed) return false;
  if (!ends_within(child, seconds)) ::kill(-child, SIGKILL);
  int status = 0;
  pid_t waited = 0;
  do waited = waitpid(child, &status, 0);
  while (waited < 0 && errno == EINTR);
  return waited == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

std::vector<std::string> split_words(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

std::shared_ptr<SharedObject> open(const std::string& path) {
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) return nullptr;
  std::error_code ignored;
  return std::make_shared<SharedObject>(handle, std::filesystem::file_size(path, ignored));
}

std::shared_ptr<SharedObject> open_or_throw(const std::string& path) {
  if (auto object = open(path)) return object;
  const char* why = dlerror();
  throw Error(
      ErrorKind::Device,
      fmt::format("c: a compiled kernel can't be loaded ({}), expected a shared object", why ? why : ""));
}

const ObjectCache& cache() {
  static const ObjectCache objects("c", ".so");
  return objects;
}

/// The lines that say what is wrong, at most five.
std::string complaints(const std::string& log) {
  std::istringstream in(log);
  std::string all, errors;
  int all_lines = 0, error_lines = 0;
  for (std::string line; std::getline(in, line);) {
    if (all_lines++ < 5) all += "\n  " + line;
    if (line.find("error") != std::string::npos && error_lines++ < 5) errors += "\n  " + line;
  }
  return errors.empty() ? all : errors;
}

} // namespace

SharedObject::~SharedObject() { dlclose(handle_); }
void* SharedObject::symbol(const std::string& name) const { return dlsym(handle_, name.c_str()); }

CCompiler CCompiler::find() {
  std::vector<std::vector<std::string>> candidates;
  if (const char* cc = std::getenv("CC"); cc && *cc)
    candidates.push_back(split_words(cc));
  else
    candidates = {{"cc"}, {"gcc"}, {"clang"}};
  const TemporaryDir dir;
  for (std::vector<std::string>& command : candidates) {
    if (command.empty()) continue;
    std::vector<std::string> ask = command;
    ask.push_back("--version");
    if (!run(ask, dir.file("log"), kAnswerSeconds)) continue;
    const std::string answer = read_file(dir.file("log"));
    return {std::move(command), answer.substr(0, answer.find('\n'))};
  }
  throw Error(ErrorKind::Device,
              fmt::format("c: no C compiler runs ({}), expected $CC, cc, gcc or clang on the path",
                          candidates.size() == 1 ? std::string("$CC is ") + std::getenv("CC")
                                                 : "tried cc, gcc and clang"));
}

std::string CCompiler::compile(const std::string& dir, const std::string& source,
                               const std::vector<std::string>& flags) const {
  const std::string input = dir + "/kernel.c", output = dir + "/kernel.so", log = dir + "/log";
  std::ofstream(input) << source;
  std::vector<std::string> command = command_;
  command.insert(command.end(), flags.begin(), flags.end());
  for (const std::string& word : {std::string("-o"), output, input, std::string("-lm")})
    command.push_back(word);
  if (!run(command, log, kCompileSeconds))
    throw Error(ErrorKind::Device, fmt::format("c: {} failed on a kernel, expected it to compile:{}",
                                               version_, complaints(read_file(log))));
  return output;
}

std::string CCompiler::object_name(const std::string& source, const std::vector<std::string>& flags) const {
  return fmt::format("{}\n{}\n{}\n", fmt::join(command_, " "), version_, fmt::join(flags, " ")) + source;
}

std::string CCompiler::object(const std::string& source, const std::vector<std::string>& flags) const {
  const std::string name = object_name(source, flags);
  if (auto found = cache().find(name)) return std::move(found->object);
  const TemporaryDir dir;
  std::string made = read_file(compile(dir.path(), source, flags));
  cache().keep(name, made);
  return made;
}

std::shared_ptr<SharedObject> CCompiler::build(const std::string& source,
                                               const std::vector<std::string>& flags, bool keep) const {
  const std::string name = object_name(source, flags);
  if (const auto found = cache().find(name))
    if (auto object = open(found->path)) return object;
  const TemporaryDir dir;
  const std::string made = compile(dir.path(), source, flags);
  if (keep) cache().keep(name, read_file(made));
  return open_or_throw(made);
}

std::shared_ptr<SharedObject> load_object(const std::string& object) {
  const TemporaryDir dir;
  const std::string path = dir.file("kernel.so");
  std::ofstream(path, std::ios::binary) << object;
  return open_or_throw(path);
}

} // namespace lathe::runtime
