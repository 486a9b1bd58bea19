#include "lower/formula.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "ast/infix.hpp"
#include "lower/access.hpp"
#include "lower/nests.hpp"

namespace lathe::lower {
namespace {

using graph::Node;
using graph::NodeRef;

constexpr int kMostOperations = 24; // in a formula that is written out
constexpr int kMostCounted = 10'000;
constexpr int kSum = 5, kUnary = 7; // a level of ast::infix, and one above all

const char* total_of(Op combine) {
  switch (combine) {
  case Op::Add: return "sum";
  case Op::Mul: return "product";
  case Op::Max: return "maximum";
  case Op::Or: return "any";
  case Op::And: return "all";
  default: return "combination";
  }
}

std::string bracketed(const std::vector<Expr>& list) { return list.empty() ? "" : to_string(Shape(list)); }

/// The parts of the list along axes that have more than one element.
std::vector<Expr> along(const Shape& shape, const std::vector<Expr>& list) {
  std::vector<Expr> out;
  for (size_t axis = 0; axis < list.size(); ++axis)
    if (!shape[axis].is_const(1)) out.push_back(list[axis]);
  return out;
}

} // namespace

std::string axis_name(char kind, size_t axis, Expr size) {
  return size.kind() == ExprKind::Var ? fmt::format("{}_{}", kind, size.name())
                                      : fmt::format("{}{}", kind, axis);
}

std::string longer_axes(const Shape& shape) { return bracketed(along(shape, shape)); }

/// Writes one formula.
class Formulas::Writer {
public:
  Writer(const Formulas& all, const std::set<int>& inlined) : all_(all), inlined_(inlined) {}

  std::string write(const Stage& stage) {
    const NodeRef& node = stage.node;
    const std::vector<Expr> index = axes(node->shape, {});
    const std::string place = stage.buffer->name + bracketed(along(node->shape, index));
    std::string text = right_side(node, index);
    if (operations_ > kMostOperations) text = summary(node);
    return place + " = " + text;
  }

private:
  /// The indices of a shape: variables, and 0 along an axis of size 1. Those of `reduced` axes are named so.
  std::vector<Expr> axes(const Shape& shape, const std::vector<int>& reduced) {
    std::vector<Expr> index;
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      const bool is_reduced = std::count(reduced.begin(), reduced.end(), static_cast<int>(axis)) > 0;
      if (shape[axis].is_const(1))
        index.push_back(0);
      else
        index.push_back(
            loop_var(next_id_++, axis_name(is_reduced ? 'r' : 'i', axis, shape[axis]), shape[axis]));
    }
    return index;
  }

  std::string right_side(const NodeRef& node, const std::vector<Expr>& index) {
    switch (node->op) {
    case Op::Reduce: return reduction(node);
    case Op::Scatter:
      return fmt::format("{}, with {}", element(node->sources[0], index, 0), scatter_text(node));
    case Op::Transform:
      return fmt::format("small matrices along axes {} of {}",
                         fmt::join(std::get<graph::TransformAttr>(node->attr).axes, ", "),
                         name_of(node->sources[0]));
    case Op::Contiguous: return element(node->sources[0], index, 0);
    case Op::Scan:
      return fmt::format("result {} of the recurrence of {} steps",
                         std::get<graph::ScanAttr>(node->attr).result,
                         to_string(std::get<graph::ScanAttr>(node->attr).steps));
    default: return computed(node, index, 0);
    }
  }

  std::string reduction(const NodeRef& node) {
    const auto& attr = std::get<graph::ReduceAttr>(node->attr);
    const Shape& shape = node->sources[0]->shape;
    const std::vector<Expr> index = axes(shape, attr.axes);
    std::string over;
    for (const int axis : attr.axes) {
      const auto at = static_cast<size_t>(axis);
      if (!shape[at].is_const(1))
        over +=
            fmt::format("{}{} < {}", over.empty() ? "" : ", ", to_string(index[at]), to_string(shape[at]));
    }
    return fmt::format("{} over {} of {}", total_of(attr.combine), over, element(node->sources[0], index, 0));
  }

  std::string scatter_text(const NodeRef& node) {
    const auto& attr = std::get<graph::ScatterAttr>(node->attr);
    const std::vector<Expr> index = axes(node->sources[1]->shape, {});
    return fmt::format("{} at the indices {}: {}", element(node->sources[2], index, 0),
                       element(node->sources[1], index, 0),
                       attr.combine ? fmt::format("their {} with what is there", total_of(*attr.combine))
                                    : std::string("the last write stays"));
  }

  /// The buffer whose elements the node's are, whatever the views.
  std::string name_of(NodeRef node) const {
    while (node->op == Op::View) node = node->sources[0];
    const std::string* held = buffer(*node);
    return held ? *held : ast::word_of(node->op);
  }
  const std::string* buffer(const Node& node) const {
    if (const auto input = all_.input_of_.find(&node); input != all_.input_of_.end())
      return &input->second->name;
    const auto stage = all_.stage_of_.find(&node);
    if (stage == all_.stage_of_.end() || inlined_.contains(stage->second)) return nullptr;
    return &all_.program_.stages[static_cast<size_t>(stage->second)].buffer->name;
  }

