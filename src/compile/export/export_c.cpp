// A program as C: every kernel twice, with vectors for GCC and Clang and plain for the rest, behind one
// function to call.
#include <algorithm>

#include <fmt/format.h>

#include "compile/export/export_c_threads.hpp"
#include "compile/export/export_targets.hpp"
#include "compile/front/target.hpp"
#include "compile/run/assemble.hpp"
#include "lathe/error.hpp"
#include "render/c_dialect.hpp"
#include "render/render.hpp"
#include "runtime/kernel_abi.hpp"

namespace lathe::pipeline {
namespace {

constexpr const char* kHeader =
    R"(/* @name@: a program made by lathe. Inputs and outputs are row-major and don't overlap. */
#ifndef LATHE_@NAME@_H
#define LATHE_@NAME@_H
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

@ports@@declarations@
@arena@
int @name@_run(@params@);

#ifdef __cplusplus
}
#endif
#endif
)";

constexpr const char* kSource =
    R"(/* @name@, made by lathe. -DLATHE_PORTABLE: plain C, as for compilers that are neither GCC 12 nor Clang. */
#include "@name@.h"

#include <stdlib.h>
@includes@
#if !defined(LATHE_PORTABLE) && (defined(__clang__) || (defined(__GNUC__) && __GNUC__ >= 12))
@vectors@
#else
@portable@
#endif
@threads@@functions@@arena@
int @name@_run(@params@) {
@body@  return @NAME@_OK;
}
)";

constexpr const char* kBuild = R"(# @name@ as a library, and main.c as an example of its use.
cmake_minimum_required(VERSION 3.13)
project(@name@ LANGUAGES C)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
option(@NAME@_NATIVE "Optimise for this machine" ON)

add_library(@target@ STATIC @name@.c)
target_include_directories(@target@ PUBLIC ${CMAKE_CURRENT_SOURCE_DIR})
set_target_properties(@target@ PROPERTIES C_STANDARD 11 C_EXTENSIONS OFF)
if(CMAKE_C_COMPILER_ID MATCHES "GNU|Clang")
  target_compile_options(@target@ PRIVATE @flags@)
  if(@NAME@_NATIVE)
    target_compile_options(@target@ PRIVATE @native@)
  endif()
endif()
@threads@target_link_libraries(@target@ PUBLIC m)
add_executable(run_@name@ main.c)
target_link_libraries(run_@name@ PRIVATE @target@)
)";

class CExport {
public:
  CExport(ExportedProgram& program, const ExportOptions& options)
      : program_(program), arena_(options.arena), threads_(thread_count(options.compile)),
        vector_bytes_(vector_bytes_of(options.compile.cpu)), dialect_(render::make_c_dialect(vector_bytes_)) {
    for (const auto& [dtype, bytes] : program_.layout.arenas) {
      region_[dtype] = arena_bytes_;
      arena_bytes_ += (bytes + kPlaceAlignment - 1) / kPlaceAlignment * kPlaceAlignment;
    }
    size_t scratch = 0;
    for (const ast::Kernel& kernel : program_.layout.kernels) {
      scratch_.push_back(runtime::layout_scratch(kernel));
      scratch = std::max(scratch, scratch_.back().bytes);
    }
    scratch_bytes_ = static_cast<int64_t>(scratch);
    scratch_begin_ = arena_bytes_;
    arena_bytes_ += scratch_bytes_ * threads_;
    if (arena_bytes_ >= int64_t{1} << 32 && !program_.layout.vars.empty())
      throw Error(
          ErrorKind::Limit,
          fmt::format("export: intermediates take {} bytes at the upper bounds of the sizes, expected less "
                      "than 2^32; fix a size (--size name=number) or bound it more tightly",
                      arena_bytes_));
    values_ = {{"name", program_.name}, {"NAME", program_.upper}, {"target", program_.target}};
  }

  std::vector<ExportedFile> files() {
    values_["params"] = fmt::format("{}", fmt::join(parameters(), ", "));
    return {{program_.name + ".c", source()},
            {program_.name + ".h", header()},
            {program_.name + ".weights", std::move(program_.weights.bytes)},
            {"main.c", main_file()},
            {"CMakeLists.txt", build_file()}};
  }

private:
  bool parallel() const { return threads_ > 1; }
  bool has_arena() const { return arena_bytes_ > 0; }
  bool needs_scratch(size_t kernel) const { return parallel() || !scratch_[kernel].offset_of.empty(); }

