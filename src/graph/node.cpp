// Identity of nodes: structural hash and equality.
#include "graph/node.hpp"

#include <array>
#include <bit>

#include "core/hash.hpp"
#include "graph/function.hpp"
#include "graph/scan.hpp"

namespace lathe::graph {
namespace {

// By name, not by number, so that hashes survive a reordering of the op table.
uint64_t op_hash(Op op) {
  static const auto table = [] {
    std::array<uint64_t, 256> t{};
    for (int i = 0; i < op_count(); ++i) t[i] = hash_text(to_string(static_cast<Op>(i)));
    return t;
  }();
  return table[static_cast<size_t>(op)];
}

uint64_t hash_shape(uint64_t h, const Shape& shape) {
  h = mix(h, shape.size());
  for (Expr e : shape) h = mix(h, e.hash());
  return h;
}

struct AttrHash {
  uint64_t operator()(std::monostate) const { return 0; }
  uint64_t operator()(const Scalar& s) const { return mix(static_cast<uint64_t>(s.dtype()) + 1, s.bits()); }
  uint64_t operator()(Expr e) const { return mix(2, e.hash()); }
  uint64_t operator()(const InputAttr& a) const { return mix(3, a.id); }
  uint64_t operator()(const IotaAttr& a) const { return mix(4, static_cast<uint64_t>(a.axis)); }
  uint64_t operator()(const View& v) const { return mix(5, v.hash()); }
  uint64_t operator()(const ReduceAttr& a) const {
    uint64_t h = mix(6, op_hash(a.combine));
    for (int axis : a.axes) h = mix(h, static_cast<uint64_t>(axis));
    return h;
  }
  uint64_t operator()(const ScatterAttr& a) const { return mix(7, a.combine ? op_hash(*a.combine) : 0); }
  uint64_t operator()(const TransformAttr& a) const {
    uint64_t h = 8;
    for (size_t k = 0; k < a.axes.size(); ++k) {
      const SmallMatrix& m = a.matrices[k];
      h = mix(mix(h, static_cast<uint64_t>(a.axes[k])), static_cast<uint64_t>(m.columns));
      for (const double v : m.values) h = mix(h, std::bit_cast<uint64_t>(v));
    }
    return h;
  }
  uint64_t operator()(const FunctionAttr& a) const {
    return mix(mix(9, hash_text(a.rule->name)), std::bit_cast<uint64_t>(a.parameter));
  }
  uint64_t operator()(const ScanAttr& a) const {
    return mix(mix(mix(10, hash(*a.body)), a.steps.hash()), static_cast<uint64_t>(a.result));
  }
};

bool same(std::monostate, std::monostate) { return true; }
bool same(const Scalar& a, const Scalar& b) { return a == b; }
bool same(Expr a, Expr b) { return a == b; }
bool same(const InputAttr& a, const InputAttr& b) { return a.id == b.id; }
bool same(const IotaAttr& a, const IotaAttr& b) { return a.axis == b.axis; }
bool same(const View& a, const View& b) { return a == b; }
bool same(const ReduceAttr& a, const ReduceAttr& b) { return a.combine == b.combine && a.axes == b.axes; }
bool same(const ScatterAttr& a, const ScatterAttr& b) { return a.combine == b.combine; }
bool same(const TransformAttr& a, const TransformAttr& b) {
  return a.axes == b.axes && a.matrices == b.matrices;
}

bool same(const FunctionAttr& a, const FunctionAttr& b) {
  return a.rule == b.rule && std::bit_cast<uint64_t>(a.parameter) == std::bit_cast<uint64_t>(b.parameter);
}

bool same(const ScanAttr& a, const ScanAttr& b) {
  return a.result == b.result && a.steps == b.steps && (a.body == b.body || *a.body == *b.body);
}

bool equal_attr(const Attr& a, const Attr& b) {
  if (a.index() != b.index()) return false;
  return std::visit([&](const auto& x) { return same(x, std::get<std::decay_t<decltype(x)>>(b)); }, a);
}

} // namespace

size_t Node::hash_value() const {
  uint64_t h = mix(op_hash(op), static_cast<uint64_t>(dtype));
  h = hash_shape(h, shape);
  for (const NodeRef& s : sources) h = mix(h, s.hash());
  return mix(h, std::visit(AttrHash{}, attr));
}

bool Node::equal(const Node& o) const {
  return op == o.op && dtype == o.dtype && sources == o.sources && shape == o.shape &&
         equal_attr(attr, o.attr);
}

const Scalar* const_scalar(const NodeRef& node) { return std::get_if<Scalar>(&node->attr); }

uint64_t named_input_id(std::string_view name, DType dtype, const Shape& shape) {
  // The top bit keeps named inputs apart from realised ones, which are counted from 1.
  return hash_shape(mix(hash_text(name), static_cast<uint64_t>(dtype)), shape) | (uint64_t{1} << 63);
}

Declared declared_as(const NodeRef& input) {
  const auto& declared = std::get<InputAttr>(input->attr).declared;
  return declared ? *declared : Declared{input->dtype, input->shape};
}

} // namespace lathe::graph