  std::string element(const NodeRef& node, const std::vector<Expr>& index, int level) {
    if (operations_ > kMostOperations) return "";
    const Element at = resolve(node, index);
    if (at.never) return "0";
    if (at.guards.empty()) return unguarded(at.node, at.index, level);
    std::string guards;
    for (const Expr guard : at.guards) guards += (guards.empty() ? "" : " and ") + to_string(guard);
    return fmt::format("({} ? {} : 0)", guards, unguarded(at.node, at.index, 0));
  }

  std::string unguarded(const NodeRef& node, const std::vector<Expr>& index, int level) {
    if (const std::string* name = buffer(*node))
      return *name + bracketed(node->op == Op::Input ? index : along(node->shape, index));
    return computed(node, index, level);
  }

  std::string computed(const NodeRef& node, const std::vector<Expr>& index, int level) {
    if (++operations_ > kMostOperations) return "";
    switch (node->op) {
    case Op::Const: {
      const auto* scalar = std::get_if<Scalar>(&node->attr);
      return scalar ? to_string(*scalar) : parenthesised(to_string(std::get<Expr>(node->attr)), kSum, level);
    }
    case Op::Iota:
      return parenthesised(to_string(index[static_cast<size_t>(std::get<graph::IotaAttr>(node->attr).axis)]),
                           kSum, level);
    case Op::Contiguous: return element(node->sources[0], index, level);
    case Op::Gather:
      return fmt::format("{}[{}]", name_of(node->sources[0]), element(node->sources[1], index, 0));
    default: break;
    }
    if (const auto call = all_.calls_.find(node.get()); call != all_.calls_.end())
      return called(call->second.function, call->second.arguments, index, call->second.parameter);
    if (!is_elementwise(node->op)) return name_of(node) + bracketed(index);
    if (node->op == Op::Cast) return called(to_string(node->dtype), node->sources, index);
    if (node->op == Op::Where)
      return parenthesised(fmt::format("{} ? {} : {}", element(node->sources[0], index, 1),
                                       element(node->sources[1], index, 1),
                                       element(node->sources[2], index, 1)),
                           0, level);
    if (node->op == Op::Neg)
      return parenthesised("-" + element(node->sources[0], index, kUnary), kUnary, level);
    if (node->op == Op::Add)
      if (std::string text = difference(node, index, level); !text.empty()) return text;
    if (const ast::Infix op = ast::infix(node->op); op.text) {
      const int left = op.level + (op.level == ast::kComparisonLevel ? 1 : 0);
      return parenthesised(fmt::format("{} {} {}", element(node->sources[0], index, left), op.text,
                                       element(node->sources[1], index, op.level + 1)),
                           op.level, level);
    }
    return called(ast::word_of(node->op), node->sources, index);
  }

  /// a - b of a + (-b); empty for another sum.
  std::string difference(const NodeRef& sum, const std::vector<Expr>& index, int level) {
    const Element second = resolve(sum->sources[1], index);
    if (second.node->op != Op::Neg || second.never || !second.guards.empty() || buffer(*second.node))
      return "";
    return parenthesised(fmt::format("{} - {}", element(sum->sources[0], index, kSum),
                                     element(second.node->sources[0], second.index, kSum + 1)),
                         kSum, level);
  }

  std::string called(std::string_view function, const std::vector<NodeRef>& arguments,
                     const std::vector<Expr>& index, double parameter = 0) {
    std::string text;
    for (const NodeRef& argument : arguments)
      text += (text.empty() ? "" : ", ") + element(argument, index, 0);
    if (parameter != 0) text += fmt::format(", {}", parameter);
    return fmt::format("{}({})", function, text);
  }

  static std::string parenthesised(std::string text, int own, int level) {
    return own < level ? fmt::format("({})", text) : std::move(text);
  }

  /// Counts the operations and names the buffers of a formula that is too long.
  std::string summary(const NodeRef& root) const {
    std::vector<std::string> reads;
    std::set<const Node*> seen;
    std::vector<NodeRef> open(root->sources.begin(), root->sources.end());
    int operations = 1;
    while (!open.empty() && operations < kMostCounted) {
      const NodeRef node = open.back();
      open.pop_back();
      if (!seen.insert(node.get()).second) continue;
      if (const std::string* name = buffer(*node)) {
        reads.push_back(*name);
        continue;
      }
      operations += is_elementwise(node->op) ? 1 : 0;
      open.insert(open.end(), node->sources.begin(), node->sources.end());
    }
    std::sort(reads.begin(), reads.end());
    const std::string first =
        root->op == Op::Reduce
            ? fmt::format("{} of ", total_of(std::get<graph::ReduceAttr>(root->attr).combine))
            : "";
    return fmt::format("{}{} operations{}{}", first, operations, reads.empty() ? "" : " on ",
                       fmt::join(reads, ", "));
  }

  const Formulas& all_;
  const std::set<int>& inlined_;
  int operations_ = 0;
  int next_id_ = 0;
};

Formulas::Formulas(const Program& program, const FunctionCalls& calls) : program_(program), calls_(calls) {
  for (const Stage& stage : program.stages) stage_of_.emplace(stage.node.get(), stage.id);
  for (const InputBuffer& input : program.inputs) input_of_.emplace(input.node.get(), input.buffer.get());
}

std::string Formulas::of(int stage, const std::set<int>& inlined) const {
  return Writer(*this, inlined).write(program_.stages[static_cast<size_t>(stage)]);
}

} // namespace lathe::lower
