// oneDNN: the whole programs.
#include <cmath>

#include "peers/onednn.hpp"
#include "resnet.hpp"

namespace lathe::bench::onednn {

namespace {
/// One [out] bias as a row.
memory bias_row(Network& net, const std::string& name, int64_t size) {
  return net.input(name, plain({1, size}));
}

/// Heads are matrices [tokens, features] at any strides.
void attend(Network& net, memory q, memory k_transposed, memory v, memory y) {
  Dims dims = q.get_desc().dims();
  memory scores = net.temporary(plain({dims[0], dims[1], dims[1]})),
         weights = net.temporary(scores.get_desc());
  Epilogue epilogue;
  epilogue.scale = 1 / std::sqrt(static_cast<float>(dims[2]));
  multiply(net, q, k_transposed, scores, false, {}, epilogue);
  softmax(net, scores, weights);
  multiply(net, weights, v, y, false);
}
} // namespace

void build_attention(Network& net, const Case& c, memory y) {
  const Sizes& s = c.shape;
  memory k_transposed = net.input("k", strided({s[0], s[2], s[1]}, {s[1] * s[2], 1, s[2]}));
  attend(net, net.input("q", plain(s)), k_transposed, net.input("v", plain(s)), y);
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
  attend(net, heads_of(q), k_transposed, heads_of(v), heads_of(mixed));
  memory h = linear(mixed, "out", d, d, net.temporary(wide), {{}, {x}, 1});
  memory up = net.temporary(plain({tokens, hidden}));
  linear(norm(h, "network"), "up", d, hidden, up, {{dnnl::algorithm::eltwise_gelu_erf}, {}, 1});
  linear(up, "down", hidden, d, y, {{}, {h}, 1});
}

namespace {
/// ResNet-18: activations in the layouts that its convolutions like best, biases, relus and residual sums
/// fused.
class ResnetBuilder {
public:
  ResnetBuilder(Network& net, int64_t batch, bool winograd) : net_(net), batch_(batch), winograd_(winograd) {}

  /// relu(layer(x)), or relu(onto + layer(x)), into the memory of `onto`.
  memory convolution(memory x, const ResnetConv& layer, bool relu, const memory& onto = {}) {
    const ConvGeometry& g = layer.geometry;
    Dims y_dims{batch_, g.out_channels, g.out_h, g.out_w};
    Dims w_dims{g.out_channels, g.channels, g.kernel_h, g.kernel_w};
    dnnl::post_ops ops;
    if (onto) ops.append_sum();
    if (relu) ops.append_eltwise(1, dnnl::algorithm::eltwise_relu, 0, 0);
    dnnl::primitive_attr attr;
    attr.set_post_ops(ops);
    memory::desc y_desc = onto ? onto.get_desc() : any(y_dims);
    auto primitive = primitive_for(g, any(x.get_desc().dims()), any(w_dims), y_desc, attr);
    x = net_.reordered(x, primitive.src_desc());
    memory w = net_.packed(net_.input("w_" + layer.name, plain(w_dims)), primitive.weights_desc());
    memory y = onto ? onto : net_.temporary(primitive.dst_desc());
    net_.add(dnnl::convolution_forward(primitive),
             {{DNNL_ARG_SRC, x},
              {DNNL_ARG_WEIGHTS, w},
              {DNNL_ARG_BIAS, net_.input("b_" + layer.name, plain({g.out_channels}))},
              {DNNL_ARG_DST, y}});
    return y;
  }

  memory pool(memory x, dnnl::algorithm algorithm, int64_t size, int64_t kernel, int64_t stride,
              int64_t pad) {
    Dims dims = x.get_desc().dims();
    int64_t behind = (size - 1) * stride + kernel - dims[2] - pad;
    dnnl::pooling_forward::desc desc(dnnl::prop_kind::forward_inference, algorithm, x.get_desc(),
                                     any({dims[0], dims[1], size, size}), {stride, stride}, {kernel, kernel},
                                     {pad, pad}, {behind, behind});
    dnnl::pooling_forward::primitive_desc primitive(desc, net_.engine());
    memory y = net_.temporary(primitive.dst_desc());
    net_.add(dnnl::pooling_forward(primitive), {{DNNL_ARG_SRC, x}, {DNNL_ARG_DST, y}});
    return y;
  }

  void classify(memory x, memory y) {
    Dims x_dims = x.get_desc().dims(), w_dims{Resnet18::kClasses, Resnet18::kFeatures, 1, 1};
    memory w = net_.input("w_fc", strided(w_dims, {1, Resnet18::kClasses, 1, 1}));
    memory b = net_.input("b_fc", plain({Resnet18::kClasses}));
    dnnl::inner_product_forward::desc desc(dnnl::prop_kind::forward_inference, any(x_dims), any(w_dims),
                                           b.get_desc(), y.get_desc());
    dnnl::inner_product_forward::primitive_desc primitive(desc, net_.engine());
    net_.add(dnnl::inner_product_forward(primitive),
             {{DNNL_ARG_SRC, net_.reordered(x, primitive.src_desc())},
              {DNNL_ARG_WEIGHTS, net_.packed(w, primitive.weights_desc())},
              {DNNL_ARG_BIAS, b},
              {DNNL_ARG_DST, y}});
  }

private:
  dnnl::convolution_forward::primitive_desc primitive_for(const ConvGeometry& g, const memory::desc& x,
                                                          const memory::desc& w, const memory::desc& y,
                                                          const dnnl::primitive_attr& attr) {
    auto with = [&](dnnl::algorithm algorithm) {
      return dnnl::convolution_forward::primitive_desc(
          convolution_desc(g, algorithm, x, w, plain({g.out_channels}), y), attr, net_.engine());
    };
    if (winograd_) try {
        return with(dnnl::algorithm::convolution_winograd);
      } catch (const dnnl::error&) { // it has none for this layer
      }
    return with(dnnl::algorithm::convolution_direct);
  }

  Network& net_;
  int64_t batch_;
  bool winograd_;
};
} // namespace

std::vector<Contender> resnets(const Case& c) {
  std::vector<Contender> found;
  for (bool winograd : {false, true}) {
    auto net = std::make_shared<Network>(c);
    auto to = make_outputs(c);
    int64_t batch = c.shape[0], size = c.shape[1];
    Resnet18 resnet(size);
    ResnetBuilder build(*net, batch, winograd);
    memory x = build.convolution(net->input("x", plain({batch, 3, size, size})), resnet.stem, true);
    x = build.pool(x, dnnl::algorithm::pooling_max, resnet.pooled, 3, 2, 1);
    for (const ResnetBlock& block : resnet.blocks) {
      memory onto = block.has_shortcut ? build.convolution(x, block.shortcut, false) : x;
      x = build.convolution(build.convolution(x, block.first, true), block.second, true, onto);
    }
    x = build.pool(x, dnnl::algorithm::pooling_avg_exclude_padding, 1, x.get_desc().dims()[2], 1, 0);
    build.classify(x, net->wrap(to->at("y"), plain({batch, Resnet18::kClasses})));
    found.push_back({winograd ? "onednn-winograd" : "onednn-packed", [net] { net->run(); }, nullptr, to});
  }
  return found;
}

} // namespace lathe::bench::onednn