  std::vector<std::string> parameters() const {
    std::vector<std::string> params = {"const void* weights"};
    for (std::string& param : value_parameters(program_)) params.push_back(std::move(param));
    if (arena_ == "caller") params.push_back("void* arena");
    return params;
  }

  std::string header() {
    auto values = values_;
    values["ports"] = port_declarations(program_);
    values["declarations"] = common_declarations(program_);
    const char* where = arena_ == "static" ? "in static memory: not to be called from two threads at once"
                        : arena_ == "malloc"
                            ? "allocated by each call"
                            : "in `arena`, at a multiple of 8, better of 64; one for each call at a time";
    values["arena"] = fmt::format("/* Intermediates are {}. */\n#define {}_ARENA_BYTES {}", where,
                                  program_.upper, arena_bytes_);
    return filled(kHeader, values);
  }

  std::string source() {
    auto values = values_;
    values["includes"] = parallel() ? kThreadIncludes : "";
    if (parallel()) {
      auto threads = values_;
      threads["count"] = std::to_string(threads_);
      threads["scratch"] = std::to_string(scratch_bytes_);
      values["threads"] = filled(kThreads, threads);
    } else {
      values["threads"] = "";
    }
    values["functions"] = common_functions(program_);
    values["arena"] = has_arena() && arena_ == "static"
                          ? fmt::format("\nLATHE_ALIGNED(128) static unsigned char {}_arena[{}];\n",
                                        program_.name, arena_bytes_)
                          : "";
    values["body"] = body();
    // What uses helpers behind the kernels is there for either form of these.
    const std::string rest = values["threads"] + values["arena"];
    const std::string vectors = kernels(vector_bytes_), portable = kernels(0);
    values["vectors"] = render::c_prelude(vectors + rest) + vectors;
    values["portable"] = render::c_portable_prelude(portable + rest) + portable;
    return filled(kSource, values);
  }

  std::string kernels(int vector_bytes) const {
    std::string out;
    for (size_t k = 0; k < scratch_.size(); ++k) {
      render::COptions options;
      options.vector_bytes = vector_bytes;
      options.standalone = true;
      options.scratch_offsets = scratch_[k].offset_of;
      options.scratch_is_given = true;
      options.parallel = parallel();
      out.append("\n").append(render::render_c(program_.layout.kernels[k], options));
    }
    return out;
  }

  /// Where the intermediates are, as statements; how to leave with them gone.
  std::string arena_text() const {
    if (!has_arena()) return arena_ == "caller" ? "  (void)arena;\n" : "";
    if (arena_ == "static") return fmt::format("  memory = {}_arena;\n", program_.name);
    if (arena_ == "caller")
      return fmt::format("  if (!arena || (uintptr_t)arena % 8 != 0) return {}_MISALIGNED;\n"
                         "  memory = (unsigned char*)arena;\n",
                         program_.upper);
    return fmt::format("  block = malloc({0}_ARENA_BYTES + 127);\n  if (!block) return {0}_NO_MEMORY;\n"
                       "  memory = (unsigned char*)block + (128 - (uintptr_t)block % 128) % 128;\n",
                       program_.upper);
  }

