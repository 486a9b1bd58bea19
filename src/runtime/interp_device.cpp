// The device "interp", which is always available. It interprets kernels: slow, exact and bounds-checked.
#include "runtime/device.hpp"
#include "view/expr_scope.hpp"

namespace lathe::runtime {
namespace {

class InterpProgram : public Program {
public:
  explicit InterpProgram(const ast::Kernel& kernel)
      : kernel_(kernel), bytes_(kBytesPerCharacter * ast::print(kernel).size()) {}
  void launch(std::span<const BufferSlice> buffers, std::span<const int64_t> shape_values) const override {
    const InExprScope inside(expressions_);
    std::vector<ast::Bytes> bytes;
    for (const BufferSlice& slice : buffers) bytes.push_back({slice.host(), slice.bytes});
    ast::interpret(kernel_, bytes, {shape_values.begin(), shape_values.end()});
  }

  size_t bytes() const override { return bytes_; }

private:
  static constexpr size_t kBytesPerCharacter = 32; // of a printed kernel; a guess, not measured

  const ExprScopeRef expressions_ = current_expr_scope(); // keeps the kernel's expressions alive
  ast::Kernel kernel_;
  size_t bytes_;
};

class InterpDevice : public Device {
public:
  const std::string& name() const override { return name_; }
  std::string description() const override { return "interpreter of the loop AST"; }
  std::unique_ptr<Program> compile(const ast::Kernel& kernel, const CompileFlags&) override {
    return std::make_unique<InterpProgram>(kernel);
  }
  std::string source(const ast::Kernel& kernel, const CompileFlags&) const override {
    return ast::print(kernel);
  }
  std::unique_ptr<DeviceBuffer> allocate(size_t bytes) override { return make_host_buffer(bytes); }
  std::unique_ptr<DeviceBuffer> wrap(void* host, size_t bytes) override {
    return wrap_host_memory(host, bytes);
  }

private:
  std::string name_ = "interp";
};

} // namespace

std::unique_ptr<Device> make_interp_device() { return std::make_unique<InterpDevice>(); }

} // namespace lathe::runtime
