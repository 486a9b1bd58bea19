#include "compile/run/saved_objects.hpp"

#include "core/hash.hpp"
#include "search/machine/profile.hpp"

namespace lathe::pipeline {

uint64_t object_id(const runtime::Device& device, const ast::Kernel& finalised,
                   const runtime::CompileFlags& flags) {
  const std::string name = device.object_name(finalised, flags);
  if (name.empty()) return 0;
  static const uint64_t machine = hash_text(search::machine_fingerprint());
  return mix(mix(machine, hash_text(device.name())), hash_text(name));
}

} // namespace lathe::pipeline
