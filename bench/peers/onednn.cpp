// oneDNN: its primitives, with what can be fused as post-ops fused. Weights are packed ahead of time where a
// contender's name says so; "onednn" alone takes and gives plain row-major tensors.
#include <omp.h>

#include <oneapi/dnnl/dnnl.hpp>

#include <cmath>

#include "peers/peers.hpp"

namespace lathe::bench {

namespace {
using dnnl::memory;
using Dims = memory::dims;
using Tag = memory::format_tag;

memory::desc plain(const Dims& dims) {
  Dims strides(dims.size(), 1);
  for (size_t i = dims.size() - 1; i-- > 0;) strides[i] = strides[i + 1] * dims[i + 1];
  return {dims, memory::data_type::f32, strides};
}
memory::desc any(const Dims& dims) { return {dims, memory::data_type::f32, Tag::any}; }
memory::desc strided(const Dims& dims, const Dims& strides) {
  return {dims, memory::data_type::f32, strides};
}

/// Primitives in order, with their memory.
class Network {
public:
  explicit Network(const Case& c) : case_(c) {}

  dnnl::engine& engine() { return engine_; }
  memory input(const std::string& name, const memory::desc& md) {
    return {md, engine_, const_cast<void*>(case_.inputs.at(name).data())};
  }
  memory wrap(HostTensor& tensor, const memory::desc& md) { return {md, engine_, tensor.data()}; }
  memory temporary(const memory::desc& md) { return kept_.emplace_back(md, engine_); }

