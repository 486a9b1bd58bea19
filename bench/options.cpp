#include "options.hpp"

namespace lathe::bench {

std::vector<Selection> select(const Options& options) {
  std::vector<Selection> selected;
  if (options.workload != "all") {
    const Workload& workload = find_workload(options.workload);
    return {{&workload, parse_shape(workload, options.shape)}};
  }
  if (!options.shape.empty())
    throw Error(ErrorKind::Value, "--shape with all has no meaning, expected one workload");
  for (const Workload& workload : workloads())
    for (const Sizes& shape : workload.shapes) selected.push_back({&workload, shape});
  return selected;
}

CompileOptions compile_options(const Options& options) {
  CompileOptions compile;
  compile.device = options.device.empty() ? default_device() : options.device;
  compile.cpu = options.cpu;
  compile.threads = options.threads;
  compile.winograd = options.winograd;
  compile.strassen = options.strassen;
  if (compile.device == default_device()) return compile; // listing them all would load every driver
  std::string known;
  for (const DeviceInfo& device : devices()) {
    known += (known.empty() ? "" : ", ") + device.name;
    if (device.name != compile.device) continue;
    if (!device.available)
      throw Error(ErrorKind::Device, "--device " + device.name + " is absent: " + device.detail);
    return compile;
  }
  throw Error(ErrorKind::Device, "--device " + compile.device + " is unknown, expected one of " + known);
}

} // namespace lathe::bench
