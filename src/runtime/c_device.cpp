// The device "c": kernels rendered to C, built by the system's compiler and loaded into the process.
#include <fmt/format.h>

#include "lathe/error.hpp"
#include "render/render.hpp"
#include "runtime/c_compiler.hpp"
#include "runtime/host_program.hpp"

namespace lathe::runtime {
namespace {

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
                                    "-ffp-contract=off", // only an Fma of the kernel is fused
                                    "-fno-math-errno",
                                    "-fno-trapping-math",
                                    "-fno-strict-aliasing"}; // buffers of different dtypes share memory
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
    return program(kernel, flags,
                   compiler_.build(whole_source(kernel, flags), compiler_flags(flags), !flags.candidate));
  }
  std::string source(const ast::Kernel& kernel, const CompileFlags& flags) const override {
    render::COptions options;
    options.vector_bytes = vector_bytes(flags.cpu);
    options.scratch_offsets = layout_scratch(kernel).offset_of;
    return render::render_c(kernel, options);
  }
  std::string object_name(const ast::Kernel& kernel, const CompileFlags& flags) const override {
    return compiler_.object_name(whole_source(kernel, flags), compiler_flags(flags));
  }
  std::string object(const ast::Kernel& kernel, const CompileFlags& flags) override {
    return compiler_.object(whole_source(kernel, flags), compiler_flags(flags));
  }
  std::unique_ptr<Program> link(const ast::Kernel& kernel, const CompileFlags& flags,
                                const std::string& object) override {
    return program(kernel, flags, load_object(object));
  }
  std::unique_ptr<DeviceBuffer> allocate(size_t bytes) override { return make_host_buffer(bytes); }
  std::unique_ptr<DeviceBuffer> wrap(void* host, size_t bytes) override {
    return wrap_host_memory(host, bytes);
  }

private:
  std::string whole_source(const ast::Kernel& kernel, const CompileFlags& flags) const {
    const std::string kernels = source(kernel, flags);
    return render::c_prelude(kernels) + kernels;
  }
  static std::unique_ptr<Program> program(const ast::Kernel& kernel, const CompileFlags& flags,
                                          std::shared_ptr<SharedObject> object) {
    const std::string symbol = render::function_name(kernel);
    HostCode code{reinterpret_cast<KernelFunction>(object->symbol(symbol)), object, object->bytes()};
    if (!code.function) throw InternalError(fmt::format("c: compiled kernel has no function {}", symbol));
    return make_host_program(std::move(code), kernel, flags);
  }

  std::string name_ = "c";
  CCompiler compiler_;
};

} // namespace

std::unique_ptr<Device> make_c_device() { return std::make_unique<CDevice>(); }

} // namespace lathe::runtime
