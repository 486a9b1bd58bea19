// lathe run and lathe check: a model, or a program compiled from one, on values from files.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/duration.hpp"
#include "commands.hpp"
#include "lathe/profile.hpp"
#include "loaded.hpp"
#include "values.hpp"

namespace lathe::tool {
namespace {

namespace fs = std::filesystem;
using cli::duration;

bool has_maps(const onnx::Value& value) {
  return value.is_map() ||
         (value.is_sequence() && !value.elements().empty() && has_maps(value.elements()[0]));
}

/// The elements of a vector. JSON has no NaN and no infinity, which stand there as texts.
std::vector<nlohmann::ordered_json> elements_of(const onnx::Value& value) {
  if (value.is_strings()) return {value.texts().begin(), value.texts().end()};
  std::vector<nlohmann::ordered_json> elements;
  const Tensor numbers = value.tensor();
  if (!is_float(numbers.dtype()))
    for (const int64_t number : numbers.cast(DType::I64).to_vector<int64_t>()) elements.emplace_back(number);
  else
    for (const double number : numbers.cast(DType::F64).to_vector<double>()) {
      const std::string text = to_string(Scalar::of_float(numbers.dtype(), number));
      elements.push_back(std::isfinite(number) ? nlohmann::ordered_json::parse(text)
                                               : nlohmann::ordered_json(text));
    }
  return elements;
}

/// A map, or a sequence of maps, in the order of their keys.
nlohmann::ordered_json json_of(const onnx::Value& value) {
  if (value.is_sequence()) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const onnx::Value& element : value.elements()) list.push_back(json_of(element));
    return list;
  }
  nlohmann::ordered_json object = nlohmann::ordered_json::object();
  const auto keys = elements_of(value.keys()), values = elements_of(value.values());
  for (size_t k = 0; k < keys.size(); ++k)
    object[keys[k].is_string() ? keys[k].get<std::string>() : keys[k].dump()] = values[k];
  return object;
}

std::string file_name(const std::string& output, const char* ending) {
  std::string name = output;
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '.' && c != '-') c = '_';
  return name + ending;
}

/// The kernels of a run by the time they took, those launched more than once together.
void print_kernels(const std::vector<LaunchTime>& launches) {
  struct Total {
    std::string kernel;
    int times = 0;
    double seconds = 0, limit = 0, flops = 0, bytes = 0;
  };
  std::vector<Total> totals;
  double all = 0;
  for (const LaunchTime& launch : launches) {
    auto found =
        std::find_if(totals.begin(), totals.end(), [&](const Total& t) { return t.kernel == launch.kernel; });
    if (found == totals.end()) found = totals.insert(totals.end(), Total{launch.kernel});
    ++found->times, found->seconds += launch.seconds, found->limit += launch.limit_seconds;
    found->flops += launch.flops, found->bytes += launch.bytes, all += launch.seconds;
  }
  std::stable_sort(totals.begin(), totals.end(),
                   [](const Total& a, const Total& b) { return a.seconds > b.seconds; });
  fmt::print("{:<32} {:>6} {:>10} {:>7} {:>10} {:>8} {:>9}\n", "kernel", "times", "time", "share", "GFLOP/s",
             "GB/s", "of limit");
  for (const Total& t : totals)
    fmt::print("{:<32} {:>6} {:>10} {:>6.1f}% {:>10.2f} {:>8.2f} {:>8.0f}%\n", t.kernel, t.times,
               duration(t.seconds), 100 * t.seconds / all, t.flops / t.seconds * 1e-9,
               t.bytes / t.seconds * 1e-9, 100 * t.limit / t.seconds);
}

/// In the Trace Event format: one complete event an instruction.
void write_trace(const std::string& path, const Profile& profile) {
  nlohmann::ordered_json events = nlohmann::ordered_json::array();
  const auto add = [&](const std::string& name, const char* category, double start, double seconds) {
    events.push_back({{"name", name},
                      {"cat", category},
                      {"ph", "X"},
                      {"ts", start * 1e6},
                      {"dur", seconds * 1e6},
                      {"pid", 1},
                      {"tid", 1}});
  };
  for (const LaunchTime& launch : profile.launches()) {
    add(launch.kernel, "launch", launch.start, launch.seconds);
    events.back()["args"] = {{"flops", launch.flops},
                             {"bytes", launch.bytes},
                             {"of_limit", launch.limit_seconds / launch.seconds}};
  }
  for (const InstructionTime& other : profile.others())
    add(other.instruction + (other.operand.empty() ? "" : " ") + other.operand, other.instruction.c_str(),
        other.start, other.seconds);
  std::stable_sort(events.begin(), events.end(),
                   [](const auto& a, const auto& b) { return a["ts"] < b["ts"]; });
  write_file(path,
             nlohmann::ordered_json({{"traceEvents", events}, {"displayTimeUnit", "ms"}}).dump(1) + "\n");
}

