#include "lathe/substitute.hpp"

#include "graph/narrow.hpp"

namespace lathe {
using namespace graph;

std::vector<Tensor> substitute(const std::vector<Tensor>& values,
                               const std::map<std::string, Tensor>& inputs) {
  std::vector<NodeRef> nodes;
  for (const Tensor& value : values) nodes.push_back(held_node(value));
  const std::vector<NodeRef> made = rebuild(nodes, [&](const NodeRef& original, NodeRef rebuilt) {
    const auto* input = std::get_if<InputAttr>(&original->attr);
    const auto found = input && !input->data ? inputs.find(input->name) : inputs.end();
    if (found == inputs.end()) return rebuilt;
    const Tensor& given = found->second;
    const Declared declared = declared_as(original);
    const auto expected = [&](ErrorKind kind) {
      fail(kind, "substitute: {} for input '{}', expected {}{}", text(given), input->name,
           to_string(declared.dtype), to_string(declared.shape));
    };
    if (given.dtype() != declared.dtype) expected(ErrorKind::DType);
    if (given.shape() != declared.shape) expected(ErrorKind::Shape);
    return held_node(given);
  });
  std::vector<Tensor> result;
  for (size_t k = 0; k < made.size(); ++k) result.push_back(of_held(made[k], declared_of(values[k])));
  return result;
}

} // namespace lathe
