// The workloads: what lathe-bench runs, each with its inputs, an independent reference in f64, and its cost
// at least.
#pragma once
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "host_tensor.hpp"

namespace lathe::bench {

using Reference = std::map<std::string, std::vector<double>>;

/// One workload at one shape and dtype.
struct Case {
  std::string workload;
  Sizes shape;
  DType dtype = DType::F32;
  HostTensors inputs;   ///< fixed seeds
  NamedTensors program; ///< its named inputs are those of `inputs`
  double flops = 0;     ///< floating-point operations, multiply and add apart; padded taps count
  double bytes_read = 0, bytes_written = 0; ///< compulsory: every input once, every output once
  double tolerance = 0;                     ///< of max_error against the reference
  std::function<Reference(const HostTensors& inputs)> reference;

  Tensor input(const std::string& name, Sizes sizes, uint64_t seed, double low = -1, double high = 1);
  Tensor input(const std::string& name, HostTensor values);
  /// Adds an output; counts its bytes.
  void output(const std::string& name, const Tensor& value);
};

struct Workload {
  std::string name;
  std::string parameters; ///< the order of the numbers in --shape: "MxNxK"
  std::string summary;
  std::vector<Sizes> shapes; ///< the first is the default; `compare all` runs them all
  size_t optional = 0;       ///< how many of the last numbers may be left out
  bool integers = false;     ///< has a meaning for integer dtypes too
  void (*build)(Case& c);    ///< fills everything but workload, shape and dtype
};

const std::vector<Workload>& workloads();
/// Error(Name) for an unknown name, listing the known ones.
const Workload& find_workload(const std::string& name);

/// "512x512x512" or "512,512,512". Error(Value) with what the workload expects.
Sizes parse_shape(const Workload& workload, const std::string& text);
/// Error(DType) if the workload has no meaning for the dtype.
Case make_case(const Workload& workload, const Sizes& shape, DType dtype);

// The builders, in workloads_*.cpp.
void build_elementwise(Case& c);
void build_reduce(Case& c);
void build_softmax(Case& c);
void build_layernorm(Case& c);
void build_transpose(Case& c);
void build_matmul(Case& c);
void build_batched_matmul(Case& c);
void build_conv2d(Case& c);
void build_depthwise_conv2d(Case& c);
void build_attention(Case& c);
void build_mlp(Case& c);
void build_encoder_block(Case& c);
void build_digits(Case& c);

/// Height and width of a convolution's output, with padding of half the kernel.
struct ConvGeometry {
  int64_t channels, height, width, out_channels, kernel_h, kernel_w, stride, pad_h, pad_w, out_h, out_w;
};
ConvGeometry conv2d_geometry(const Sizes& shape);
ConvGeometry depthwise_geometry(const Sizes& shape);

} // namespace lathe::bench
