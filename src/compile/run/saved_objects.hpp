// Object code that came with a program, by what names it.
#pragma once
#include <cstdint>
#include <map>
#include <string>

#include "runtime/device.hpp"

namespace lathe::pipeline {

/// By object_id().
using SavedObjects = std::map<uint64_t, std::string>;

/// What tells the object code of a finalised kernel from any other, on any machine. Nothing (0) where the
/// device has no object code to keep.
uint64_t object_id(const runtime::Device& device, const ast::Kernel& finalised,
                   const runtime::CompileFlags& flags);

} // namespace lathe::pipeline
