// oneDNN: ResNet-18, with weights packed, and biases, relus and residual sums fused.
#include "peers/onednn.hpp"
#include "resnet.hpp"

namespace lathe::bench::onednn {

namespace {
struct Form {
  const char* name;
  Tag layout; ///< of activations: any, or blocked channels
  bool winograd;
};

class ResnetBuilder {
public:
  ResnetBuilder(Network& net, int64_t batch, const Form& form) : net_(net), batch_(batch), form_(form) {}

  /// layer(x), onto + layer(x) in the memory of `onto`, or relu of either.
  memory convolution(memory x, const ResnetConv& layer, bool relu, const memory& onto = {}) {
    const ConvGeometry& g = layer.geometry;
    Dims w_dims{g.out_channels, g.channels, g.kernel_h, g.kernel_w};
    auto [primitive, fused] = primitive_for(g, x.get_desc().dims(), w_dims, relu, onto);
    x = net_.reordered(x, primitive.src_desc());
    memory w = net_.packed(net_.input("w_" + layer.name, plain(w_dims)), primitive.weights_desc());
    memory y = onto && fused ? onto : net_.temporary(primitive.dst_desc());
    net_.add(dnnl::convolution_forward(primitive),
             {{DNNL_ARG_SRC, x},
              {DNNL_ARG_WEIGHTS, w},
              {DNNL_ARG_BIAS, net_.input("b_" + layer.name, plain({g.out_channels}))},
              {DNNL_ARG_DST, y}});
    if (!fused) add_onto(y, onto, relu);
    return fused ? y : onto;
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
  static dnnl::primitive_attr epilogue(bool sum, bool relu) {
    dnnl::post_ops ops;
    if (sum) ops.append_sum();
    if (relu) ops.append_eltwise(1, dnnl::algorithm::eltwise_relu, 0, 0);
    dnnl::primitive_attr attr;
    attr.set_post_ops(ops);
    return attr;
  }

  /// With the sum fused if that can be, which it can't behind Winograd's.
  std::pair<dnnl::convolution_forward::primitive_desc, bool> primitive_for(const ConvGeometry& g,
                                                                           const Dims& x_dims,
                                                                           const Dims& w_dims, bool relu,
                                                                           const memory& onto) {
    memory::desc y(Dims{batch_, g.out_channels, g.out_h, g.out_w}, memory::data_type::f32, form_.layout);
    memory::desc x =
        x_dims[1] % kChannelBlock ? any(x_dims) : memory::desc(x_dims, y.data_type(), form_.layout);
    auto with = [&](dnnl::algorithm algorithm, bool fused) {
      return dnnl::convolution_forward::primitive_desc(convolution_desc(g, algorithm, x, any(w_dims),
                                                                        plain({g.out_channels}),
                                                                        onto && fused ? onto.get_desc() : y),
                                                       epilogue(onto && fused, relu && fused), net_.engine());
    };
    if (form_.winograd) try {
        return {with(dnnl::algorithm::convolution_winograd, !onto), !onto};
      } catch (const dnnl::error&) { // it has none for this layer
      }
    return {with(dnnl::algorithm::convolution_direct, true), true};
  }

  /// onto = relu(onto + y).
  void add_onto(const memory& y, const memory& onto, bool relu) {
    dnnl::binary::desc desc(dnnl::algorithm::binary_add, onto.get_desc(), y.get_desc(), onto.get_desc());
    net_.add(dnnl::binary({desc, epilogue(false, relu), net_.engine()}),
             {{DNNL_ARG_SRC_0, onto}, {DNNL_ARG_SRC_1, y}, {DNNL_ARG_DST, onto}});
  }

  Network& net_;
  int64_t batch_;
  Form form_;
};
} // namespace

std::vector<Contender> resnets(const Case& c) {
  std::vector<Contender> found;
  for (const Form& form :
       {Form{"onednn-packed", Tag::any, false}, Form{"onednn-blocked", Tag::nChw16c, false},
        Form{"onednn-winograd", Tag::nChw16c, true}}) {
    auto net = std::make_shared<Network>(c);
    auto to = make_outputs(c);
    int64_t batch = c.shape[0], size = c.shape[1];
    Resnet18 resnet(size);
    ResnetBuilder build(*net, batch, form);
    memory x = build.convolution(net->input("x", plain({batch, 3, size, size})), resnet.stem, true);
    x = build.pool(x, dnnl::algorithm::pooling_max, resnet.pooled, 3, 2, 1);
    for (const ResnetBlock& block : resnet.blocks) {
      memory onto = block.has_shortcut ? build.convolution(x, block.shortcut, false) : x;
      x = build.convolution(build.convolution(x, block.first, true), block.second, true, onto);
    }
    x = build.pool(x, dnnl::algorithm::pooling_avg_exclude_padding, 1, x.get_desc().dims()[2], 1, 0);
    build.classify(x, net->wrap(to->at("y"), plain({batch, Resnet18::kClasses})));
    found.push_back({form.name, [net] { net->run(); }, nullptr, to});
  }
  return found;
}

} // namespace lathe::bench::onednn
