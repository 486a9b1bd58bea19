#include "graph/scan.hpp"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include <fmt/format.h>

#include "core/hash.hpp"
#include "graph/narrow.hpp"
#include "lathe/detail/sizes.hpp"
#include "lathe/error.hpp"

namespace lathe::graph {

uint64_t hash(const ScanBody& body) {
  uint64_t h = mix(body.states, body.scanned);
  for (const NodeRef& node : body.parameters) h = mix(h, node.hash());
  for (const NodeRef& node : body.results) h = mix(h, node.hash());
  for (const bool b : body.backward) h = mix(h, b);
  return body.when ? mix(h, *body.when) : h;
}

Expr typical_steps(const ScanAttr& attr) {
  constexpr int64_t kFew = 32;
  return attr.body->ends_early() ? min(attr.steps, kFew) : attr.steps;
}

NodeRef Recurrence::result(size_t position) const {
  return scan_result(sources, {body, steps, static_cast<int>(position)});
}

namespace {

const NodeRef& base_of(const NodeRef& node) {
  const NodeRef* base = &node;
  while ((*base)->op == Op::View) base = &(*base)->sources[0];
  return *base;
}

/// Whether the value is known before the first run, or costs nothing to compute in each step.
bool is_constant(const NodeRef& node) {
  const NodeRef& base = base_of(node);
  const auto* input = std::get_if<InputAttr>(&base->attr);
  return base->op == Op::Const || base->op == Op::Iota || (input && input->data);
}

std::string parameter_name(size_t position, size_t states, size_t scanned) {
  if (position < states) return fmt::format("state{}", position);
  if (position < states + scanned) return fmt::format("row{}", position - states);
  return fmt::format("value{}", position - states - scanned);
}

using Replacements = std::unordered_map<const Node*, NodeRef>;

std::vector<NodeRef> replaced(const std::vector<NodeRef>& outputs, const Replacements& by) {
  return rebuild(
      outputs,
      [&](const NodeRef& original, NodeRef rebuilt) {
        const auto found = by.find(original.get());
        return found == by.end() ? rebuilt : found->second;
      },
      [&](const NodeRef& node) { return by.contains(node.get()); });
}

/// The values that the results read and that no parameter leads to, in the order of a walk; not constants and
/// places. Realised tensors are among them: they may have derivatives.
std::vector<NodeRef> captured(const TracedScan& traced) {
  std::unordered_set<const Node*> depends, taken;
  for (const NodeRef& parameter : traced.parameters) depends.insert(parameter.get());
  std::vector<NodeRef> values;
  const auto capture = [&](const NodeRef& node) {
    const NodeRef& base = base_of(node);
    const bool is_inside = base->op == Op::Const || base->op == Op::Iota;
    if (!is_inside && taken.insert(base.get()).second) values.push_back(base);
  };
  for (const NodeRef& node : topological_order(traced.results)) {
    const auto is_dependent = [&](const NodeRef& s) { return depends.contains(s.get()); };
    if (std::none_of(node->sources.begin(), node->sources.end(), is_dependent)) continue;
    depends.insert(node.get());
    for (const NodeRef& source : node->sources)
      if (!is_dependent(source)) capture(source);
  }
  for (const NodeRef& result : traced.results)
    if (!depends.contains(result.get())) capture(result);
  return values;
}

} // namespace

Recurrence recurrence_of(const NodeRef& scan) {
  const auto& attr = std::get<ScanAttr>(scan->attr);
  return {attr.body, scan->sources, attr.steps};
}

std::vector<NodeRef> results_at(const ScanBody& body, const std::vector<NodeRef>& values) {
  Replacements by;
  for (size_t k = 0; k < values.size(); ++k) by.emplace(body.parameters[k].get(), values[k]);
  return replaced(body.results, by);
}

std::vector<NodeRef> results_where(const NodeRef& runs, const ScanBody& body,
                                   const std::vector<NodeRef>& made, const std::vector<NodeRef>& given) {
  std::vector<NodeRef> results = made;
  for (size_t k = 0; k < body.given_state(0); ++k) {
    const Tensor value = wrap(made[k]);
    Shape shape = runs->shape;
    shape.resize(value.shape().size(), Expr(1));
    const Tensor otherwise = body.is_state(k) ? wrap(given[k]) : Tensor::zeros({}, value.dtype());
    results[k] = node_of(lathe::where(wrap(runs).reshape(shape), value, otherwise));
  }
  return results;
}

Recurrence close(const TracedScan& traced) {
  auto body = std::make_shared<ScanBody>();
  body->states = traced.states.size();
  body->scanned = traced.scanned.size();
  body->backward = traced.backward;
  body->backward.insert(body->backward.end(), body->states, false);
  body->when = traced.when;
  Recurrence out;
  out.steps = traced.steps;
  out.sources = traced.states;
  out.sources.insert(out.sources.end(), traced.scanned.begin(), traced.scanned.end());
  std::vector<NodeRef> parameters = traced.parameters;
  for (NodeRef& value : captured(traced)) {
    out.sources.push_back(value);
    parameters.push_back(std::move(value));
  }
  Replacements by;
  for (size_t k = 0; k < parameters.size(); ++k) {
    body->parameters.push_back(
        input(parameter_name(k, body->states, body->scanned), parameters[k]->dtype, parameters[k]->shape));
    by.emplace(parameters[k].get(), body->parameters.back());
  }
  std::vector<NodeRef> results = traced.results;
  results.insert(results.end(), parameters.begin(), parameters.begin() + static_cast<long>(body->states));
  body->results = replaced(results, by);
  out.body = std::move(body);
  return out;
}

void check_scan(const std::vector<NodeRef>& sources, const ScanAttr& attr) {
  const ScanBody& body = *attr.body;
  const auto fail = [](const std::string& what) { throw Error(ErrorKind::Shape, "Scan: " + what); };
  const auto type = [](const NodeRef& n) {
    return fmt::format("{}{}", to_string(n->dtype), to_string(n->shape));
  };
  if (attr.result < 0 || static_cast<size_t>(attr.result) >= body.results.size())
    fail(fmt::format("result {}, expected one of {}", attr.result, body.results.size()));
  if (sources.size() != body.parameters.size() || body.states + body.scanned > sources.size())
    fail(fmt::format("{} sources, expected {}", sources.size(), body.parameters.size()));
  if (body.states > body.results.size() || body.backward.size() != body.scanned + body.stacked())
    fail("a body whose counts of states and rows are not those of its parameters and results");
  if (body.when && *body.when >= body.states + body.scanned)
    fail(fmt::format("steps that run when parameter {} says so, expected a state or a row", *body.when));
  if (body.when &&
      (body.parameters[*body.when]->dtype != DType::Bool || !body.parameters[*body.when]->shape.empty()))
    fail(fmt::format("steps that run when {} says so, expected bool[]", type(body.parameters[*body.when])));
  for (size_t k = 0; k < sources.size(); ++k) {
    const NodeRef& parameter = body.parameters[k];
    Shape expected = parameter->shape;
    if (k >= body.states && k < body.states + body.scanned) expected.insert(expected.begin(), attr.steps);
    if (sources[k]->dtype != parameter->dtype || sources[k]->shape != expected)
      fail(fmt::format("source {} of {}, expected {}{}", k, type(sources[k]), to_string(parameter->dtype),
                       to_string(expected)));
  }
  for (size_t k = 0; k < body.states; ++k)
    if (body.results[k]->dtype != sources[k]->dtype || body.results[k]->shape != sources[k]->shape)
      fail(fmt::format("state {} becomes {}, expected {}", k, type(body.results[k]), type(sources[k])));
}

namespace {

/// Whether the value is in i32 and made of constants of 8 bits, such as weights less their zero point. The
/// body reads such weights in 8 bits: see integer_product.hpp.
bool is_of_constant_bytes(const NodeRef& value) {
  constexpr size_t kMost = 16; // nodes
  std::vector<NodeRef> nodes{value};
  bool reads_bytes = false;
  for (size_t next = 0; next < nodes.size(); ++next) {
    const NodeRef node = nodes[next];
    if (is_constant(node)) {
      const NodeRef& base = base_of(node);
      reads_bytes |= base->op == Op::Input && (base->dtype == DType::I8 || base->dtype == DType::U8);
      continue;
    }
    if ((!is_elementwise(node->op) && node->op != Op::View) || nodes.size() > kMost) return false;
    nodes.insert(nodes.end(), node->sources.begin(), node->sources.end());
  }
  return reads_bytes && value->dtype == DType::I32;
}

/// The recurrence with its constant sources in the body.
Recurrence with_constants_inside(const Recurrence& given) {
  const ScanBody& body = *given.body;
  Recurrence out{nullptr, {}, given.steps};
  auto inside = std::make_shared<ScanBody>(body);
  inside->parameters.clear();
  Replacements by;
  for (size_t k = 0; k < given.sources.size(); ++k) {
    const NodeRef& parameter = body.parameters[k];
    const bool is_value = k >= body.states + body.scanned;
    if (is_value && (is_constant(given.sources[k]) || is_of_constant_bytes(given.sources[k]))) {
      by.emplace(parameter.get(), given.sources[k]);
      continue;
    }
    inside->parameters.push_back(input(parameter_name(inside->parameters.size(), body.states, body.scanned),
                                       parameter->dtype, parameter->shape));
    if (parameter != inside->parameters.back()) by.emplace(parameter.get(), inside->parameters.back());
    out.sources.push_back(given.sources[k]);
  }
  if (!by.empty()) inside->results = replaced(body.results, by);
  out.body = std::move(inside);
  return out;
}

} // namespace

std::vector<NodeRef>
with_bodies(const std::vector<NodeRef>& outputs,
            const std::function<std::vector<NodeRef>(const std::vector<NodeRef>&)>& rewrite) {
  std::map<const Node*, Recurrence> known; // by the node of result 0: results of one recurrence stay of one
  std::vector<NodeRef> held;               // whose addresses are keys
  return rebuild(outputs, [&](const NodeRef&, NodeRef rebuilt) {
    if (rebuilt->op != Op::Scan) return rebuilt;
    const auto result = static_cast<size_t>(std::get<ScanAttr>(rebuilt->attr).result);
    const Recurrence given = recurrence_of(rebuilt);
    const NodeRef key = given.result(0);
    const auto found = known.find(key.get());
    if (found != known.end()) return found->second.result(result);
    Recurrence made = with_constants_inside(given);
    auto body = std::make_shared<ScanBody>(*made.body);
    body->results = rewrite(body->results);
    made.body = std::move(body);
    held.push_back(key);
    return known.emplace(key.get(), std::move(made)).first->second.result(result);
  });
}

std::vector<NodeRef> nodes_with_bodies(const std::vector<NodeRef>& outputs) {
  std::vector<NodeRef> all = topological_order(outputs);
  std::unordered_set<const ScanBody*> seen;
  for (size_t k = 0; k < all.size(); ++k) {
    const auto* attr = std::get_if<ScanAttr>(&all[k]->attr);
    if (!attr || !seen.insert(attr->body.get()).second) continue;
    const std::vector<NodeRef> inside = nodes_with_bodies(attr->body->results);
    all.insert(all.end(), inside.begin(), inside.end());
  }
  return all;
}

} // namespace lathe::graph

