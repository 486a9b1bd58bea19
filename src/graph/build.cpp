// Builders: they infer shape and dtype, check, and give every node its canonical form.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include "graph/function.hpp"
#include "graph/narrow.hpp"
#include "graph/operations.hpp"
#include "graph/scan.hpp"
#include "graph/state_buffer.hpp"
#include "lathe/error.hpp"

namespace lathe::graph {
namespace {

NodeRef make(Op op, DType dtype, Shape shape, std::vector<NodeRef> sources, Attr attr = {}) {
  if (is_narrow(dtype))
    throw Error(ErrorKind::DType, fmt::format("{}: dtype {}, expected one that is computed with",
                                              to_string(op), to_string(dtype)));
  Node n;
  n.op = op;
  n.dtype = dtype;
  n.shape = std::move(shape);
  n.sources = std::move(sources);
  n.attr = std::move(attr);
  return intern(std::move(n));
}

void check_class(Op op, DType dtype) {
  static constexpr const char* kWanted[] = {"any dtype", "a number", "a float", "an integer",
                                            "an integer or bool"};
  const DTypeClass cls = info(op).dtypes;
  if (!accepts(cls, dtype))
    throw Error(ErrorKind::DType, fmt::format("{}: dtype {}, expected {}", to_string(op), to_string(dtype),
                                              kWanted[static_cast<int>(cls)]));
}

void check_same_shape(Op op, const NodeRef& a, const NodeRef& b) {
  if (a->shape != b->shape)
    throw Error(ErrorKind::Shape, fmt::format("{}: shapes {} and {}, expected equal ones", to_string(op),
                                              to_string(a->shape), to_string(b->shape)));
}

void check_same_dtype(Op op, const NodeRef& a, const NodeRef& b) {
  if (a->dtype != b->dtype)
    throw Error(ErrorKind::DType, fmt::format("{}: dtypes {} and {}, expected equal ones", to_string(op),
                                              to_string(a->dtype), to_string(b->dtype)));
}

// The value of an elementwise op whose sources are all numbers; else nothing.
std::optional<Scalar> fold(Op op, DType result, const std::vector<NodeRef>& sources) {
  Scalar args[3];
  for (size_t i = 0; i < sources.size(); ++i) {
    const Scalar* s = const_scalar(sources[i]);
    if (!s) return std::nullopt;
    args[i] = *s;
  }
  return element_of(op, result, std::span<const Scalar>(args, sources.size()));
}

NodeRef elementwise(Op op, DType result, std::vector<NodeRef> sources) {
  Shape shape = sources.back()->shape;
  if (auto value = fold(op, result, sources)) return constant(*value, std::move(shape));
  return make(op, result, std::move(shape), std::move(sources));
}

constexpr int kMostRows = 16; // rows of a Transform's matrix; one straight-line body computes its results

bool is_identifier(std::string_view s) {
  if (s.empty() || (s[0] >= '0' && s[0] <= '9')) return false;
  return std::all_of(s.begin(), s.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  });
}

/// A view that reads no element: no step of it depends on how the view was made.
NodeRef view_of_nothing(NodeRef a, const Shape& shape) {
  if (shape == a->shape) return a;
  std::vector<Interval> none(shape.size(), Interval{0, 0});
  View v(shape, std::vector<Expr>(shape.size(), Expr(0)), 0, std::move(none));
  const DType dtype = a->dtype;
  return make(Op::View, dtype, shape, {std::move(a)}, std::move(v));
}

} // namespace

bool has_no_elements(const Shape& shape) {
  return std::any_of(shape.begin(), shape.end(), [](Expr size) { return size.is_const(0); });
}

void check_shape(std::string_view op, const Shape& shape, DType dtype) {
  constexpr int64_t kLimit = int64_t{1} << 60;
  int64_t bytes = size_of(dtype);
  for (Expr e : shape)
    if (e.lo() < 0)
      throw Error(ErrorKind::Shape,
                  fmt::format("{}: shape {}, expected no negative size", op, to_string(shape)));
  for (Expr e : shape)
    if (__builtin_mul_overflow(bytes, e.hi(), &bytes) || bytes > kLimit)
      throw Error(ErrorKind::Limit,
                  fmt::format("{}: shape {} of {} is too large, expected at most 2^60 bytes", op,
                              to_string(shape), to_string(dtype)));
}

NodeRef constant(Scalar value, Shape shape) {
  check_shape("Const", shape, value.dtype());
  return make(Op::Const, value.dtype(), std::move(shape), {}, value);
}

