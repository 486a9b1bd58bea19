// Graphs as text and as Graphviz.
//
//   var n in [1, 4096]
//   %0 = Input(x) : f32[n, 64]
//   %1 = Const(0.5) : f32[n, 64]
//   %2 = Mul(%0, %1) : f32[n, 64]
//   %3 = Reduce(%2, Add, axes [1]) : f32[n, 1]
//   return %3
//
// Further forms: Input(#7) for a realised tensor, Const(expr n * 2), Iota(axis 1),
// View(%0, view([...], ...)), Scatter(%0, %1, %2, Add), Transform(%0, axes [1], [[1, 1], [1, -1]]),
// Function(%1, %0, tanh), Function(%1, %0, elu 0.5).
#include <algorithm>
#include <map>
#include <unordered_map>

#include <fmt/format.h>

#include "graph/function.hpp"
#include "graph/node.hpp"
#include "graph/print.hpp"

namespace lathe::graph {
namespace {

struct AttrText {
  std::string operator()(std::monostate) const { return ""; }
  std::string operator()(const Scalar& s) const { return to_string(s); }
  std::string operator()(Expr e) const { return "expr " + to_string(e); }
  std::string operator()(const InputAttr& a) const { return a.data ? fmt::format("#{}", a.id) : a.name; }
  std::string operator()(const IotaAttr& a) const { return fmt::format("axis {}", a.axis); }
  std::string operator()(const View& v) const { return to_string(v); }
  std::string operator()(const ReduceAttr& a) const {
    return fmt::format("{}, axes [{}]", to_string(a.combine), fmt::join(a.axes, ", "));
  }
  std::string operator()(const ScatterAttr& a) const {
    return a.combine ? std::string(to_string(*a.combine)) : "";
  }
  std::string operator()(const TransformAttr& a) const {
    std::string out = fmt::format("axes [{}]", fmt::join(a.axes, ", "));
    for (const SmallMatrix& m : a.matrices) {
      std::vector<std::string> rows;
      for (int r = 0; r < m.rows; ++r) {
        const auto row = m.values.begin() + r * m.columns;
        rows.push_back(fmt::format("[{}]", fmt::join(row, row + m.columns, ", ")));
      }
      out += fmt::format(", [{}]", fmt::join(rows, ", "));
    }
    return out;
  }
  std::string operator()(const FunctionAttr& a) const {
    return a.parameter == 0 ? std::string(a.rule->name) : fmt::format("{} {}", a.rule->name, a.parameter);
  }
};

std::string type_text(const Node& n) { return fmt::format("{}{}", to_string(n.dtype), to_string(n.shape)); }

void collect(const Shape& shape, std::vector<Expr>& vars) {
  for (Expr e : shape) collect_vars(e, vars);
}

// Shape variables of all nodes by name: some occur only in the strides of views or in constants.
std::map<std::string, Expr> variables(const std::vector<NodeRef>& order) {
  std::vector<Expr> vars;
  for (const NodeRef& n : order) {
    collect(n->shape, vars);
    if (const auto* e = std::get_if<Expr>(&n->attr)) collect_vars(*e, vars);
    if (const auto* v = std::get_if<View>(&n->attr)) {
      collect(v->strides(), vars);
      collect_vars(v->offset(), vars);
      for (const Interval& i : v->mask()) collect({i.begin, i.end}, vars);
    }
  }
  std::map<std::string, Expr> by_name;
  for (Expr v : vars) by_name.emplace(v.name(), v);
  return by_name;
}

std::string escape(const std::string& text) {
  std::string out;
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

} // namespace

std::string attribute_text(const Node& node) { return std::visit(AttrText{}, node.attr); }

std::string print(const std::vector<NodeRef>& outputs) {
  const std::vector<NodeRef> order = topological_order(outputs);
  std::string out;
  for (const auto& [name, var] : variables(order))
    out += fmt::format("var {} in [{}, {}]\n", name, var.lo(), var.hi());
  std::unordered_map<const Node*, size_t> number;
  for (const NodeRef& n : order) {
    const size_t id = number.size();
    number.emplace(n.get(), id);
    std::string args;
    for (const NodeRef& s : n->sources)
      args += fmt::format("{}%{}", args.empty() ? "" : ", ", number.at(s.get()));
    const std::string attr = attribute_text(*n);
    if (!attr.empty()) args += (args.empty() ? "" : ", ") + attr;
    out += fmt::format("%{} = {}({}) : {}\n", id, to_string(n->op), args, type_text(*n));
  }
  out += "return";
  for (size_t i = 0; i < outputs.size(); ++i)
    out += fmt::format("{} %{}", i ? "," : "", number.at(outputs[i].get()));
  return out + "\n";
}

std::string to_graphviz(const std::vector<NodeRef>& outputs) {
  std::string out = "digraph program {\n  rankdir=TB;\n  node [shape=box, fontname=\"monospace\"];\n";
  std::unordered_map<const Node*, size_t> number;
  for (const NodeRef& n : topological_order(outputs)) {
    const size_t id = number.size();
    number.emplace(n.get(), id);
    const std::string attr = escape(attribute_text(*n));
    const bool result = std::find(outputs.begin(), outputs.end(), n) != outputs.end();
    out += fmt::format("  n{} [label=\"{}{}{}\\n{}\"{}{}];\n", id, to_string(n->op),
                       attr.empty() ? "" : "\\n", attr, type_text(*n),
                       n->op == Op::Input ? ", shape=ellipse" : "", result ? ", peripheries=2" : "");
    for (const NodeRef& s : n->sources) out += fmt::format("  n{} -> n{};\n", number.at(s.get()), id);
  }
  return out + "}\n";
}

} // namespace lathe::graph
