#include "workloads.hpp"

#include <charconv>
#include <cmath>

namespace lathe::bench {

const std::vector<Workload>& workloads() {
  static const std::vector<Workload> all{
      {"elementwise", "N", "relu((a + b) * c) + d", {{16777216}}, 0, true, build_elementwise},
      {"reduce", "N", "the sum of all", {{16777216}}, 0, true, build_reduce},
      {"softmax", "ROWSxCOLUMNS", "softmax over each row", {{4096, 1024}}, 0, false, build_softmax},
      {"layernorm",
       "ROWSxCOLUMNS",
       "layer norm over each row, with weight and bias",
       {{4096, 768}},
       0,
       false,
       build_layernorm},
      {"transpose",
       "ROWSxCOLUMNS",
       "a matrix transposed into memory of its own",
       {{4096, 4096}},
       0,
       true,
       build_transpose},
      {"matmul",
       "MxNxK",
       "[M, K] times [K, N]",
       {{512, 512, 512},
        {64, 64, 64},
        {128, 128, 128},
        {256, 256, 256},
        {1024, 1024, 1024},
        {2048, 2048, 2048},
        {1, 4096, 4096},
        {128, 768, 768},
        {128, 3072, 768},
        {128, 768, 3072},
        {64, 1000, 512}},
       0,
       true,
       build_matmul},
      {"batched-matmul",
       "BxMxNxK",
       "B products of [M, K] and [K, N]",
       {{96, 128, 128, 64}},
       0,
       true,
       build_batched_matmul},
      {"conv2d",
       "CxHxWxOCxKHxKW[xSTRIDE]",
       "one image [C, H, W] to OC channels, padded by half the kernel",
       {{64, 56, 56, 64, 3, 3, 1},
        {128, 28, 28, 128, 3, 3, 1},
        {256, 14, 14, 256, 3, 3, 1},
        {512, 7, 7, 512, 3, 3, 1},
        {3, 224, 224, 64, 7, 7, 2},
        {64, 56, 56, 256, 1, 1, 1}},
       1,
       true,
       build_conv2d},
      {"depthwise-conv2d",
       "CxHxWxKHxKW[xSTRIDE]",
       "each channel of one image by a kernel of its own",
       {{32, 112, 112, 3, 3, 1}},
       1,
       true,
       build_depthwise_conv2d},
      {"attention",
       "HEADSxTOKENSxFEATURES",
       "softmax(q k^T / sqrt(FEATURES)) v",
       {{12, 128, 64}},
       0,
       false,
       build_attention},
      {"mlp",
       "BATCHxINxHIDDENxHIDDENxOUT",
       "three linear layers with relu between",
       {{64, 784, 512, 512, 10}},
       0,
       false,
       build_mlp},
      {"encoder-block",
       "TOKENSxFEATURESxHEADSxHIDDEN",
       "a transformer's encoder block: attention and gelu network, layer norm before each",
       {{128, 768, 12, 3072}},
       0,
       false,
       build_encoder_block},
      {"digits",
       "REFERENCESxQUERIES",
       "nearest neighbour on 1,797 real handwritten digits: 767 of 797 right",
       {{1000, 797}},
       0,
       false,
       build_digits},
  };
  return all;
}

const Workload& find_workload(const std::string& name) {
  std::string known;
  for (const Workload& workload : workloads()) {
    if (workload.name == name) return workload;
    known += (known.empty() ? "" : ", ") + workload.name;
  }
  throw Error(ErrorKind::Name, "workload '" + name + "' is unknown, expected one of " + known);
}

Sizes parse_shape(const Workload& workload, const std::string& text) {
  if (text.empty()) return workload.shapes.front();
  auto fail = [&]() -> Error {
    return Error(ErrorKind::Value, "--shape " + text + " does not fit " + workload.name + ", expected " +
                                       workload.parameters + ", such as " +
                                       to_string(workload.shapes.front()));
  };
  Sizes sizes;
  for (size_t begin = 0; begin <= text.size();) {
    size_t end = text.find_first_of("x,", begin);
    if (end == std::string::npos) end = text.size();
    int64_t size = 0;
    auto [stop, error] = std::from_chars(text.data() + begin, text.data() + end, size);
    if (error != std::errc() || stop != text.data() + end || size < 1 || size > (int64_t{1} << 31))
      throw fail();
    sizes.push_back(size);
    begin = end + 1;
  }
  const Sizes& full = workload.shapes.front();
  if (sizes.size() > full.size() || sizes.size() + workload.optional < full.size()) throw fail();
  sizes.insert(sizes.end(), full.begin() + static_cast<int64_t>(sizes.size()), full.end());
  double elements = 1;
  for (int64_t size : sizes) elements *= static_cast<double>(size);
  if (elements > 1e13) throw fail();
  return sizes;
}

Case make_case(const Workload& workload, const Sizes& shape, DType dtype) {
  bool exact = dtype == DType::I32 || dtype == DType::I64;
  if (!is_float(dtype) && !(workload.integers && exact))
    throw Error(ErrorKind::DType, workload.name + " has no meaning for --dtype " + lathe::to_string(dtype) +
                                      ", expected f32, f64, f16" +
                                      (workload.integers ? ", bf16, i32 or i64" : " or bf16"));
  Case c;
  c.workload = workload.name;
  c.shape = shape;
  c.dtype = dtype;
  workload.build(c);
  return c;
}

Tensor Case::input(const std::string& name, Sizes sizes, uint64_t seed, double low, double high) {
  if (is_integer(dtype)) low = is_signed(dtype) ? -4 : 0, high = 5; // small, so that sums stay exact
  return input(name, uniform(dtype, std::move(sizes), seed, low, high));
}

Tensor Case::input(const std::string& name, HostTensor values) {
  Shape symbolic(values.shape().begin(), values.shape().end());
  Tensor tensor = Tensor::input(name, symbolic, values.dtype());
  bytes_read += static_cast<double>(values.bytes());
  inputs.emplace(name, std::move(values));
  return tensor;
}

void Case::output(const std::string& name, const Tensor& value) {
  bytes_written += static_cast<double>(value.element_count()) * size_of(value.dtype());
  program.emplace(name, value);
}

} // namespace lathe::bench
