#include "lower/nests.hpp"

#include <algorithm>
#include <cmath>
#include <string_view>

#include <fmt/format.h>

#include "ast/append.hpp"
#include "lathe/error.hpp"
#include "lower/access.hpp"

namespace lathe::lower {
namespace {

using ast::ValueRef;

/// f16 and bf16 are computed in f32 and rounded to the storage dtype after each op.
ValueRef elementwise(Op op, DType dtype, std::vector<ValueRef> args) {
  const bool moves_bits = op == Op::Where || op == Op::Cast || op == Op::Bitcast;
  const bool half =
      std::any_of(args.begin(), args.end(), [](const ValueRef& a) { return is_half(a->dtype); });
  if (moves_bits || !half) return ast::make(op, dtype, std::move(args));
  for (ValueRef& a : args)
    if (is_half(a->dtype)) a = ast::make(Op::Cast, DType::F32, a);
  if (!is_half(dtype)) return ast::make(op, dtype, std::move(args));
  return ast::make(Op::Cast, dtype, ast::make(op, DType::F32, std::move(args)));
}

ValueRef zero(DType dtype) { return ast::constant(Scalar::zero(dtype)); }

/// `value` where all guards hold, else 0. For values that are not loads and so can't carry guards themselves.
ValueRef guarded(ValueRef value, const std::vector<Expr>& guards) {
  if (guards.empty()) return value;
  Expr all = guards[0];
  for (size_t i = 1; i < guards.size(); ++i) all = land(all, guards[i]);
  const DType dtype = value->dtype;
  return ast::make(Op::Where, dtype, {ast::index_value(all, DType::Bool), std::move(value), zero(dtype)});
}

/// Whether the node compares integer constants and Iotas, so that the index alone decides it.
bool is_mask(const graph::Node& node) {
  return node.op == Op::CmpLt &&
         std::all_of(node.sources.begin(), node.sources.end(), [](graph::NodeRef source) {
           while (source->op == Op::View) source = source->sources[0];
           return is_integer(source->dtype) && (source->op == Op::Const || source->op == Op::Iota);
         });
}

/// Whether the node is a power of two or a choice among such, possibly masked to 0 by views. A product with
/// it is then exact.
bool is_power_of_two(graph::NodeRef node, int depth = 4) {
  while (node->op == Op::View) node = node->sources[0];
  if (node->op == Op::Where && depth > 0)
    return is_power_of_two(node->sources[1], depth - 1) && is_power_of_two(node->sources[2], depth - 1);
  const auto* value = std::get_if<Scalar>(&node->attr);
  return node->op == Op::Const && value && has_exact_inverse(*value);
}

/// Whether the node is a product that is rounded and that several places read. Moves may compute the product
/// again at each place, and all must see the same number: in x - max(x) the largest element must give 0, not
/// its rounding error.
bool is_shared_product(const graph::Node& node, const StageContext& context) {
  return node.op == Op::Mul && context.is_shared(node) && !is_power_of_two(node.sources[0]) &&
         !is_power_of_two(node.sources[1]);
}

ValueRef index_number(Expr e, DType dtype) {
  if (is_half(dtype)) return ast::make(Op::Cast, dtype, ast::index_value(e, DType::F32));
  return ast::index_value(e, dtype);
}

/// Element `index` of a node, with every view on the way folded into indices and guards.
ValueRef element(const graph::NodeRef& node, const std::vector<Expr>& index, StageContext& context) {
  Element at = resolve(node, index);
  if (at.never) return zero(node->dtype);
  switch (at.node->op) {
  case Op::Const:
    if (const auto* scalar = std::get_if<Scalar>(&at.node->attr))
      return guarded(ast::constant(*scalar), at.guards);
    return guarded(index_number(std::get<Expr>(at.node->attr), at.node->dtype), at.guards);
  case Op::Iota: {
    const int axis = std::get<graph::IotaAttr>(at.node->attr).axis;
    return guarded(index_number(at.index[static_cast<size_t>(axis)], at.node->dtype), at.guards);
  }
  default: break;
  }
  if (is_mask(*at.node)) {
    const auto& sources = at.node->sources;
    return guarded(
        elementwise(at.node->op, at.node->dtype,
                    {element(sources[0], at.index, context), element(sources[1], at.index, context)}),
        at.guards);
  }
  return ast::load(context.read(at.node), std::move(at.index), std::move(at.guards));
}

struct Loops {
  std::vector<Expr> index; // per axis: the loop's variable, or 0 where the axis has size 1
  std::vector<Expr> vars;  // outermost first
};

class NestBuilder {
public:
  NestBuilder(Stage& stage, StageContext& context) : stage_(stage), context_(context) {}

