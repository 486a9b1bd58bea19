// The default device, "cpu": the LLVM backend compiles kernels in process.
#include "runtime/host_program.hpp"
#include "runtime/llvm_backend.hpp"

namespace lathe::runtime {
namespace {

class CpuDevice : public Device {
public:
  CpuDevice() : description_(llvm_backend().host_description()) {}
  const std::string& name() const override { return name_; }
  std::string description() const override { return description_; }
  std::unique_ptr<Program> compile(const ast::Kernel& kernel, const CompileFlags& flags) override {
    return make_host_program(llvm_backend().compile(kernel, flags), kernel, flags);
  }
  std::string source(const ast::Kernel& kernel, const CompileFlags& flags) const override {
    return llvm_backend().ir_text(kernel, flags);
  }
  std::string object_name(const ast::Kernel& kernel, const CompileFlags& flags) const override {
    return llvm_backend().object_name(kernel, flags);
  }
  std::string object(const ast::Kernel& kernel, const CompileFlags& flags) override {
    return llvm_backend().object(kernel, flags);
  }
  std::unique_ptr<Program> link(const ast::Kernel& kernel, const CompileFlags& flags,
                                const std::string& object) override {
    return make_host_program(llvm_backend().link(object, flags), kernel, flags);
  }
  std::unique_ptr<DeviceBuffer> allocate(size_t bytes) override { return make_host_buffer(bytes); }
  std::unique_ptr<DeviceBuffer> wrap(void* host, size_t bytes) override {
    return wrap_host_memory(host, bytes);
  }
  Instructions instructions(const std::string& cpu) const override {
    return llvm_backend().instructions(cpu);
  }
  int byte_table(const std::string& cpu) const override { return llvm_backend().byte_table_of(cpu); }

private:
  std::string name_ = "cpu", description_;
};

} // namespace

std::unique_ptr<Device> make_cpu_device() { return std::make_unique<CpuDevice>(); }

} // namespace lathe::runtime
