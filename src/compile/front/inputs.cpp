#include "compile/front/inputs.hpp"

#include <algorithm>
#include <set>

#include <fmt/format.h>

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

void check_donated(const std::map<std::string, std::string>& donated,
                   const std::vector<lower::NamedOutput>& outputs, const std::vector<KernelParam>& inputs,
                   const std::vector<StateUse>& states) {
  const auto is_of_state = [&](const std::string& name) {
    return std::any_of(states.begin(), states.end(),
                       [&](const StateUse& use) { return use.buffer->name == name || use.output == name; });
  };
  const auto named = [&](const auto& all, const char* what, const std::string& name) {
    const auto at = std::find_if(all.begin(), all.end(), [&](const auto& one) { return one.name == name; });
    if (at == all.end() || is_of_state(name))
      throw Error(
          ErrorKind::Name,
          fmt::format("compile: donated names the {} \"{}\", expected one of the program's", what, name));
    return at;
  };
  std::set<std::string> taken;
  for (const auto& [name, from] : donated) {
    const auto output = named(outputs, "output", name);
    const auto input = named(inputs, "input", from);
    if (!taken.insert(from).second)
      throw Error(ErrorKind::Value,
                  fmt::format("compile: input \"{}\" is donated twice, expected one output over it", from));
    const graph::Declared made =
        output->declared.value_or(graph::Declared{output->node->dtype, output->node->shape});
    if (made.dtype != input->dtype || made.shape != input->shape)
      throw Error(
          made.dtype != input->dtype ? ErrorKind::DType : ErrorKind::Shape,
          fmt::format("compile: output \"{}\" is {}{}, expected {}{} as input \"{}\", which is donated to it",
                      name, to_string(made.dtype), to_string(made.shape), to_string(input->dtype),
                      to_string(input->shape), from));
  }
}

KernelParam in_memory(const KernelParam& declared) {
  if (!is_narrow(declared.dtype)) return declared;
  return {declared.name, DType::U8, graph::packed_shape(declared.dtype, declared.shape), declared.written};
}

} // namespace lathe::pipeline
