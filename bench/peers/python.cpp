#include "peers/python.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include <nlohmann/json.hpp>

#include "temporary_dir.hpp"

namespace lathe::bench {

namespace {
namespace fs = std::filesystem;
using Json = nlohmann::json;

/// The process of one framework.
class Framework {
public:
  Framework(const std::string& python, const std::string& name, int threads) : name_(name) {
    signal(SIGPIPE, SIG_IGN); // a process that has died is found out by its silence
    int to[2], from[2];
    if (pipe2(to, O_CLOEXEC) != 0 || pipe2(from, O_CLOEXEC) != 0)
      throw Error(ErrorKind::Limit, "lathe-bench: no more pipes");
    std::string script = std::string(LATHE_PEERS_PATH) + "/peer.py", count = std::to_string(threads);
    process_ = fork();
    if (process_ == 0) {
      dup2(to[0], STDIN_FILENO);
      dup2(from[1], STDOUT_FILENO);
      int quiet = open("/dev/null", O_WRONLY);
      dup2(quiet, STDERR_FILENO);
      setenv("OMP_NUM_THREADS", count.c_str(), 1);
      setenv("PYTHONDONTWRITEBYTECODE", "1", 1); // the scripts lie among the sources
      execl(python.c_str(), python.c_str(), script.c_str(), name.c_str(), count.c_str(), nullptr);
      _exit(127);
    }
    close(to[0]);
    close(from[1]);
    requests_ = to[1];
    answers_ = from[0];
    greeting_ = answer();
  }
  ~Framework() {
    close(requests_); // it ends where its input ends
    close(answers_);
    waitpid(process_, nullptr, 0);
  }
  Framework(const Framework&) = delete;
  Framework& operator=(const Framework&) = delete;

  const Json& greeting() const { return greeting_; }

  /// Error(Device) with what the framework says if it fails.
  Json ask(const Json& request) {
    std::string line = request.dump() + "\n";
    for (size_t sent = 0; sent < line.size();) {
      ssize_t part = ::write(requests_, line.data() + sent, line.size() - sent);
      if (part <= 0) break; // then there will be no answer
      sent += static_cast<size_t>(part);
    }
    Json reply = answer();
    if (reply.contains("error"))
      throw Error(ErrorKind::Device, name_ + ": " + reply["error"].get<std::string>());
    return reply;
  }

private:
  Json answer() {
    size_t end;
    while ((end = received_.find('\n')) == std::string::npos) {
      pollfd ready{answers_, POLLIN, 0};
      char block[4096];
      if (poll(&ready, 1, kLimitMilliseconds) == 0) {
        kill(process_, SIGKILL);
        return {{"error", "no answer in time"}};
      }
      ssize_t got = read(answers_, block, sizeof block);
      if (got <= 0) return {{"error", "its process has ended"}};
      received_.append(block, static_cast<size_t>(got));
    }
    Json reply = Json::parse(received_.substr(0, end), nullptr, /*allow_exceptions=*/false);
    received_.erase(0, end + 1);
    return reply.is_object() ? reply : Json{{"error", "its answer is no JSON"}};
  }

  static constexpr int kLimitMilliseconds = 180000; ///< some compile for a minute
  std::string name_;
  pid_t process_ = -1;
  int requests_ = -1, answers_ = -1;
  std::string received_;
  Json greeting_;
};

void write(const HostTensor& tensor, const fs::path& file) {
  std::ofstream out(file, std::ios::binary);
  out.write(static_cast<const char*>(tensor.data()), static_cast<std::streamsize>(tensor.bytes()));
  if (!out)
    throw Error(ErrorKind::File, file.string() + ": can't be written, expected room for a case's inputs");
}

std::vector<Contender> contenders(Framework& framework, const std::string& name, const Case& c) {
  bool plain = c.dtype == DType::F32 && c.program.size() == 1;
  for (const auto& [tensor_name, tensor] : c.inputs) plain = plain && tensor.dtype() == DType::F32;
  if (!plain) return {};
  auto folder = std::make_shared<TemporaryDir>();
  Json tensors = Json::object();
  for (const auto& [tensor_name, tensor] : c.inputs) {
    fs::path file = fs::path(folder->path()) / tensor_name;
    write(tensor, file);
    tensors[tensor_name] = {{"file", file.string()},
                            {"shape", tensor.shape()},
                            {"constant", c.constants.count(tensor_name) != 0}};
  }
  Json ready =
      framework.ask({{"do", "prepare"}, {"workload", c.workload}, {"shape", c.shape}, {"tensors", tensors}});
  if (!ready["ready"].get<bool>()) return {};
  Contender contender{name,
                      [&framework] {
                        framework.ask({{"do", "run"}, {"repeats", 1}});
                      },
                      nullptr, make_outputs(c)};
  contender.finish = [&framework, folder, to = contender.outputs] {
    HostTensor& y = to->begin()->second;
    fs::path file = fs::path(folder->path()) / "result";
    framework.ask({{"do", "result"}, {"file", file.string()}});
    std::ifstream in(file, std::ios::binary);
    if (!in.read(static_cast<char*>(y.data()), static_cast<std::streamsize>(y.bytes())) || in.get() != EOF)
      y.poison();
  };
  contender.seconds = [&framework](int repeats) {
    return framework.ask({{"do", "run"}, {"repeats", repeats}})["seconds"].get<double>();
  };
  return {std::move(contender)};
}
} // namespace

std::vector<Peer> python_peers(const std::string& environment, int threads) {
  fs::path python = fs::path(environment) / "bin" / "python";
  if (access(python.c_str(), X_OK) != 0)
    throw Error(ErrorKind::File, "--python " + environment +
                                     ": has no bin/python, expected a virtual environment " +
                                     "(tools/peers makes one)");
  std::vector<Peer> found;
  for (const char* name : {"tinygrad", "jax", "onnxruntime", "torch"}) {
    auto framework = std::make_shared<Framework>(python, name, threads);
    const Json& greeting = framework->greeting();
    Peer peer{name, greeting.contains("version"), "", nullptr};
    for (const char* field : {"version", "absent", "error"})
      if (greeting.contains(field)) peer.detail = greeting[field].get<std::string>();
    peer.contenders = [framework, name](const Case& c, const CompileOptions&) {
      return contenders(*framework, name, c);
    };
    found.push_back(std::move(peer));
  }
  return found;
}

} // namespace lathe::bench
