// oneDNN: its primitives, with what can be fused as post-ops fused. Weights are packed ahead of time where a
// contender's name says so, and in whole programs; "onednn" alone takes and gives plain row-major tensors.
#include "peers/onednn.hpp"

#include <omp.h>

#include <algorithm>

namespace lathe::bench {

namespace onednn {
namespace {
void build_basic(Network& net, const Case& c, memory y) {
  Dims shape(c.shape);
  if (c.workload == "elementwise") {
    memory a = net.input("a", plain(shape)), b = net.input("b", plain(shape));
    memory k = net.input("c", plain(shape)), d = net.input("d", plain(shape));
    dnnl::post_ops ops;
    ops.append_binary(dnnl::algorithm::binary_mul, k.get_desc());
    ops.append_eltwise(1, dnnl::algorithm::eltwise_relu, 0, 0);
    ops.append_binary(dnnl::algorithm::binary_add, d.get_desc());
    dnnl::primitive_attr attr;
    attr.set_post_ops(ops);
    dnnl::binary::desc desc(dnnl::algorithm::binary_add, a.get_desc(), b.get_desc(), y.get_desc());
    net.add(dnnl::binary({desc, attr, net.engine()}),
            {{DNNL_ARG_SRC_0, a},
             {DNNL_ARG_SRC_1, b},
             {DNNL_ARG_DST, y},
             {DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) | DNNL_ARG_SRC_1, k},
             {DNNL_ARG_ATTR_MULTIPLE_POST_OP(2) | DNNL_ARG_SRC_1, d}});
    return;
  }
  memory x = net.input("x", plain(shape));
  if (c.workload == "gelu") {
    dnnl::eltwise_forward::desc desc(dnnl::prop_kind::forward_inference, dnnl::algorithm::eltwise_gelu_tanh,
                                     x.get_desc(), 0, 0);
    net.add(dnnl::eltwise_forward({desc, net.engine()}), {{DNNL_ARG_SRC, x}, {DNNL_ARG_DST, y}});
  } else if (c.workload == "reduce" || c.workload == "column-sums") {
    if (c.workload == "column-sums") y = memory(plain({1, shape[1]}), net.engine(), y.get_data_handle());
    dnnl::reduction::desc desc(dnnl::algorithm::reduction_sum, x.get_desc(), y.get_desc(), 0, 0);
    net.add(dnnl::reduction({desc, net.engine()}), {{DNNL_ARG_SRC, x}, {DNNL_ARG_DST, y}});
  } else if (c.workload == "softmax") {
    softmax(net, x, y);
  } else if (c.workload == "layernorm") {
    layer_norm(net, x, net.input("weight", plain({shape[1]})), net.input("bias", plain({shape[1]})), y);
  } else { // transpose: y seen through strides has the shape of x
    memory seen(strided(shape, {1, shape[0]}), net.engine(), y.get_data_handle());
    net.add(dnnl::reorder(x, seen), {{DNNL_ARG_FROM, x}, {DNNL_ARG_TO, seen}});
  }
}

bool is_product(const Case& c) { return c.program.count("c") != 0; }

void build_product(Network& net, const Case& c, memory y, bool pack) {
  auto seen = [&](const char* name) {
    const HostTensor& tensor = c.inputs.at(name);
    return net.input(name, plain(Dims(tensor.shape()), tensor.dtype()));
  };
  multiply(net, seen("a"), seen("b"), y, pack);
}

/// How to build what has one form; null if oneDNN has no such function.
void (*builder(const std::string& workload))(Network&, const Case&, memory) {
  static const std::map<std::string, void (*)(Network&, const Case&, memory)> builders{
      {"elementwise", build_basic},    {"gelu", build_basic},          {"reduce", build_basic},
      {"softmax", build_basic},        {"layernorm", build_basic},     {"transpose", build_basic},
      {"column-sums", build_basic},    {"attention", build_attention}, {"mlp", build_mlp},
      {"encoder-block", build_encoder}};
  auto found = builders.find(workload);
  return found == builders.end() ? nullptr : found->second;
}

Contender contender(const Case& c, const char* name, const std::function<void(Network&, memory)>& build) {
  auto net = std::make_shared<Network>(c);
  auto to = make_outputs(c);
  auto& [output, tensor] = *to->begin();
  Dims dims(tensor.shape());
  if (dims.empty()) dims = {1};
  build(*net, net->wrap(tensor, plain(dims, tensor.dtype())));
  return {name, [net] { net->run(); }, nullptr, to};
}

std::vector<Contender> contenders(const Case& c, const CompileOptions& plan) {
  const bool is_narrow = c.dtype == DType::BF16 || c.dtype == DType::I8 || c.dtype == DType::U8;
  if (c.dtype != DType::F32 && !(is_narrow && (is_product(c) || is_convolution(c.workload)))) return {};
  omp_set_num_threads(plan.threads);
  if (is_convolution(c.workload)) return convolutions(c);
  if (c.workload == "resnet18") return resnets(c);
  std::vector<Contender> found;
  if (is_product(c)) {
    for (bool pack : {false, true})
      found.push_back(contender(c, pack ? "onednn-packed" : "onednn",
                                [&](Network& net, memory y) { build_product(net, c, y, pack); }));
  } else if (auto build = builder(c.workload)) {
    bool packs = c.workload == "mlp" || c.workload == "encoder-block";
    found.push_back(
        contender(c, packs ? "onednn-packed" : "onednn", [&](Network& net, memory y) { build(net, c, y); }));
  }
  return found;
}
} // namespace
} // namespace onednn

Peer onednn_peer() {
  const dnnl_version_t* v = dnnl::version();
  return {"onednn", true,
          "oneDNN " + std::to_string(v->major) + "." + std::to_string(v->minor) + "." +
              std::to_string(v->patch),
          onednn::contenders};
}

} // namespace lathe::bench
