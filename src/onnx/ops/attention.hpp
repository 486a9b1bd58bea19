// Attention: what the ops of ONNX's own domain and of com.microsoft share.
//
// Queries are q [B, heads, T, features], keys k [B, key heads, S, features], values v [B, key heads, S, value
// features]. Each key head serves heads / key heads query heads that follow one another. Half precision is
// computed in f32 and rounded once.
//
//   AttentionRules rules{.scale = 0.125};
//   rules.allow(visible_keys(queries, keys, offset, {}, 0)); // no key behind the query's own position
//   Tensor y = attend(call, q, k, v, rules);
#pragma once
#include "lathe/onnx/op.hpp"

namespace lathe::onnx {

/// [B, T, heads * features] as [B, heads, T, features]; Error(Shape) naming the node where that does not fit.
Tensor split_heads(const Call& call, const Tensor& x, int64_t heads);
/// [B, heads, T, features] as [B, T, heads * features].
Tensor join_heads(const Tensor& x);

/// Which keys the queries may see, [T, S]: query i stands at position offset + i and sees the keys at
/// positions from `left` before to `right` behind its own; without a number, all on that side. `offset`: an
/// integer tensor of one element; one of [B, 1, 1, 1] gives [B, 1, T, S].
Tensor visible_keys(const Expr& queries, const Expr& keys, const Tensor& offset, std::optional<int64_t> left,
                    std::optional<int64_t> right);
/// Whether a key is one of the first lengths[b] of its batch: [B, 1, 1, S].
Tensor keys_before(const Tensor& lengths, const Expr& keys);

/// How scores become weights: scaled, capped, masked, then a softmax. A query that sees no key gets zeros.
struct AttentionRules {
  std::optional<double> scale{};    // of q k^T; 1 / sqrt(features) by default
  double softcap = 0;               // c * tanh(score / c); 0: none
  std::optional<Tensor> allowed{};  // bool; broadcasts to [B, heads, T, S]
  std::optional<Tensor> bias{};     // added to the scores; broadcasts likewise
  std::optional<DType> precision{}; // the scores are rounded to before the softmax, and the weights after
  std::optional<Tensor> sink{};     // [heads]: a score that takes part in every softmax and has no value

  /// Keys that are to be seen have to be allowed by all such masks.
  void allow(const Tensor& mask);
  void add(const Tensor& summand);
};

/// The scores of each step and the result, all [B, heads, T, ...] in the dtype of the arithmetic.
struct AttentionSteps {
  Tensor scores, capped, masked, weights, result;
};
AttentionSteps attention_steps(const Call& call, const Tensor& q, const Tensor& k, const Tensor& v,
                               const AttentionRules& rules);
/// The result alone, [B, heads, T, value features] of q's dtype.
Tensor attend(const Call& call, const Tensor& q, const Tensor& k, const Tensor& v,
              const AttentionRules& rules);

/// Turns pairs of features by angles whose cosines and sines broadcast to [..., T, n]: the first 2 n features
/// of x [..., T, features], the others stay. A pair is two neighbours if interleaved, else a feature of the
/// first half and its like of the second.
Tensor rotate_features(const Call& call, const Tensor& x, const Tensor& cosines, const Tensor& sines,
                       bool interleaved);

/// `past` with elements of `update` in it along an axis. `from` [..., places, ...] says for each place the
/// element that comes to lie there; the place stays as it is where the update has no such element.
Tensor write_elements(const Tensor& past, const Tensor& update, int axis, const Tensor& from);

} // namespace lathe::onnx