  void add(const dnnl::primitive& primitive, std::unordered_map<int, memory> args) {
    steps_.push_back({primitive, std::move(args)});
  }
  /// `from` in the layout `md`, converted now and never again.
  memory packed(memory from, const memory::desc& md) {
    if (from.get_desc() == md) return from;
    memory to(md, engine_);
    dnnl::reorder(from, to).execute(stream_, from, to);
    stream_.wait();
    return to;
  }
  void run() {
    for (auto& [primitive, args] : steps_) primitive.execute(stream_, args);
    stream_.wait();
  }

private:
  const Case& case_;
  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  std::vector<memory> kept_; ///< others may see it through a pointer
  std::vector<std::pair<dnnl::primitive, std::unordered_map<int, memory>>> steps_;
};

/// What is fused behind a matrix product, in order.
struct Epilogue {
  std::vector<dnnl::algorithm> activations;
  std::vector<memory> addends;
  float scale = 1;
};

/// dst = epilogue(a * b + bias). Weights `b` are packed ahead if `pack`.
void multiply(Network& net, memory a, memory b, memory dst, bool pack, const memory& bias = {},
              const Epilogue& epilogue = {}) {
  dnnl::primitive_attr attr;
  if (epilogue.scale != 1) attr.set_output_scales(0, {epilogue.scale});
  dnnl::post_ops ops;
  std::unordered_map<int, memory> args{{DNNL_ARG_SRC, a}, {DNNL_ARG_DST, dst}};
  for (dnnl::algorithm activation : epilogue.activations) ops.append_eltwise(1, activation, 0, 0);
  for (const memory& addend : epilogue.addends) {
    args[DNNL_ARG_ATTR_MULTIPLE_POST_OP(ops.len()) | DNNL_ARG_SRC_1] = addend;
    ops.append_binary(dnnl::algorithm::binary_add, addend.get_desc());
  }
  attr.set_post_ops(ops);
  memory::desc b_desc = pack ? any(b.get_desc().dims()) : b.get_desc();
  dnnl::matmul::desc desc = bias ? dnnl::matmul::desc(a.get_desc(), b_desc, bias.get_desc(), dst.get_desc())
                                 : dnnl::matmul::desc(a.get_desc(), b_desc, dst.get_desc());
  dnnl::matmul::primitive_desc primitive(desc, attr, net.engine());
  args[DNNL_ARG_WEIGHTS] = pack ? net.packed(b, primitive.weights_desc()) : b;
  if (bias) args[DNNL_ARG_BIAS] = bias;
  net.add(dnnl::matmul(primitive), args);
}

void softmax(Network& net, memory src, memory dst) {
  int axis = static_cast<int>(src.get_desc().dims().size()) - 1;
  dnnl::softmax_v2_forward::desc desc(dnnl::prop_kind::forward_inference, dnnl::algorithm::softmax_accurate,
                                      src.get_desc(), dst.get_desc(), axis);
  net.add(dnnl::softmax_v2_forward({desc, net.engine()}), {{DNNL_ARG_SRC, src}, {DNNL_ARG_DST, dst}});
}

void layer_norm(Network& net, memory src, memory weight, memory bias, memory dst) {
  auto flags = dnnl::normalization_flags::use_scale | dnnl::normalization_flags::use_shift;
  dnnl::layer_normalization_forward::desc desc(dnnl::prop_kind::forward_inference, src.get_desc(), 1e-5f,
                                               flags);
  net.add(dnnl::layer_normalization_forward({desc, net.engine()}),
          {{DNNL_ARG_SRC, src}, {DNNL_ARG_SCALE, weight}, {DNNL_ARG_SHIFT, bias}, {DNNL_ARG_DST, dst}});
}

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
  if (c.workload == "reduce") {
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

struct ConvolutionForm {
  const char* name;
  dnnl::algorithm algorithm;
  bool blocked; ///< source, weights and result in the layouts it likes best, converted ahead and behind, not
                ///< timed
};

Contender convolution(const Case& c, const ConvolutionForm& form) {
  bool depthwise = c.workload == "depthwise-conv2d";
  ConvGeometry g = depthwise ? depthwise_geometry(c.shape) : conv2d_geometry(c.shape);
  auto net = std::make_shared<Network>(c);
  auto to = make_outputs({{"y", {1, g.out_channels, g.out_h, g.out_w}}});
  Dims x_dims{1, g.channels, g.height, g.width}, y_dims{1, g.out_channels, g.out_h, g.out_w};
  Dims w_dims{g.out_channels, g.channels, g.kernel_h, g.kernel_w};
  if (depthwise) w_dims = {g.channels, 1, 1, g.kernel_h, g.kernel_w};
  auto layout = [&](const Dims& dims) { return form.blocked ? any(dims) : plain(dims); };
  // The padding behind is what the last output reaches beyond the image.
  int64_t bottom = (g.out_h - 1) * g.stride + g.kernel_h - g.height - g.pad_h;
  int64_t right = (g.out_w - 1) * g.stride + g.kernel_w - g.width - g.pad_w;
  dnnl::convolution_forward::desc desc(dnnl::prop_kind::forward_inference, form.algorithm, layout(x_dims),
                                       layout(w_dims), layout(y_dims), {g.stride, g.stride},
                                       {g.pad_h, g.pad_w}, {bottom, right});
  dnnl::convolution_forward::primitive_desc primitive(desc, net->engine());
  memory x = net->packed(net->input("x", plain(x_dims)), primitive.src_desc());
  memory w = net->packed(net->input("w", plain(w_dims)), primitive.weights_desc());
  memory y = net->temporary(primitive.dst_desc());
  net->add(dnnl::convolution_forward(primitive),
           {{DNNL_ARG_SRC, x}, {DNNL_ARG_WEIGHTS, w}, {DNNL_ARG_DST, y}});
  auto finish = [net, y, out = net->wrap(to->at("y"), plain(y_dims))]() mutable {
    dnnl::stream stream(net->engine());
    dnnl::reorder(y, out).execute(stream, y, out);
    stream.wait();
  };
  return {form.name, [net] { net->run(); }, finish, to};
}

std::vector<Contender> convolutions(const Case& c) {
  std::vector<Contender> found;
  for (const ConvolutionForm& form :
       {ConvolutionForm{"onednn", dnnl::algorithm::convolution_direct, false},
        ConvolutionForm{"onednn-blocked", dnnl::algorithm::convolution_direct, true},
        ConvolutionForm{"onednn-winograd", dnnl::algorithm::convolution_winograd, true}})
    try {
      found.push_back(convolution(c, form));
    } catch (const dnnl::error&) { // it has no such form for this shape
    }
  return found;
}

/// One [out] bias as a row.
memory bias_row(Network& net, const std::string& name, int64_t size) {
  return net.input(name, plain({1, size}));
}

void build_mlp(Network& net, const Case& c, memory y) {
  memory x = net.input("x", plain({c.shape[0], c.shape[1]}));
  for (int layer = 1; layer <= 3; ++layer) {
    int64_t in = c.shape[static_cast<size_t>(layer)], out = c.shape[static_cast<size_t>(layer) + 1];
    std::string n = std::to_string(layer);
    memory dst = layer == 3 ? y : net.temporary(plain({c.shape[0], out}));
    Epilogue epilogue;
    if (layer < 3) epilogue.activations.push_back(dnnl::algorithm::eltwise_relu);
    multiply(net, x, net.input("w_" + n, plain({in, out})), dst, true, bias_row(net, "b_" + n, out),
             epilogue);
    x = dst;
  }
}

/// Heads are matrices [tokens, features] at any strides.
void build_attention(Network& net, memory q, memory k_transposed, memory v, memory y) {
  Dims dims = q.get_desc().dims();
  memory scores = net.temporary(plain({dims[0], dims[1], dims[1]})),
         weights = net.temporary(scores.get_desc());
  Epilogue epilogue;
  epilogue.scale = 1 / std::sqrt(static_cast<float>(dims[2]));
  multiply(net, q, k_transposed, scores, false, {}, epilogue);
  softmax(net, scores, weights);
  multiply(net, weights, v, y, false);
}

void build_encoder(Network& net, const Case& c, memory y) {
  int64_t tokens = c.shape[0], d = c.shape[1], heads = c.shape[2], hidden = c.shape[3], each = d / heads;
  memory::desc wide = plain({tokens, d});
  auto norm = [&](memory x, const std::string& name) {
    memory dst = net.temporary(wide);
    layer_norm(net, x, net.input("weight_" + name, plain({d})), net.input("bias_" + name, plain({d})), dst);
    return dst;
  };
  auto linear = [&](memory x, const std::string& name, int64_t in, int64_t out, memory dst,
                    const Epilogue& epilogue) {
    multiply(net, x, net.input("w_" + name, plain({in, out})), dst, true, bias_row(net, "b_" + name, out),
             epilogue);
    return dst;
  };
  memory x = net.input("x", wide), n = norm(x, "attention");
  auto projected = [&](const std::string& name) { return linear(n, name, d, d, net.temporary(wide), {}); };
  memory q = projected("q"), k = projected("k"), v = projected("v"), mixed = net.temporary(wide);
  auto heads_of = [&](memory m) {
    return memory(strided({heads, tokens, each}, {each, d, 1}), net.engine(), m.get_data_handle());
  };
  memory k_transposed(strided({heads, each, tokens}, {each, 1, d}), net.engine(), k.get_data_handle());
  build_attention(net, heads_of(q), k_transposed, heads_of(v), heads_of(mixed));
  memory h = linear(mixed, "out", d, d, net.temporary(wide), {{}, {x}, 1});
  memory up = net.temporary(plain({tokens, hidden}));
  linear(norm(h, "network"), "up", d, hidden, up, {{dnnl::algorithm::eltwise_gelu_erf}, {}, 1});
  linear(up, "down", hidden, d, y, {{}, {h}, 1});
}

void build(Network& net, const Case& c, memory y, bool pack) {
  const Sizes& s = c.shape;
  if (c.workload == "matmul") {
    multiply(net, net.input("a", plain({s[0], s[2]})), net.input("b", plain({s[2], s[1]})), y, pack);
  } else if (c.workload == "batched-matmul") {
    multiply(net, net.input("a", plain({s[0], s[1], s[3]})), net.input("b", plain({s[0], s[3], s[2]})), y,
             pack);
  } else if (c.workload == "attention") {
    memory k_transposed = net.input("k", strided({s[0], s[2], s[1]}, {s[1] * s[2], 1, s[2]}));
    build_attention(net, net.input("q", plain(s)), k_transposed, net.input("v", plain(s)), y);
  } else if (c.workload == "mlp") {
    build_mlp(net, c, y);
  } else if (c.workload == "encoder-block") {
    build_encoder(net, c, y);
  } else {
    build_basic(net, c, y);
  }
}

/// The result's name and sizes; no name if there is no contender.
std::pair<std::string, Sizes> result_of(const Case& c) {
  const Sizes& s = c.shape;
  if (c.workload == "digits") return {};
  if (c.workload == "matmul") return {"c", {s[0], s[1]}};
  if (c.workload == "batched-matmul") return {"c", {s[0], s[1], s[2]}};
  if (c.workload == "reduce") return {"y", {1}};
  if (c.workload == "transpose") return {"y", {s[1], s[0]}};
  if (c.workload == "mlp") return {"y", {s[0], s[4]}};
  if (c.workload == "encoder-block") return {"y", {s[0], s[1]}};
  return {"y", s};
}

std::vector<Contender> contenders(const Case& c, int threads) {
  if (c.dtype != DType::F32) return {};
  omp_set_num_threads(threads);
  if (c.workload == "conv2d" || c.workload == "depthwise-conv2d") return convolutions(c);
  auto [name, sizes] = result_of(c);
  if (name.empty()) return {};
  std::vector<bool> forms{false};
  if (c.workload == "matmul" || c.workload == "batched-matmul") forms = {false, true};
  if (c.workload == "mlp" || c.workload == "encoder-block") forms = {true};
  std::vector<Contender> found;
  for (bool pack : forms) {
    auto net = std::make_shared<Network>(c);
    auto to = make_outputs({{name, sizes}});
    build(*net, c, net->wrap(to->at(name), plain(Dims(sizes))), pack);
    found.push_back({pack ? "onednn-packed" : "onednn", [net] { net->run(); }, nullptr, to});
  }
  return found;
}

} // namespace

Peer onednn_peer() {
  const dnnl_version_t* v = dnnl::version();
  return {"onednn", true,
          "oneDNN " + std::to_string(v->major) + "." + std::to_string(v->minor) + "." +
              std::to_string(v->patch),
          contenders};
}

} // namespace lathe::bench
