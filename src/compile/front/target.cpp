#include "compile/front/target.hpp"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "compile/front/shape_values.hpp"
#include "lathe/error.hpp"
#include "runtime/device.hpp"
#include "search/machine/target.hpp"

namespace lathe::pipeline {
namespace {

int native_vector_bytes() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq"))
    return 64;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return 32;
#endif
  return 16;
}

/// Those that emitted C has instructions for. It runs anywhere, but is fast only where these are.
Instructions instructions_of_c([[maybe_unused]] const std::string& cpu) {
  using enum Instruction;
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (cpu == "native" && __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512vl"))
    return {DotU8I8, DotI8U8, PairI8I8, PairU8U8, PairI16I8, PairI16U8, PairI16I16};
  return {PairU8I8, PairI8U8, PairI8I8, PairU8U8, PairI16I8, PairI16U8, PairI16I16};
#else
  return {};
#endif
}

} // namespace

int vector_bytes_of(const std::string& cpu) {
  if (cpu == "native") return native_vector_bytes();
  if (cpu == "x86-64" || cpu == "x86-64-v2") return 16;
  if (cpu == "x86-64-v3") return 32;
  if (cpu == "x86-64-v4") return 64;
  throw Error(
      ErrorKind::Value,
      fmt::format(
          "compile: cpu \"{}\" is unknown, expected native, x86-64, x86-64-v2, x86-64-v3 or x86-64-v4", cpu));
}

int thread_count(const CompileOptions& options) {
  if (options.threads < 0 || options.threads > 1024)
    throw Error(ErrorKind::Value,
                fmt::format("compile: threads = {}, expected 0 (one per core) to 1024", options.threads));
  return options.threads > 0 ? options.threads
                             : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

search::Target target_for(const CompileOptions& options, const lower::Program& program) {
  search::Target target;
  const bool is_cuda = options.device == "cuda"; // source can be emitted, but no device runs it
  if (!is_cuda) runtime::check_device_name(options.device);
  target.device = options.device;
  target.vector_bytes = vector_bytes_of(options.cpu);
  target.vector_registers = target.vector_bytes == 64 ? 32 : 16;
  target.threads = thread_count(options);
  target.groups = options.device == "opencl" || is_cuda;
  if (options.device == "c") target.instructions = instructions_of_c(options.cpu);
  if (options.device == "cpu") {
    const runtime::Device& cpu = runtime::device(options.device);
    target.instructions = cpu.instructions(options.cpu);
    target.byte_table = cpu.byte_table(options.cpu);
  }
  std::vector<int64_t> constants;
  for (const lower::InputBuffer& input : program.inputs)
    if (input.is_constant) constants.push_back(largest_bytes(*input.buffer));
  target.constant_bytes = std::accumulate(constants.begin(), constants.end(), int64_t{0});
  // Constants smaller than a twentieth of the average, such as biases, are not counted.
  const int64_t small = target.constant_bytes / (20 * std::max<int64_t>(1, std::ssize(constants)));
  target.constants = static_cast<int>(std::max<int64_t>(
      1, std::count_if(constants.begin(), constants.end(), [&](int64_t bytes) { return bytes > small; })));
  if (is_cuda) {
    target.gpu = true;
    target.local_bytes = 48 << 10; // static shared memory of a block, on any compute capability
  } else if (target.groups) {
    try {
      const runtime::Device& device = runtime::device(options.device);
      target.gpu = device.is_gpu();
      target.local_bytes = device.local_bytes();
    } catch (const Error&) { // source can be emitted where there is no device to run it
    }
  }
  return target;
}

} // namespace lathe::pipeline
