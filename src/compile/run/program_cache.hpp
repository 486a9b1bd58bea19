// Compiled kernels and schedules of this process, so that compiling the same program again costs little.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compile/run/saved_objects.hpp"
#include "runtime/device.hpp"
#include "search/moves/plan.hpp"

namespace lathe::pipeline {

/// The device's program for a scheduled kernel. Kernels that differ in names only are compiled once, as long
/// as the program is in use or among those used last. What is among the `saved` objects is not compiled.
std::shared_ptr<const runtime::Program> compile_cached(runtime::Device& device, const ast::Kernel& scheduled,
                                                       const runtime::CompileFlags& flags,
                                                       const SavedObjects* saved = nullptr);

/// Stands for the sources of everything that decides which plan a search by the model alone finds: plans that
/// other sources have found are not this library's. Written by the build (cmake/LatheSearchSources.cmake).
const char* search_sources();

/// Moves that an earlier search by the model alone, in this process or another, found for a program of this
/// hash. Two programs may share a hash: moves that are not legal are to be searched anew, and legal ones are
/// right for any program.
std::optional<std::vector<search::Move>> remembered_moves(const std::string& key);
void remember_moves(const std::string& key, std::vector<search::Move> moves);

} // namespace lathe::pipeline
