// The default device: kernels compiled in process by the LLVM backend.
#include <mutex>

#include "runtime/device.hpp"
#include "runtime/llvm_backend.hpp"

namespace lathe::runtime {
namespace {

class CpuProgram : public Program {
public:
  CpuProgram(LlvmBackend::Code code, const ast::Kernel& kernel, const CompileFlags& flags)
      : code_(std::move(code)), kernel_(kernel), flags_(flags), scratch_bytes_(layout_scratch(kernel).bytes) {
  }

  void launch(std::span<const BufferSlice> buffers, std::span<const int64_t> shape_values) const override {
    constexpr size_t kFew = 16; // without an allocation
    void* few[kFew];
    std::vector<void*> many;
    void** pointers = few;
    if (buffers.size() > kFew) {
      many.resize(buffers.size());
      pointers = many.data();
    }
    for (size_t i = 0; i < buffers.size(); i++)
      pointers[i] = static_cast<char*>(buffers[i].buffer->host()) + buffers[i].offset;
    run_host_kernel(code_.function, pointers, shape_values.data(), scratch_bytes_, flags_.threads);
  }

  const std::string& source() const override { // made when first asked for: it costs as much as compiling
    std::call_once(source_once_, [this] { source_ = llvm_backend().ir_text(kernel_, flags_); });
    return source_;
  }

private:
  LlvmBackend::Code code_;
  ast::Kernel kernel_;
  CompileFlags flags_;
  size_t scratch_bytes_;
  mutable std::once_flag source_once_;
  mutable std::string source_;
};

class CpuDevice : public Device {
public:
  CpuDevice() : description_(llvm_backend().host_description()) {}
  const std::string& name() const override { return name_; }
  std::string description() const override { return description_; }
  std::unique_ptr<Program> compile(const ast::Kernel& kernel, const CompileFlags& flags) override {
    return std::make_unique<CpuProgram>(llvm_backend().compile(kernel, flags), kernel, flags);
  }
  std::string object_name(const ast::Kernel& kernel, const CompileFlags& flags) const override {
    return llvm_backend().object_name(kernel, flags);
  }
  std::string object(const ast::Kernel& kernel, const CompileFlags& flags) override {
    return llvm_backend().object(kernel, flags);
  }
  std::unique_ptr<Program> link(const ast::Kernel& kernel, const CompileFlags& flags,
                                const std::string& object) override {
    return std::make_unique<CpuProgram>(llvm_backend().link(object, flags), kernel, flags);
  }
  std::unique_ptr<DeviceBuffer> allocate(size_t bytes) override { return make_host_buffer(bytes); }
  std::unique_ptr<DeviceBuffer> wrap(void* host, size_t bytes) override {
    return wrap_host_memory(host, bytes);
  }

private:
  std::string name_ = "cpu", description_;
};

} // namespace

std::unique_ptr<Device> make_cpu_device() { return std::make_unique<CpuDevice>(); }

} // namespace lathe::runtime
