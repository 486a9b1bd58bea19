#include "graph/realise.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <set>
#include <unordered_map>

#include <fmt/format.h>

#include "lathe/error.hpp"

namespace lathe::graph {
namespace {

std::atomic<Evaluate> registered{nullptr};

// Guards Node::realised_as of all nodes. It is set once per realised tensor, so one lock is enough.
std::mutex& memo_mutex() {
  static auto* m = new std::mutex;
  return *m;
}

bool has_data(const NodeRef& node) { return node->op == Op::Input && std::get<InputAttr>(node->attr).data; }

// A realised input that holds the node's value, if that takes no computation; else null.
NodeRef read_in_place(const NodeRef& node) {
  if (has_data(node)) return node;
  if (has_no_elements(node->shape)) return realised(Storage::allocate(0), node->dtype, node->shape);
  if (node->op == Op::View && has_data(node->sources[0]) && std::get<View>(node->attr).is_contiguous())
    return realised(std::get<InputAttr>(node->sources[0]->attr).data, node->dtype, node->shape);
  if (const Scalar* s = node->op == Op::Const ? const_scalar(node) : nullptr) {
    const size_t width = static_cast<size_t>(size_of(node->dtype));
    const size_t count = static_cast<size_t>(num_elements(node->shape).value());
    StorageRef data = Storage::allocate(count * width);
    auto* bytes = static_cast<unsigned char*>(data->data());
    s->to_memory(bytes);
    // Each pass copies the part that is already filled, and so doubles it.
    for (size_t done = 1; done < count; done *= 2)
      std::memcpy(bytes + done * width, bytes, std::min(done, count - done) * width);
    return realised(std::move(data), node->dtype, node->shape);
  }
  return {};
}

} // namespace

NodeRef realised_of(const NodeRef& node) {
  std::lock_guard lock(memo_mutex());
  return node->realised_as;
}

void set_realiser(Evaluate realiser) { registered.store(realiser); }

std::vector<NodeRef> with_realised(const std::vector<NodeRef>& outputs) {
  return rebuild(outputs, [](const NodeRef& original, NodeRef rebuilt) {
    NodeRef known = realised_of(original);
    return known ? known : rebuilt;
  });
}

NodeRef without_data(const NodeRef& node) {
  int count = 0;
  std::set<std::string> taken;
  for (const NodeRef& n : topological_order({node}))
    if (n->op == Op::Input) taken.insert(std::get<InputAttr>(n->attr).name);
  return rebuild({node}, [&](const NodeRef& original, NodeRef rebuilt) {
    if (!has_data(original)) return rebuilt;
    std::string name;
    do name = fmt::format("in{}", count++);
    while (taken.count(name));
    return input(name, original->dtype, original->shape);
  })[0];
}

NodeRef realise(std::string_view op, const NodeRef& node) {
  if (!is_static(node->shape))
    throw Error(ErrorKind::Shape,
                fmt::format("{}: shape {} has variables, expected a static one; compile the program and "
                            "call it with sizes",
                            op, to_string(node->shape)));
  if (NodeRef known = realised_of(node)) return known;
  NodeRef made = read_in_place(node);
  if (!made) {
    const NodeRef program = with_realised({node})[0];
    made = read_in_place(program);
    if (!made) {
      for (const NodeRef& n : topological_order({program})) {
        if (!is_static(n->shape) || std::holds_alternative<Expr>(n->attr))
          throw Error(
              ErrorKind::Shape,
              fmt::format("{}: the program holds shape {}, expected no shape variables; compile it and "
                          "call it with sizes",
                          op, to_string(n->shape)));
        if (n->op == Op::Input && !has_data(n))
          throw Error(ErrorKind::Name,
                      fmt::format("{}: input '{}' has no value, expected a program without named inputs; "
                                  "compile it and call it with their values",
                                  op, std::get<InputAttr>(n->attr).name));
      }
      const Evaluate evaluate = registered.load();
      if (!evaluate) throw InternalError("no compiler has registered itself to realise tensors");
      made = realised(evaluate({program})[0], node->dtype, node->shape);
    }
  }
  if (made == node) return made;
  std::lock_guard lock(memo_mutex());
  if (!node->realised_as) node->realised_as = made;
  return node->realised_as;
}

} // namespace lathe::graph
