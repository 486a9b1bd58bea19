#include "search/machine/profile.hpp"

#include <sys/utsname.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "core/files.hpp"
#include "core/hash.hpp"
#include "lathe/error.hpp"

namespace lathe::search {
namespace {

// Bytes; caps the last-level cache, since a server's shared one says little about one tenant's part.
constexpr int64_t kLastLevelPerCore = int64_t{16} << 20;

std::string read_word(const std::string& path) {
  std::ifstream in(path);
  std::string word;
  in >> word;
  return word;
}

int64_t parse_size(const std::string& text) {
  if (text.empty()) return 0;
  const int64_t value = std::atoll(text.c_str());
  switch (text.back()) {
  case 'K': return value << 10;
  case 'M': return value << 20;
  case 'G': return value << 30;
  default: return value;
  }
}

/// Sizes of the data caches, innermost first; 0 where the system doesn't say.
std::vector<int64_t> cache_sizes() {
  std::map<int, int64_t> by_level;
  for (int i = 0; i < 8; ++i) {
    const std::string dir = "/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(i);
    const std::string type = read_word(dir + "/type");
    if (type.empty()) break;
    if (type != "Instruction")
      by_level[std::atoi(read_word(dir + "/level").c_str())] = parse_size(read_word(dir + "/size"));
  }
  std::vector<int64_t> sizes;
  for (const auto& [level, bytes] : by_level) sizes.push_back(bytes);
  return sizes;
}

std::string cpu_field(const std::string& cpuinfo, const std::string& key) {
  const size_t at = cpuinfo.find(key + "\t");
  if (at == std::string::npos) return "";
  const size_t colon = cpuinfo.find(':', at), end = cpuinfo.find('\n', at);
  return colon < end ? cpuinfo.substr(std::min(colon + 2, end), end - std::min(colon + 2, end)) : "";
}

// Calls f(name, number) for each number of a profile: a double or an array of three.
template <class L, class F> void rates_of_level(L& level, F&& f) {
  f("read_bytes_per_second", level.read_bytes_per_second);
  f("line_seconds", level.line_seconds);
  f("line_of_page_seconds", level.line_of_page_seconds);
  f("line_of_column_seconds", level.line_of_column_seconds);
  f("hinted_bytes_per_second", level.hinted_bytes_per_second);
}
template <class L, class F> void cycles_of(L& latency, F&& f) {
  f("add", latency.add);
  f("multiply_add", latency.multiply_add);
  f("maximum", latency.maximum);
  f("through_memory", latency.through_memory);
}
template <class P, class F> void rates_of(P& profile, F&& f) {
  f("flops_per_second", profile.flops_per_second);
  f("write_bytes_per_second", profile.write_bytes_per_second);
  f("streaming_write_bytes_per_second", profile.streaming_write_bytes_per_second);
  f("launch_seconds", profile.launch_seconds);
  f("fork_seconds", profile.fork_seconds);
  f("barrier_seconds", profile.barrier_seconds);
  f("cycle_seconds", profile.cycle_seconds);
  f("mixed_per_cycle", profile.mixed_per_cycle);
  f("division_cycles", profile.division_cycles);
  f("predicted_trips", profile.predicted_trips);
  f("mispredict_cycles", profile.mispredict_cycles);
  f("late_share", profile.late_share);
}

/// Writes numbers into an object.
struct Writer {
  nlohmann::json& object;
  void operator()(const char* name, const auto& number) const { object[name] = number; }
};

/// Reads numbers from an object. Each number has to be there and positive.
struct Reader {
  const nlohmann::json& object;
  void operator()(const char* name, double& number) const { number = positive(object.at(name)); }
  void operator()(const char* name, double (&numbers)[3]) const {
    for (size_t i = 0; i < 3; ++i) numbers[i] = positive(object.at(name).at(i));
  }
  static double positive(const nlohmann::json& value) {
    const double v = value.get<double>();
    if (!(v > 0) || v > 1e18) throw Error(ErrorKind::Value, "machine profile: a rate is not positive");
    return v;
  }
};

nlohmann::json to_json(const MachineProfile& p) {
  nlohmann::json object{{"fingerprint", p.fingerprint},
                        {"cores", p.cores},
                        {"hint_streams", p.hint_streams},
                        {"levels", nlohmann::json::array()}};
  rates_of(p, Writer{object});
  cycles_of(p.latency, Writer{object["latency_cycles"]});
  for (const auto& level : p.levels) {
    nlohmann::json& made = object["levels"].emplace_back(nlohmann::json{{"bytes", level.bytes}});
    rates_of_level(level, Writer{made});
  }
  return object;
}

MachineProfile from_json(const nlohmann::json& object) {
  MachineProfile p;
  p.fingerprint = object.at("fingerprint").get<std::string>();
  p.cores = std::max(1, object.at("cores").get<int>());
  p.hint_streams = std::clamp(object.at("hint_streams").get<int>(), 1, 64);
  rates_of(p, Reader{object});
  p.late_share = std::min(1.0, p.late_share);
  cycles_of(p.latency, Reader{object.at("latency_cycles")});
  p.levels.clear();
  for (const auto& level : object.at("levels")) {
    p.levels.push_back({level.at("bytes").get<int64_t>(), 1});
    rates_of_level(p.levels.back(), Reader{level});
  }
  if (p.levels.size() < 2)
    throw Error(ErrorKind::Value, "machine profile: expected at least two memory levels");
  return p;
}

} // namespace

std::string machine_fingerprint() {
  std::ifstream in("/proc/cpuinfo");
  std::stringstream text;
  text << in.rdbuf();
  const std::string cpuinfo = text.str();
  uint64_t features = hash_text(cpu_field(cpuinfo, "flags"));
  if (cpuinfo.empty()) {
    utsname system{};
    if (uname(&system) == 0) features = hash_text(system.machine);
  }
  std::ostringstream out;
  out << cpu_field(cpuinfo, "model name") << " " << cpu_field(cpuinfo, "cpu family") << "."
      << cpu_field(cpuinfo, "model") << "." << cpu_field(cpuinfo, "stepping") << " features " << std::hex
      << features << std::dec << " caches";
  for (int64_t bytes : cache_sizes()) out << " " << (bytes >> 10) << "K";
  out << " cores " << std::max(1u, std::thread::hardware_concurrency()) << " lathe " << LATHE_VERSION;
  return out.str();
}

MachineProfile default_machine_profile() {
  MachineProfile p;
  p.cores = std::max(1u, std::thread::hardware_concurrency());
  p.fingerprint = machine_fingerprint();
  const std::vector<int64_t> sizes = cache_sizes();
  for (size_t i = 0; i < sizes.size() && i + 1 < p.levels.size(); ++i)
    if (sizes[i] > 0) p.levels[i].bytes = sizes[i];
  if (p.levels.size() == 4) p.levels[2].bytes = std::min(p.levels[2].bytes, kLastLevelPerCore * p.cores);
  return p;
}

std::string machine_profile_path() {
  const std::string dir = cache_dir();
  return dir.empty() ? dir : dir + "/machine.json";
}

void store_machine_profile(const MachineProfile& profile) {
  const std::string path = machine_profile_path();
  if (path.empty())
    throw Error(ErrorKind::File,
                "machine: no folder for its profile, expected LATHE_CACHE_DIR or HOME to be set");
  write_atomically(path, to_json(profile).dump(2) + "\n");
}

namespace {
struct Known {
  MachineProfile profile = default_machine_profile();
  std::string fault;
};

/// A profile that can't be used costs only accuracy: the defaults stand until the machine is measured again.
Known read_profile(const std::string& path) {
  Known known;
  const std::optional<std::string> text = read_cached(path);
  if (!text) return known;
  try {
    MachineProfile stored = from_json(nlohmann::json::parse(*text));
    if (stored.fingerprint == known.profile.fingerprint)
      known.profile = stored;
    else
      known.fault = path + ": of another machine or version";
  } catch (const std::exception& e) {
    known.fault = path + ": damaged, or of another version (" + e.what() + ")";
  }
  return known;
}

const Known& known_profile() {
  static std::mutex mutex;
  static std::map<std::string, Known> known; // by path: the environment may change between calls
  const std::string path = machine_profile_path();
  std::lock_guard lock(mutex);
  auto it = known.find(path);
  if (it == known.end()) it = known.emplace(path, read_profile(path)).first;
  return it->second;
}
} // namespace

MachineProfile machine_profile() { return known_profile().profile; }
std::string machine_profile_fault() { return known_profile().fault; }

Limit machine_limit(const MachineProfile& machine, int threads, int element_bytes, double flops,
                    const CompulsoryTraffic& traffic, double speed) {
  const double cores = std::min(threads, std::max(machine.cores, 1));
  double peak = *std::max_element(std::begin(machine.flops_per_second), std::end(machine.flops_per_second)) *
                cores * speed;
  if (element_bytes == 8) peak /= 2;
  const double total = traffic.read + traffic.written;
  size_t level = 0;
  while (level + 1 < machine.levels.size() && static_cast<double>(machine.levels[level].bytes) < total)
    ++level;
  const double read = machine.levels[level].read_bytes_per_second * cores;
  const bool memory = level + 1 == machine.levels.size();
  const double write =
      memory ? std::max(machine.write_bytes_per_second, machine.streaming_write_bytes_per_second) * cores
             : read;
  const double moved = traffic.read / read + traffic.written / write, arithmetic = flops / peak;
  return arithmetic > moved ? Limit{"compute", arithmetic} : Limit{"bandwidth", moved};
}

} // namespace lathe::search
