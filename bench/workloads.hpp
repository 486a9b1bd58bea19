// The workloads: what lathe-bench runs, each with its inputs, an independent reference in f64, and its cost
// at least.
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "host_tensor.hpp"
#include "lathe/block_formats.hpp"

namespace lathe::bench {

using Reference = std::map<std::string, std::vector<double>>;

/// What a workload computes with: a dtype, or f32 with constant weights in blocks of few bits.
struct Elements {
  DType dtype = DType::F32;
  std::optional<BlockFormat> blocks;

  Elements(DType d) : dtype(d) {}
  Elements(BlockFormat format) : blocks(format) {}
  const char* name() const { return blocks ? lathe::to_string(*blocks) : lathe::to_string(dtype); }
};
/// "f32", "q4_k". Error(DType) or Error(Name) for an unknown one.
Elements parse_elements(const std::string& name);

/// One workload at one shape and dtype.
struct Case {
  std::string workload;
  Sizes shape;
  DType dtype = DType::F32;
  std::optional<BlockFormat> blocks; ///< of the constant weights
  Elements elements() const { return blocks ? Elements(*blocks) : Elements(dtype); }
  /// Of the constants and second operands of products: u8 is multiplied with i8.
  DType weight_dtype() const { return dtype == DType::U8 ? DType::I8 : dtype; }
  /// What an operand of a product is cast to: sums of bytes are i32.
  Tensor term(const Tensor& operand) const { return size_of(dtype) == 1 ? operand.cast(DType::I32) : operand; }
  HostTensors inputs;              ///< by name, of fixed seeds: the program's named inputs and its constants
  std::set<std::string> constants; ///< which of the inputs the program holds, as weights
  NamedTensors program;
  double flops = 0; ///< floating-point operations, multiply and add apart; padded taps count
  double bytes_read = 0, bytes_written = 0; ///< compulsory: every input once, every output once
  double tolerance = 0;                     ///< of max_error against the reference
  std::function<Reference(const HostTensors& inputs)> reference;

  Tensor input(const std::string& name, Sizes sizes, uint64_t seed, double low = -1, double high = 1);
  Tensor input(const std::string& name, HostTensor values);
  Tensor weights(const std::string& name, Sizes sizes, uint64_t seed, bool constant);
  /// As an input, but the program holds the values, so that they can be prepared once.
  Tensor constant(const std::string& name, Sizes sizes, uint64_t seed, double low = -1, double high = 1);
  Tensor constant(const std::string& name, HostTensor values);
  /// Adds an output; counts its bytes.
  void output(const std::string& name, const Tensor& value);
};

struct Workload {
  std::string name;
  std::string group;      ///< what it is averaged with
  std::string parameters; ///< the order of the numbers in --shape: "MxNxK"
  std::string summary;
  std::vector<Sizes> shapes; ///< the first is the default; `compare all` runs them all
  size_t optional = 0;       ///< how many of the last numbers may be left out
  bool integers = false;     ///< has a meaning for i32 and i64, too
  void (*build)(Case& c);    ///< fills everything but workload, shape and dtype
  bool takes_bytes() const;  ///< has a meaning for i8 and u8, whose sums are i32
  bool takes_blocks() const; ///< has a meaning for weights in blocks
};

const std::vector<Workload>& workloads();
/// Error(Name) for an unknown name, listing the known ones.
const Workload& find_workload(const std::string& name);

/// "512x512x512" or "512,512,512". Error(Value) with what the workload expects.
Sizes parse_shape(const Workload& workload, const std::string& text);
/// Error(DType) if the workload has no meaning for the dtype.
Case make_case(const Workload& workload, const Sizes& shape, Elements elements);

// The builders, in workloads_*.cpp.
void build_elementwise(Case& c);
void build_gelu(Case& c);
void build_reduce(Case& c);
void build_column_sums(Case& c);
void build_argmax(Case& c);
void build_cumsum(Case& c);
void build_softmax(Case& c);
void build_layernorm(Case& c);
void build_transpose(Case& c);
void build_matmul(Case& c); // and batched-matmul
void build_linear(Case& c); // and batched-linear
void build_convolution(Case& c);
void build_attention(Case& c);
void build_mlp(Case& c);
void build_encoder_block(Case& c);
void build_resnet18(Case& c);
void build_digits(Case& c);

} // namespace lathe::bench
