// A program as C. Every kernel is written twice, with vectors for GCC and Clang and plain for other
// compilers. Callers call one function.
#include <fmt/format.h>

#include "compile/export/c_program.hpp"
#include "compile/export/export_c_threads.hpp"
#include "compile/export/export_targets.hpp"
#include "compile/front/target.hpp"
#include "compile/run/assemble.hpp"
#include "lathe/error.hpp"
#include "render/render.hpp"

namespace lathe::pipeline {
namespace {

constexpr const char* kCHeader =
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

constexpr const char* kCSource =
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

constexpr const char* kCBuild = R"(# @name@ as a library, and main.c as an example of its use.
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
        vector_bytes_(vector_bytes_of(options.compile.cpu)), code_(program.layout, threads_) {
    if (code_.arena_bytes() >= int64_t{1} << 32 && !program_.layout.vars.empty())
      throw Error(
          ErrorKind::Limit,
          fmt::format("export: intermediates take {} bytes at the upper bounds of the sizes, expected less "
                      "than 2^32; fix a size (--size name=number) or bound it more tightly",
                      code_.arena_bytes()));
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
  bool has_arena() const { return code_.arena_bytes() > 0; }

  std::vector<std::string> parameters() const {
    std::vector<std::string> params = {"const void* weights"};
    for (std::string& param : value_parameters(program_.layout)) params.push_back(std::move(param));
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
                                  program_.upper, code_.arena_bytes());
    return filled(kCHeader, values);
  }

  std::string source() {
    auto values = values_;
    values["includes"] = code_.parallel() ? kThreadIncludes : "";
    if (code_.parallel()) {
      auto threads = values_;
      threads["count"] = std::to_string(threads_);
      threads["scratch"] = std::to_string(code_.scratch_bytes());
      values["threads"] = filled(kThreads, threads);
    } else {
      values["threads"] = "";
    }
    values["functions"] = common_functions(program_);
    values["arena"] = has_arena() && arena_ == "static"
                          ? fmt::format("\nLATHE_ALIGNED(128) static unsigned char {}_arena[{}];\n",
                                        program_.name, code_.arena_bytes())
                          : "";
    values["body"] = body();
    // The code after the kernels also uses helpers of the prelude, with either form of the kernels.
    const std::string rest = values["threads"] + values["arena"];
    const std::string vectors = code_.kernels(vector_bytes_), portable = code_.kernels(0);
    values["vectors"] = render::c_prelude(vectors + rest) + vectors;
    values["portable"] = render::c_portable_prelude(portable + rest) + portable;
    return filled(kCSource, values);
  }

  /// Returns the statements that set `memory` to the intermediates.
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
    if (code_.parallel()) out += "  struct lathe_team team;\n";
    out += fmt::format("  const int error = {}_check_header(weights);\n"
                       "  if (error != {}_OK) return error;\n"
                       "  if ((uintptr_t)weights % 8 != 0) return {}_MISALIGNED;\n",
                       program_.name, program_.upper, program_.upper);
    out += size_checks(program_) + arena_text();
    if (program_.layout.constants.empty()) out += "  (void)constants;\n";
    for (const ProgramLayout::Port& input : program_.layout.inputs)
      out += fmt::format("  (void){};\n", input.name);
    out += code_.statements([&](size_t index, const std::string& type) {
      return fmt::format("(const {}*)(constants + {})", type, program_.weights.offsets[index]);
    });
    if (allocates) out += "  free(block);\n";
    return out;
  }

  std::string main_file() const {
    std::vector<std::string> arguments = {"weights"};
    for (const ProgramLayout::Port& input : program_.layout.inputs) arguments.push_back("in_" + input.name);
    for (const ProgramLayout::Port& output : program_.layout.outputs)
      arguments.push_back("out_" + output.name);
    for (const Expr var : program_.layout.vars)
      arguments.push_back("size_of_" + program_.layout.var_names.at(var.name()));
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
        code_.parallel() ? fmt::format("set(THREADS_PREFER_PTHREAD_FLAG ON)\nfind_package(Threads REQUIRED)\n"
                                       "target_link_libraries({} PUBLIC Threads::Threads)\n",
                                       program_.target)
                         : "";
    // CMake's own variables stand between braces, so that only ours are @keys@.
    return filled(kCBuild, values);
  }

  ExportedProgram& program_;
  const std::string arena_;
  const int threads_, vector_bytes_;
  const CProgram code_;
  std::map<std::string, std::string> values_;
};

} // namespace

std::vector<ExportedFile> export_c(ExportedProgram& program, const ExportOptions& options) {
  return CExport(program, options).files();
}

} // namespace lathe::pipeline
