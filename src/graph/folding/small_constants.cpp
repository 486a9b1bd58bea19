#include "graph/folding/small_constants.hpp"

#include <algorithm>
#include <span>
#include <unordered_map>
#include <unordered_set>

#include "graph/operations.hpp"

namespace lathe::graph {
namespace {

constexpr int64_t kMostElements = 1 << 15; // of all nodes together: some milliseconds

using Elements = std::vector<Scalar>;

int64_t count_of(const Node& n) { return num_elements(n.shape).value(); }

/// Whether the node is read where it is, so that nothing is computed for it.
bool is_source(const Node& n) { return n.op == Op::Const || n.op == Op::Input; }

bool is_computed_by_elements(const Node& n) {
  return n.op == Op::Iota || n.op == Op::View || n.op == Op::Contiguous || n.op == Op::Gather ||
         is_elementwise(n.op);
}

/// Whether all that the root is computed from has few elements, which are computed one by one.
bool is_small(const Node& root) {
  std::unordered_set<const Node*> seen{&root};
  std::vector<const Node*> queue{&root};
  int64_t elements = 0;
  while (!queue.empty()) {
    const Node& n = *queue.back();
    queue.pop_back();
    if (is_source(n)) continue;
    elements += std::min(count_of(n), kMostElements) + 1;
    if (elements > kMostElements || !is_computed_by_elements(n)) return false;
    for (const NodeRef& s : n.sources)
      if (seen.insert(s.get()).second) queue.push_back(s.get());
  }
  return true;
}

/// Calls each(index) for every index of the shape, in row-major order.
template <class F> void for_each_index(const Shape& shape, F&& each) {
  std::vector<int64_t> index(shape.size(), 0);
  for (int64_t left = num_elements(shape).value(); left > 0; --left) {
    each(index);
    for (size_t k = shape.size(); k-- > 0;) {
      if (++index[k] < shape[k].value()) break;
      index[k] = 0;
    }
  }
}

class Evaluation {
public:
  Elements compute(const Node& n) const {
    Elements out;
    out.reserve(static_cast<size_t>(count_of(n)));
    switch (n.op) {
    case Op::Iota: {
      const auto axis = static_cast<size_t>(std::get<IotaAttr>(n.attr).axis);
      for_each_index(n.shape,
                     [&](const auto& index) { out.push_back(Scalar::of_int(n.dtype, index[axis])); });
      break;
    }
    case Op::View: view(n, out); break;
    case Op::Gather: gather(n, out); break;
    case Op::Contiguous:
      for (int64_t i = 0; i < count_of(n); ++i) out.push_back(at(*n.sources[0], i));
      break;
    default:
      for (int64_t i = 0; i < count_of(n); ++i) {
        Scalar sources[3];
        for (size_t k = 0; k < n.sources.size(); ++k) sources[k] = at(*n.sources[k], i);
        out.push_back(element_of(n.op, n.dtype, std::span<const Scalar>(sources, n.sources.size())));
      }
    }
    return out;
  }
  void keep(const Node& n, Elements elements) { known_.emplace(&n, std::move(elements)); }
  Scalar at(const Node& n, int64_t place) const {
    if (const auto* number = std::get_if<Scalar>(&n.attr)) return *number;
    if (const auto* input = std::get_if<InputAttr>(&n.attr)) {
      const auto* data = static_cast<const unsigned char*>(std::as_const(*input->data).data());
      return Scalar::from_memory(n.dtype, data + place * size_of(n.dtype));
    }
    return known_.at(&n)[static_cast<size_t>(place)];
  }

private:
  void view(const Node& n, Elements& out) const {
    const View& v = std::get<View>(n.attr);
    for_each_index(n.shape, [&](const std::vector<int64_t>& index) {
      int64_t place = v.offset().value();
      bool inside = true;
      for (size_t k = 0; k < index.size(); ++k) {
        place += index[k] * v.strides()[k].value();
        if (v.has_mask())
          inside &= index[k] >= v.mask()[k].begin.value() && index[k] < v.mask()[k].end.value();
      }
      out.push_back(inside ? at(*n.sources[0], place) : Scalar::zero(n.dtype));
    });
  }
  void gather(const Node& n, Elements& out) const {
    const int64_t limit = count_of(*n.sources[0]);
    for (int64_t i = 0; i < count_of(n); ++i) {
      const int64_t place = at(*n.sources[1], i).as_int(); // of a u64 beyond all others it is negative
      out.push_back(place >= 0 && place < limit ? at(*n.sources[0], place) : Scalar::zero(n.dtype));
    }
  }

  std::unordered_map<const Node*, Elements> known_;
};

} // namespace

StorageRef small_constant(const NodeRef& root) {
  if (!is_small(*root)) return {};
  Evaluation evaluation;
  for (const NodeRef& n : topological_order({root}))
    if (!is_source(*n)) evaluation.keep(*n, evaluation.compute(*n));
  const int size = size_of(root->dtype);
  const int64_t count = count_of(*root);
  const StorageRef value = Storage::allocate(static_cast<size_t>(count * size));
  auto* bytes = static_cast<unsigned char*>(value->data());
  for (int64_t i = 0; i < count; ++i) evaluation.at(*root, i).to_memory(bytes + i * size);
  return value;
}

} // namespace lathe::graph
