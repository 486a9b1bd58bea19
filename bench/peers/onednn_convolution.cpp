// oneDNN: convolutions. Weights are packed ahead of time in every form.
#include "convolution.hpp"
#include "peers/onednn.hpp"

namespace lathe::bench::onednn {

namespace {
/// Source and result row-major; row-major outside, and inside as it likes them best, converted at each run;
/// or in the layouts it likes best, converted before and behind what is timed.
enum class Layout { Plain, Reordered, Blocked };
struct Form {
  const char* name;
  dnnl::algorithm algorithm;
  Layout layout;
};

/// As the case holds an image.
memory::desc held(const ConvCase& conv, const Dims& dims, DType dtype) {
  if (!conv.blocked || !is_blocked(dims[1])) return plain(dims, dtype);
  return {dims, type_of(dtype), Tag::nChw16c};
}

Contender convolution(const Case& c, const Form& form) {
  const ConvCase conv = conv_case(c.workload, c.shape);
  const ConvGeometry& g = conv.geometry;
  auto net = std::make_shared<Network>(c);
  auto to = make_outputs(c);
  Dims x_dims{1, g.channels, g.height, g.width}, y_dims{1, g.out_channels, g.out_h, g.out_w};
  Dims w_dims{g.out_channels, g.channels, g.kernel_h, g.kernel_w};
  if (conv.depthwise) w_dims = {g.channels, 1, 1, g.kernel_h, g.kernel_w};
  const DType sums = to->at("y").dtype();
  memory x = net->input("x", held(conv, x_dims, c.dtype)), y = net->wrap(to->at("y"), held(conv, y_dims, sums));
  auto wished = [&](const Dims& dims, DType dtype) {
    return form.layout == Layout::Plain ? plain(dims, dtype) : any(dims, dtype);
  };
  dnnl::convolution_forward::primitive_desc primitive(
      convolution_desc(g, form.algorithm, wished(x_dims, c.dtype), any(w_dims, c.weight_dtype()), {}, wished(y_dims, sums)), net->engine());
  memory w = net->packed(net->input("w", plain(w_dims, c.weight_dtype())), primitive.weights_desc());
  memory from = form.layout == Layout::Blocked ? net->packed(x, primitive.src_desc())
                                               : net->reordered(x, primitive.src_desc());
  memory made = primitive.dst_desc() == y.get_desc() ? y : net->temporary(primitive.dst_desc());
  net->add(dnnl::convolution_forward(primitive),
           {{DNNL_ARG_SRC, from}, {DNNL_ARG_WEIGHTS, w}, {DNNL_ARG_DST, made}});
  auto bring = [made, y](dnnl::stream& stream) mutable { dnnl::reorder(made, y).execute(stream, made, y); };
  if (made == y) return {form.name, [net] { net->run(); }, nullptr, to};
  if (form.layout == Layout::Reordered) {
    net->add(dnnl::reorder(made, y), {{DNNL_ARG_FROM, made}, {DNNL_ARG_TO, y}});
    return {form.name, [net] { net->run(); }, nullptr, to};
  }
  auto finish = [net, bring]() mutable {
    dnnl::stream stream(net->engine());
    bring(stream);
    stream.wait();
  };
  return {form.name, [net] { net->run(); }, finish, to};
}
} // namespace

dnnl::convolution_forward::desc convolution_desc(const ConvGeometry& g, dnnl::algorithm algorithm,
                                                 const memory::desc& x, const memory::desc& w,
                                                 const memory::desc& bias, const memory::desc& y) {
  // The padding behind is what the last output reaches beyond the image.
  Dims strides{g.stride, g.stride}, before{g.pad_h, g.pad_w};
  Dims behind{(g.out_h - 1) * g.stride + g.kernel_h - g.height - g.pad_h,
              (g.out_w - 1) * g.stride + g.kernel_w - g.width - g.pad_w};
  auto kind = dnnl::prop_kind::forward_inference;
  if (bias.is_zero()) return {kind, algorithm, x, w, y, strides, before, behind};
  return {kind, algorithm, x, w, bias, y, strides, before, behind};
}

std::vector<Contender> convolutions(const Case& c) {
  constexpr auto direct = dnnl::algorithm::convolution_direct,
                 winograd = dnnl::algorithm::convolution_winograd;
  std::vector<Form> forms{{"onednn", direct, Layout::Plain},
                          {"onednn-reorders", direct, Layout::Reordered},
                          {"onednn-winograd", winograd, Layout::Reordered}};
  if (conv_case(c.workload, c.shape).blocked)
    forms = {{"onednn-blocked", direct, Layout::Blocked}, {"onednn-winograd", winograd, Layout::Blocked}};
  std::vector<Contender> found;
  for (const Form& form : forms) try {
      found.push_back(convolution(c, form));
    } catch (const dnnl::error&) { // it has no such form for this shape
    }
  return found;
}

} // namespace lathe::bench::onednn
