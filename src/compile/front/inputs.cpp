#include "compile/front/inputs.hpp"

#include <fmt/format.h>
#include <map>

#include "graph/narrow.hpp"
#include "lathe/error.hpp"

namespace lathe::pipeline {

std::vector<KernelParam> declared_inputs(const std::vector<lower::NamedOutput>& outputs) {
  std::vector<graph::NodeRef> nodes;
  for (const lower::NamedOutput& output : outputs) nodes.push_back(output.node);
  std::map<std::string, KernelParam> by_name;
  for (const graph::NodeRef& node : graph::topological_order(nodes)) {
    if (node->op != Op::Input) continue;
    const std::string& name = std::get<graph::InputAttr>(node->attr).name;
    if (name.empty()) continue;
    const auto [dtype, shape] = graph::declared_as(node);
    const auto [it, is_new] = by_name.emplace(name, KernelParam{name, dtype, shape, false});
    if (!is_new)
      throw Error(
          ErrorKind::Name,
          fmt::format("compile: input \"{}\" is declared as {}{} and as {}{}, expected one declaration", name,
                      to_string(it->second.dtype), to_string(it->second.shape), to_string(dtype),
                      to_string(shape)));
  }
  std::vector<KernelParam> inputs;
  for (auto& [name, param] : by_name) inputs.push_back(std::move(param));
  return inputs;
}

KernelParam in_memory(const KernelParam& declared) {
  if (!is_narrow(declared.dtype)) return declared;
  return {declared.name, DType::U8, graph::packed_shape(declared.dtype, declared.shape), declared.written};
}

} // namespace lathe::pipeline
