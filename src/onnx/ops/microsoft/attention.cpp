#include "onnx/ops/microsoft/attention.hpp"

#include <cmath>

#include "onnx/ops/values.hpp"

namespace lathe::onnx {

double attention_scale(const Call& call, int64_t head_size) {
  const double scale = call.number("scale", 0.0);
  return scale == 0.0 ? 1.0 / std::sqrt(static_cast<double>(head_size)) : scale;
}

namespace {

/// [B, N, ...] as [B, groups, N / groups, ...].
Tensor grouped(const Tensor& x, const Expr& groups) {
  Shape shape = x.shape();
  shape[1] = floordiv(shape[1], groups);
  shape.insert(shape.begin() + 1, groups);
  return x.reshape(shape);
}

/// Softmax of [B, N, S, T] with a sink's score beside each row's.
Tensor softmax_beside(const Tensor& scores, const std::optional<Tensor>& sink) {
  if (!sink) return scores.softmax(-1);
  Shape column = scores.shape();
  column.back() = 1;
  const Tensor all = concat({scores, sink->cast(scores.dtype()).expand(column)}, -1).softmax(-1);
  return all.index({Ellipsis{}, Slice{{}, -1}});
}

} // namespace

Tensor Attention::operator()(const Tensor& q, const Tensor& k, const Tensor& v) const {
  const DType dtype = is_half(q.dtype()) ? DType::F32 : q.dtype();
  const bool shares = q.size(1) != k.size(1); // several heads of queries read one of keys
  const Expr groups = k.size(1);
  Tensor queries = q.cast(dtype), keys = k.cast(dtype).transpose(), values = v.cast(dtype);
  if (shares) queries = grouped(queries, groups), keys = keys.unsqueeze(2), values = values.unsqueeze(2);
  Tensor scores = queries.matmul(keys) * scale;
  const Shape flat{q.size(0), q.size(1), q.size(2), k.size(2)};
  if (shares) scores = scores.reshape(flat);
  if (softcap > 0) scores = (scores / softcap).tanh() * softcap;
  if (added) scores = scores + *added;
  Tensor weights = softmax_beside(scores, sink);
  if (shares) weights = grouped(weights, groups);
  const Tensor result = weights.matmul(values);
  return result.reshape({q.size(0), q.size(1), q.size(2), v.size(3)}).cast(q.dtype());
}

Tensor mask_addend(const Call& call, const Tensor& mask, const Expr& batch, const Expr& keys, double filter) {
  Tensor counts; // which keys do
  const Tensor place = Tensor::iota({keys}, 0, DType::I32);
  if (mask.rank() == 3) {
    counts = (mask > 0).unsqueeze(1);
  } else if (mask.rank() == 2) {
    counts = (mask > 0).unsqueeze(1).unsqueeze(1);
  } else if (mask.rank() == 1 && mask.size(0) == batch) {
    counts = place < mask.reshape({batch, 1, 1, 1});
  } else if (mask.rank() == 1 && mask.size(0) == batch * 2) {
    const Tensor ends = slices(mask, 0, 0, batch).tensor(), begins = slices(mask, 0, batch, batch).tensor();
    counts = (place < ends.reshape({batch, 1, 1, 1})) & (place >= begins.reshape({batch, 1, 1, 1}));
  } else {
    call.fail(ErrorKind::Shape, "a mask of " + to_string(mask.shape()) + " for a batch of " +
                                    to_string(batch) + ", expected [B], [2 B], [B, T] or [B, S, T]");
  }
  return where(counts, weak(0.0, DType::F32), weak(filter, DType::F32));
}

Tensor causal_addend(const Expr& queries, const Expr& keys, const Expr& past, double filter) {
  const Tensor query = Tensor::iota({queries, 1}, 0), key = Tensor::iota({keys}, 0);
  const Tensor seen = (key <= query + Tensor::scalar(past)) | (query == Tensor::scalar(queries - 1));
  return where(seen, weak(0.0, DType::F32), weak(filter, DType::F32));
}

std::optional<Tensor> added(const std::optional<Tensor>& a, const std::optional<Tensor>& b) {
  return a && b ? std::optional(*a + *b) : a ? a : b;
}

Tensor Rotation::operator()(const Call& call, const Tensor& x, const Tensor& positions) const {
  const int64_t pairs = fixed_size(call, cosines, cosines.rank() - 1), size = fixed_size(call, x, 3);
  if (cosines.rank() != 2 || sines.rank() != 2 || 2 * pairs > size)
    call.fail(ErrorKind::Shape, "caches " + to_string(cosines.shape()) + " and " + to_string(sines.shape()) +
                                    " for heads of " + std::to_string(size) +
                                    " features, expected [positions, at most half of the features]");
  const DType dtype = is_half(x.dtype()) ? DType::F32 : x.dtype();
  const auto angles = [&](const Tensor& cache) { return cache.take(positions, 0).cast(dtype).unsqueeze(1); };
  const Tensor cosine = angles(cosines), sine = angles(sines); // [B, 1, S, pairs]
  const Tensor turned = x.index({Ellipsis{}, Slice{0, 2 * pairs}}).cast(dtype);
  Shape split = turned.shape();
  split.back() = interleaved ? pairs : 2;
  split.emplace_back(interleaved ? 2 : pairs);
  const Tensor parts = turned.reshape(split);
  const int axis = interleaved ? 4 : 3;
  const Tensor first = slice_at(parts, axis, 0), second = slice_at(parts, axis, 1);
  const Tensor both = stack({first * cosine - second * sine, first * sine + second * cosine}, axis);
  const Tensor result = both.reshape(turned.shape()).cast(x.dtype());
  if (2 * pairs == size) return result;
  return concat({result, x.index({Ellipsis{}, Slice{2 * pairs, {}}})}, -1);
}

} // namespace lathe::onnx
