// The walk from y back to xs. It takes each node after all users of the node; the rule of the node's op hands
// the cotangent on to the sources.
#include "lathe/gradient.hpp"

#include <array>
#include <unordered_map>
#include <unordered_set>

#include "graph/gradient.hpp"
#include "graph/gradient_scan.hpp"
#include "graph/realise.hpp"
#include "graph/tensor_impl.hpp"
#include "lathe/detail/access.hpp"

namespace lathe {
using namespace graph;
namespace {

using PartFunction = Part (*)(const BackwardStep&, size_t);

PartFunction rule_of(Op op) {
  static const auto table = [] {
    std::array<PartFunction, 256> t{};
    for (const GradientRule& rule : gradient_rules()) t[static_cast<size_t>(rule.op)] = rule.part;
    return t;
  }();
  return table[static_cast<size_t>(op)];
}

void check_float(const char* name, const Tensor& t) {
  if (!is_float(t.dtype())) fail(ErrorKind::DType, "gradients: {} is {}, expected a float", name, text(t));
}

/// Throws Error(Value) unless x alone, in y's graph, reads the values that x is a view of. A view built on x
/// is joined with x, so x itself may be no node of y's graph. Readers of x then look like readers of those
/// values.
void check_view(const std::string& name, const NodeRef& x, const std::vector<NodeRef>& order) {
  std::unordered_map<const Node*, const Node*> reader;
  for (const Node* n = x.get(); n->op == Op::View; n = n->sources[0].get()) reader[n->sources[0].get()] = n;
  for (const NodeRef& user : order)
    for (const NodeRef& source : user->sources)
      if (auto found = reader.find(source.get()); found != reader.end() && found->second != user.get())
        fail(ErrorKind::Value,
             "gradients: {} is a view of a tensor that leads to y in other ways, too, expected "
             "x.contiguous() to be "
             "taken in its place",
             name);
}

void check(const Tensor& y, const NodeRef& y_node, const std::vector<Tensor>& xs,
           const std::optional<Tensor>& dy) {
  check_float("y", y);
  if (dy && dy->dtype() != y.dtype())
    fail(ErrorKind::DType, "gradients: dy is {} for y {}, expected the same dtype", text(*dy), text(y));
  if (dy && dy->shape() != y.shape())
    fail(ErrorKind::Shape, "gradients: dy is {} for y {}, expected the same shape", text(*dy), text(y));
  const bool only_data = y_node->op == Op::Input && detail::impl(y)->origin() != y_node;
  for (size_t k = 0; k < xs.size(); ++k) {
    const std::string name = fmt::format("xs[{}]", k);
    check_float(name.c_str(), xs[k]);
    const NodeRef x = node_of(xs[k]);
    if (x->op == Op::Const)
      fail(ErrorKind::Value,
           "gradients: {} is a constant, expected an input, a realised or a computed tensor", name);
    if (only_data && x != y_node)
      fail(ErrorKind::Value,
           "gradients: y was realised and is data alone, expected a tensor not realised yet");
  }
}

} // namespace

std::vector<Tensor> gradients(const Tensor& y, const std::vector<Tensor>& xs,
                              const std::optional<Tensor>& dy) {
  const NodeRef y_node = node_of(y);
  check(y, y_node, xs, dy);
  const std::vector<NodeRef> order = topological_order({y_node});

  // met[i]: the xs that node i of the order stands for, as the same node or as the node that was realised.
  std::unordered_map<const Node*, std::vector<size_t>> wanted;
  for (size_t k = 0; k < xs.size(); ++k) wanted[node_of(xs[k]).get()].push_back(k);
  std::unordered_map<const Node*, size_t> position;
  std::vector<const std::vector<size_t>*> met(order.size());
  std::vector<bool> leads(order.size()); // whether node i depends on an x
  for (size_t i = 0; i < order.size(); ++i) {
    const NodeRef& node = order[i];
    position[node.get()] = i;
    auto found = wanted.find(node.get());
    if (found == wanted.end()) found = wanted.find(realised_of(node).get());
    if (found != wanted.end()) {
      met[i] = &found->second;
      if (node->op == Op::View) check_view(fmt::format("xs[{}]", found->second[0]), node, order);
    }
    leads[i] = met[i] != nullptr;
    if (is_float(node->dtype))
      for (const NodeRef& source : node->sources) leads[i] = leads[i] || leads[position.at(source.get())];
  }
  for (size_t k = 0; k < xs.size(); ++k)
    if (const NodeRef x = node_of(xs[k]); x->op == Op::View && !position.count(x.get()))
      check_view(fmt::format("xs[{}]", k), x, order);

  std::vector<Part> cotangents(order.size()), result(xs.size());
  const auto add = [](Part& sum, const Tensor& part) { sum = sum ? *sum + part : part; };
  cotangents.back() = dy ? *dy : Tensor::ones(y.shape(), y.dtype());
  ScanCotangents recurrences(order);
  for (size_t i = order.size(); i-- > 0;) {
    const NodeRef& node = order[i];
    if (cotangents[i] && met[i])
      for (const size_t k : *met[i]) add(result[k], *cotangents[i]);
    if (node->op == Op::Scan) {
      std::vector<bool> wanted;
      for (const NodeRef& source : node->sources) wanted.push_back(leads[position.at(source.get())]);
      const std::vector<Part> parts = recurrences.take(i, node, std::exchange(cotangents[i], {}), wanted);
      for (size_t k = 0; k < parts.size(); ++k)
        if (parts[k]) add(cotangents[position.at(node->sources[k].get())], *parts[k]);
      continue;
    }
    if (!leads[i] || !cotangents[i] || has_no_elements(node->shape)) continue;
    const Tensor cotangent = *std::exchange(cotangents[i], std::nullopt); // held no longer than it is needed
    const PartFunction part_of = rule_of(node->op);
    if (!part_of) continue;
    for (size_t k = 0; k < node->sources.size(); ++k) {
      const size_t source = position.at(node->sources[k].get());
      if (!leads[source]) continue;
      if (const Part part = part_of({node, cotangent}, k)) add(cotangents[source], *part);
    }
  }

  std::vector<Tensor> derivatives;
  for (size_t k = 0; k < xs.size(); ++k)
    derivatives.push_back(result[k] ? *result[k] : Tensor::zeros(xs[k].shape(), xs[k].dtype()));
  return derivatives;
}

} // namespace lathe
