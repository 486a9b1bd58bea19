#include "runtime/host_program.hpp"

namespace lathe::runtime {
namespace {

class HostProgram final : public Program {
public:
  HostProgram(HostCode code, size_t scratch_bytes, int threads)
      : code_(std::move(code)), scratch_bytes_(scratch_bytes), threads_(threads) {}

  void launch(std::span<const BufferSlice> buffers, std::span<const int64_t> shape_values) const override {
    constexpr size_t kFew = 16; // buffers; as many need no allocation
    void* few[kFew];
    std::vector<void*> many;
    void** pointers = few;
    if (buffers.size() > kFew) {
      many.resize(buffers.size());
      pointers = many.data();
    }
    for (size_t i = 0; i < buffers.size(); i++) pointers[i] = buffers[i].host();
    launch_at(pointers, shape_values.data());
  }
  bool takes_addresses() const override { return true; }
  void launch_at(void* const* addresses, const int64_t* shape_values) const override {
    run_host_kernel(code_.function, addresses, shape_values, scratch_bytes_, threads_);
  }

  size_t bytes() const override { return code_.bytes; }

private:
  HostCode code_;
  size_t scratch_bytes_;
  int threads_;
};

} // namespace

std::unique_ptr<Program> make_host_program(HostCode code, const ast::Kernel& kernel,
                                           const CompileFlags& flags) {
  return std::make_unique<HostProgram>(std::move(code), layout_scratch(kernel).bytes, flags.threads);
}

} // namespace lathe::runtime
