// The devices for the public API, and the default device, on which tensors are realised.
#include <mutex>

#include <fmt/format.h>

#include "lathe/error.hpp"
#include "lathe/executable.hpp"
#include "runtime/device.hpp"

namespace lathe {
namespace {

std::mutex default_mutex;
std::string& chosen_default() { // empty: not chosen yet
  static auto* name = new std::string;
  return *name;
}

} // namespace

std::vector<DeviceInfo> devices() {
  std::vector<DeviceInfo> all;
  for (const runtime::DeviceStatus& status : runtime::list_devices())
    all.push_back({status.name, status.available, status.detail});
  return all;
}

void set_default_device(const std::string& name) {
  runtime::device(name); // throws if the device is absent
  std::lock_guard lock(default_mutex);
  chosen_default() = name;
}

std::string default_device() {
  std::lock_guard lock(default_mutex);
  std::string& chosen = chosen_default();
  for (const char* name : {"cpu", "c", "interp"}) {
    if (!chosen.empty()) break;
    try {
      chosen = runtime::device(name).name();
    } catch (const Error&) { // absent: the next one will do
    }
  }
  return chosen;
}

} // namespace lathe