NodeRef constant(Expr value, DType dtype, Shape shape) {
  if (value.is_const()) return constant(Scalar::of_int(dtype, value.value()), std::move(shape));
  check_shape("Const", shape, dtype);
  return make(Op::Const, dtype, std::move(shape), {}, value);
}

namespace {

/// Of a narrow dtype the node is of the bytes, and `attr` gets what they stand for. `op` begins the errors.
NodeRef named(std::string_view op, DType dtype, const Shape& shape, InputAttr attr) {
  if (!is_identifier(attr.name))
    throw Error(ErrorKind::Name,
                fmt::format("{}: name '{}', expected an identifier of letters, digits and _", op, attr.name));
  check_shape(op, shape, dtype);
  if (!is_narrow(dtype)) return make(Op::Input, dtype, shape, {}, std::move(attr));
  attr.declared = std::make_shared<const Declared>(Declared{dtype, shape});
  return make(Op::Input, DType::U8, packed_shape(dtype, shape), {}, std::move(attr));
}

} // namespace

uint64_t fresh_input_id() {
  static std::atomic<uint64_t> next{1};
  return next.fetch_add(1);
}

NodeRef input(std::string name, DType dtype, Shape shape) {
  const uint64_t id = named_input_id(name, dtype, shape);
  return named("Input", dtype, shape, {id, std::move(name), nullptr});
}

NodeRef state_input(const std::shared_ptr<StateBuffer>& state) {
  return named("State", state->dtype, state->shape, {state->id, state->name, nullptr, {}, state});
}

NodeRef placeholder(DType dtype, const Shape& shape) {
  check_shape("Input", shape, dtype);
  return make(Op::Input, dtype, shape, {}, InputAttr{fresh_input_id(), "placeholder", nullptr});
}

NodeRef realised(StorageRef data, DType dtype, Shape shape) {
  if (!data) throw InternalError("realised: no storage");
  if (!is_static(shape)) throw InternalError("realised: symbolic shape " + to_string(shape));
  check_shape("Input", shape, dtype);
  if (data->bytes() < static_cast<size_t>(num_elements(shape).value()) * size_of(dtype))
    throw InternalError("realised: storage smaller than its shape " + to_string(shape));
  return make(Op::Input, dtype, std::move(shape), {}, InputAttr{fresh_input_id(), "", std::move(data)});
}

NodeRef iota(int axis, DType dtype, Shape shape) {
  check_class(Op::Iota, dtype);
  if (axis < 0 || axis >= static_cast<int>(shape.size()))
    throw Error(ErrorKind::Axis, fmt::format("Iota: axis {} of shape {}, expected one in [0, {})", axis,
                                             to_string(shape), shape.size()));
  check_shape("Iota", shape, dtype);
  if (shape[axis].is_const(1)) return constant(Scalar::zero(dtype), std::move(shape));
  return make(Op::Iota, dtype, std::move(shape), {}, IotaAttr{axis});
}

NodeRef unary(Op op, NodeRef a) {
  if (info(op).kind != OpKind::Unary || op == Op::Cast || op == Op::Bitcast)
    throw InternalError(fmt::format("unary: {} is not a unary op", to_string(op)));
  check_class(op, a->dtype);
  const DType result = result_dtype(op, a->dtype);
  return elementwise(op, result, {std::move(a)});
}

NodeRef cast(NodeRef a, DType to) {
  if (a->dtype == to) return a;
  return elementwise(Op::Cast, to, {std::move(a)});
}

NodeRef bitcast(NodeRef a, DType to) {
  if (a->dtype == to) return a;
  if (size_of(a->dtype) != size_of(to) || to == DType::Bool || a->dtype == DType::Bool)
    throw Error(ErrorKind::DType,
                fmt::format("Bitcast: {} to {}, expected dtypes of the same width other than bool",
                            to_string(a->dtype), to_string(to)));
  return elementwise(Op::Bitcast, to, {std::move(a)});
}

NodeRef binary(Op op, NodeRef a, NodeRef b) {
  if (info(op).kind != OpKind::Binary)
    throw InternalError(fmt::format("binary: {} is not a binary op", to_string(op)));
  check_same_dtype(op, a, b);
  check_class(op, a->dtype);
  check_same_shape(op, a, b);
  const DType result = result_dtype(op, a->dtype);
  return elementwise(op, result, {std::move(a), std::move(b)});
}

