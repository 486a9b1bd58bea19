#include "runtime/device.hpp"

#include <algorithm>
#include <mutex>

#include <fmt/core.h>

#include "lathe/error.hpp"

namespace lathe::runtime {
namespace {

struct Slot {
  const char* name;
  std::unique_ptr<Device> (*make)();
  std::once_flag once;
  std::unique_ptr<Device> device;
  std::string why_absent;
};

// The slots of all devices. Never destroyed, since a user's static objects may hold programs that outlive any
// static of ours.
std::vector<Slot*>& slots() {
  static auto* all = new std::vector<Slot*>{
      new Slot{"cpu", make_cpu_device, {}, {}, {}},
      new Slot{"c", make_c_device, {}, {}, {}},
      new Slot{"opencl", make_opencl_device, {}, {}, {}},
      new Slot{"interp", make_interp_device, {}, {}, {}},
  };
  return *all;
}

void open(Slot& slot) {
  std::call_once(slot.once, [&] {
    try {
      slot.device = slot.make();
    } catch (const Error& e) {
      slot.why_absent = e.what();
    }
  });
}

} // namespace

void check_device_name(const std::string& name) {
  std::string known;
  for (size_t i = 0; i < slots().size(); ++i) {
    if (name == slots()[i]->name) return;
    known += fmt::format("{}{}", i == 0 ? "" : i + 1 < slots().size() ? ", " : " or ", slots()[i]->name);
  }
  throw Error(ErrorKind::Device, fmt::format("device \"{}\" is unknown, expected {}", name, known));
}

Device& device(const std::string& name) {
  check_device_name(name);
  Slot& slot = **std::find_if(slots().begin(), slots().end(), [&](const Slot* s) { return name == s->name; });
  open(slot);
  if (slot.device) return *slot.device;
  throw Error(ErrorKind::Device,
              fmt::format("device \"{}\" is not available here: {}, expected one of devices()", name,
                          slot.why_absent));
}

std::vector<DeviceStatus> list_devices() {
  std::vector<DeviceStatus> list;
  for (Slot* slot : slots()) {
    open(*slot);
    list.push_back(
        {slot->name, slot->device != nullptr, slot->device ? slot->device->description() : slot->why_absent});
  }
  return list;
}

} // namespace lathe::runtime
