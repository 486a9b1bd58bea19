// Which devices a test can run on here, and how it compiles for them.
#pragma once
#include <string>
#include <vector>

#include "lathe/lathe.hpp"

namespace lathe {

inline std::vector<std::string> present_devices() {
  std::vector<std::string> names;
  for (const DeviceInfo& d : devices())
    if (d.available) names.push_back(d.name);
  return names;
}

inline bool has_device(const std::string& name) {
  for (const DeviceInfo& d : devices())
    if (d.name == name) return d.available;
  return false;
}

/// For `device`, whatever earlier tunings have stored.
inline CompileOptions on(const std::string& device, int threads = 2) {
  CompileOptions options;
  options.device = device;
  options.threads = threads;
  options.use_database = false;
  return options;
}

} // namespace lathe
