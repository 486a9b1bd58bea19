// What transformers are made of: attention, rotary embeddings, caches written in place.
#include <algorithm>

#include "onnx/ops/attention.hpp"
#include "onnx/ops/attributes.hpp"
#include "onnx/ops/tables.hpp"
#include "onnx/ops/values.hpp"

namespace lathe::onnx {
namespace {

// ---- attention ----

/// Keys or values with heads apart, behind those of the cache if there is one.
Tensor with_past(Call& call, size_t input, size_t past, bool joined) {
  Tensor x = call.tensor(input);
  if (joined) x = split_heads(call, x, call.integer("kv_num_heads"));
  if (!call.has(past)) return x;
  const Value cache = call.value(past);
  if (cache.rank() != 4 || x.rank() != 4)
    call.fail(ErrorKind::Shape, "input " + std::to_string(past) + " of " + to_string(cache.shape()) +
                                    ", expected [B, key heads, past, features]");
  return concat_values(call, {cache, x}, 2).tensor();
}

/// The mask as far as there are keys: one that is shorter hides the keys behind its end.
Tensor lengthened(const Call& call, const Tensor& mask, const Expr& keys) {
  const Expr size = mask.size(-1);
  const bool broadcasts = call.opset() < 24 && size.is_const(1);
  if (size == keys || broadcasts || !size.is_const() || !keys.is_const() || size.value() > keys.value())
    return mask;
  std::vector<std::pair<int64_t, int64_t>> amounts(mask.shape().size());
  amounts.back().second = keys.value() - size.value();
  return mask.pad(amounts, mask.dtype() == DType::Bool ? 0 : lowest(mask.dtype()));
}

/// Position of the first query among the keys.
Tensor first_position(Call& call, const Expr& queries) {
  if (call.has(4)) return known_integer(call.value(4).shape()[2]).tensor();
  if (call.has(6))
    return call.tensor(6).cast(DType::I64).reshape({-1, 1, 1, 1}) - known_integer(queries).tensor();
  return known_integer(0).tensor();
}

/// A window of opset 25: -1 is none.
std::optional<int64_t> window(const Call& call, const char* name) {
  if (call.opset() < 25) return std::nullopt;
  const int64_t size = call.integer(name, -1);
  if (size < -1)
    call.fail(ErrorKind::Value, std::string(name) + " " + std::to_string(size) + ", expected at least -1");
  return size < 0 ? std::nullopt : std::optional(size);
}

AttentionRules attention_rules(Call& call, const Expr& queries, const Expr& keys) {
  AttentionRules rules;
  if (call.has_attribute("scale")) rules.scale = call.number("scale");
  rules.softcap = call.number("softcap", 0.0);
  if (rules.softcap < 0) call.fail(ErrorKind::Value, "a softcap below 0, expected at least 0");
  if (call.integer("softmax_precision", 0) != 0) rules.precision = call.dtype("softmax_precision");
  if (rules.precision && !is_float(*rules.precision))
    call.fail(ErrorKind::DType,
              std::string("softmax_precision ") + to_string(*rules.precision) + ", expected floats");
  if (const std::optional<Tensor> mask = call.optional_tensor(3)) {
    const Tensor whole = lengthened(call, *mask, keys);
    whole.dtype() == DType::Bool ? rules.allow(whole) : rules.add(whole);
  }
  const bool causal = call.integer("is_causal", 0) != 0;
  const std::optional<int64_t> left = window(call, "left_window_size");
  std::optional<int64_t> right = window(call, "right_window_size");
  if (causal) right = std::min<int64_t>(right.value_or(0), 0);
  if (left || right) rules.allow(visible_keys(queries, keys, first_position(call, queries), left, right));
  if (const std::optional<Tensor> lengths = call.optional_tensor(6)) rules.allow(keys_before(*lengths, keys));
  return rules;
}

/// The scores that the node asks for. ONNX changed the order of cap and mask, and with it the numbers 1 and
/// 2, for opsets that were there: a mask before the cap would let masked keys through. Up to opset 24, where
/// there is no cap, 1 is as it was first, the scores with the mask, and would else be 0 over again.
Tensor scores_of_mode(const Call& call, const AttentionSteps& steps, const AttentionRules& rules) {
  switch (call.integer("qk_matmul_output_mode", 0)) {
  case 0: return steps.scores;
  case 1: return rules.softcap != 0 || call.opset() > 24 ? steps.capped : steps.masked;
  case 2: return steps.masked;
  case 3: return steps.weights;
  default:
    call.fail(ErrorKind::Value, "qk_matmul_output_mode " +
                                    std::to_string(call.integer("qk_matmul_output_mode")) +
                                    ", expected 0, 1, 2 or 3");
  }
}

std::vector<Value> attention(Call& call) {
  if (call.has(4) != call.has(5))
    call.fail(ErrorKind::Value, "past_key or past_value alone, expected both or none");
  if (call.has(4) && call.has(6))
    call.fail(ErrorKind::Value, "past_key and nonpad_kv_seqlen, expected one of them at most");
  Tensor q = call.tensor(0);
  const DType dtype = q.dtype();
  const bool joined = q.rank() == 3;
  if (joined) q = split_heads(call, q, call.integer("q_num_heads"));
  for (const char* name : {"q_num_heads", "kv_num_heads"})
    call.ignore(name); // heads that are apart are counted
  const Tensor k = with_past(call, 1, 4, joined), v = with_past(call, 2, 5, joined);
  const AttentionRules rules = attention_rules(call, q.size(2), k.size(2));
  std::vector<Value> outputs{Value(), k, v, Value()};
  Tensor y;
  if (call.wants(3)) {
    const AttentionSteps steps = attention_steps(call, q, k, v, rules);
    outputs[3] = scores_of_mode(call, steps, rules).cast(dtype);
    y = steps.result.cast(dtype);
  } else {
    call.ignore("qk_matmul_output_mode");
    y = attend(call, q, k, v, rules);
  }
  outputs[0] = joined ? join_heads(y) : y;
  outputs.resize(call.output_count());
  return outputs;
}

// ---- rotary embeddings ----

std::vector<Value> rotary_embedding(Call& call) {
  const Tensor x = call.tensor(0);
  Tensor cosines = call.tensor(1), sines = call.tensor(2);
  const std::optional<Tensor> positions = call.optional_tensor(3);
  const int64_t heads = call.integer("num_heads", 0), turned = call.integer("rotary_embedding_dim", 0);
  const bool interleaved = call.integer("interleaved", 0) != 0;
  const int expected = positions ? 2 : 3;
  if (cosines.rank() != expected || sines.rank() != expected || (x.rank() != 3 && x.rank() != 4))
    call.fail(ErrorKind::Shape,
              "input " + to_string(x.shape()) + ", cosines " + to_string(cosines.shape()) + ", sines " +
                  to_string(sines.shape()) +
                  ", expected 3 or 4 axes, and caches of 2 with position_ids, of 3 without");
  const Tensor apart = x.rank() == 3 ? split_heads(call, x, heads) : x;
  if (cosines.size(-1) * 2 != (turned != 0 ? Expr(turned) : apart.size(-1)))
    call.fail(ErrorKind::Shape, "cosines of " + to_string(cosines.shape()) + " for " +
                                    (turned != 0 ? std::to_string(turned) : to_string(apart.size(-1))) +
                                    " features, expected half as many");
  if (positions) {
    cosines = cosines.take(*positions, 0);
    sines = sines.take(*positions, 0);
  }
  const Tensor y = rotate_features(call, apart, cosines.unsqueeze(1), sines.unsqueeze(1), interleaved);
  return {x.rank() == 3 ? join_heads(y) : y};
}

// ---- caches ----

/// Each place of the cache knows which element of the update comes to lie there, if any.
std::vector<Value> tensor_scatter(Call& call) {
  const Tensor past = call.tensor(0), update = call.tensor(1);
  const int axis = axis_attribute(call, -2, past.rank());
  const std::string mode = call.text("mode", "linear");
  if (mode != "linear" && mode != "circular")
    call.fail(ErrorKind::Value, "mode " + mode + ", expected linear or circular");
  bool fits = axis > 0 && update.rank() == past.rank();
  for (int i = 0; fits && i < past.rank(); ++i)
    fits = i == axis ? proves_le(update.size(i), past.size(i)) : update.size(i) == past.size(i);
  if (!fits)
    call.fail(ErrorKind::Shape,
              "an update of " + to_string(update.shape()) + " along axis " + std::to_string(axis) + " of " +
                  to_string(past.shape()) +
                  ", expected an axis behind the first, and equal sizes but for a smaller one there");
  Shape first(past.shape().size(), Expr(1));
  first[0] = -1;
  const std::optional<Tensor> writes = call.optional_tensor(2);
  Shape places(past.shape().size(), Expr(1));
  places[static_cast<size_t>(axis)] = past.size(axis);
  Tensor element = Tensor::iota(places, axis);
  if (writes) element = element - writes->cast(DType::I64).reshape(first);
  if (mode == "circular") element = element % known_integer(past.size(axis)).tensor();
  return {write_elements(past, update, axis, element)};
}

const OpRow kTransformerOps[] = {
    {"Attention", 23, attention},
    {"RotaryEmbedding", 23, rotary_embedding},
    {"TensorScatter", 24, tensor_scatter},
};

} // namespace

OpTable transformer_ops() { return kTransformerOps; }

} // namespace lathe::onnx
