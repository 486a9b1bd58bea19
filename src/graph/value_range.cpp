#include "graph/value_range.hpp"

#include <algorithm>
#include <bit>
#include <limits>

#include "graph/rules.hpp"

namespace lathe::graph {
namespace {

constexpr int64_t kWorthAPart = 64; // terms of a partial sum; with fewer, storing it costs more than it saves
constexpr int kDeepest = 8;         // nodes from the root; those further down have the range of their dtype

using Range = std::optional<ValueRange>;

Range range_of_dtype(DType d) {
  if (d == DType::Bool) return ValueRange{0, 1};
  if (!is_integer(d) || is_narrow(d) || size_of(d) > 4) return std::nullopt;
  const int bits = bits_of(d);
  return is_unsigned(d) ? ValueRange{0, (int64_t{1} << bits) - 1}
                        : ValueRange{-(int64_t{1} << (bits - 1)), (int64_t{1} << (bits - 1)) - 1};
}

Range join(const Range& a, const Range& b) {
  if (!a || !b) return std::nullopt;
  return ValueRange{std::min(a->lo, b->lo), std::max(a->hi, b->hi)};
}

/// The range from the results at its corners; nothing if one of them does not fit int64.
template <class F> Range corners(const ValueRange& a, const ValueRange& b, F compute) {
  Range range;
  for (const int64_t x : {a.lo, a.hi})
    for (const int64_t y : {b.lo, b.hi}) {
      int64_t result = 0;
      if (compute(x, y, &result)) return std::nullopt;
      range = range ? join(range, ValueRange{result, result}) : ValueRange{result, result};
    }
  return range;
}

Range sum_of(const Range& a, const Range& b) {
  if (!a || !b) return std::nullopt;
  return corners(*a, *b,
                 [](int64_t x, int64_t y, int64_t* out) { return __builtin_add_overflow(x, y, out); });
}

Range product_of(const Range& a, const Range& b) {
  if (!a || !b) return std::nullopt;
  return corners(*a, *b,
                 [](int64_t x, int64_t y, int64_t* out) { return __builtin_mul_overflow(x, y, out); });
}

Range range_at(const NodeRef& node, int depth);

Range of_binary(const NodeRef& node, int depth) {
  const Range a = range_at(node->sources[0], depth + 1), b = range_at(node->sources[1], depth + 1);
  const bool by_constant = b && b->lo == b->hi && b->lo > 0;
  switch (node->op) {
  case Op::Add: return sum_of(a, b);
  case Op::Mul: return product_of(a, b);
  case Op::Max:
    if (!a || !b) return std::nullopt;
    return ValueRange{std::max(a->lo, b->lo), std::max(a->hi, b->hi)};
  case Op::And:
    if (b && b->lo >= 0) return ValueRange{0, a && a->lo >= 0 ? std::min(a->hi, b->hi) : b->hi};
    if (a && a->lo >= 0) return ValueRange{0, a->hi};
    return std::nullopt;
  case Op::Or:
  case Op::Xor: // no bit above the highest of either
    if (!a || !b || a->lo < 0 || b->lo < 0 || std::max(a->hi, b->hi) >= int64_t{1} << 62) return std::nullopt;
    return ValueRange{
        0, static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max(a->hi, b->hi)) + 1)) - 1};
  case Op::Shl:
    if (!a || !b || b->lo != b->hi || b->lo < 0 || b->lo > 31) return std::nullopt;
    return product_of(a, ValueRange{int64_t{1} << b->lo, int64_t{1} << b->lo});
  case Op::Shr: // of negative numbers as of others
    if (!a || !b || b->lo != b->hi || b->lo < 0 || b->lo >= bits_of(node->dtype)) return std::nullopt;
    return ValueRange{a->lo >> b->lo, a->hi >> b->lo};
  case Op::IDiv: return a && by_constant && a->lo >= 0 ? ValueRange{a->lo / b->lo, a->hi / b->lo} : Range();
  case Op::Mod: return a && by_constant && a->lo >= 0 ? ValueRange{0, std::min(a->hi, b->lo - 1)} : Range();
  default: return std::nullopt;
  }
}

Range of_sum(const NodeRef& node, const Range& term) {
  Expr terms = 1;
  for (const int axis : std::get<ReduceAttr>(node->attr).axes)
    terms = terms * node->sources[0]->shape[static_cast<size_t>(axis)];
  return product_of(term, ValueRange{0, terms.hi()});
}

/// From what the node is computed of, without a look at its dtype.
Range computed(const NodeRef& node, int depth) {
  const auto source = [&](size_t k) { return range_at(node->sources[k], depth + 1); };
  const Range zero = ValueRange{0, 0};
  switch (node->op) {
  case Op::Const: {
    const Scalar* number = const_scalar(node);
    if (!number) return std::nullopt; // made of sizes
    const int64_t value = number->as_int();
    return node->dtype == DType::U64 && value < 0 ? Range() : ValueRange{value, value};
  }
  case Op::Iota:
    return ValueRange{
        0,
        std::max<int64_t>(node->shape[static_cast<size_t>(std::get<IotaAttr>(node->attr).axis)].hi() - 1, 0)};
  case Op::View: return std::get<View>(node->attr).has_mask() ? join(source(0), zero) : source(0);
  case Op::Contiguous: return source(0);
  case Op::Gather: return join(source(0), zero); // an index out of range gives 0
  case Op::Cast: return source(0);
  case Op::Neg: return product_of(source(0), ValueRange{-1, -1});
  case Op::Where: return join(source(1), source(2));
  case Op::Reduce: {
    const Op combine = std::get<ReduceAttr>(node->attr).combine;
    if (combine == Op::Add) return of_sum(node, source(0));
    return std::nullopt;
  }
  default: return node->sources.size() == 2 ? of_binary(node, depth) : std::nullopt;
  }
}

