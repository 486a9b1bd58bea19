#include "compile/front/moved.hpp"

#include <cstring>

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
    const auto [dtype, shape] = output.declared.value_or(graph::Declared{node->dtype, node->shape});
    moved.push_back({{output.name, dtype, shape, true}, input, std::move(view)});
    return true;
  });
  return moved;
}

void copy_moved(const MovedOutput& moved, const void* from, void* to) {
  const View& view = moved.view;
  const size_t rank = view.shape().size(), bytes = static_cast<size_t>(size_of(moved.input->dtype));
  std::vector<int64_t> sizes = static_sizes(view.shape()), strides(rank), begin(rank), end(rank),
                       index(rank, 0);
  for (size_t d = 0; d < rank; ++d) {
    strides[d] = view.strides()[d].value();
    begin[d] = view.mask()[d].begin.value();
    end[d] = view.mask()[d].end.value();
  }
  const auto* source = static_cast<const char*>(from);
  auto* out = static_cast<char*>(to);
  const int64_t count = num_elements(view.shape()).value();
  for (int64_t n = 0; n < count; ++n, out += bytes) {
    int64_t offset = view.offset().value();
    bool valid = true;
    for (size_t d = 0; d < rank; ++d) {
      offset += index[d] * strides[d];
      valid &= index[d] >= begin[d] && index[d] < end[d];
    }
    if (valid)
      std::memcpy(out, source + offset * static_cast<int64_t>(bytes), bytes);
    else
      std::memset(out, 0, bytes);
    for (size_t d = rank; d-- > 0 && ++index[d] == sizes[d];) index[d] = 0;
  }
}

} // namespace lathe::pipeline
