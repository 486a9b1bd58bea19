#include "onnx/ops/attention.hpp"

#include <cmath>
#include <limits>

#include "onnx/ops/broadcast.hpp"

namespace lathe::onnx {
namespace {

/// How many query heads share a key head.
int64_t heads_per_key_head(const Call& call, const Tensor& q, const Tensor& k, const Tensor& v) {
  const bool ranks = q.rank() == 4 && k.rank() == 4 && v.rank() == 4;
  if (!ranks || k.size(1) != v.size(1) || k.size(2) != v.size(2) || q.size(3) != k.size(3))
    call.fail(ErrorKind::Shape,
              "query " + to_string(q.shape()) + ", key " + to_string(k.shape()) + ", value " +
                  to_string(v.shape()) +
                  ", expected [B, heads, T, E], [B, key heads, S, E], [B, key heads, S, F]");
  if (!q.size(1).is_const() || !k.size(1).is_const() || q.size(1).value() % k.size(1).value() != 0)
    call.fail(ErrorKind::Shape, to_string(q.size(1)) + " heads and " + to_string(k.size(1)) +
                                    " key heads, expected fixed numbers, the first a multiple of the second");
  return q.size(1).value() / k.size(1).value();
}

/// [B, heads, ...] as [B, key heads, shared, ...] and back.
Tensor grouped(const Tensor& x, int64_t shared) {
  Shape shape = x.shape();
  shape[1] = floordiv(shape[1], shared);
  shape.insert(shape.begin() + 2, Expr(shared));
  return x.reshape(shape);
}
Tensor ungrouped(const Tensor& x) { return x.flatten(1, 2); }

/// A mask of scores, with 4 axes, of which one that lies along heads is grouped as they are.
Tensor grouped_mask(const Call& call, Tensor mask, const Shape& scores, int64_t shared) {
  while (mask.rank() < 4) mask = mask.unsqueeze(0);
  for (int axis = 0; axis < mask.rank(); ++axis)
    if (mask.rank() > 4 ||
        (!mask.size(axis).is_const(1) && mask.size(axis) != scores[static_cast<size_t>(axis)]))
      call.fail(ErrorKind::Shape, "a mask of " + to_string(mask.shape()) + " for scores of " +
                                      to_string(scores) + ", expected one that broadcasts to them");
  return mask.size(1).is_const(1) ? mask.unsqueeze(2) : grouped(mask, shared);
}

/// [B, heads, T, S].
Shape score_shape(const Tensor& q, const Tensor& k) { return {q.size(0), q.size(1), q.size(2), k.size(2)}; }

double default_scale(const Call& call, const Tensor& q) {
  if (!q.size(3).is_const())
    call.fail(ErrorKind::Shape, "query " + to_string(q.shape()) + ", expected a fixed number of features");
  return 1 / std::sqrt(static_cast<double>(q.size(3).value()));
}

constexpr double kNever = -std::numeric_limits<double>::infinity();

/// One mask that says what both do: of bools, or of numbers to add.
std::optional<Tensor> joint_mask(const AttentionRules& rules, DType dtype) {
  if (!rules.bias) return rules.allowed;
  const Tensor bias = rules.bias->cast(dtype);
  return rules.allowed ? where(*rules.allowed, bias, weak(kNever, dtype)) : bias;
}

/// Softmax along the last axis; a row of nothing but -infinity gives zeros.
Tensor softmax_or_zeros(const Tensor& scores) {
  const Tensor zero = weak(0.0, scores.dtype()), sees_none = scores.max(-1, true) == kNever;
  return where(sees_none, zero, where(sees_none, zero, scores).softmax(-1));
}

/// The weights of scores [B, key heads, shared, T, S], with the sink's score beside those of each row.
Tensor weights_of(const Tensor& scores, const std::optional<Tensor>& sink) {
  if (!sink) return softmax_or_zeros(scores);
  Shape column = scores.shape();
  column.back() = 1;
  const Tensor beside = sink->cast(scores.dtype()).reshape({column[1], column[2], 1, 1}).expand(column);
  return softmax_or_zeros(concat({scores, beside}, -1)).index({Ellipsis{}, Slice{{}, -1}});
}

} // namespace

Tensor split_heads(const Call& call, const Tensor& x, int64_t heads) {
  if (x.rank() != 3 || heads < 1 || !mod(x.size(2), heads).is_const(0))
    call.fail(ErrorKind::Shape, "input " + to_string(x.shape()) + " of " + std::to_string(heads) +
                                    " heads, expected [B, T, a multiple of the heads]");
  return x.reshape({x.size(0), x.size(1), heads, floordiv(x.size(2), heads)}).permute({0, 2, 1, 3});
}

Tensor join_heads(const Tensor& x) { return x.permute({0, 2, 1, 3}).flatten(2, 3); }

Tensor visible_keys(const Expr& queries, const Expr& keys, const Tensor& offset, std::optional<int64_t> left,
                    std::optional<int64_t> right) {
  const Tensor at = Tensor::iota({queries, 1}, 0) + offset.cast(DType::I64);
  const Tensor key = Tensor::iota({1, keys}, 1);
  Tensor visible = Tensor::full({1, 1}, true);
  if (left) visible = visible & (key >= at - *left);
  if (right) visible = visible & (key <= at + *right);
  return visible;
}

Tensor keys_before(const Tensor& lengths, const Expr& keys) {
  return Tensor::iota({1, 1, 1, keys}, 3) < lengths.cast(DType::I64).reshape({-1, 1, 1, 1});
}

void AttentionRules::allow(const Tensor& mask) { allowed = allowed ? logical_and(*allowed, mask) : mask; }
void AttentionRules::add(const Tensor& summand) { bias = bias ? *bias + summand : summand; }

AttentionSteps attention_steps(const Call& call, const Tensor& q, const Tensor& k, const Tensor& v,
                               const AttentionRules& rules) {
  const int64_t shared = heads_per_key_head(call, q, k, v);
  const DType dtype = at_least_single(promote(q.dtype(), k.dtype()));
  const Tensor keys = k.cast(dtype).unsqueeze(2), values = v.cast(dtype).unsqueeze(2);
  const Shape shape = score_shape(q, k);
  AttentionSteps steps;
  steps.scores = grouped(q.cast(dtype), shared).matmul(keys.transpose()) *
                 weak(rules.scale ? *rules.scale : default_scale(call, q), dtype);
  steps.capped = steps.scores;
  if (rules.softcap != 0) steps.capped = (steps.scores / rules.softcap).tanh() * rules.softcap;
  steps.masked = steps.capped;
  if (rules.bias) steps.masked = steps.masked + grouped_mask(call, rules.bias->cast(dtype), shape, shared);
  if (rules.allowed)
    steps.masked =
        where(grouped_mask(call, *rules.allowed, shape, shared), steps.masked, weak(kNever, dtype));
  const Tensor rounded = steps.masked.cast(rules.precision.value_or(dtype));
  steps.weights = in_single(rounded, [&](const Tensor& x) { return weights_of(x, rules.sink); }).cast(dtype);
  steps.result = steps.weights.matmul(values);
  for (Tensor* step : {&steps.scores, &steps.capped, &steps.masked, &steps.weights, &steps.result})
    *step = ungrouped(*step);
  return steps;
}

Tensor attend(const Call& call, const Tensor& q, const Tensor& k, const Tensor& v,
              const AttentionRules& rules) {
  const DType dtype = at_least_single(promote(q.dtype(), k.dtype()));
  if (rules.softcap != 0 || rules.sink || rules.precision.value_or(dtype) != dtype)
    return attention_steps(call, q, k, v, rules).result.cast(q.dtype());
  const int64_t shared = heads_per_key_head(call, q, k, v);
  std::optional<Tensor> mask = joint_mask(rules, dtype);
  if (mask) mask = grouped_mask(call, *mask, score_shape(q, k), shared);
  const double scale = rules.scale ? *rules.scale : default_scale(call, q);
  const Tensor y =
      scaled_dot_product_attention(grouped(q, shared), k.unsqueeze(2), v.unsqueeze(2), mask, false, scale);
  return ungrouped(y).cast(q.dtype());
}

Tensor rotate_features(const Call& call, const Tensor& x, const Tensor& cosines, const Tensor& sines,
                       bool interleaved) {
  const Expr features = x.size(-1), pairs = cosines.size(-1);
  if (sines.size(-1) != pairs || !pairs.is_const() || !features.is_const() ||
      pairs.value() * 2 > features.value())
    call.fail(ErrorKind::Shape, "cosines of " + to_string(cosines.shape()) + " and sines of " +
                                    to_string(sines.shape()) + " for features of " + to_string(x.shape()) +
                                    ", expected one for each pair of the features to turn");
  const int64_t n = pairs.value();
  return in_single(x, [&](const Tensor& all) {
    const Tensor turned = all.index({Ellipsis{}, Slice{0, 2 * n}});
    const auto part = [&](int64_t which) {
      const Slice slice = interleaved ? Slice{which, {}, 2} : Slice{which * n, (which + 1) * n};
      return turned.index({Ellipsis{}, slice});
    };
    const Tensor a = part(0), b = part(1), c = cosines.cast(all.dtype()), s = sines.cast(all.dtype());
    const Tensor real = a * c - b * s, imaginary = a * s + b * c;
    const Tensor joined =
        interleaved ? stack({real, imaginary}, -1).reshape(turned.shape()) : concat({real, imaginary}, -1);
    if (features.is_const(2 * n)) return joined;
    return concat({joined, all.index({Ellipsis{}, Slice{2 * n, {}}})}, -1);
  });
}

Tensor write_elements(const Tensor& past, const Tensor& update, int axis, const Tensor& from) {
  const Tensor zero = weak(int64_t{0}, DType::I64);
  const Tensor written = (from >= zero) & (from < Tensor::scalar(update.size(axis)));
  return where(written, update.gather(axis, where(written, from, zero).expand(past.shape())), past);
}

} // namespace lathe::onnx
