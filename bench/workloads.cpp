#include "workloads.hpp"

#include <charconv>
#include <cmath>

namespace lathe::bench {

namespace {
const std::vector<Sizes> kProducts{{512, 512, 512},    {64, 64, 64},       {128, 128, 128}, {256, 256, 256},
                                   {1024, 1024, 1024}, {2048, 2048, 2048}, {1, 4096, 4096}, {128, 768, 768},
                                   {128, 3072, 768},   {128, 768, 3072},   {64, 1000, 512}};
const std::vector<Sizes> kConvolutions{{64, 56, 56, 64, 3, 3, 1},   {128, 28, 28, 128, 3, 3, 1},
                                       {256, 14, 14, 256, 3, 3, 1}, {512, 7, 7, 512, 3, 3, 1},
                                       {3, 224, 224, 64, 7, 7, 2},  {64, 56, 56, 256, 1, 1, 1}};
const char *const kConvolution = "CxHxWxOCxKHxKW[xSTRIDE]", *const kDepthwise = "CxHxWxKHxKW[xSTRIDE]";

/// The groups that `compare` averages.
const char *const kMemory = "memory-bound", *const kInputs = "products",
                  *const kWeights = "products, weights constant", *const kPlain = "convolutions, NCHW",
                  *const kBlocked = "convolutions, blocked", *const kPrograms = "programs";
} // namespace

const std::vector<Workload>& workloads() {
  static const std::vector<Workload> all{
      {"elementwise", kMemory, "N", "relu((a + b) * c) + d", {{16777216}}, 0, true, build_elementwise},
      {"gelu", kMemory, "N", "gelu by tanh", {{16777216}}, 0, false, build_gelu},
      {"reduce", kMemory, "N", "the sum of all", {{16777216}}, 0, true, build_reduce},
      {"softmax", kMemory, "ROWSxCOLUMNS", "softmax over each row", {{4096, 1024}}, 0, false, build_softmax},
      {"layernorm",
       kMemory,
       "ROWSxCOLUMNS",
       "layer norm over each row, with weight and bias",
       {{4096, 768}},
       0,
       false,
       build_layernorm},
      {"transpose",
       kMemory,
       "ROWSxCOLUMNS",
       "a matrix transposed into memory of its own",
       {{4096, 4096}},
       0,
       true,
       build_transpose},
      {"column-sums",
       kMemory,
       "ROWSxCOLUMNS",
       "the sum of each column",
       {{4096, 4096}},
       0,
       true,
       build_column_sums},
      {"argmax", kMemory, "ROWSxCOLUMNS", "where each row is largest", {{4096, 4096}}, 0, true, build_argmax},
      {"cumsum",
       kMemory,
       "ROWSxCOLUMNS",
       "running sums along each row",
       {{4096, 4096}},
       0,
       true,
       build_cumsum},
      {"matmul", kInputs, "MxNxK", "[M, K] times [K, N], both inputs", kProducts, 0, true, build_matmul},
      {"batched-matmul",
       kInputs,
       "BxMxNxK",
       "B products of [M, K] and [K, N], both inputs",
       {{96, 128, 128, 64}},
       0,
       true,
       build_matmul},
      {"linear", kWeights, "MxNxK", "[M, K] times a constant [K, N]", kProducts, 0, true, build_linear},
      {"batched-linear",
       kWeights,
       "BxMxNxK",
       "B products of [M, K] and a constant [K, N]",
       {{96, 128, 128, 64}},
       0,
       true,
       build_linear},
      {"conv2d", kPlain, kConvolution, "one image [C, H, W] to OC channels, padded by half the kernel",
       kConvolutions, 1, true, build_convolution},
      {"depthwise-conv2d",
       kPlain,
       kDepthwise,
       "each channel of one image by a kernel of its own",
       {{32, 112, 112, 3, 3, 1}},
       1,
       true,
       build_convolution},
      {"conv2d-blocked", kBlocked, kConvolution, "conv2d from and to [C / 16, H, W, 16], where 16 divides C",
       kConvolutions, 1, true, build_convolution},
      {"depthwise-conv2d-blocked",
       kBlocked,
       kDepthwise,
       "depthwise-conv2d from and to [C / 16, H, W, 16], where 16 divides C",
       {{32, 112, 112, 3, 3, 1}},
       1,
       true,
       build_convolution},
      {"attention",
       kPrograms,
       "HEADSxTOKENSxFEATURES",
       "softmax(q k^T / sqrt(FEATURES)) v",
       {{12, 128, 64}},
       0,
       false,
       build_attention},
      {"mlp",
       kPrograms,
       "BATCHxINxHIDDENxHIDDENxOUT",
       "three linear layers with relu between",
       {{64, 784, 512, 512, 10}},
       0,
       false,
       build_mlp},
      {"encoder-block",
       kPrograms,
       "TOKENSxFEATURESxHEADSxHIDDEN",
       "a transformer's encoder block: attention and gelu network, layer norm before each",
       {{128, 768, 12, 3072}},
       0,
       false,
       build_encoder_block},
      {"resnet18",
       kPrograms,
       "BATCHxSIZE",
       "ResNet-18 on [BATCH, 3, SIZE, SIZE], batch norms folded",
       {{1, 224}},
       0,
       false,
       build_resnet18},
      {"digits",
       kPrograms,
       "REFERENCESxQUERIES",
       "nearest neighbour on 1,797 real handwritten digits: 767 of 797 right",
       {{1000, 797}},
       0,
       false,
       build_digits},
  };
  return all;
}

bool Workload::takes_bytes() const {
  return build == build_matmul || build == build_linear || build == build_convolution;
}

bool Workload::takes_blocks() const { return name == "linear"; }

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

Elements parse_elements(const std::string& name) {
  return name.starts_with("q") ? Elements(parse_block_format(name)) : Elements(parse_dtype(name));
}

Case make_case(const Workload& workload, const Sizes& shape, Elements elements) {
  const DType dtype = elements.dtype;
  const bool exact = dtype == DType::I32 || dtype == DType::I64, bytes = dtype == DType::I8 || dtype == DType::U8;
  const bool fits = elements.blocks ? workload.takes_blocks()
                                    : is_float(dtype) || (workload.integers && exact) ||
                                          (workload.takes_bytes() && bytes);
  if (!fits)
    throw Error(ErrorKind::DType,
                workload.name + " has no meaning for --dtype " + elements.name() + ", expected f32, f64, f16" +
                    (workload.takes_bytes() ? ", bf16, i32, i64, i8 or u8"
                     : workload.integers    ? ", bf16, i32 or i64"
                                            : " or bf16") +
                    (workload.takes_blocks() ? ", or a format of blocks such as q4_k" : ""));
  Case c;
  c.workload = workload.name;
  c.shape = shape;
  c.dtype = dtype;
  c.blocks = elements.blocks;
  workload.build(c);
  return c;
}

namespace {
HostTensor drawn(DType dtype, Sizes sizes, uint64_t seed, double low, double high) {
  if (size_of(dtype) == 1) // every value
    low = is_signed(dtype) ? -128 : 0, high = low + 256;
  else if (is_integer(dtype)) // small, so that sums stay exact
    low = is_signed(dtype) ? -4 : 0, high = 5;
  return uniform(dtype, std::move(sizes), seed, low, high);
}
Shape symbolic(const HostTensor& tensor) { return Shape(tensor.shape().begin(), tensor.shape().end()); }
} // namespace

Tensor Case::input(const std::string& name, Sizes sizes, uint64_t seed, double low, double high) {
  return input(name, drawn(dtype, std::move(sizes), seed, low, high));
}

Tensor Case::weights(const std::string& name, Sizes sizes, uint64_t seed, bool constant) {
  HostTensor values = drawn(weight_dtype(), std::move(sizes), seed, -1, 1);
  return constant ? this->constant(name, std::move(values)) : input(name, std::move(values));
}

Tensor Case::constant(const std::string& name, Sizes sizes, uint64_t seed, double low, double high) {
  return constant(name, drawn(dtype, std::move(sizes), seed, low, high));
}

Tensor Case::constant(const std::string& name, HostTensor values) {
  Tensor tensor = Tensor::from_memory(values.data(), static_cast<size_t>(values.count()), values.dtype(),
                                      symbolic(values));
  bytes_read += static_cast<double>(values.bytes());
  inputs.emplace(name, std::move(values));
  constants.insert(name);
  return tensor;
}

Tensor Case::input(const std::string& name, HostTensor values) {
  Tensor tensor = Tensor::input(name, symbolic(values), values.dtype());
  bytes_read += static_cast<double>(values.bytes());
  inputs.emplace(name, std::move(values));
  return tensor;
}

void Case::output(const std::string& name, const Tensor& value) {
  bytes_written += static_cast<double>(value.element_count()) * size_of(value.dtype());
  program.emplace(name, value);
}

} // namespace lathe::bench
