#include "graph/folding/constants.hpp"

#include "graph/operations.hpp"
#include "graph/repeated.hpp"
#include "graph/scan.hpp"

#include <algorithm>
#include <map>
#include <mutex>
#include <unordered_map>
#include <unordered_set>
namespace lathe::graph {
namespace {

// operations per element; loading an element from beyond the near caches costs about as much as this many
// vectorised ones
constexpr double kDear = 16;
// The most that compile() spends on one value: operations, or operations per byte of the realised tensors
// that it is made of; and the bytes of the largest tensor on the way, per byte that may be folded or that it
// is made of.
constexpr double kMostOperations = 2e9, kMostPerByte = 1000;
constexpr double kMostOnTheWay = 4;
// nodes; larger subgraphs count as dear whatever they do, and are not remembered
constexpr size_t kMostSubgraphNodes = 4096;

bool has_variables(const View& v) {
  const auto any = [](const std::vector<Expr>& all) {
    return std::any_of(all.begin(), all.end(), [](Expr e) { return !e.is_const(); });
  };
  return any(v.shape()) || any(v.strides()) || !v.offset().is_const() ||
         std::any_of(v.mask().begin(), v.mask().end(),
                     [](const Interval& in) { return !in.begin.is_const() || !in.end.is_const(); });
}

bool may_be_constant(const Node& n);

/// Whether the body's results are the same at every call, provided that its parameters are.
bool is_fixed(const ScanBody& body) {
  const std::vector<NodeRef> order = topological_order(body.results);
  return std::all_of(order.begin(), order.end(), [&](const NodeRef& n) {
    return may_be_constant(*n) ||
           std::find(body.parameters.begin(), body.parameters.end(), n) != body.parameters.end();
  });
}

/// Whether the node's value is the same at every call, provided that the values of its sources are.
bool may_be_constant(const Node& n) {
  if (!is_static(n.shape) || std::holds_alternative<Expr>(n.attr)) return false;
  if (const auto* v = std::get_if<View>(&n.attr)) return !has_variables(*v);
  if (const auto* input = std::get_if<InputAttr>(&n.attr)) return input->data != nullptr;
  if (const auto* scan = std::get_if<ScanAttr>(&n.attr))
    return scan->steps.is_const() && is_fixed(*scan->body);
  return true;
}

bool computes(const Node& n) {
  return n.op != Op::Input && n.op != Op::Const && n.op != Op::View && n.op != Op::Iota;
}

/// Whether the node widens integers of 8 bits that are computed: these are stored as they are, in a quarter
/// of the bytes, and a product reads them in the form of integer_product.hpp.
bool widens_bytes(const Node& n) {
  if (n.op != Op::Cast || n.dtype != DType::I32) return false;
  const Node* at = n.sources[0].get();
  const DType from = at->dtype;
  while (at->op == Op::View) at = at->sources[0].get();
  return (from == DType::I8 || from == DType::U8) && computes(*at);
}

double elements(const Node& n) { return static_cast<double>(num_elements(n.shape).value()); }

double work(const Node& n) {
  switch (n.op) {
  case Op::Input:
  case Op::Const:
  case Op::View:
  case Op::Iota: return 0;
  case Op::Reduce: return elements(*n.sources[0]);
  case Op::Scan: {
    const auto& attr = std::get<ScanAttr>(n.attr);
    double step = 0;
    for (const NodeRef& inside : topological_order(attr.body->results)) step += work(*inside);
    return step * static_cast<double>(attr.steps.value());
  }
  default: return operations(n.op) * elements(n);
  }
}

/// Whether the value must be in memory, so that a run can't compute it on the way.
bool is_stored(Op op) {
  return op == Op::Contiguous || op == Op::Transform || op == Op::Gather || op == Op::Scatter ||
         op == Op::Scan;
}

struct Subgraph {
  double work = 0, source_bytes = 0;
  double largest_bytes = 0; // of a tensor that it computes
  bool has_stored = false;
  bool small = true;  // look_at() has visited the whole subgraph
  bool closed = true; // nothing else reads what it reads, so that its value replaces its sources
};
using Users = std::unordered_map<const Node*, std::vector<const Node*>>;

/// The root with all that it is computed from or, if `in_run`, with what a run would compute of it: stored
/// values are computed at compile time in any case, and count as sources.
Subgraph look_at(const NodeRef& root, const Users& users, bool in_run) {
  Subgraph found;
  std::unordered_set<const Node*> seen{root.get()};
  std::vector<const Node*> queue{root.get()};
  while (!queue.empty()) {
    const Node& n = *queue.back();
    queue.pop_back();
    const bool is_source = n.op == Op::Input || (in_run && &n != root.get() && is_stored(n.op));
    if (is_source) found.source_bytes += elements(n) * size_of(n.dtype);
    if (is_source) continue;
    found.work += work(n);
    found.has_stored |= is_stored(n.op);
    if (computes(n)) found.largest_bytes = std::max(found.largest_bytes, elements(n) * size_of(n.dtype));
    for (const NodeRef& s : n.sources)
      if (seen.insert(s.get()).second) queue.push_back(s.get());
    if (seen.size() > kMostSubgraphNodes) {
      found.small = false;
      break;
    }
  }
  for (const Node* node : seen) {
    const auto readers = users.find(node);
    if (node == root.get() || readers == users.end()) continue;
    for (const Node* user : readers->second) found.closed &= seen.contains(user);
  }
  return found;
}

/// The numbers that single elements hold, where they are computed from realised tensors and numbers by
/// elementwise ops.
using Numbers = std::unordered_map<const Node*, Scalar>;

std::optional<Scalar> number_of(const NodeRef& node, const Numbers& known) {
  const Node& n = *node;
  if (!num_elements(n.shape).is_const(1)) return {};
  if (std::optional<Scalar> number = repeated_number(node)) return number;
  if (n.op == Op::View && std::get<View>(n.attr).has_mask()) return {};
  if (n.op != Op::View && !is_elementwise(n.op)) return {};
  Scalar sources[3];
  for (size_t i = 0; i < n.sources.size(); ++i) {
    const auto found = known.find(n.sources[i].get());
    if (found == known.end()) return {};
    sources[i] = found->second;
  }
  if (n.op == Op::View) return sources[0];
  return element_of(n.op, n.dtype, std::span<const Scalar>(sources, n.sources.size()));
}

NodeRef in_memory(const Scalar& number, const Node& of) {
  const StorageRef data = Storage::allocate(static_cast<size_t>(size_of(of.dtype)));
  number.to_memory(data->data());
  return realised(data, of.dtype, of.shape);
}

/// The operations for which a value pays that replaces its sources: more where it has more than twice their
/// bytes. Sources of less than two bits an element, such as a row that is repeated, stay in the caches.
double dear_operations(const Subgraph& subgraph, double count, double bytes) {
  const bool is_read_through = subgraph.source_bytes * 4 >= count;
  return kDear * count * (is_read_through ? std::max(1.0, bytes / (2 * subgraph.source_bytes)) : 1.0);
}

/// Whether compile() may compute a value of so many bytes.
bool is_affordable(const Subgraph& subgraph, double bytes, double folded_bytes) {
  const double allowed = std::max(folded_bytes, subgraph.source_bytes);
  return bytes <= allowed && subgraph.largest_bytes <= kMostOnTheWay * allowed &&
         subgraph.work <= std::max(kMostOperations, kMostPerByte * subgraph.source_bytes);
}

/// The folded values that some program still holds, keyed by the text of their subgraph. The text names
/// realised tensors by their ids, which are never used again.
class Known {
public:
  NodeRef find(const std::string& key, const Node& of) {
    std::lock_guard lock(mutex_);
    const auto it = values_.find(key);
    const StorageRef data = it == values_.end() ? nullptr : it->second.lock();
    return data ? realised(data, of.dtype, of.shape) : NodeRef{};
  }
  void put(const std::string& key, const StorageRef& data) {
    std::lock_guard lock(mutex_);
    std::erase_if(values_, [](const auto& entry) { return entry.second.expired(); });
    values_[key] = data;
  }

private:
  std::mutex mutex_;
  std::map<std::string, std::weak_ptr<Storage>> values_;
};
Known& known() {
  static auto* values = new Known;
  return *values;
}

} // namespace

std::vector<NodeRef> fold_constants(const std::vector<NodeRef>& outputs, Evaluate evaluate,
                                    int64_t folded_bytes, std::unordered_map<const Node*, NodeRef>* became) {
  if (!evaluate) return outputs;
  const std::vector<NodeRef> order = topological_order(outputs);
  std::unordered_set<const Node*> constant, needed;
  Numbers numbers;
  Users users;
  for (const NodeRef& n : order)
    for (const NodeRef& s : n->sources) users[s.get()].push_back(n.get());
  for (const NodeRef& n : order)
    if (may_be_constant(*n) && std::all_of(n->sources.begin(), n->sources.end(),
                                           [&](const NodeRef& s) { return constant.contains(s.get()); })) {
      constant.insert(n.get());
      if (const std::optional<Scalar> number = number_of(n, numbers)) numbers.emplace(n.get(), *number);
    }

  // The loop goes from the outputs down, as a replaced node needs none of its sources.
  for (const NodeRef& n : outputs) needed.insert(n.get());
  std::unordered_set<const Node*> stored; // what outputs show: in memory in any case
  for (const NodeRef& n : outputs) {
    const Node* shown = n.get();
    while (shown->op == Op::View) shown = shown->sources[0].get();
    stored.insert(shown);
  }
  std::unordered_map<const Node*, NodeRef> value_of;
  std::vector<NodeRef> missing;
  std::vector<std::string> keys;
  for (auto n = order.rbegin(); n != order.rend(); ++n) {
    const Node& node = **n;
    if (!needed.contains(&node)) continue;
    if (const auto number = numbers.find(&node); number != numbers.end() && computes(node)) {
      value_of.emplace(&node, in_memory(number->second, node));
      continue;
    }
    if (constant.contains(&node) && computes(node) && !widens_bytes(node)) {
      const Subgraph subgraph = look_at(*n, users, false), in_run = look_at(*n, users, true);
      const double count = elements(node), bytes = count * size_of(node.dtype);
      const bool pays = !subgraph.small || is_stored(node.op) ||
                        (node.op == Op::Reduce && subgraph.has_stored) ||
                        ((in_run.closed || stored.contains(&node)) && bytes <= in_run.source_bytes) ||
                        in_run.work >= dear_operations(in_run, count, bytes);
      if (pays && is_affordable(subgraph, bytes, static_cast<double>(folded_bytes))) {
        std::string key = subgraph.small ? print({*n}) : "";
        if (NodeRef value = key.empty() ? NodeRef{} : known().find(key, node)) {
          value_of.emplace(&node, std::move(value));
        } else {
          missing.push_back(*n);
          keys.push_back(std::move(key));
        }
        continue;
      }
    }
    for (const NodeRef& s : node.sources) needed.insert(s.get());
  }
  if (!missing.empty()) {
    const std::vector<StorageRef> made = evaluate(missing);
    for (size_t k = 0; k < missing.size(); ++k) {
      value_of.emplace(missing[k].get(), realised(made[k], missing[k]->dtype, missing[k]->shape));
      if (!keys[k].empty()) known().put(keys[k], made[k]);
    }
  }
  if (value_of.empty()) return outputs;
  return rebuild(outputs, [&](const NodeRef& original, NodeRef rebuilt) {
    const auto value = value_of.find(original.get());
    NodeRef made = value == value_of.end() ? std::move(rebuilt) : value->second;
    if (became && made != original) became->emplace(original.get(), made);
    return made;
  });
}

} // namespace lathe::graph
