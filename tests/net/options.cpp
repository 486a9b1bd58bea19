// Reads the net's command line.
#include "net/options.hpp"

#include <random>
#include <stdexcept>

#include <fmt/format.h>

namespace lathe::net {
namespace {

std::vector<std::string> listed(const std::string& text) {
  std::vector<std::string> out{""};
  for (char c : text) {
    if (c == ',')
      out.emplace_back();
    else
      out.back() += c;
  }
  return out;
}

} // namespace

Options parse_options(int argc, char** argv) {
  Options o;
  o.seed = std::random_device{}();
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    const auto value = [&]() -> std::string {
      if (i + 1 >= argc) throw std::runtime_error(name + " needs a value");
      return argv[++i];
    };
    if (name == "--programs")
      o.programs = std::stoull(value());
    else if (name == "--seconds")
      o.seconds = std::stod(value());
    else if (name == "--from")
      o.from = std::stoull(value());
    else if (name == "--seed")
      o.seed = std::stoull(value());
    else if (name == "--device")
      o.device = value();
    else if (name == "--batch")
      o.batch = std::stoi(value());
    else if (name == "--jobs")
      o.jobs = std::stoi(value());
    else if (name == "--patience")
      o.patience = std::stod(value());
    else if (name == "--shrink")
      o.shrink_seconds = std::stod(value());
    else if (name == "--findings")
      o.most_findings = std::stoull(value());
    else if (name == "--dump")
      o.dump = value();
    else if (name == "--only")
      o.only = listed(value());
    else if (name == "--avoid")
      o.avoid = listed(value());
    else if (name == "--tuned")
      o.tuned = true;
    else if (name == "--gradients")
      o.gradients = true;
    else if (name == "--quick")
      o.quick = true;
    else if (name == "--symbolic")
      o.symbolic = true;
    else if (name == "--empty")
      o.empty = true;
    else if (name == "--functions")
      o.list = true;
    else if (name == "--dtypes")
      for (const std::string& d : listed(value())) o.dtypes.push_back(parse_dtype(d));
    else if (name == "--replay") {
      const std::string both = value();
      const size_t colon = both.find(':');
      if (colon == std::string::npos) throw std::runtime_error("--replay takes SEED:INDEX");
      o.seed = std::stoull(both.substr(0, colon));
      o.replay = std::stoull(both.substr(colon + 1));
    } else
      throw std::runtime_error("unknown option " + name);
  }
  if (o.dtypes.empty() && o.gradients) o.dtypes = {DType::F64, DType::F64, DType::F32};
  if (o.dtypes.empty())
    for (int d = 0; d < kDTypeCount; ++d) o.dtypes.push_back(static_cast<DType>(d));
  o.programs += o.from;
  // Floats are where most can go wrong: f32 twice.
  if (o.dtypes.size() > 1)
    for (DType d : std::vector<DType>(o.dtypes))
      if (d == DType::F32) o.dtypes.insert(o.dtypes.end(), 4, d);
  if (o.batch == 0) o.batch = o.tuned || o.gradients || o.symbolic ? 1 : 4;
  return o;
}

bool device_there(const std::string& name) {
  for (const DeviceInfo& d : devices())
    if (d.name == name) return d.available;
  return false;
}

} // namespace lathe::net
