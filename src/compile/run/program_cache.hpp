// Compiled kernels and schedules of this process, so that compiling the same program again costs little.
#pragma once
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "compile/run/saved_objects.hpp"
#include "lathe/executable.hpp"
#include "runtime/device.hpp"
#include "search/beam/fusions.hpp"
#include "search/moves/plan.hpp"

namespace lathe::pipeline {

/// Returns the device's program for a scheduled kernel. Kernels that differ in names only are compiled once,
/// as long as the program is among those used last. A kernel whose object code is in `saved` is not compiled.
std::shared_ptr<const runtime::Program> compile_cached(runtime::Device& device, const ast::Kernel& scheduled,
                                                       const runtime::CompileFlags& flags,
                                                       const SavedObjects* saved = nullptr);

/// As compile_cached() of each, on all cores, and equal kernels once. Error(Stopped) soon after `stop` asks
/// for it.
std::vector<std::shared_ptr<const runtime::Program>>
compile_together(runtime::Device& device, const std::vector<const ast::Kernel*>& scheduled,
                 const runtime::CompileFlags& flags, const SavedObjects* saved, const std::stop_token& stop);

/// Returns a hash of all sources that decide which plan a search by the model alone finds. It keeps plans
/// that other sources found apart. The build writes this function (cmake/LatheSearchSources.cmake).
const char* search_sources();

/// What a search by the model alone found.
struct FoundBySearch {
  std::vector<search::Move> moves;
  std::shared_ptr<const std::vector<search::TriedFusion>> fusions; // of the plan's kernels, tried
};
/// Returns what an earlier search by the model alone, in this process or another, stored under this key. Two
/// programs may share a key. If the moves are not legal, the caller searches anew; legal moves are right for
/// any program.
std::optional<FoundBySearch> remembered_search(const std::string& key);
void remember_search(const std::string& key, FoundBySearch found);

/// Whole programs of realised tensors, by device and graph.
std::optional<Executable> known_program(const std::string& key);
void keep_program(const std::string& key, const Executable& program);

} // namespace lathe::pipeline