std::vector<lathe::Expr> lathe::detail::step_counts(const std::vector<Tensor>& tensors) {
  std::vector<graph::NodeRef> held;
  for (const Tensor& tensor : tensors) held.push_back(graph::held_node(tensor));
  const std::vector<graph::NodeRef> nodes = graph::nodes_with_bodies(held);
  std::vector<Expr> padded; // variables
  for (const graph::NodeRef& node : nodes) {
    if (node->op != Op::View) continue;
    const View& view = std::get<View>(node->attr);
    for (size_t axis = 0; axis < view.mask().size(); ++axis)
      if (const Interval& kept = view.mask()[axis]; kept.begin != Expr(0) || kept.end != view.shape()[axis])
        collect_vars(view.shape()[axis], padded);
  }
  std::vector<Expr> counts;
  for (const graph::NodeRef& node : nodes)
    if (node->op == Op::Scan)
      if (const Expr steps = std::get<graph::ScanAttr>(node->attr).steps;
          steps.is_var() && std::find(padded.begin(), padded.end(), steps) == padded.end())
        counts.push_back(steps);
  return counts;
}

bool lathe::detail::depends_on_sizes(const Tensor& tensor) {
  const std::vector<graph::NodeRef> nodes = graph::nodes_with_bodies({graph::held_node(tensor)});
  return std::any_of(nodes.begin(), nodes.end(), [](const graph::NodeRef& node) {
    const auto* number = std::get_if<Expr>(&node->attr);
    const auto* scan = std::get_if<graph::ScanAttr>(&node->attr);
    const auto* view = std::get_if<View>(&node->attr);
    return !is_static(node->shape) || (view && !view->is_static()) || (number && !number->is_const()) ||
           (scan && !scan->steps.is_const());
  });
}
