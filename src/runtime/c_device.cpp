// The device "c": kernels rendered to C, built by the system's compiler and loaded into the process.
#include <fmt/format.h>

#include "lathe/error.hpp"
#include "render/render.hpp"
#include "runtime/c_compiler.hpp"
#include "runtime/device.hpp"
#include "runtime/kernel_abi.hpp"

namespace lathe::runtime {
namespace {

class CProgram : public Program {
public:
  CProgram(std::shared_ptr<SharedObject> object, KernelFunction function, size_t scratch_bytes, int threads,
           std::string source)
      : object_(std::move(object)), function_(function), scratch_bytes_(scratch_bytes), threads_(threads),
        source_(std::move(source)) {}

  void launch(std::span<const BufferSlice> buffers, std::span<const int64_t> shape_values) const override {
    std::vector<void*> pointers;
    pointers.reserve(buffers.size());
    for (const BufferSlice& slice : buffers)
      pointers.push_back(static_cast<char*>(slice.buffer->host()) + slice.offset);
    run_host_kernel(function_, pointers.data(), shape_values.data(), scratch_bytes_, threads_);
  }
  const std::string& source() const override { return source_; }

private:
  std::shared_ptr<SharedObject> object_; // keeps the code in the process
  KernelFunction function_;
  size_t scratch_bytes_;
  int threads_;
  std::string source_;
};

int vector_bytes(const std::string& cpu) {
#if defined(__x86_64__)
  if (cpu == "native")
    return __builtin_cpu_supports("avx512f") ? 64 : __builtin_cpu_supports("avx2") ? 32 : 16;
  if (cpu == "x86-64-v4") return 64;
  if (cpu == "x86-64-v3") return 32;
#endif
  return 16;
}

std::vector<std::string> compiler_flags(const CompileFlags& flags) {
  std::vector<std::string> words = {"-std=c11",
                                    "-x",
                                    "c",
                                    flags.candidate ? "-O2" : "-O3",
                                    "-shared",
                                    "-fPIC",
                                    "-w",
                                    "-ffp-contract=off", // a kernel says where it fuses
                                    "-fno-math-errno",
                                    "-fno-trapping-math",
                                    "-fno-strict-aliasing"}; // memory is reused between dtypes
#if defined(__x86_64__)
  words.push_back("-march=" + flags.cpu);
  if (vector_bytes(flags.cpu) == 64) words.push_back("-mprefer-vector-width=512");
#else
  words.push_back("-mcpu=" + flags.cpu);
#endif
  return words;
}

class CDevice : public Device {
public:
  CDevice() : compiler_(CCompiler::find()) {}

  const std::string& name() const override { return name_; }
  std::string description() const override { return "C through " + compiler_.version(); }

  std::unique_ptr<Program> compile(const ast::Kernel& kernel, const CompileFlags& flags) override {
    const std::string source = source_of(kernel, flags);
    return program(kernel, flags, source,
                   compiler_.build(with_helpers(source), compiler_flags(flags), !flags.candidate));
  }
  std::string object_name(const ast::Kernel& kernel, const CompileFlags& flags) const override {
    return compiler_.object_name(with_helpers(source_of(kernel, flags)), compiler_flags(flags));
  }
  std::string object(const ast::Kernel& kernel, const CompileFlags& flags) override {
    return compiler_.object(with_helpers(source_of(kernel, flags)), compiler_flags(flags));
  }
  std::unique_ptr<Program> link(const ast::Kernel& kernel, const CompileFlags& flags,
                                const std::string& object) override {
    return program(kernel, flags, source_of(kernel, flags), load_object(object));
  }
  std::unique_ptr<DeviceBuffer> allocate(size_t bytes) override { return make_host_buffer(bytes); }
  std::unique_ptr<DeviceBuffer> wrap(void* host, size_t bytes) override {
    return wrap_host_memory(host, bytes);
  }

private:
  static std::string source_of(const ast::Kernel& kernel, const CompileFlags& flags) {
    render::COptions options;
    options.vector_bytes = vector_bytes(flags.cpu);
    options.scratch_offsets = layout_scratch(kernel).offset_of;
    return render::render_c(kernel, options);
  }
  static std::string with_helpers(const std::string& source) { return render::c_prelude(source) + source; }
  static std::unique_ptr<Program> program(const ast::Kernel& kernel, const CompileFlags& flags,
                                          const std::string& source, std::shared_ptr<SharedObject> object) {
    const std::string symbol = render::function_name(kernel);
    auto function = reinterpret_cast<KernelFunction>(object->symbol(symbol));
    if (!function) throw InternalError(fmt::format("c: compiled kernel has no function {}", symbol));
    return std::make_unique<CProgram>(std::move(object), function, layout_scratch(kernel).bytes,
                                      flags.threads, source);
  }

  std::string name_ = "c";
  CCompiler compiler_;
};

} // namespace

std::unique_ptr<Device> make_c_device() { return std::make_unique<CDevice>(); }

} // namespace lathe::runtime
