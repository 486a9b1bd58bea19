// The table of derivatives. Rules that need the same values each build them: interning makes equal nodes one.
#include <algorithm>
#include <numbers>

#include "graph/function.hpp"
#include "graph/gradient.hpp"
#include "graph/tensor_impl.hpp"

namespace lathe::graph {

Tensor BackwardStep::value() const { return wrap(node); }
Tensor BackwardStep::source(size_t k) const { return wrap(node->sources[k]); }

Tensor add_at(Expr count, const Tensor& index, const Tensor& values) {
  const DType d = values.dtype(), w = wide(d); // half precision adds up in f32
  const Tensor none = Tensor::zeros({count}, w);
  return wrap(scatter(node_of(none), node_of(index), node_of(values.cast(w)), Op::Add)).cast(d);
}

Tensor share_among(const Tensor& values, const Tensor& chosen, const std::vector<int>& axes) {
  const DType w = wide(values.dtype());
  const Tensor each = (values.cast(w) / reduce_op(Op::Add, chosen.cast(w), axes)).cast(values.dtype());
  return lathe::where(chosen, each, Tensor::zeros({}, values.dtype()));
}

Tensor zero_of(const Tensor& x) { return Tensor::zeros({}, x.dtype()); }

namespace {

// ---- elementwise ----

Part neg(const BackwardStep& s, size_t) { return -s.cotangent; }
Part sqrt(const BackwardStep& s, size_t) { return times_number(s.cotangent, 0.5) / s.value(); }
Part exp2(const BackwardStep& s, size_t) { return times_number(s.cotangent * s.value(), std::numbers::ln2); }
Part log2(const BackwardStep& s, size_t) {
  return times_number(s.cotangent, std::numbers::log2e) / s.source(0);
}
Part sin(const BackwardStep& s, size_t) { return s.cotangent * s.source(0).cos(); }
Part cos(const BackwardStep& s, size_t) { return -(s.cotangent * s.source(0).sin()); }
Part cast(const BackwardStep& s, size_t) { return s.cotangent.cast(s.node->sources[0]->dtype); }
Part same(const BackwardStep& s, size_t) { return s.cotangent; }
Part mul(const BackwardStep& s, size_t k) { return s.cotangent * s.source(1 - k); }
Part div(const BackwardStep& s, size_t k) {
  const Tensor part = s.cotangent / s.source(1);
  return k == 0 ? part : -(part * s.value());
}

Part max(const BackwardStep& s, size_t k) {
  const Tensor mine = s.source(k), other = s.source(1 - k);
  const Tensor less = lathe::where(mine < other, zero_of(s.cotangent), times_number(s.cotangent, 0.5));
  return lathe::where(other < mine, s.cotangent, less);
}

Part where(const BackwardStep& s, size_t k) {
  const Tensor zero = zero_of(s.cotangent);
  return k == 1 ? lathe::where(s.source(0), s.cotangent, zero) : lathe::where(s.source(0), zero, s.cotangent);
}

// ---- reductions ----

/// For each element, the product of all elements before it along the axis. Each step doubles their number.
Tensor product_before(const Tensor& x, int axis) {
  Tensor product = shifted(Op::Mul, x, axis, 1);
  for (int64_t done = 1; done < x.shape()[axis].hi() - 1; done *= 2)
    product = product * shifted(Op::Mul, product, axis, done);
  return product;
}

/// For each element, the product of all others along the axis. It does not divide, so that first and second
/// derivatives are right at zeros.
Tensor product_of_others(const Tensor& x, int axis) {
  return product_before(x, axis) * product_before(x.flip({axis}), axis).flip({axis});
}

Tensor product_part(const Tensor& cotangent, const Tensor& x, const std::vector<int>& axes) {
  std::vector<Tensor> stages{x}; // stages[k] is x reduced along the first k axes
  for (const int axis : axes) stages.push_back(reduce_op(Op::Mul, stages.back(), {axis}));
  Tensor part = cotangent;
  for (size_t k = axes.size(); k-- > 0;) part = part * product_of_others(stages[k], axes[k]);
  return part;
}

Part reduce(const BackwardStep& s, size_t) {
  const auto& attr = std::get<ReduceAttr>(s.node->attr);
  const Tensor x = s.source(0);
  switch (attr.combine) {
  case Op::Add: return broadcast_to(s.cotangent, x.shape());
  case Op::Mul: return product_part(s.cotangent, x, attr.axes);
  case Op::Max: return share_among(s.cotangent, x == s.value(), attr.axes);
  default: throw InternalError("gradients: Or and And combine no floats");
  }
}

Part transform(const BackwardStep& s, size_t) {
  TransformAttr turned = std::get<TransformAttr>(s.node->attr);
  for (SmallMatrix& m : turned.matrices) {
    SmallMatrix t{m.columns, m.rows, {}};
    for (int r = 0; r < t.rows; ++r)
      for (int c = 0; c < t.columns; ++c) t.values.push_back(m.values[c * m.columns + r]);
    m = std::move(t);
  }
  return wrap(graph::transform(node_of(s.cotangent), std::move(turned)));
}

// ---- memory ----

Part view(const BackwardStep& s, size_t) {
  return view_adjoint(std::get<View>(s.node->attr), s.node->sources[0]->shape, s.cotangent);
}

Tensor at(const Tensor& values, const Tensor& index) {
  return wrap(graph::gather(node_of(values), node_of(index)));
}
Tensor put(const Tensor& base, const Tensor& index, const Tensor& values, std::optional<Op> combine) {
  return wrap(graph::scatter(node_of(base), node_of(index), node_of(values), combine));
}

Part gather(const BackwardStep& s, size_t) {
  return add_at(s.node->sources[0]->shape[0], s.source(1), s.cotangent);
}

/// The rule of a Scatter that overwrites. Only the last write to a place gets the cotangent of that place.
Part overwrite_part(const BackwardStep& s, size_t k) {
  const Tensor index = s.source(1), &dy = s.cotangent;
  if (k == 0) return put(dy, index, Tensor::zeros(index.shape(), dy.dtype()), std::nullopt);
  const Tensor flat = index_along(0, {num_elements(index.shape())});
  const Tensor order = view_op(flat, View::contiguous(index.shape()));
  const Tensor last = put(Tensor::zeros(dy.shape(), DType::I64), index, order, std::nullopt);
  return lathe::where(at(last, index) == order, at(dy, index), zero_of(dy));
}

/// The rule of a Scatter by Max. All operands equal to the largest share the cotangent evenly.
Part largest_part(const BackwardStep& s, size_t k) {
  const Tensor base = s.source(0), index = s.source(1), y = s.value(), &dy = s.cotangent;
  const DType w = wide(dy.dtype());
  const Tensor base_is = base == y, source_is = s.source(2) == at(y, index);
  const Tensor count = put(base_is.cast(w), index, source_is.cast(w), Op::Add);
  const Tensor each = (dy.cast(w) / count).cast(dy.dtype());
  return k == 0 ? lathe::where(base_is, each, zero_of(dy))
                : lathe::where(source_is, at(each, index), zero_of(dy));
}

/// The rule of a Scatter by Mul: the product of the other factors. It is 0 if another factor is 0. Else it is
/// the product of all factors that are not 0, divided by this one unless this one is 0.
Part factor_part(const BackwardStep& s, size_t k) {
  const Tensor base = s.source(0), index = s.source(1), factors = s.source(2), &dy = s.cotangent;
  const Tensor one = Tensor::ones({}, dy.dtype()), zero = zero_of(dy);
  const auto is_zero = [&](const Tensor& x) { return x == zero; };
  const auto without_zeros = [&](const Tensor& x) { return lathe::where(is_zero(x), one, x); };
  const Tensor product = put(without_zeros(base), index, without_zeros(factors), Op::Mul);
  const Tensor zeros = put(is_zero(base).cast(DType::I32), index, is_zero(factors).cast(DType::I32), Op::Add);
  const auto part = [&](const Tensor& x, const Tensor& all, const Tensor& count, const Tensor& d) {
    const Tensor alone = count == is_zero(x).cast(DType::I32);
    return lathe::where(alone, d * all / without_zeros(x), zero);
  };
  return k == 0 ? part(base, product, zeros, dy)
                : part(factors, at(product, index), at(zeros, index), at(dy, index));
}

Part scatter(const BackwardStep& s, size_t k) {
  const auto combine = std::get<ScatterAttr>(s.node->attr).combine;
  if (!combine) return overwrite_part(s, k);
  switch (*combine) {
  case Op::Add: return k == 0 ? s.cotangent : at(s.cotangent, s.source(1));
  case Op::Max: return largest_part(s, k);
  case Op::Mul: return factor_part(s, k);
  default: throw InternalError("gradients: Or and And combine no floats");
  }
}

constexpr GradientRule kGradientRules[] = {
    {Op::Const, nullptr},
    {Op::Input, nullptr},
    {Op::Iota, nullptr},
    {Op::Neg, &neg},
    {Op::Div, &div},
    {Op::Sqrt, &sqrt},
    {Op::Exp2, &exp2},
    {Op::Log2, &log2},
    {Op::Sin, &sin},
    {Op::Cos, &cos},
    {Op::Function, &function_part},
    {Op::Trunc, nullptr},
    {Op::Cast, &cast},
    {Op::Bitcast, nullptr},
    {Op::Add, &same},
    {Op::Mul, &mul},
    {Op::Max, &max},
    {Op::IDiv, nullptr},
    {Op::Mod, nullptr},
    {Op::CmpLt, nullptr},
    {Op::CmpNe, nullptr},
    {Op::And, nullptr},
    {Op::Or, nullptr},
    {Op::Xor, nullptr},
    {Op::Shl, nullptr},
    {Op::Shr, nullptr},
    {Op::Where, &where},
    {Op::Reduce, &reduce},
    {Op::View, &view},
    {Op::Transform, &transform},
    {Op::Gather, &gather},
    {Op::Scatter, &scatter},
    {Op::Contiguous, &same},
};

} // namespace

std::span<const GradientRule> gradient_rules() { return kGradientRules; }

} // namespace lathe::graph