NodeRef where(NodeRef condition, NodeRef a, NodeRef b) {
  if (condition->dtype != DType::Bool)
    throw Error(ErrorKind::DType,
                fmt::format("Where: condition of dtype {}, expected bool", to_string(condition->dtype)));
  check_same_dtype(Op::Where, a, b);
  check_same_shape(Op::Where, a, b);
  check_same_shape(Op::Where, condition, a);
  const DType result = a->dtype;
  return elementwise(Op::Where, result, {std::move(condition), std::move(a), std::move(b)});
}

NodeRef reduce(Op combine, NodeRef a, std::vector<int> axes) {
  const bool bits = combine == Op::Or || combine == Op::And;
  if (!bits && combine != Op::Add && combine != Op::Mul && combine != Op::Max)
    throw InternalError(fmt::format("reduce: {} does not combine", to_string(combine)));
  check_class(combine, a->dtype);
  std::sort(axes.begin(), axes.end());
  const int rank = static_cast<int>(a->shape.size());
  for (size_t i = 0; i < axes.size(); ++i)
    if (axes[i] < 0 || axes[i] >= rank || (i > 0 && axes[i] == axes[i - 1]))
      throw Error(ErrorKind::Axis,
                  fmt::format("Reduce: axes [{}] of shape {}, expected distinct ones in [0, {})",
                              fmt::join(axes, ", "), to_string(a->shape), rank));
  // An axis of size 1 has nothing to combine.
  std::erase_if(axes, [&](int axis) { return a->shape[axis].is_const(1); });
  if (axes.empty()) return a;
  Shape shape = a->shape;
  for (int axis : axes) shape[axis] = 1;
  const DType dtype = a->dtype;
  return make(Op::Reduce, dtype, std::move(shape), {std::move(a)}, ReduceAttr{combine, std::move(axes)});
}

NodeRef transform(NodeRef a, TransformAttr attr) {
  check_class(Op::Transform, a->dtype);
  Shape shape = a->shape;
  if (attr.axes.size() != attr.matrices.size() || !std::is_sorted(attr.axes.begin(), attr.axes.end()))
    throw InternalError("transform: one matrix per axis, axes ascending");
  for (size_t k = 0; k < attr.axes.size(); ++k) {
    const SmallMatrix& m = attr.matrices[k];
    const int axis = attr.axes[k];
    if (axis < 0 || axis >= static_cast<int>(shape.size()) || (k > 0 && axis == attr.axes[k - 1]))
      throw Error(ErrorKind::Axis,
                  fmt::format("Transform: axis {} of shape {}, expected distinct ones in [0, {})", axis,
                              to_string(shape), shape.size()));
    if (m.rows < 1 || m.rows > kMostRows || !shape[axis].is_const(m.columns) ||
        m.values.size() != static_cast<size_t>(m.rows) * static_cast<size_t>(m.columns))
      throw Error(
          ErrorKind::Shape,
          fmt::format("Transform: a matrix of {} x {} along axis {} of {}, expected 1 to {} rows and as many "
                      "columns as the axis has elements",
                      m.rows, m.columns, axis, to_string(shape), kMostRows));
    shape[axis] = m.rows;
  }
  const DType dtype = a->dtype;
  check_shape("Transform", shape, dtype);
  return make(Op::Transform, dtype, std::move(shape), {std::move(a)}, std::move(attr));
}

NodeRef view(NodeRef a, const View& v) {
  check_shape("View", v.shape(), a->dtype);
  if (has_no_elements(v.shape()) || has_no_elements(a->shape))
    return view_of_nothing(std::move(a), v.shape());
  if (v.is_contiguous() && v.shape() == a->shape) return a;
  if (a->op == Op::Const) {
    const Scalar* s = const_scalar(a);
    if (s && (!v.has_mask() || *s == Scalar::zero(s->dtype()))) return constant(*s, v.shape());
    if (!s && !v.has_mask()) return constant(std::get<Expr>(a->attr), a->dtype, v.shape());
  }
  if (a->op == Op::View) {
    if (auto both = compose(std::get<View>(a->attr), v)) return view(a->sources[0], *both);
  }
  const DType dtype = a->dtype;
  return make(Op::View, dtype, v.shape(), {std::move(a)}, v);
}

Scalar element_of(Op op, DType result, std::span<const Scalar> sources) {
  if (op == Op::Cast) return sources[0].cast(result);
  if (op != Op::Bitcast) return evaluate(op, result, sources);
  unsigned char bytes[8] = {};
  sources[0].to_memory(bytes);
  return Scalar::from_memory(result, bytes);
}

