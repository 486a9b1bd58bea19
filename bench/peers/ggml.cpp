// ggml, the tensor library of llama.cpp: products with weights in blocks of few bits. It rounds the other
// operand to blocks of 8 bits and multiplies integers, so its results have an error of about a half percent.
#include <ggml-backend.h>
#include <ggml-cpu.h>
#include <ggml.h>

#include <algorithm>
#include <cctype>

#include "peers/peers.hpp"

namespace lathe::bench {

namespace {
constexpr double kRoundedOperand = 3e-2; // what 8 bits of the operand may change

ggml_type type_of(BlockFormat format) {
  switch (format) {
  case BlockFormat::Q4_0: return GGML_TYPE_Q4_0;
  case BlockFormat::Q4_1: return GGML_TYPE_Q4_1;
  case BlockFormat::Q5_0: return GGML_TYPE_Q5_0;
  case BlockFormat::Q5_1: return GGML_TYPE_Q5_1;
  case BlockFormat::Q8_0: return GGML_TYPE_Q8_0;
  case BlockFormat::Q4_K: return GGML_TYPE_Q4_K;
  case BlockFormat::Q5_K: return GGML_TYPE_Q5_K;
  case BlockFormat::Q6_K: return GGML_TYPE_Q6_K;
  }
  throw InternalError("a block format that ggml does not have");
}

/// One matrix product with its memory. The weights are in a buffer of the type given: as they are, or in the
/// order that some kernels of ggml want.
class Product {
public:
  Product(const Case& c, ggml_backend_buffer_type_t weights_in, int threads, float* result) {
    const int64_t m = c.shape[0], n = c.shape[1], k = c.shape[2];
    weights_ = ggml_new_tensor_2d(held_.get(), type_of(*c.blocks), k, n);
    ggml_tensor* x = ggml_new_tensor_2d(computed_.get(), GGML_TYPE_F32, k, m);
    product_ = ggml_mul_mat(computed_.get(), weights_, x);
    x->data = const_cast<void*>(c.inputs.at("a").data());
    product_->data = result;
    buffer_.reset(ggml_backend_alloc_ctx_tensors_from_buft(held_.get(), weights_in));
    graph_ = ggml_new_graph(computed_.get());
    ggml_build_forward_expand(graph_, product_);
    plan_ = ggml_graph_plan(graph_, threads, nullptr);
    work_.resize(plan_.work_size);
    plan_.work_data = work_.data();
  }
  bool is_supported(ggml_backend_dev_t device) const {
    return buffer_ && ggml_backend_dev_supports_op(device, product_);
  }
  void set_weights(const HostTensor& values) {
    ggml_backend_tensor_set(weights_, values.data(), 0, values.bytes());
  }
  void run() { ggml_graph_compute(graph_, &plan_); }

private:
  struct Free {
    void operator()(ggml_context* c) const { ggml_free(c); }
    void operator()(ggml_backend_buffer* b) const { ggml_backend_buffer_free(b); }
  };
  using Context = std::unique_ptr<ggml_context, Free>;
  /// Of descriptions alone; their memory lies elsewhere.
  static Context context() {
    return Context(
        ggml_init({16 * ggml_tensor_overhead() + ggml_graph_overhead(), nullptr, /*no_alloc=*/true}));
  }

  Context held_ = context(), computed_ = context();
  std::unique_ptr<ggml_backend_buffer, Free> buffer_;
  ggml_tensor *weights_ = nullptr, *product_ = nullptr;
  ggml_cgraph* graph_ = nullptr;
  ggml_cplan plan_{};
  std::vector<uint8_t> work_;
};

ggml_backend_dev_t cpu() { return ggml_backend_reg_dev_get(ggml_backend_cpu_reg(), 0); }

/// The orders that weights may lie in: as they are, and what the CPU's kernels have besides.
std::vector<ggml_backend_buffer_type_t> weight_orders() {
  std::vector<ggml_backend_buffer_type_t> orders{ggml_backend_cpu_buffer_type()};
  auto more = reinterpret_cast<ggml_backend_dev_get_extra_bufts_t>(
      ggml_backend_reg_get_proc_address(ggml_backend_cpu_reg(), "ggml_backend_dev_get_extra_bufts"));
  if (!more) return orders;
  for (auto* order = more(cpu()); order && *order; ++order) orders.push_back(*order);
  return orders;
}

std::vector<Contender> contenders(const Case& c, const CompileOptions& plan) {
  std::vector<Contender> found;
  if (!c.blocks) return found;
  for (const ggml_backend_buffer_type_t order : weight_orders()) {
    std::string name = "ggml";
    if (order != ggml_backend_cpu_buffer_type()) name += std::string("-") + ggml_backend_buft_name(order);
    for (char& letter : name) letter = letter == '_' ? '-' : static_cast<char>(std::tolower(letter));
    auto to = make_outputs(c);
    auto product = std::make_shared<Product>(c, order, plan.threads, to->at("c").as<float>());
    if (!product->is_supported(cpu())) continue;
    product->set_weights(c.inputs.at("b"));
    found.push_back({name, [product] { product->run(); }, nullptr, to, {}, kRoundedOperand});
  }
  return found;
}
} // namespace

Peer ggml_peer() {
  ggml_cpu_init();
  Peer peer{"ggml", true, std::string("ggml ") + ggml_version(), contenders};
  peer.takes_blocks = true;
  return peer;
}

} // namespace lathe::bench