  std::string body() const {
    const bool allocates = has_arena() && arena_ == "malloc";
    std::string out = "  const unsigned char* const constants = (const unsigned char*)weights;\n";
    if (has_arena()) out += "  unsigned char* memory;\n";
    if (allocates) out += "  void* block;\n";
    if (parallel()) out += "  struct lathe_team team;\n";
    out += fmt::format("  const int error = {}_check_header(weights);\n"
                       "  if (error != {}_OK) return error;\n"
                       "  if ((uintptr_t)weights % 8 != 0) return {}_MISALIGNED;\n",
                       program_.name, program_.upper, program_.upper);
    out += size_checks(program_) + arena_text();
    if (program_.layout.constants.empty()) out += "  (void)constants;\n";
    for (const ProgramLayout::Port& input : program_.layout.inputs)
      out += fmt::format("  (void){};\n", input.name);
    if (parallel()) out += "  lathe_begin(&team);\n";
    for (size_t k = 0; k < scratch_.size(); ++k) out += "  " + call(k) + "\n";
    if (parallel()) out += "  lathe_end(&team);\n";
    for (const ProgramLayout::Copy& copy : program_.layout.copies)
      out +=
          fmt::format("  memcpy({}, {}, (size_t){} * (size_t){});\n", program_.layout.outputs[copy.to].name,
                      program_.layout.outputs[copy.from].name, size_of(copy.buffer->dtype),
                      count_text(copy.buffer->shape, program_.layout.var_names));
    if (allocates) out += "  free(block);\n";
    return out;
  }

  std::string place_text(const ast::Param& param) const {
    const ProgramLayout& layout = program_.layout;
    const ProgramLayout::Place& place = layout.place(param);
    const std::string type = dialect_->storage_type(param.buffer->dtype);
    switch (place.home) {
    case ProgramLayout::Home::Input: return layout.inputs[place.index].name;
    case ProgramLayout::Home::Output: return layout.outputs[place.index].name;
    case ProgramLayout::Home::Constant:
      return fmt::format("(const {}*)(constants + {})", type, program_.weights.offsets[place.index]);
    case ProgramLayout::Home::Arena: break;
    }
    return fmt::format("({}*)(memory + {})", type, region_.at(param.buffer->dtype) + place.offset);
  }

  std::string call(size_t k) const {
    const ast::Kernel& kernel = program_.layout.kernels[k];
    std::vector<std::string> arguments;
    for (const ast::Param& param : kernel.params) arguments.push_back(place_text(param));
    for (const Expr var : kernel.shape_vars) arguments.push_back(program_.layout.var_names.at(var.name()));
    if (needs_scratch(k))
      arguments.push_back(scratch_bytes_ ? fmt::format("(char*)(memory + {})", scratch_begin_) : "NULL");
    if (parallel()) arguments.push_back("&team.env");
    return fmt::format("{}({});", render::function_name(kernel), fmt::join(arguments, ", "));
  }

  std::string main_file() const {
    std::vector<std::string> arguments = {"weights"};
    for (const ProgramLayout::Port& input : program_.layout.inputs) arguments.push_back("in_" + input.name);
    for (const ProgramLayout::Port& output : program_.layout.outputs)
      arguments.push_back("out_" + output.name);
    for (const Expr var : program_.layout.vars)
      arguments.push_back("size_" + program_.layout.var_names.at(var.name()));
    if (arena_ == "caller") arguments.push_back(fmt::format("memory({}_ARENA_BYTES)", program_.upper));
    MainParts parts;
    parts.usage = "./run_" + program_.name;
    parts.call = fmt::format("{}_run({})", program_.name, fmt::join(arguments, ", "));
    return main_text(program_, parts);
  }

  std::string build_file() const {
    auto values = values_;
    values["flags"] = "-O3 -ffp-contract=off -fno-math-errno -fno-trapping-math";
    values["native"] = "-march=native";
    values["threads"] =
        parallel() ? fmt::format("set(THREADS_PREFER_PTHREAD_FLAG ON)\nfind_package(Threads REQUIRED)\n"
                                 "target_link_libraries({} PUBLIC Threads::Threads)\n",
                                 program_.target)
                   : "";
    // CMake's own variables stand between braces, so that only ours are @keys@.
    return filled(kBuild, values);
  }

  ExportedProgram& program_;
  const std::string arena_;
  const int threads_, vector_bytes_;
  std::unique_ptr<render::Dialect> dialect_;
  std::vector<runtime::ScratchLayout> scratch_; // of each kernel
  std::map<DType, int64_t> region_;             // of a dtype's intermediates, bytes into the arena
  int64_t arena_bytes_ = 0, scratch_begin_ = 0, scratch_bytes_ = 0;
  std::map<std::string, std::string> values_;
};

} // namespace

std::vector<ExportedFile> export_c(ExportedProgram& program, const ExportOptions& options) {
  return CExport(program, options).files();
}

} // namespace lathe::pipeline
