// Broken model files: each mutant of the suite's small models, given to `lathe inspect` and `lathe run`, ends
// in success or in one line that says what is wrong; never in a signal, a hang, an internal error or a file
// half written.
//
//   onnx_mutation LATHE [--data FOLDER] [--count N] [--first K] [--seed S] [--keep FOLDER]
//
// Mutant K depends on the seed and K alone: `--first K --count 1 --keep F` makes one again. Exits with 77 if
// the data is not there.
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "support/wire.hpp"

namespace fs = std::filesystem;
namespace wire = lathe::test::wire;

namespace {

constexpr int kSeconds = 10;   ///< of processor time a process may take
constexpr int kPatience = 120; ///< seconds by the clock, for one that waits for ever
constexpr rlim_t kMemory = rlim_t{4} << 30;
constexpr uintmax_t kLargestModel = 8192; ///< bytes

std::string read_file(const fs::path& path) {
  std::ostringstream out;
  out << std::ifstream(path, std::ios::binary).rdbuf();
  return out.str();
}

void write_file(const fs::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

struct Random {
  std::mt19937_64 engine;
  size_t below(size_t count) { return count ? engine() % count : 0; }
  template <class List> auto& of(List& list) { return list[below(std::size(list))]; }
};

void flip_bits(std::string& bytes, Random& random) {
  for (size_t flips = 1 + random.below(8); flips > 0; --flips)
    random.of(bytes) ^= static_cast<char>(1 << random.below(8));
}

/// A field and the message that it is in.
struct Place {
  wire::Message* message;
  size_t position;
  wire::Field& field() const { return (*message)[position]; }
};

void find_places(wire::Message& message, std::vector<Place>& places) {
  for (size_t k = 0; k < message.size(); ++k) {
    places.push_back({&message, k});
    find_places(message[k].message, places);
  }
}

uint64_t extreme(Random& random) {
  constexpr uint64_t all[] = {0,
                              1,
                              2,
                              3,
                              7,
                              16,
                              65535,
                              65536,
                              1u << 20,
                              1u << 31,
                              1ull << 32,
                              1ull << 40,
                              1ull << 62,
                              1ull << 63,
                              ~uint64_t{0},
                              ~uint64_t{1},
                              (1u << 31) - 1,
                              (1ull << 63) - 1};
  return random.of(all);
}

void change_bytes(std::string& bytes, Random& random) {
  switch (random.below(4)) {
  case 0: bytes.clear(); break;
  case 1: bytes.resize(random.below(bytes.size() + 1)); break;
  case 2: bytes += bytes; break;
  default:
    if (!bytes.empty()) flip_bits(bytes, random);
  }
}

/// Nested in messages of the same number, deeper than any model is.
void bury(wire::Field& field, Random& random) {
  for (size_t depth = random.below(300); depth > 0; --depth) {
    wire::Field around{.key = field.key, .bytes = {}, .message = {}};
    around.message.push_back(std::move(field));
    field = std::move(around);
  }
}

void splice(wire::Message& tree, wire::Message& other, Random& random) {
  std::vector<Place> places, others;
  find_places(tree, places);
  find_places(other, others);
  if (places.empty() || others.empty()) return;
  const Place at = random.of(places);
  const wire::Field strange = random.of(others).field(), own = random.of(places).field();
  wire::Message& message = *at.message;
  const auto here = message.begin() + static_cast<std::ptrdiff_t>(at.position);
  switch (random.below(10)) {
  case 0: message.erase(here); break;
  case 1: message.insert(here, wire::Field(*here)); break;
  case 2: std::swap(*here, random.of(message)); break;
  case 3: message.insert(here, strange); break;
  case 4: here->bytes = strange.bytes, here->message = strange.message, here->value = strange.value; break;
  case 5: here->bytes = own.bytes, here->message = own.message, here->value = own.value; break;
  case 6: here->key = own.key; break;
  case 7:
    if (here->has_length()) bury(*here, random);
    break;
  default:
    if (here->is_varint())
      here->value = extreme(random);
    else if (here->message.empty())
      change_bytes(here->bytes, random);
  }
}

std::string mutant(const std::vector<std::string>& models, Random& random) {
  std::string bytes = random.of(models);
  switch (random.below(8)) {
  case 0: bytes.resize(random.below(bytes.size())); return bytes;
  case 1:
  case 2: flip_bits(bytes, random); return bytes;
  default: break;
  }
  std::optional<wire::Message> tree = wire::parse(bytes), other = wire::parse(random.of(models));
  if (!tree || !other) return bytes;
  for (size_t times = 1 + random.below(3); times > 0; --times) splice(*tree, *other, random);
  return wire::print(*tree);
}

/// Runs a program within the limits, its standard error into a file; what wait() says of its end.
int run(const std::vector<std::string>& arguments, const fs::path& errors) {
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    const rlimit memory{kMemory, kMemory}, seconds{kSeconds, kSeconds + 1}, core{0, 0};
    setrlimit(RLIMIT_AS, &memory);
    setrlimit(RLIMIT_CPU, &seconds);
    setrlimit(RLIMIT_CORE, &core);
    alarm(kPatience);
    if (!std::freopen("/dev/null", "w", stdout) || !std::freopen(errors.c_str(), "w", stderr)) _exit(126);
    execv(argv[0], argv.data());
    _exit(127);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

/// What is wrong with how a process ended; "" if nothing is.
std::string complaint(int status, const std::string& errors) {
  if (WIFSIGNALED(status)) return fmt::format("ended by signal {}", WTERMSIG(status));
  const int code = WEXITSTATUS(status);
  if (code > 2) return fmt::format("exit status {}", code);
  const auto lines = std::count(errors.begin(), errors.end(), '\n');
  if (lines > 1 || (code == 2 && lines != 1)) return fmt::format("{} lines of errors", lines);
  if (errors.find("internal") != std::string::npos || errors.find("std::") != std::string::npos)
    return "no error of the file";
  return "";
}

struct Options {
  std::string lathe, data = "/usr/share/libonnx-testdata/data", keep;
  size_t count = 300, first = 0;
  uint64_t seed = 1;
};

std::vector<std::string> small_models(const fs::path& data) {
  std::vector<fs::path> paths;
  for (const char* group : {"node", "simple"})
    for (const auto& entry : fs::directory_iterator(data / group)) {
      const fs::path model = entry.path() / "model.onnx";
      if (fs::exists(model) && fs::file_size(model) <= kLargestModel) paths.push_back(model);
    }
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> models;
  for (const fs::path& path : paths) models.push_back(read_file(path));
  return models;
}

struct Trial {
  bool ran = false;
  std::string wrong; ///< "" if nothing is
};

Trial try_model(const std::string& lathe, const fs::path& model, const fs::path& folder) {
  const fs::path errors = folder / "errors", outputs = folder / "outputs";
  const std::vector<std::vector<std::string>> commands = {
      {lathe, "inspect", model},
      {lathe, "run", "--random", "--threads", "1", "--output-dir", outputs, model}};
  Trial trial;
  for (const auto& command : commands) {
    const int status = run(command, errors);
    const std::string message = read_file(errors);
    if (const std::string why = complaint(status, message); !why.empty())
      trial.wrong += fmt::format("lathe {}: {}: {}\n", command[1], why, message.substr(0, 400));
    trial.ran = status == 0;
  }
  if (fs::exists(outputs))
    for (const auto& entry : fs::directory_iterator(outputs))
      if (entry.path().extension() != ".npy")
        trial.wrong += fmt::format("left {}\n", entry.path().filename().string());
  fs::remove_all(outputs);
  return trial;
}

} // namespace

int main(int argc, char** argv) {
  Options options;
  if (const char* data = std::getenv("ONNX_TEST_DATA")) options.data = data;
  CLI::App app("onnx_mutation: broken model files");
  app.add_option("lathe", options.lathe, "the program")->required()->check(CLI::ExistingFile);
  app.add_option("--data", options.data)->capture_default_str();
  app.add_option("--count", options.count)->capture_default_str();
  app.add_option("--first", options.first)->capture_default_str();
  app.add_option("--seed", options.seed)->capture_default_str();
  app.add_option("--keep", options.keep, "where to keep the mutants that something is wrong with");
  CLI11_PARSE(app, argc, argv);
  if (!fs::exists(options.data)) {
    fmt::print("skipped: ONNX's tests are not in {}; Debian has them in libonnx-testdata\n", options.data);
    return 77;
  }
  const std::vector<std::string> models = small_models(options.data);
  const fs::path folder = fs::temp_directory_path() / fmt::format("onnx_mutation.{}", getpid());
  fs::create_directories(folder);
  setenv("LATHE_CACHE_DIR", (folder / "cache").c_str(), 1);
  size_t ran = 0, wrong = 0;
  for (size_t k = options.first; k < options.first + options.count; ++k) {
    std::seed_seq seed{options.seed, uint64_t{k}};
    Random random{std::mt19937_64(seed)};
    const fs::path model = folder / fmt::format("{}.onnx", k);
    write_file(model, mutant(models, random));
    const Trial trial = try_model(options.lathe, model, folder);
    ran += trial.ran;
    if (!trial.wrong.empty()) {
      ++wrong;
      fmt::print("mutant {}: {}", k, trial.wrong);
      std::fflush(stdout);
      if (!options.keep.empty()) {
        fs::create_directories(options.keep);
        fs::copy_file(model, fs::path(options.keep) / model.filename(), fs::copy_options::overwrite_existing);
      }
    }
    fs::remove(model);
  }
  fs::remove_all(folder);
  fmt::print("{} mutants of {} models: {} run, {} are refused, {} with something wrong\n", options.count,
             models.size(), ran, options.count - ran, wrong);
  return wrong ? 1 : 0;
}