  void build() {
    const graph::Node& node = *stage_.node;
    switch (node.op) {
    case Op::Reduce: return reduce();
    case Op::Scatter: return scatter();
    case Op::Transform: return transform();
    case Op::Gather: {
      const Loops loops = loops_over(node.shape, LoopRole::Result);
      return store(loops, gathered(loops.index));
    }
    case Op::Contiguous: {
      const Loops loops = loops_over(node.shape, LoopRole::Result);
      return store(loops, element(node.sources[0], loops.index, context_));
    }
    default: {
      if (!is_elementwise(node.op))
        throw InternalError("lower: no nest for " + std::string(to_string(node.op)));
      const Loops loops = loops_over(node.shape, LoopRole::Result);
      std::vector<ValueRef> args;
      for (const graph::NodeRef& source : node.sources)
        args.push_back(element(source, loops.index, context_));
      ast::ValueRef value = elementwise(node.op, node.dtype, std::move(args));
      return store(loops, is_shared_product(node, context_) ? ast::rounded(value) : value);
    }
    }
  }

private:
  void add_loop(Loops& loops, Expr extent, LoopRole role, size_t axis) {
    if (extent.is_const(1)) {
      loops.index.push_back(0);
      return;
    }
    static constexpr std::string_view kNames = "irz"; // by role
    const char kind = kNames[static_cast<size_t>(role)];
    const Expr var = context_.make_loop(fmt::format("{}.{}{}", stage_.buffer->name, kind, axis), extent);
    stage_.loops.push_back({var.id(), role, static_cast<int>(axis)});
    loops.index.push_back(var);
    loops.vars.push_back(var);
  }

  Loops loops_over(const Shape& shape, LoopRole role) {
    Loops loops;
    for (size_t axis = 0; axis < shape.size(); ++axis) add_loop(loops, shape[axis], role, axis);
    return loops;
  }

  void add_nest(const Loops& loops, ast::Block body) {
    for (size_t k = loops.vars.size(); k-- > 0;) {
      ast::For loop;
      loop.var = loops.vars[k];
      loop.extent = *loops.vars[k].extent();
      loop.body = std::move(body);
      body.clear();
      body.push_back(ast::Stmt{std::move(loop)});
    }
    ast::append(stage_.nests, std::move(body));
  }
  void add_nest(const Loops& loops, ast::Store store) {
    ast::Block body;
    body.push_back(ast::Stmt{std::move(store)});
    add_nest(loops, std::move(body));
  }

  void store(const Loops& loops, ValueRef value) {
    add_nest(loops, ast::Store{stage_.buffer, loops.index, std::move(value), {}, {}});
  }

  void reduce() {
    const graph::Node& node = *stage_.node;
    const auto& attr = std::get<graph::ReduceAttr>(node.attr);
    const graph::NodeRef& source = node.sources[0];
    const ValueRef start = ast::constant(identity(attr.combine, node.dtype));
    stage_.is_reduction = true;
    store(loops_over(node.shape, LoopRole::Setting), start);
    Loops loops;
    std::vector<Expr> to;
    for (size_t axis = 0; axis < source->shape.size(); ++axis) {
      const bool reduced = std::count(attr.axes.begin(), attr.axes.end(), static_cast<int>(axis)) > 0;
      add_loop(loops, source->shape[axis], reduced ? LoopRole::Reducing : LoopRole::Result, axis);
      to.push_back(reduced ? Expr(0) : loops.index.back());
    }
    // Canonical order: the kept axes outside, the reduced ones inside, each in the order of the shape.
    std::stable_partition(loops.vars.begin(), loops.vars.end(),
                          [&](Expr v) { return std::find(to.begin(), to.end(), v) != to.end(); });
    add_nest(loops, ast::Store{stage_.buffer, to, element(source, loops.index, context_), attr.combine, {}});
  }

