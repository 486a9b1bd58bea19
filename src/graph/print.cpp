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
// Function(%1, %0, tanh), Function(%1, %0, elu 0.5), Scan(%0, %1, body 0, steps n, result 1).
// The body of a Scan stands before the node; its first results are its parameters:
//
//   body 0: states 1, scanned 1, parameters 3, backward [0, 0]
//   %0 = Input(state0) : f32[64]
//   ...
//   end
//
// ", when 1" behind backward names the parameter that says whether a step runs.
#include <algorithm>
#include <map>
#include <unordered_map>

#include <fmt/format.h>

#include "graph/function.hpp"
#include "graph/node.hpp"
#include "graph/print.hpp"
#include "graph/scan.hpp"
#include "view/shape_variable.hpp"

namespace lathe::graph {
namespace {

struct AttrText {
  const std::vector<ScanBodyRef>& bodies;
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
  std::string operator()(const ScanAttr& a) const {
    return fmt::format("body {}, steps {}, result {}", position_of(bodies, *a.body), to_string(a.steps),
                       a.result);
  }
  static size_t position_of(const std::vector<ScanBodyRef>& bodies, const ScanBody& body) {
    const auto is_body = [&](const ScanBodyRef& b) { return b.get() == &body || *b == body; };
    return static_cast<size_t>(std::find_if(bodies.begin(), bodies.end(), is_body) - bodies.begin());
  }
};

/// The bodies of the nodes, each once.
std::vector<ScanBodyRef> bodies_of(const std::vector<NodeRef>& order) {
  std::vector<ScanBodyRef> bodies;
  for (const NodeRef& node : order)
    if (const auto* attr = std::get_if<ScanAttr>(&node->attr))
      if (AttrText::position_of(bodies, *attr->body) == bodies.size()) bodies.push_back(attr->body);
  return bodies;
}

std::string text_of(const ScanBody& body, size_t position) {
  std::vector<int> backward(body.backward.begin(), body.backward.end());
  std::vector<NodeRef> ends = body.parameters;
  ends.insert(ends.end(), body.results.begin(), body.results.end());
  const std::string when = body.when ? fmt::format(", when {}", *body.when) : "";
  return fmt::format("body {}: states {}, scanned {}, parameters {}, backward [{}]{}\n{}end\n", position,
                     body.states, body.scanned, body.parameters.size(), fmt::join(backward, ", "), when,
                     print(ends));
}

/// An input of a narrow dtype is written as declared. Those that use the node read its bytes.
std::string type_text(const Node& n) {
  const auto* input = std::get_if<InputAttr>(&n.attr);
  if (input && input->declared)
    return fmt::format("{}{}", to_string(input->declared->dtype), to_string(input->declared->shape));
  return fmt::format("{}{}", to_string(n.dtype), to_string(n.shape));
}

void collect(const Shape& shape, std::vector<Expr>& vars) {
  for (Expr e : shape) collect_vars(e, vars);
}

// Shape variables of all nodes by name: some occur only in the strides of views or in constants.
std::map<std::string, Expr> variables(const std::vector<NodeRef>& order) {
  std::vector<Expr> vars;
  for (const NodeRef& n : order) {
    collect(n->shape, vars);
    if (const auto* e = std::get_if<Expr>(&n->attr)) collect_vars(*e, vars);
    if (const auto* scan = std::get_if<ScanAttr>(&n->attr)) collect_vars(scan->steps, vars);
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

std::string attribute_text(const Node& node) {
  const std::vector<ScanBodyRef> none; // a body has no number by itself
  return std::visit(AttrText{none}, node.attr);
}

std::string print(const std::vector<NodeRef>& outputs) {
  const std::vector<NodeRef> order = topological_order(outputs);
  std::string out;
  for (const auto& [name, var] : variables(order))
    out += fmt::format("var {} in {}\n", name, bounds_text(var));
  const std::vector<ScanBodyRef> bodies = bodies_of(order);
  for (size_t k = 0; k < bodies.size(); ++k) out += text_of(*bodies[k], k);
  std::unordered_map<const Node*, size_t> number;
  for (const NodeRef& n : order) {
    const size_t id = number.size();
    number.emplace(n.get(), id);
    std::string args;
    for (const NodeRef& s : n->sources)
      args += fmt::format("{}%{}", args.empty() ? "" : ", ", number.at(s.get()));
    const std::string attr = std::visit(AttrText{bodies}, n->attr);
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
  const std::vector<NodeRef> order = topological_order(outputs);
  const std::vector<ScanBodyRef> bodies = bodies_of(order);
  for (const NodeRef& n : order) {
    const size_t id = number.size();
    number.emplace(n.get(), id);
    const std::string attr = escape(std::visit(AttrText{bodies}, n->attr));
    const bool result = std::find(outputs.begin(), outputs.end(), n) != outputs.end();
    out += fmt::format("  n{} [label=\"{}{}{}\\n{}\"{}{}];\n", id, to_string(n->op),
                       attr.empty() ? "" : "\\n", attr, type_text(*n),
                       n->op == Op::Input ? ", shape=ellipse" : "", result ? ", peripheries=2" : "");
    for (const NodeRef& s : n->sources) out += fmt::format("  n{} -> n{};\n", number.at(s.get()), id);
  }
  return out + "}\n";
}

} // namespace lathe::graph
