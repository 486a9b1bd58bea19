#include "compile/front/moved.hpp"

namespace lathe::pipeline {

std::vector<MovedOutput> take_moved(std::vector<lower::NamedOutput>& outputs) {
  std::vector<MovedOutput> moved;
  std::erase_if(outputs, [&](const lower::NamedOutput& output) {
    const graph::NodeRef& node = output.node;
    const bool bare = node->op == Op::Input;
    if (!bare && !(node->op == Op::View && node->sources[0]->op == Op::Input)) return false;
    const graph::NodeRef input = bare ? node : node->sources[0];
    if (!is_static(node->shape) || !is_static(input->shape)) return false;
    View view = bare ? View::contiguous(node->shape) : std::get<View>(node->attr);
    if (!view.is_static()) return false;
    const auto [dtype, shape] = output.declared.value_or(graph::Declared{node->dtype, node->shape});
    moved.push_back({{output.name, dtype, shape, true}, input, std::move(view)});
    return true;
  });
  return moved;
}

} // namespace lathe::pipeline
