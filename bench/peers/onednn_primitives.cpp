#include "peers/onednn.hpp"

namespace lathe::bench::onednn {

memory::data_type type_of(DType dtype) {
  switch (dtype) {
  case DType::BF16: return memory::data_type::bf16;
  case DType::I8: return memory::data_type::s8;
  case DType::U8: return memory::data_type::u8;
  case DType::I32: return memory::data_type::s32;
  default: return memory::data_type::f32;
  }
}
memory::desc plain(const Dims& dims, DType dtype) {
  Dims strides(dims.size(), 1);
  for (size_t i = dims.size() - 1; i-- > 0;) strides[i] = strides[i + 1] * dims[i + 1];
  return {dims, type_of(dtype), strides};
}
memory::desc any(const Dims& dims, DType dtype) { return {dims, type_of(dtype), Tag::any}; }
memory::desc strided(const Dims& dims, const Dims& strides) {
  return {dims, memory::data_type::f32, strides};
}

void multiply(Network& net, memory a, memory b, memory dst, bool pack, const memory& bias,
              const Epilogue& epilogue) {
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
  memory::desc b_desc = b.get_desc();
  if (pack) b_desc = memory::desc(b_desc.dims(), b_desc.data_type(), Tag::any);
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

} // namespace lathe::bench::onednn
