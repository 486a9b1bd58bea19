#include "graph/realise.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <set>
#include <unordered_map>

#include <fmt/format.h>

#include "lathe/error.hpp"
#include "view/copy_view.hpp"

namespace lathe::graph {
namespace {

std::atomic<Evaluate> registered{nullptr};

// Guards Node::realised_as of all nodes. It is set once per realised tensor, so one lock is enough.
std::mutex& memo_mutex() {
  static auto* m = new std::mutex;
  return *m;
}

constexpr int64_t kFewElements = 4096; // views of realised data of so many are copied without a program

bool has_data(const NodeRef& node) { return node->op == Op::Input && std::get<InputAttr>(node->attr).data; }

// A realised input that holds the node's value, if that takes no computation; else null.
NodeRef read_in_place(const NodeRef& node) {
  if (has_data(node)) return node;
  if (has_no_elements(node->shape)) return realised(Storage::allocate(0), node->dtype, node->shape);
  if (node->op == Op::View && has_data(node->sources[0])) {
    const StorageRef& data = std::get<InputAttr>(node->sources[0]->attr).data;
    const View& view = std::get<View>(node->attr);
    if (view.is_contiguous()) return realised(data, node->dtype, node->shape);
    const int64_t count = num_elements(node->shape).value();
    if (count > kFewElements) return {};
    const auto width = static_cast<size_t>(size_of(node->dtype));
    StorageRef copy = Storage::allocate(static_cast<size_t>(count) * width);
    copy_view(view, width, data->data(), copy->data());
    return realised(std::move(copy), node->dtype, node->shape);
  }
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
  return rebuild(
      outputs,
      [](const NodeRef& original, NodeRef rebuilt) {
        NodeRef known = realised_of(original);
        return known ? known : rebuilt;
      },
      [](const NodeRef& node) { return static_cast<bool>(realised_of(node)); });
}

Dataless without_data(const std::vector<NodeRef>& outputs) {
  int count = 0;
  std::set<std::string> taken;
  for (const NodeRef& n : topological_order(outputs))
    if (n->op == Op::Input) taken.insert(std::get<InputAttr>(n->attr).name);
  Dataless out;
  out.outputs = rebuild(outputs, [&](const NodeRef& original, NodeRef rebuilt) {
    if (!has_data(original)) return rebuilt;
    std::string name;
    do name = fmt::format("in{}", count++);
    while (taken.count(name));
    out.data.emplace(name, std::get<InputAttr>(original->attr).data);
    return input(name, original->dtype, original->shape);
  });
  return out;
}

namespace {

/// Throws unless the program's value can be computed now: it has no shape variables and no named inputs.
void check_realisable(std::string_view op, const NodeRef& program) {
  for (const NodeRef& n : topological_order({program})) {
    if (!is_static(n->shape) || std::holds_alternative<Expr>(n->attr))
      throw Error(ErrorKind::Shape,
                  fmt::format("{}: the program holds shape {}, expected no shape variables; compile it and "
                              "call it with sizes",
                              op, to_string(n->shape)));
    if (n->op != Op::Input || has_data(n)) continue;
    const auto& input = std::get<InputAttr>(n->attr);
    throw Error(
        ErrorKind::Name,
        fmt::format("{}: {} '{}' has no value, expected a program without {}; compile it and {}", op,
                    input.state ? "state" : "input", input.name, input.state ? "states" : "named inputs",
                    input.state ? "call it, or take what read() gives" : "call it with their values"));
  }
}

/// Whether few elements are taken from many: then all are computed, as the next ones to be read are among
/// these.
bool picks_from(const NodeRef& node) {
  constexpr int64_t kMostBytes = 64 << 20;
  if (node->op != Op::View) return false;
  const NodeRef& source = node->sources[0];
  if (!is_static(source->shape)) return false;
  const int64_t all = num_elements(source->shape).value();
  return num_elements(node->shape).value() < std::min(kFewElements + 1, all) &&
         all <= kMostBytes / size_of(source->dtype);
}

NodeRef computed(std::string_view op, const NodeRef& node) {
  const NodeRef program = with_realised({node})[0];
  if (NodeRef read = read_in_place(program)) return read;
  check_realisable(op, program);
  if (picks_from(node)) {
    const NodeRef source = realise(op, node->sources[0]);
    return read_in_place(view(source, std::get<View>(node->attr)));
  }
  const Evaluate evaluate = registered.load();
  if (!evaluate) throw InternalError("no compiler has registered itself to realise tensors");
  return realised(evaluate({program})[0], node->dtype, node->shape);
}

} // namespace

NodeRef realise(std::string_view op, const NodeRef& node) {
  if (!is_static(node->shape))
    throw Error(ErrorKind::Shape,
                fmt::format("{}: shape {} has variables, expected a static one; compile the program and "
                            "call it with sizes",
                            op, to_string(node->shape)));
  if (NodeRef known = realised_of(node)) return known;
  NodeRef made = read_in_place(node);
  if (!made) made = computed(op, node);
  if (made == node) return made;
  std::lock_guard lock(memo_mutex());
  if (!node->realised_as) node->realised_as = made;
  return node->realised_as;
}

} // namespace lathe::graph