  /// Makes one nest over the axes that are not transformed. Its body computes all results from all sources at
  /// once, so that they share loads and partial sums.
  void transform() {
    const graph::Node& node = *stage_.node;
    const auto& attr = std::get<graph::TransformAttr>(node.attr);
    const Shape& from = node.sources[0]->shape;
    stage_.is_transform = true;
    Loops loops;
    for (size_t axis = 0; axis < from.size(); ++axis) {
      const bool transformed = std::count(attr.axes.begin(), attr.axes.end(), static_cast<int>(axis)) > 0;
      add_loop(loops, transformed ? Expr(1) : from[axis], LoopRole::Result, axis);
    }
    // A grid over the transformed axes, the last one fastest.
    std::vector<int64_t> sizes;
    for (const int axis : attr.axes) sizes.push_back(from[static_cast<size_t>(axis)].value());
    const auto for_each_place = [&](const auto& f) {
      std::vector<int64_t> place(sizes.size(), 0);
      size_t done = 0;
      while (done < sizes.size()) {
        f(place);
        for (done = 0; done < sizes.size(); ++done) {
          int64_t& p = place[place.size() - 1 - done];
          if (++p < sizes[sizes.size() - 1 - done]) break;
          p = 0;
        }
      }
    };
    const auto at = [&](const std::vector<int64_t>& place) {
      std::vector<Expr> index = loops.index;
      for (size_t k = 0; k < place.size(); ++k) index[static_cast<size_t>(attr.axes[k])] = place[k];
      return index;
    };
    std::vector<ValueRef> grid;
    for_each_place([&](const auto& place) { grid.push_back(element(node.sources[0], at(place), context_)); });
    for (size_t k = 0; k < sizes.size(); ++k) {
      int64_t inner = 1, outer = 1;
      for (size_t j = 0; j < sizes.size(); ++j) (j < k ? outer : inner) *= j == k ? 1 : sizes[j];
      const graph::SmallMatrix& m = attr.matrices[k];
      std::vector<ValueRef> next(static_cast<size_t>(outer * m.rows * inner));
      for (int64_t o = 0; o < outer; ++o)
        for (int64_t r = 0; r < m.rows; ++r)
          for (int64_t i = 0; i < inner; ++i) {
            std::vector<ValueRef> terms;
            for (int64_t c = 0; c < m.columns; ++c) terms.push_back(grid[(o * m.columns + c) * inner + i]);
            next[(o * m.rows + r) * inner + i] = combination(&m.values[r * m.columns], terms);
          }
      grid = std::move(next);
      sizes[k] = m.rows;
    }
    ast::Block body;
    size_t next = 0;
    for_each_place([&](const auto& place) {
      body.push_back(ast::Stmt{ast::Store{stage_.buffer, at(place), grid[next++], {}, {}}});
    });
    add_nest(loops, std::move(body));
  }

  /// The sum of coefficient times value over the coefficients that aren't 0.
  static ValueRef combination(const double* coefficients, const std::vector<ValueRef>& values) {
    const DType dtype = values[0]->dtype;
    ValueRef sum;
    const auto add = [&](const ValueRef& term) {
      sum = sum ? elementwise(Op::Add, dtype, {sum, term}) : term;
    };
    // Plain terms first: each of the others is then one multiplication and addition.
    for (size_t k = 0; k < values.size(); ++k)
      if (coefficients[k] == 1) add(values[k]);
    for (size_t k = 0; k < values.size(); ++k)
      if (coefficients[k] == -1) add(elementwise(Op::Neg, dtype, {values[k]}));
    for (size_t k = 0; k < values.size(); ++k)
      if (coefficients[k] != 0 && std::fabs(coefficients[k]) != 1)
        add(elementwise(Op::Mul, dtype,
                        {values[k], ast::constant(Scalar::of_float(dtype, coefficients[k]))}));
    return sum ? sum : zero(dtype);
  }

  ValueRef gathered(const std::vector<Expr>& index) {
    const graph::Node& node = *stage_.node;
    const graph::NodeRef from = flat_source(node.sources[0]);
    ValueRef position = element(node.sources[1], index, context_);
    return ast::gather(context_.read(from), std::move(position));
  }

  void scatter() {
    const graph::Node& node = *stage_.node;
    stage_.is_scatter = true;
    const Loops base = loops_over(node.shape, LoopRole::Setting);
    store(base, element(node.sources[0], base.index, context_));
    const Loops loops = loops_over(node.sources[1]->shape, LoopRole::Reducing);
    ast::Store update{stage_.buffer,
                      {},
                      element(node.sources[2], loops.index, context_),
                      std::get<graph::ScatterAttr>(node.attr).combine,
                      element(node.sources[1], loops.index, context_)};
    add_nest(loops, std::move(update));
  }

  Stage& stage_;
  StageContext& context_;
};

} // namespace

bool is_propagated(const graph::Node& node) {
  const Op op = node.op;
  return op == Op::Const || op == Op::Input || op == Op::View || op == Op::Iota || is_mask(node);
}

graph::NodeRef flat_source(const graph::NodeRef& source) {
  graph::NodeRef node = source;
  while (node->op == Op::View && std::get<View>(node->attr).is_contiguous() &&
         num_elements(node->shape) == num_elements(node->sources[0]->shape))
    node = node->sources[0];
  if (node->op == Op::Input || !is_propagated(*node)) return node;
  return {};
}

void build_nests(Stage& stage, StageContext& context) { NestBuilder(stage, context).build(); }

} // namespace lathe::lower