NodeRef gather(NodeRef source, NodeRef index) {
  if (source->shape.size() != 1)
    throw Error(ErrorKind::Shape,
                fmt::format("Gather: source of shape {}, expected one axis", to_string(source->shape)));
  if (!is_integer(index->dtype))
    throw Error(ErrorKind::DType,
                fmt::format("Gather: index of dtype {}, expected an integer", to_string(index->dtype)));
  check_shape("Gather", index->shape, source->dtype);
  const DType dtype = source->dtype;
  Shape shape = index->shape;
  return make(Op::Gather, dtype, std::move(shape), {std::move(source), std::move(index)});
}

NodeRef scatter(NodeRef base, NodeRef index, NodeRef source, std::optional<Op> combine) {
  if (base->shape.size() != 1)
    throw Error(ErrorKind::Shape,
                fmt::format("Scatter: base of shape {}, expected one axis", to_string(base->shape)));
  if (!is_integer(index->dtype))
    throw Error(ErrorKind::DType,
                fmt::format("Scatter: index of dtype {}, expected an integer", to_string(index->dtype)));
  check_same_dtype(Op::Scatter, base, source);
  check_same_shape(Op::Scatter, index, source);
  if (combine) check_class(*combine, base->dtype);
  const DType dtype = base->dtype;
  Shape shape = base->shape;
  return make(Op::Scatter, dtype, std::move(shape), {std::move(base), std::move(index), std::move(source)},
              ScatterAttr{combine});
}

NodeRef contiguous(NodeRef a) {
  if (a->op == Op::Contiguous) return a;
  const DType dtype = a->dtype;
  Shape shape = a->shape;
  return make(Op::Contiguous, dtype, std::move(shape), {std::move(a)});
}

NodeRef function(std::vector<NodeRef> sources, FunctionAttr attr) {
  const NodeRef value = sources.at(0);
  if (value->op == Op::Const) return value;
  check_class(Op::Function, value->dtype);
  if (sources.size() != attr.rule->arguments + 1)
    throw InternalError(
        fmt::format("Function: {} takes {} arguments", attr.rule->name, attr.rule->arguments));
  for (const NodeRef& s : sources) check_same_dtype(Op::Function, value, s);
  return make(Op::Function, value->dtype, value->shape, std::move(sources), attr);
}

NodeRef scan_result(std::vector<NodeRef> sources, ScanAttr attr) {
  check_scan(sources, attr);
  const NodeRef& result = attr.body->results[static_cast<size_t>(attr.result)];
  Shape shape = result->shape;
  if (!attr.body->is_state(static_cast<size_t>(attr.result))) shape.insert(shape.begin(), attr.steps);
  check_shape("Scan", shape, result->dtype);
  const DType dtype = result->dtype;
  return make(Op::Scan, dtype, std::move(shape), std::move(sources), std::move(attr));
}

NodeRef with_sources(const NodeRef& node, std::vector<NodeRef> s) {
  if (s == node->sources) return node;
  switch (node->op) {
  case Op::Const:
  case Op::Input:
  case Op::Iota: return node;
  case Op::Cast: return cast(std::move(s[0]), node->dtype);
  case Op::Bitcast: return bitcast(std::move(s[0]), node->dtype);
  case Op::Where: return where(std::move(s[0]), std::move(s[1]), std::move(s[2]));
  case Op::Reduce: {
    const auto& a = std::get<ReduceAttr>(node->attr);
    return reduce(a.combine, std::move(s[0]), a.axes);
  }
  case Op::Transform: return transform(std::move(s[0]), std::get<TransformAttr>(node->attr));
  case Op::View: return view(std::move(s[0]), std::get<View>(node->attr));
  case Op::Gather: return gather(std::move(s[0]), std::move(s[1]));
  case Op::Scatter:
    return scatter(std::move(s[0]), std::move(s[1]), std::move(s[2]),
                   std::get<ScatterAttr>(node->attr).combine);
  case Op::Contiguous: return contiguous(std::move(s[0]));
  case Op::Function: return function(std::move(s), std::get<FunctionAttr>(node->attr));
  case Op::Scan: return scan_result(std::move(s), std::get<ScanAttr>(node->attr));
  default:
    if (s.size() == 1) return unary(node->op, std::move(s[0]));
    return binary(node->op, std::move(s[0]), std::move(s[1]));
  }
}

} // namespace lathe::graph