Range range_at(const NodeRef& node, int depth) {
  const DType d = node->dtype;
  if (d != DType::Bool && (!is_integer(d) || is_narrow(d))) return std::nullopt;
  const Range by_dtype = range_of_dtype(d);
  if (depth > kDeepest) return by_dtype;
  const Range found = computed(node, depth);
  const bool wraps = found && ((by_dtype && (found->lo < by_dtype->lo || found->hi > by_dtype->hi)) ||
                               (d == DType::U64 && found->lo < 0));
  return found && !wraps ? found : by_dtype;
}

bool fits_32_bits(const Range& r) {
  return r && r->lo >= std::numeric_limits<int32_t>::min() && r->hi <= std::numeric_limits<int32_t>::max();
}

bool has_64_bits(DType d) { return d == DType::I64 || d == DType::U64; }

/// The same integers in i32, where they are a wider form of fewer bits, or constants; else null.
NodeRef in_32_bits(const NodeRef& node) {
  if (node->op == Op::View) {
    const NodeRef source = in_32_bits(node->sources[0]);
    return source ? view(source, std::get<View>(node->attr)) : NodeRef{};
  }
  if (!fits_32_bits(range_of(node))) return {};
  if (const Scalar* number = node->op == Op::Const ? const_scalar(node) : nullptr)
    return constant(Scalar::of_int(DType::I32, number->as_int()), node->shape);
  const bool widened =
      node->op == Op::Cast && !has_64_bits(node->sources[0]->dtype) && range_of(node->sources[0]);
  return widened ? cast(node->sources[0], DType::I32) : NodeRef{};
}

NodeRef truth(bool value, const NodeRef& like) {
  return constant(Scalar::of_int(DType::Bool, value), like->shape);
}

} // namespace

std::optional<ValueRange> range_of(const NodeRef& node) { return range_at(node, 0); }

NodeRef decided_by_range(const NodeRef& n) {
  if (n->op != Op::CmpLt && n->op != Op::CmpNe && n->op != Op::Max && n->op != Op::Mod) return {};
  const Range a = range_of(n->sources[0]), b = a ? range_of(n->sources[1]) : Range();
  if (!a || !b) return {};
  const bool less = b->lo > a->hi, greater = a->lo > b->hi;
  switch (n->op) {
  case Op::CmpLt: return less ? truth(true, n) : a->lo >= b->hi ? truth(false, n) : NodeRef{};
  case Op::CmpNe: return less || greater ? truth(true, n) : NodeRef{};
  case Op::Max: return a->lo >= b->hi ? n->sources[0] : a->hi <= b->lo ? n->sources[1] : NodeRef{};
  default: return a->lo >= 0 && less ? n->sources[0] : NodeRef{}; // the remainder of a smaller number
  }
}

NodeRef narrow_arithmetic(const NodeRef& n) {
  switch (n->op) {
  case Op::Add:
  case Op::Mul:
  case Op::Max:
  case Op::Neg:
  case Op::And:
  case Op::Shr:
  case Op::IDiv:
  case Op::Mod:
    if (!has_64_bits(n->dtype) || !fits_32_bits(range_of(n))) return {};
    break;
  case Op::CmpLt:
  case Op::CmpNe:
    if (!has_64_bits(n->sources[0]->dtype)) return {};
    break;
  default: return {};
  }
  std::vector<NodeRef> sources;
  for (const NodeRef& source : n->sources)
    if (!sources.emplace_back(in_32_bits(source))) return {};
  if (n->op == Op::Shr && range_of(n->sources[1])->hi > 31) return {}; // i32 has no bits there
  const DType dtype = n->dtype == DType::Bool ? DType::Bool : DType::I32;
  return cast(GraphTraits::make(n->op, dtype, std::move(sources), n), n->dtype);
}

NodeRef narrow_sum(const NodeRef& n) {
  if (n->op != Op::Reduce || (n->dtype != DType::I64 && n->dtype != DType::U64)) return {};
  const auto& attr = std::get<ReduceAttr>(n->attr);
  const NodeRef& terms = n->sources[0];
  if (attr.combine != Op::Add || attr.axes.empty() || terms->op != Op::Cast) return {};
  const NodeRef& narrow = terms->sources[0];
  if (!is_integer(narrow->dtype) || is_narrow(narrow->dtype) || size_of(narrow->dtype) > 4) return {};
  const Range range = range_of(narrow);
  const auto fits = [&](Expr count) { return fits_32_bits(product_of(range, ValueRange{0, count.hi()})); };
  // As many of the last axes as 32 bits hold.
  Expr count = 1;
  std::vector<int> outer = attr.axes, inner;
  while (!outer.empty() && fits(count * terms->shape[static_cast<size_t>(outer.back())])) {
    count = count * terms->shape[static_cast<size_t>(outer.back())];
    inner.insert(inner.begin(), outer.back());
    outer.pop_back();
  }
  if (inner.empty() || (!outer.empty() && count.lo() < kWorthAPart)) return {};
  const NodeRef sums = cast(reduce(Op::Add, cast(narrow, DType::I32), inner), n->dtype);
  return outer.empty() ? sums : reduce(Op::Add, sums, outer);
}

} // namespace lathe::graph
