// Attention over heads, as the ops of com.microsoft that contain it share it.
//
// B: batch, S: queries, T: keys, N: heads, H: features of a head.
#pragma once
#include "lathe/onnx/op.hpp"
#include "onnx/ops/attention.hpp"

namespace lathe::onnx {

struct Attention {
  double scale;                     // of the products of queries and keys
  double softcap = 0;               // 0: none; else scores are bounded to softcap * tanh(score / softcap)
  std::optional<Tensor> added = {}; // to the scores, in f32: it broadcasts to [B, N, S, T]
  /// One more score for each head, [N, 1, 1], that takes part in the softmax and has no value.
  std::optional<Tensor> sink = {};

  /// q [B, N, S, H], k [B, M, T, H], v [B, M, T, H'], where M divides N: [B, N, S, H'] in q's dtype. Half
  /// precision is computed in f32.
  Tensor operator()(const Tensor& q, const Tensor& k, const Tensor& v) const;
};

/// The attribute `scale`, 1 / sqrt(H) where it is 0 or missing.
double attention_scale(const Call& call, int64_t head_size);

/// Numbers to add to scores, 0 or `filter`. `mask` is 1 for keys that count: [B, T] or [B, S, T]; or it holds
/// the number of keys of each sequence, [B]; or ends and then beginnings, [2 B]. Error(Shape) for others.
Tensor mask_addend(const Call& call, const Tensor& mask, const Expr& batch, const Expr& keys, double filter);
/// `filter` for keys behind a query, whose place is its own plus `past`: [S, T]. The last query sees all keys
/// there are, as in ONNX Runtime.
Tensor causal_addend(const Expr& queries, const Expr& keys, const Expr& past, double filter);
/// The sum of two that may be missing.
std::optional<Tensor> added(const std::optional<Tensor>& a, const std::optional<Tensor>& b);

/// The turning of pairs of features by angles whose cosines and sines a cache holds, by position.
struct Rotation {
  Tensor cosines, sines; // [positions, features turned / 2]
  bool interleaved;      // whether a pair lies side by side, or half of the features apart

  /// x [B, N, S, H] at positions [B, S] or [1, S]. Features behind the last pair stay.
  Tensor operator()(const Call& call, const Tensor& x, const Tensor& positions) const;
};

} // namespace lathe::onnx
