#include "compile/front/state_uses.hpp"

#include <map>
#include <set>

#include <fmt/format.h>

#include "compile/front/front.hpp"
#include "graph/narrow.hpp"
#include "lathe/error.hpp"

namespace lathe::pipeline {
namespace {

/// Adds the use of a state; an empty `output` says that it is read.
void add(std::map<std::string, StateUse>& by_name, const std::shared_ptr<graph::StateBuffer>& buffer,
         const std::string& output) {
  const auto [it, is_new] = by_name.emplace(buffer->name, StateUse{buffer, output});
  StateUse& use = it->second;
  if (use.buffer != buffer)
    throw Error(
        ErrorKind::Name,
        fmt::format("compile: two states are named \"{}\", expected names of their own", buffer->name));
  if (is_new || output.empty()) return;
  if (!use.output.empty())
    throw Error(ErrorKind::Name,
                fmt::format("compile: state \"{}\" is updated twice, expected one update", buffer->name));
  use.output = output;
}

} // namespace

StatefulOutputs with_updates(const NamedTensors& outputs, const std::vector<Update>& updates) {
  StatefulOutputs out{named_outputs(outputs), {}};
  std::map<std::string, StateUse> by_name;
  for (const Update& update : updates) {
    std::string name = update.state.name() + "'";
    while (outputs.contains(name)) name += "'";
    add(by_name, detail::impl(update.state)->buffer, name);
    out.outputs.push_back({name, graph::held_node(update.value), graph::declared_of(update.value)});
  }
  std::vector<graph::NodeRef> nodes;
  for (const lower::NamedOutput& output : out.outputs) nodes.push_back(output.node);
  std::set<std::string> inputs;
  for (const graph::NodeRef& node : graph::topological_order(nodes))
    if (const auto* input = std::get_if<graph::InputAttr>(&node->attr); input && input->state)
      add(by_name, input->state, "");
    else if (input)
      inputs.insert(input->name);
  for (const auto& [name, use] : by_name)
    if (inputs.contains(name))
      throw Error(ErrorKind::Name,
                  fmt::format("compile: \"{}\" is an input and a state, expected names of their own", name));
  for (auto& [name, use] : by_name) out.states.push_back(std::move(use));
  return out;
}

} // namespace lathe::pipeline
