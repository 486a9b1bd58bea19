// Normalisations of sums, as transformers and diffusion models have them.
#include "onnx/ops/attributes.hpp"
#include "onnx/ops/broadcast.hpp"
#include "onnx/ops/microsoft/channels.hpp"
#include "onnx/ops/microsoft/refuse.hpp"
#include "onnx/ops/microsoft/requantise.hpp"
#include "onnx/ops/microsoft/tables.hpp"
#include "onnx/ops/values.hpp"

namespace lathe::onnx {
namespace {

constexpr double kLayerEpsilon = 1e-12f, kEpsilon = 1e-5f; // as float attributes hold them

std::optional<Tensor> optional_in(const Call& call, size_t input, DType dtype) {
  const std::optional<Tensor> given = call.optional_tensor(input);
  return given ? std::optional(given->cast(dtype)) : std::nullopt;
}

/// input + skip + bias, where the skip may lack the batch. The sum is an output of its own, in input's dtype.
template <class Norm> std::vector<Value> skip_norm(Call& call, size_t bias_input, Norm&& norm) {
  for (size_t output : {1, 2}) refuse_output(call, output, "one of the statistics that training saves");
  const Tensor input = call.tensor(0);
  const DType dtype = at_least_single(input.dtype());
  Tensor sum = input.cast(dtype) + call.tensor(1).cast(dtype);
  if (const std::optional<Tensor> bias = optional_in(call, bias_input, dtype)) sum = sum + *bias;
  std::vector<Value> outputs{norm(sum).cast(input.dtype()), {}, {}, sum.cast(input.dtype())};
  outputs.resize(call.output_count());
  return outputs;
}

std::vector<Value> skip_layer_normalization(Call& call) {
  const double epsilon = call.number("epsilon", kLayerEpsilon);
  return skip_norm(call, 4, [&](const Tensor& sum) {
    return sum.layer_norm(-1, call.tensor(2).cast(sum.dtype()), optional_in(call, 3, sum.dtype()), epsilon);
  });
}

std::vector<Value> skip_rms_normalization(Call& call) {
  const double epsilon = call.number("epsilon", kLayerEpsilon);
  return skip_norm(call, 3, [&](const Tensor& sum) {
    return sum.rms_norm(-1, call.tensor(2).cast(sum.dtype()), epsilon);
  });
}

/// Over the axes from `axis` on; the result has scale's dtype.
std::vector<Value> rms_normalization(Call& call) {
  const Tensor input = call.tensor(0), scale = call.tensor(1);
  const int axis = axis_attribute(call, -1, input.rank());
  const double epsilon = call.number("epsilon", kEpsilon);
  const DType stash = call.dtype("stash_type", DType::F32);
  const Tensor x = input.cast(at_least_single(input.dtype()));
  const Tensor inverse = (x.square().mean(axes_from(axis, x.rank()), true) + epsilon).rsqrt();
  std::vector<Value> outputs{(x * inverse * scale.cast(x.dtype())).cast(scale.dtype()), inverse.cast(stash)};
  outputs.resize(call.output_count());
  return outputs;
}

// ---- of groups of channels ----

/// Normalises [N, C, ...] and lays the result out as the node's.
Tensor group_norm(const Call& call, const Tensor& x, bool channels_last) {
  const int64_t activation = call.integer("activation");
  if (activation != 0 && activation != 1)
    call.fail(ErrorKind::Value,
              "activation " + std::to_string(activation) + ", expected 0 for none or 1 for SiLU");
  const Tensor normal = x.group_norm(call.integer("groups"), call.tensor(1).cast(x.dtype()),
                                     call.tensor(2).cast(x.dtype()), call.number("epsilon", kEpsilon));
  const Tensor active = activation == 1 ? normal.silu() : normal;
  return channels_last ? channels_to_back(active) : active;
}

std::vector<Value> group_normalization(Call& call) {
  const bool last = call.integer("channels_last", 1) != 0;
  return {
      in_single(image_operand(call, 0, last), [&](const Tensor& x) { return group_norm(call, x, last); })};
}

/// The skip is an image, or a number for each channel of each image of the batch.
std::vector<Value> skip_group_normalization(Call& call) {
  const bool last = call.integer("channels_last", 1) != 0;
  const Tensor input = image_operand(call, 0, last), given = call.tensor(3);
  const DType dtype = at_least_single(input.dtype());
  Tensor skip = given;
  if (given.rank() == 2) {
    Shape shape(static_cast<size_t>(input.rank()), Expr(1));
    shape[0] = given.size(0), shape[1] = given.size(1);
    skip = given.reshape(shape);
  } else if (given.rank() == input.rank()) {
    skip = last ? channels_to_front(given) : given;
  } else {
    call.fail(ErrorKind::Shape, "skip " + to_string(given.shape()) + ", expected an image or [N, C]");
  }
  Tensor sum = input.cast(dtype) + skip.cast(dtype);
  if (const std::optional<Tensor> bias = optional_in(call, 4, dtype))
    sum = sum + along_axis(*bias, 1, sum.rank());
  std::vector<Value> outputs{group_norm(call, sum, last).cast(input.dtype())};
  if (call.wants(1)) outputs.push_back((last ? channels_to_back(sum) : sum).cast(input.dtype()));
  return outputs;
}

// ---- of embeddings ----

/// Rows `ids` of an input, or all of it, in a dtype to compute in.
using Reader = Tensor (*)(const Call& call, size_t input, const std::optional<Tensor>& ids);

Tensor read_floats(const Call& call, size_t input, const std::optional<Tensor>& ids) {
  const Tensor x = call.tensor(input);
  return (ids ? x.take(*ids, 0) : x).cast(at_least_single(x.dtype()));
}

/// Each of the inputs 2 to 6 has its scale among 8 to 12 and its zero point among 13 to 17.
Tensor read_quantised(const Call& call, size_t input, const std::optional<Tensor>& ids) {
  const Tensor x = call.tensor(input);
  const Scaling by = scaling(call, input + 6, input + 11, x.dtype());
  return Quantity{ids ? x.take(*ids, 0) : x, by.scale, by.zero_point}.real();
}

/// The sum of a word's, a position's and a segment's row, normalised; `dtype`: of the outputs.
std::vector<Value> embeddings(Call& call, Reader read, const std::optional<Tensor>& position_ids,
                              DType dtype) {
  call.ignore("mask_index_type"); // of shape inference
  const double epsilon = call.number("epsilon", kLayerEpsilon);
  const Tensor words = call.tensor(0);
  if (words.rank() != 2)
    call.fail(ErrorKind::Shape, "input_ids " + to_string(words.shape()) + ", expected [batch, sequence]");
  if (call.has(1) != call.has(4))
    call.fail(ErrorKind::Value, "one of segment_ids and segment_embedding, expected both or none");
  Tensor sum =
      read(call, 2, words) + read(call, 3, position_ids ? *position_ids : Tensor::iota({words.size(1)}, 0));
  if (call.has(1)) sum = sum + read(call, 4, call.tensor(1));
  const Tensor normal = sum.layer_norm(-1, read(call, 5, {}), read(call, 6, {}), epsilon);
  const std::optional<Tensor> mask = call.optional_tensor(7);
  // How many words there are.
  const Tensor index =
      mask ? (*mask == 1).sum(1).cast(DType::I32) : Tensor::zeros({words.size(0)}, DType::I32);
  std::vector<Value> outputs{normal.cast(dtype), index, sum.cast(dtype)};
  outputs.resize(call.output_count());
  return outputs;
}

std::vector<Value> embed_layer_normalization(Call& call) {
  return embeddings(call, &read_floats, call.optional_tensor(8), call.tensor(2).dtype());
}

std::vector<Value> quantised_embed_layer_normalization(Call& call) {
  return embeddings(call, &read_quantised, {}, DType::F32);
}

const OpRow kMicrosoftNormOps[] = {
    {"SkipLayerNormalization", 1, skip_layer_normalization, kMicrosoft, 5},
    {"SkipSimplifiedLayerNormalization", 1, skip_rms_normalization, kMicrosoft, 4},
    {"SimplifiedLayerNormalization", 1, rms_normalization, kMicrosoft, 2},
    {"SimplifiedLayerNormalization", 1, rms_normalization, "", 2}, // where ONNX Runtime puts it
    {"GroupNorm", 1, group_normalization, kMicrosoft, 3},
    {"SkipGroupNorm", 1, skip_group_normalization, kMicrosoft, 5},
    {"EmbedLayerNormalization", 1, embed_layer_normalization, kMicrosoft, 9},
    {"QEmbedLayerNormalization", 1, quantised_embed_layer_normalization, kMicrosoft, 18},
};

} // namespace

OpTable microsoft_norm_ops() { return kMicrosoftNormOps; }

} // namespace lathe::onnx
