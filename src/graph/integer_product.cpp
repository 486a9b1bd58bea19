#include "graph/integer_product.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "graph/repeated.hpp"

namespace lathe::graph {
namespace {

constexpr size_t kMostSteps = 16;      // nodes from a product down to its integers
constexpr int kMostNested = 4;         // elementwise nodes of a scale, one above the other
constexpr int64_t kMostRead = 1 << 16; // elements of a constant zero point that are looked at
constexpr int kHalf = 128;             // the zero point of u8 that has as many integers on either side

bool is_byte(DType d) { return d == DType::I8 || d == DType::U8; }
bool is_real(DType d) { return d == DType::F32 || d == DType::F64; }
/// Whether the dtype holds every difference of two integers of 8 bits.
bool holds_differences(DType d) {
  return is_real(d) || d == DType::I16 || d == DType::I32 || d == DType::I64;
}

const View& view_of(const NodeRef& node) { return std::get<View>(node->attr); }
NodeRef filled(int64_t value, DType dtype, const Shape& shape) {
  return constant(Scalar::of_int(dtype, value), shape);
}

/// An operand of the product: (values - zero) * scale, all of the product's shape.
struct Quantised {
  NodeRef values;       // i8 or u8
  NodeRef zero;         // of the same dtype; null: 0
  NodeRef scale;        // f32 or f64; null: 1
  bool is_plain = true; // made of values by a Cast and views alone
};

// ---- what is known of a zero point or a scale ----

/// Whether all elements are known to be this number.
bool is_all(const NodeRef& node, int64_t value) {
  const NodeRef* at = &node;
  while ((*at)->op == Op::View && !view_of(*at).has_mask()) at = &(*at)->sources[0];
  if (const Scalar* s = const_scalar(*at)) return s->as_int() == value;
  const auto* input = std::get_if<InputAttr>(&(*at)->attr);
  if (!input || !input->data) return false;
  const int64_t count = num_elements((*at)->shape).value(), size = size_of((*at)->dtype);
  if (count > kMostRead) return false;
  const auto* bytes = static_cast<const unsigned char*>(std::as_const(*input->data).data());
  for (int64_t k = 0; k < count; ++k)
    if (Scalar::from_memory((*at)->dtype, bytes + k * size).as_int() != value) return false;
  return true;
}

/// The node's integers of 8 bits if the node is `minus` their negation, through views and casts that keep
/// them.
NodeRef negated_bytes(const NodeRef& minus, DType byte) {
  if (const std::optional<Scalar> s = repeated_number(minus)) {
    const double value = -s->as_float();
    const Scalar held = Scalar::of_float(byte, value);
    return held.as_float() == value ? constant(held, minus->shape) : NodeRef();
  }
  std::vector<const View*> views;
  bool is_negated = false;
  const NodeRef* at = &minus;
  for (size_t steps = 0; (*at)->dtype != byte; ++steps, at = &(*at)->sources[0]) {
    if (steps == kMostSteps) return {};
    const Node& n = **at;
    if (n.op == Op::View && !view_of(*at).has_mask())
      views.push_back(&view_of(*at));
    else if (n.op == Op::Neg && !is_negated)
      is_negated = true;
    else if (n.op != Op::Cast || !holds_differences(n.dtype))
      return {};
  }
  if (!is_negated) return {};
  NodeRef bytes = *at;
  for (auto v = views.rbegin(); v != views.rend(); ++v) bytes = view(bytes, **v);
  return bytes;
}

// ---- operands ----

/// A node on the way from an operand to its integers, and which source leads to them.
struct Step {
  const Node* node;
  size_t source;
};

/// Whether a source is what the other is scaled by or moved by: it has fewer elements than its shape.
bool is_repeated(const NodeRef& node) {
  if (node->op == Op::Const) return true;
  if (node->op != Op::View) return false;
  const View& v = view_of(node);
  for (size_t k = 0; k < v.shape().size(); ++k)
    if (v.strides()[k] == Expr(0) && !v.shape()[k].is_const(1)) return true;
  return false;
}

/// The nodes from the operand down to a Cast of integers of 8 bits, that last; empty if there is none near
/// by.
std::vector<Step> way_to_bytes(const NodeRef& operand) {
  std::vector<Step> way;
  for (const NodeRef* at = &operand; way.size() < kMostSteps; at = &(*at)->sources[way.back().source]) {
    const Node& n = **at;
    switch (n.op) {
    case Op::View:
    case Op::Contiguous: way.push_back({&n, 0}); break;
    case Op::Add:
    case Op::Mul:
      way.push_back({&n, is_repeated(n.sources[0]) && !is_repeated(n.sources[1]) ? 1u : 0u});
      break;
    case Op::Cast:
      if (!holds_differences(n.dtype)) return {};
      way.push_back({&n, 0});
      if (is_byte(n.sources[0]->dtype)) return way;
      break;
    default: return {};
    }
  }
  return {};
}

/// A scale through a view, which comes below the elementwise nodes: what they repeat is then known.
NodeRef viewed(const NodeRef& node, const View& v, int nested = 0) {
  if (!is_elementwise(node->op) || nested == kMostNested) return view(node, v);
  std::vector<NodeRef> sources;
  for (const NodeRef& s : node->sources) sources.push_back(viewed(s, v, nested + 1));
  return with_sources(node, std::move(sources));
}

/// The operand seen through a view. Where a mask pads, the number is 0, which stands for the zero point.
bool take_view(Quantised& q, const View& v) {
  if (!v.has_mask()) {
    q.values = view(q.values, v);
    if (q.zero) q.zero = view(q.zero, v);
    if (q.scale) q.scale = viewed(q.scale, v);
    return true;
  }
  if (q.scale && !(q.scale = repeated_over(q.scale, v.shape()))) return false;
  q.values = view(q.values, v);
  if (!q.zero) return true;
  const Shape inside(q.zero->shape);
  if (!(q.zero = repeated_over(q.zero, v.shape()))) return false;
  const NodeRef is_inside = view(filled(1, DType::Bool, inside), v);
  q.values = where(is_inside, q.values, q.zero);
  return true;
}

/// The operand behind one more step; false if it is not quantised any more.
bool take(Quantised& q, const Step& step) {
  const Node& n = *step.node;
  switch (n.op) {
  case Op::View: return take_view(q, std::get<View>(n.attr));
  case Op::Contiguous: q.values = contiguous(q.values); return true;
  case Op::Add:
    if (q.zero || q.scale || !holds_differences(n.dtype)) return false;
    q.zero = negated_bytes(n.sources[1 - step.source], q.values->dtype);
    return static_cast<bool>(q.zero);
  case Op::Mul: {
    if (!is_real(n.dtype)) return false;
    const NodeRef& factor = n.sources[1 - step.source];
    q.scale = q.scale ? binary(Op::Mul, q.scale, factor) : factor;
    return true;
  }
  case Op::Cast:
    if (q.scale && n.dtype != DType::F64) return false; // would round
    if (q.scale) q.scale = cast(q.scale, n.dtype);
    return true;
  default: return false;
  }
}

/// Reads an operand of a sum over `axes`; nothing if it is not quantised, or not in the same way along the
/// axes. Zero points and scales are taken at the first place of each axis.
std::optional<Quantised> read_operand(const NodeRef& operand, const std::vector<int>& axes) {
  const std::vector<Step> way = way_to_bytes(operand);
  if (way.empty()) return {};
  Quantised q{way.back().node->sources[0], {}, {}};
  for (auto step = way.rbegin() + 1; step != way.rend(); ++step) {
    if (!take(q, *step)) return {};
    q.is_plain &= step->node->op == Op::View;
  }
  if (q.zero && is_all(q.zero, 0)) q.zero = {};
  for (NodeRef* part : {&q.zero, &q.scale})
    if (*part && !(*part = first_along(*part, axes))) return {};
  return q;
}

/// u8 as i8, less 128.
NodeRef less_half(const NodeRef& bytes) {
  return bitcast(binary(Op::Xor, bytes, filled(kHalf, DType::U8, bytes->shape)), DType::I8);
}

/// Makes constant values of u8, but for padded ones, i8.
void make_signed(Quantised& q, const Shape& summed) {
  std::vector<const Node*> way;
  const NodeRef* at = &q.values;
  for (; (*at)->op == Op::View || (*at)->op == Op::Contiguous; at = &(*at)->sources[0]) {
    if ((*at)->op == Op::View && view_of(*at).has_mask()) return;
    if (way.size() == kMostSteps) return;
    way.push_back(at->get());
  }
  const auto* input = std::get_if<InputAttr>(&(*at)->attr);
  if (q.values->dtype != DType::U8 || !input || !input->data) return;
  NodeRef made = contiguous(less_half(*at)); // stored, so that it is computed at compile time
  for (auto node = way.rbegin(); node != way.rend(); ++node)
    made = (*node)->op == Op::View ? view(made, std::get<View>((*node)->attr)) : contiguous(made);
  q.values = made;
  if (!q.zero)
    q.zero = filled(-kHalf, DType::I8, summed);
  else
    q.zero = is_all(q.zero, kHalf) ? NodeRef() : less_half(q.zero);
  q.is_plain = false;
}

// ---- the sums ----

/// The bytes in i32. The cast comes below the views: once per element, not once per product.
NodeRef widened(const NodeRef& bytes) {
  std::vector<const View*> views;
  const NodeRef* at = &bytes;
  for (; (*at)->op == Op::View; at = &(*at)->sources[0]) views.push_back(&view_of(*at));
  NodeRef wide = cast(*at, DType::I32);
  for (auto v = views.rbegin(); v != views.rend(); ++v) wide = view(wide, **v);
  return wide;
}

/// The sum of the bytes in i32; once for all places of an axis that a view repeats.
NodeRef sum_of(const NodeRef& bytes, const std::vector<int>& axes) {
  std::vector<Expr> begin(bytes->shape.size(), Expr(0)), end = bytes->shape, full = bytes->shape;
  for (const int axis : axes) full[static_cast<size_t>(axis)] = 1;
  if (bytes->op == Op::View) {
    const View& v = view_of(bytes);
    for (size_t k = 0; k < end.size(); ++k) {
      const bool whole = !v.has_mask() || v.mask()[k] == Interval{0, v.shape()[k]};
      if (full[k] == end[k] && v.strides()[k] == Expr(0) && whole) end[k] = 1;
    }
  }
  const NodeRef once = view(bytes, View::contiguous(bytes->shape).shrink(begin, end));
  const NodeRef sum = reduce(Op::Add, widened(once), axes);
  return view(sum, View::contiguous(sum->shape).expand(full));
}

/// The largest magnitude of values - zero.
int64_t most_of(const Quantised& q) { return q.zero || q.values->dtype == DType::U8 ? 255 : 128; }

NodeRef negated(const NodeRef& zero) { return unary(Op::Neg, cast(zero, DType::I32)); }

/// sum (a - za) (b - zb), in i32. What b and a's zero point make is one value, which is constant if they are.
NodeRef centred_sum(const Quantised& a, const Quantised& b, const std::vector<int>& axes) {
  NodeRef sum = reduce(Op::Add, binary(Op::Mul, widened(a.values), widened(b.values)), axes);
  if (b.zero) sum = binary(Op::Add, sum, binary(Op::Mul, sum_of(a.values, axes), negated(b.zero)));
  if (!a.zero) return sum;
  NodeRef of_b = sum_of(b.values, axes);
  if (b.zero) {
    Expr terms = 1;
    for (const int axis : axes) terms = terms * a.values->shape[static_cast<size_t>(axis)];
    of_b = binary(Op::Add, of_b, binary(Op::Mul, negated(b.zero), constant(terms, DType::I32, of_b->shape)));
  }
  return binary(Op::Add, sum, binary(Op::Mul, of_b, negated(a.zero)));
}

/// Whether sums of so many products fit i32.
bool fits(const Quantised& a, const Quantised& b, const Shape& shape, const std::vector<int>& axes) {
  int64_t most = INT32_MAX / (most_of(a) * most_of(b)); // terms
  for (const int axis : axes) most /= std::max<int64_t>(shape[static_cast<size_t>(axis)].hi(), 1);
  return most > 0;
}

/// The sum over `axes` of x * y in the integer form; null where there is none, or it is that already.
NodeRef sum_of_product(const NodeRef& x, const NodeRef& y, const std::vector<int>& axes) {
  auto a = read_operand(x, axes);
  auto b = a ? read_operand(y, axes) : std::nullopt;
  if (!b || (is_real(x->dtype) && !fits(*a, *b, x->shape, axes))) return {};
  Shape summed = x->shape;
  for (const int axis : axes) summed[static_cast<size_t>(axis)] = 1;
  make_signed(*a, summed);
  make_signed(*b, summed);
  if (x->dtype == DType::I32 && a->is_plain && b->is_plain) return {};
  const NodeRef sum = cast(centred_sum(*a, *b, axes), x->dtype);
  if (!a->scale && !b->scale) return sum;
  return binary(Op::Mul, sum,
                !a->scale   ? b->scale
                : !b->scale ? a->scale
                            : binary(Op::Mul, a->scale, b->scale));
}

// ---- blocks ----

/// The lengths of runs of equal elements that views of an operand's scales and zero points make.
std::vector<int64_t> run_lengths(const NodeRef& operand) {
  std::vector<int64_t> lengths;
  for (const Step& step : way_to_bytes(operand)) {
    if (step.node->sources.size() < 2) continue;
    const NodeRef* at = &step.node->sources[1 - step.source];
    for (size_t steps = 0; steps < kMostSteps && (*at)->sources.size() == 1;
         ++steps, at = &(*at)->sources[0]) {
      if ((*at)->op != Op::View) continue;
      const View& v = view_of(*at);
      for (size_t k = 0; k < v.shape().size(); ++k)
        if (v.strides()[k] == Expr(0) && v.shape()[k].is_const()) lengths.push_back(v.shape()[k].value());
    }
  }
  return lengths;
}

/// The sum over one axis whose scales are the same for every `length` terms: the integer form for each block,
/// then the sum of the blocks.
NodeRef sum_of_blocks(const NodeRef& product, int axis, int64_t length) {
  Shape cut = product->shape, summed = product->shape;
  const auto at = static_cast<size_t>(axis);
  cut[at] = product->shape[at].value() / length;
  cut.insert(cut.begin() + axis + 1, length);
  const View in_blocks = View::contiguous(cut);
  const NodeRef blocks =
      sum_of_product(view(product->sources[0], in_blocks), view(product->sources[1], in_blocks), {axis + 1});
  if (!blocks) return {};
  summed[at] = 1;
  return view(reduce(Op::Add, blocks, {axis}), View::contiguous(summed));
}

} // namespace

NodeRef integer_product(const NodeRef& node) {
  if (node->op != Op::Reduce || std::get<ReduceAttr>(node->attr).combine != Op::Add) return {};
  const NodeRef& product = node->sources[0];
  if (product->op != Op::Mul || (product->dtype != DType::I32 && !is_real(product->dtype))) return {};
  const std::vector<int>& axes = std::get<ReduceAttr>(node->attr).axes;
  if (NodeRef sum = sum_of_product(product->sources[0], product->sources[1], axes)) return sum;
  const Expr size = product->shape[static_cast<size_t>(axes[0])];
  if (axes.size() != 1 || !size.is_const() || !is_real(product->dtype)) return {};
  for (const NodeRef& operand : product->sources)
    for (const int64_t length : run_lengths(operand))
      if (length > 1 && length < size.value() && size.value() % length == 0)
        if (NodeRef sum = sum_of_blocks(product, axes[0], length)) return sum;
  return {};
}

} // namespace lathe::graph
