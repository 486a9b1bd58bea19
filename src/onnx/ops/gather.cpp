// Gather and scatter in every form.
#include <algorithm>

#include "onnx/ops/attributes.hpp"
#include "onnx/ops/tables.hpp"
#include "onnx/ops/values.hpp"

namespace lathe::onnx {
namespace {

std::vector<Value> gather(Call& call) {
  const Value data = call.value(0), indices = call.value(1);
  const int axis = axis_attribute(call, 0, data.rank());
  const auto& known = indices.integers();
  if (indices.rank() == 0 && known && known->at(0).is_const()) // a view, not a gather
    return {slice_at(data.tensor(), axis, known->at(0).value())};
  return {data.tensor().take(indices.tensor(), axis)};
}

std::vector<Value> gather_elements(Call& call) {
  const Tensor data = call.tensor(0), indices = call.tensor(1);
  return {data.gather(axis_attribute(call, 0, data.rank()), indices)};
}

/// The axes from `first` on that an index tuple of `depth` numbers goes through, as positions in them all
/// joined into one. The tuples are the last axis of `indices`.
Tensor joined_positions(const Call& call, const Tensor& data, int first, const Tensor& indices) {
  const Expr depth = indices.size(-1);
  if (!depth.is_const() || first + depth.value() > data.rank())
    call.fail(ErrorKind::Shape, "indices " + to_string(indices.shape()) + " into " + to_string(data.shape()) +
                                    ", expected no more numbers in the last axis than there are axes");
  Tensor position = Tensor::zeros({}, DType::I64);
  for (int k = 0; k < static_cast<int>(depth.value()); ++k) {
    const Tensor size = Tensor::scalar(data.size(first + k));
    const Tensor index = slice_at(indices, indices.rank() - 1, k).cast(DType::I64);
    position = position * size + where(index < 0, index + size, index);
  }
  return position;
}

std::vector<Value> gather_nd(Call& call) {
  const Value given = call.value(0), tuples = call.value(1);
  const int batch = static_cast<int>(call.integer("batch_dims", 0));
  const Expr depth = tuples.rank() > 0 ? tuples.shape().back() : Expr(0);
  if (batch < 0 || batch >= tuples.rank() || !depth.is_const() || batch + depth.value() > given.rank())
    call.fail(ErrorKind::Shape, "indices " + to_string(tuples.shape()) + " into " + to_string(given.shape()) +
                                    " behind " + std::to_string(batch) +
                                    " batch axes, expected tuples of its other axes");
  const int last = batch + static_cast<int>(depth.value()); // of the axes that the tuples go through
  Shape result(tuples.shape().begin(), tuples.shape().end() - 1);
  result.insert(result.end(), given.shape().begin() + last, given.shape().end());
  if (has_no_elements(result)) return {Tensor::zeros(result, given.dtype())}; // the sizes below could be any
  const Tensor data = call.tensor(0), indices = call.tensor(1);
  const Expr batches = elements_between(data.shape(), 0, batch),
             inner = elements_between(data.shape(), batch, last);
  const Expr rest = elements_between(data.shape(), last, data.rank());
  Tensor position = joined_positions(call, data, batch, indices).reshape({batches, -1});
  if (batch > 0) position = position + Tensor::iota(position.shape(), 0) * Tensor::scalar(inner);
  return {data.reshape({batches * inner, rest}).take(position.reshape({-1}), 0).reshape(result)};
}

enum class Reduction { None, Add, Mul, Max, Min };

Reduction reduction_attribute(const Call& call) {
  const std::string name = call.text("reduction", "none");
  if (name == "none") return Reduction::None;
  if (name == "add") return Reduction::Add;
  if (name == "mul") return Reduction::Mul;
  if (name == "max") return Reduction::Max;
  if (name == "min") return Reduction::Min;
  call.fail(ErrorKind::Value, "reduction " + name + ", expected none, add, mul, max or min");
}

Tensor scatter_along(const Tensor& data, int axis, const Tensor& indices, const Tensor& updates,
                     Reduction reduction) {
  switch (reduction) {
  case Reduction::None: return data.scatter(axis, indices, updates);
  case Reduction::Add: return data.scatter_add(axis, indices, updates);
  case Reduction::Mul: return data.scatter_mul(axis, indices, updates);
  case Reduction::Max: return data.scatter_max(axis, indices, updates);
  case Reduction::Min: return data.scatter_min(axis, indices, updates);
  }
  throw InternalError("ScatterElements: a reduction beyond the last");
}

std::vector<Value> scatter_elements(Call& call) {
  const Tensor data = call.tensor(0);
  const int axis = axis_attribute(call, 0, data.rank());
  const Reduction reduction = reduction_attribute(call);
  return {scatter_along(data, axis, call.tensor(1), call.tensor(2), reduction)};
}

std::vector<Value> scatter_nd(Call& call) {
  const Reduction reduction = reduction_attribute(call);
  if (call.value(1).is_empty()) return {call.value(0)};
  const Tensor data = call.tensor(0), indices = call.tensor(1), updates = call.tensor(2);
  if (indices.rank() == 0)
    call.fail(ErrorKind::Shape, "indices without axes, expected tuples in the last one");
  const Tensor position = joined_positions(call, data, 0, indices);
  const int depth = static_cast<int>(indices.size(-1).value());
  const Expr places = elements_between(data.shape(), 0, depth),
             rest = elements_between(data.shape(), depth, data.rank());
  const Expr count = elements_between(indices.shape(), 0, indices.rank() - 1);
  const Tensor rows = position.reshape({count, 1}).expand({count, rest});
  return {scatter_along(data.reshape({places, rest}), 0, rows, updates.reshape({count, rest}), reduction)
              .reshape(data.shape())};
}

const OpRow kGatherOps[] = {{"Gather", 1, gather},
                            {"GatherElements", 11, gather_elements},
                            {"GatherND", 11, gather_nd},
                            {"GatherND", 1, gather_nd, "com.microsoft", 2},
                            {"Scatter", 9, scatter_elements},
                            {"ScatterElements", 11, scatter_elements},
                            {"ScatterND", 11, scatter_nd}};

} // namespace

OpTable gather_ops() { return kGatherOps; }

} // namespace lathe::onnx
