// Object code that came with a saved program, by the id of its kernel.
#pragma once
#include <cstdint>
#include <map>
#include <string>

#include "runtime/device.hpp"

namespace lathe::pipeline {

/// By object_id().
using SavedObjects = std::map<uint64_t, std::string>;

/// Returns an id for the object code of a finalised kernel, different for other code, devices and machines.
/// Returns 0 if the device has no object code to keep.
uint64_t object_id(const runtime::Device& device, const ast::Kernel& finalised,
                   const runtime::CompileFlags& flags);

} // namespace lathe::pipeline
