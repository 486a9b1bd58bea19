#include "lathe/substitute.hpp"

#include "graph/tensor_impl.hpp"

namespace lathe {
using namespace graph;

std::vector<Tensor> substitute(const std::vector<Tensor>& values,
                               const std::map<std::string, Tensor>& inputs) {
  std::vector<NodeRef> nodes;
  for (const Tensor& value : values) nodes.push_back(node_of(value));
  const std::vector<NodeRef> made = rebuild(nodes, [&](const NodeRef& original, NodeRef rebuilt) {
    const auto* input = std::get_if<InputAttr>(&original->attr);
    const auto found = input && !input->data ? inputs.find(input->name) : inputs.end();
    if (found == inputs.end()) return rebuilt;
    const Tensor& given = found->second;
    const auto expected = [&](ErrorKind kind) {
      fail(kind, "substitute: {} for input '{}', expected {}{}", text(given), input->name,
           to_string(original->dtype), to_string(original->shape));
    };
    if (given.dtype() != original->dtype) expected(ErrorKind::DType);
    if (given.shape() != original->shape) expected(ErrorKind::Shape);
    return node_of(given);
  });
  std::vector<Tensor> result;
  for (const NodeRef& node : made) result.push_back(wrap(node));
  return result;
}

} // namespace lathe