void print_memory(const std::vector<Executable>& segments) {
  size_t kernels = 0;
  double predicted = 0;
  int64_t arena = 0, naive = 0;
  for (const Executable& segment : segments)
    kernels += segment.kernel_count(), arena = std::max(arena, segment.arena_bytes()),
                                       naive += segment.naive_bytes(),
                                       predicted += segment.predicted_seconds();
  fmt::print("kernels: {}, predicted {}; arena {:.2f} MB of {:.2f} MB without reuse ({:.0f}%)\n", kernels,
             duration(predicted), static_cast<double>(arena) / 1e6, static_cast<double>(naive) / 1e6,
             naive ? 100.0 * static_cast<double>(arena) / static_cast<double>(naive) : 0.0);
}

/// Tensors as .npy files, those of a sequence y as y_0.npy, y_1.npy and so on; maps as one .json file.
void write_value(const fs::path& folder, const std::string& name, const onnx::Value& value) {
  if (value.has_shape()) return write_npy((folder / file_name(name, ".npy")).string(), value);
  if (has_maps(value)) // a key may be no UTF-8, in which JSON is
    return write_file((folder / file_name(name, ".json")).string(),
                      json_of(value).dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
  if (!value.is_sequence()) return;
  for (size_t k = 0; k < value.elements().size(); ++k)
    write_value(folder, fmt::format("{}_{}", name, k), value.elements()[k]);
}

} // namespace

int run_command(const Options& options) {
  const Loaded program = load_program(options, !options.best_first);
  const onnx::NamedValues inputs = read_inputs(program.inputs, options);
  const Stopwatch first;
  onnx::NamedValues outputs = program.run(inputs);
  fmt::print("first run {}\n", duration(first.seconds()));
  if (options.runs > 1 || !options.profile.empty()) {
    program.wait_for_best();
    fmt::print("best kernels after {}\n", duration(first.seconds()));
  }
  if (options.runs > 1) {
    std::vector<double> seconds;
    for (int k = 0; k < options.runs; ++k) {
      const Stopwatch watch;
      program.run(inputs);
      seconds.push_back(watch.seconds());
    }
    std::sort(seconds.begin(), seconds.end());
    fmt::print("median of {} runs: {}\n", options.runs, duration(seconds[seconds.size() / 2]));
  }
  print_memory(program.segments());
  {
    Profile profile;
    program.run(inputs);
    print_kernels(profile.launches());
    if (!options.profile.empty()) write_trace(options.profile, profile);
  }
  for (const onnx::Port& port : program.outputs) {
    const onnx::Value& value = outputs.at(port.name);
    fmt::print("output {} {}\n", port.name, value.has_shape() ? type_text(value) : port.text);
    if (options.output_dir.empty()) continue;
    fs::create_directories(options.output_dir);
    write_value(options.output_dir, port.name, value);
  }
  return 0;
}

int check_command(const Options& options) {
  const Loaded program = load_program(options);
  onnx::NamedValues inputs;
  for (size_t k = 0; k < program.inputs.size(); ++k) {
    const fs::path file = fs::path(options.data) / fmt::format("input_{}.pb", k);
    if (fs::exists(file)) inputs[program.inputs[k].name] = read_value(file.string(), program.inputs[k]);
  }
  const onnx::NamedValues outputs = program.run(inputs);
  int wrong = 0, compared = 0;
  for (size_t k = 0; k < program.outputs.size(); ++k) {
    const onnx::Port& port = program.outputs[k];
    const fs::path file = fs::path(options.data) / fmt::format("output_{}.pb", k);
    if (!fs::exists(file)) continue;
    const onnx::Difference found =
        onnx::compare(outputs.at(port.name), read_value(file.string(), port), options.tolerance);
    ++compared, wrong += !found.why.empty();
    fmt::print("output {}: {}\n", port.name,
               found.why.empty() ? fmt::format("matches, at most {:.2g} off", found.worst) : found.why);
  }
  if (compared == 0) throw Error(ErrorKind::File, options.data + ": no output_0.pb, nothing to compare with");
  return wrong ? 1 : 0;
}

} // namespace lathe::tool
