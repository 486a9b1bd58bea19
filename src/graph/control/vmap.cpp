#include "lathe/vmap.hpp"

#include "graph/control/mapping.hpp"
#include "graph/tensor_impl.hpp"

namespace lathe {
using namespace graph;
namespace {

/// The axis at `from` moved to `to`.
Tensor moved(const Tensor& x, int from, int to) {
  std::vector<int> order;
  for (int axis = 0; axis < x.rank(); ++axis)
    if (axis != from) order.push_back(axis);
  order.insert(order.begin() + to, from);
  return x.permute(order);
}

void check_count(std::string_view what, size_t axes, size_t tensors) {
  if (axes != 0 && axes != tensors)
    fail(ErrorKind::Value, "vmap: {} axes for {} {}, expected as many", axes, tensors, what);
}

/// The arguments with the mapped axis in front; nothing for those that are the same for all.
std::vector<std::optional<Tensor>> with_axis_in_front(const std::vector<Tensor>& arguments,
                                                      const std::vector<std::optional<int>>& axes) {
  check_count("arguments", axes.size(), arguments.size());
  std::vector<std::optional<Tensor>> mapped(arguments.size());
  for (size_t k = 0; k < arguments.size(); ++k) {
    const std::optional<int> axis = axes.empty() ? std::optional(0) : axes[k];
    if (!axis) continue;
    const Tensor& x = arguments[k];
    if (is_narrow(x.dtype()))
      fail(ErrorKind::DType, "vmap: argument {} is {}, expected a wider dtype", k, text(x));
    mapped[k] = moved(x, resolve_axis("vmap", *axis, x.rank()), 0);
  }
  return mapped;
}

Expr size_of_axis(const std::vector<std::optional<Tensor>>& mapped) {
  std::optional<Expr> size;
  for (size_t k = 0; k < mapped.size(); ++k) {
    if (!mapped[k]) continue;
    const Expr own = mapped[k]->shape()[0];
    if (!size) size = own;
    if (own != *size)
      fail(ErrorKind::Shape, "vmap: argument {} has {} elements along its axis, expected {}", k,
           to_string(own), to_string(*size));
  }
  if (!size) fail(ErrorKind::Value, "vmap: no argument is mapped, expected an axis of one");
  return *size;
}

std::vector<Tensor> apply(const TensorFunction& f, const std::vector<Tensor>& arguments,
                          const std::vector<std::optional<int>>& in_axes, const std::vector<int>& out_axes) {
  const std::vector<std::optional<Tensor>> mapped = with_axis_in_front(arguments, in_axes);
  Mapping mapping(size_of_axis(mapped));
  std::vector<Tensor> of_one = arguments;
  for (size_t k = 0; k < mapped.size(); ++k) {
    if (!mapped[k]) continue;
    const NodeRef whole = node_of(*mapped[k]);
    const NodeRef one = placeholder(whole->dtype, {whole->shape.begin() + 1, whole->shape.end()});
    mapping.set(one, {whole, true});
    of_one[k] = wrap(one);
  }
  std::vector<NodeRef> nodes;
  for (const Tensor& result : f(of_one)) {
    if (is_narrow(result.dtype()))
      fail(ErrorKind::DType, "vmap: result {} is {}, expected a wider dtype", nodes.size(), text(result));
    nodes.push_back(node_of(result));
  }
  check_count("results", out_axes.size(), nodes.size());
  std::vector<Tensor> results;
  for (const Mapped& made : mapping.of(nodes)) {
    const Tensor all = wrap(mapping.along(made));
    const int axis = out_axes.empty() ? 0 : resolve_axis("vmap", out_axes[results.size()], all.rank());
    results.push_back(moved(all, 0, axis));
  }
  return results;
}

} // namespace

TensorFunction vmap(TensorFunction f, std::vector<std::optional<int>> in_axes, std::vector<int> out_axes) {
  if (!f) fail(ErrorKind::Value, "vmap: no function, expected one to map");
  return [f = std::move(f), in_axes = std::move(in_axes), out_axes = std::move(out_axes)](
             const std::vector<Tensor>& arguments) { return apply(f, arguments, in_axes, out_axes); };
}

} // namespace lathe
