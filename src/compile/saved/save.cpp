// Saves executables to files and loads them. A file holds the graph of a plan's program and the plan's moves.
// Loading lowers the graph and replays the moves, which makes the kernels that the object code belongs to.
#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>

#include "ast/canonical.hpp"
#include "compile/front/inputs.hpp"
#include "compile/front/moved.hpp"
#include "compile/front/target.hpp"
#include "compile/realise.hpp"
#include "compile/run/assemble.hpp"
#include "compile/run/constants.hpp"
#include "compile/run/executable_impl.hpp"
#include "compile/run/finalise.hpp"
#include "compile/run/recurrence.hpp"
#include "compile/saved/program_file.hpp"
#include "compile/schedule.hpp"
#include "graph/narrow.hpp"
#include "graph/scan.hpp"
#include "lathe/detail/access.hpp"
#include "lathe/error.hpp"
#include "lathe/program_file.hpp"

namespace lathe {
namespace pipeline {
namespace {

using Impl = Executable::Impl;

/// Returns the outputs by name, as nodes of the program's graph rather than the user's.
std::vector<lower::NamedOutput> outputs_of(const Impl& impl) {
  std::map<std::string, graph::NodeRef> nodes;
  for (const lower::OutputBuffer& output : impl.program->outputs) nodes.emplace(output.name, output.node);
  std::vector<lower::NamedOutput> outputs;
  for (const Impl::Output& output : impl.outputs) {
    const auto& [name, dtype, shape, written] = output.declared;
    const graph::NodeRef node =
        output.moved ? graph::view(output.moved->input, output.moved->view) : nodes.at(name);
    outputs.push_back(
        {name, node, is_narrow(dtype) ? std::optional(graph::Declared{dtype, shape}) : std::nullopt});
  }
  return outputs;
}

/// Returns the printed graph with other ids of realised tensors. In a process these ids count up; in a file
/// they number its constants, so that the same program always makes the same file.
std::string renumbered(const std::string& graph, const std::map<uint64_t, uint64_t>& numbers) {
  constexpr std::string_view kInput = "Input(#";
  std::string out;
  size_t done = 0;
  for (size_t at; (at = graph.find(kInput, done)) != std::string::npos;) {
    at += kInput.size();
    const size_t end = graph.find(')', at);
    out += graph.substr(done, at - done);
    out += std::to_string(numbers.at(std::stoull(graph.substr(at, end - at))));
    done = end;
  }
  return out + graph.substr(done);
}

void add_graph(const Impl& impl, ProgramFile::Program& file) {
  std::vector<graph::NodeRef> nodes;
  for (const lower::NamedOutput& output : outputs_of(impl)) {
    file.outputs.push_back(output.name);
    nodes.push_back(output.node);
  }
  std::map<uint64_t, uint64_t> numbers;
  for (const graph::NodeRef& node : graph::nodes_with_bodies(nodes)) {
    const auto* input = std::get_if<graph::InputAttr>(&node->attr);
    if (!input || !input->data || numbers.contains(input->id)) continue;
    const uint64_t number = file.constants.size();
    numbers.emplace(input->id, number);
    file.constants.push_back({node->dtype, static_sizes(node->shape), input->data});
  }
  for (const PlacedProgram::Input& input : impl.placed.inputs)
    nodes.push_back(graph::input(input.declared.name, input.declared.dtype, input.declared.shape));
  for (const lower::NamedOutput& output : outputs_of(impl))
    if (output.declared) {
      file.narrow_outputs.push_back(output.name);
      nodes.push_back(graph::input("declared", output.declared->dtype, output.declared->shape));
    }
  file.graph = renumbered(graph::print(nodes), numbers);
}

/// Collects object code. Kernels that differ in names only share the code of the first, as in a compilation.
class ObjectCollector {
public:
  explicit ObjectCollector(SavedObjects& objects) : objects_(objects) {}
  void add(runtime::Device& device, const ast::Kernel& scheduled, const runtime::CompileFlags& flags) {
    if (!seen_.insert(device.name() + ast::print(ast::canonical(scheduled, false))).second) return;
    const ast::Kernel kernel = finalise(scheduled);
    if (const uint64_t id = object_id(device, kernel, flags))
      objects_.emplace(id, device.object(kernel, flags));
  }

private:
  SavedObjects& objects_;
  std::set<std::string> seen_;
};

void add_objects(const Impl& impl, ObjectCollector& objects) {
  const runtime::CompileFlags flags{thread_count(impl.options), impl.options.cpu, false};
  for (const Kernel& kernel : impl.kernels) {
    if (const auto* recurrence = recurrence_of(kernel)) {
      add_objects(recurrence->body(), objects);
      continue;
    }
    const search::KernelPlan& plan = *detail::impl(kernel)->plan;
    objects.add(*impl.device, plan.kernel, flags);
    for (const ast::Kernel& fill : plan.constants) objects.add(host_device(), fill, {});
  }
}

/// Adds the moves of each body, in the order of the recurrences; those of bodies inside follow.
void add_body_moves(const Impl& impl, std::vector<std::vector<std::string>>& bodies) {
  std::map<int, const RecurrenceProgram*> by_position;
  for (const Kernel& kernel : impl.kernels)
    if (const auto* recurrence = recurrence_of(kernel))
      by_position[detail::impl(kernel)->plan->recurrence] = recurrence;
  for (const auto& [position, recurrence] : by_position) {
    std::vector<std::string>& moves = bodies.emplace_back();
    for (const search::Move& move : recurrence->body().moves) moves.push_back(to_string(move));
    add_body_moves(recurrence->body(), bodies);
  }
}

ProgramFile::Constant to_file(const Tensor& tensor) {
  const graph::NodeRef node = detail::impl(tensor)->realise("save");
  return {tensor.dtype(), static_sizes(tensor.shape()), std::get<graph::InputAttr>(node->attr).data};
}

ProgramFile::Program to_file(const Impl& impl, ObjectCollector& objects) {
  const InExprScope inside(impl.program->expressions);
  const InExprScope file_only(new_expr_scope());
  ProgramFile::Program file;
  file.options = impl.options;
  file.tuned = impl.tuned;
  add_graph(impl, file);
  for (const search::Move& move : impl.moves)
    (search::rewrites_graph(move.kind) ? file.graph_moves : file.moves).push_back(to_string(move));
  add_body_moves(impl, file.body_moves);
  add_objects(impl, objects);
  for (const PlacedState& state : impl.states) {
    const State handle = detail::Access::make<State>(std::make_shared<const State::Impl>(state.buffer));
    const std::string output =
        state.output < 0 ? "" : impl.outputs[static_cast<size_t>(state.output)].declared.name;
    file.states.push_back({handle.name(), output, to_file(handle.read())});
  }
  return file;
}

std::vector<search::Move> parse_moves(const std::vector<std::string>& texts) {
  std::vector<search::Move> moves;
  for (const std::string& text : texts) moves.push_back(search::parse_move(text));
  return moves;
}

struct Parsed {
  std::vector<lower::NamedOutput> outputs;
  std::vector<KernelParam> inputs;
};

Tensor tensor_of(const ProgramFile::Constant& constant) {
  const Shape shape(constant.sizes.begin(), constant.sizes.end());
  graph::check_shape("constant", shape, constant.dtype);
  if (static_cast<int64_t>(constant.data->bytes()) != bytes_of(constant.dtype, num_elements(shape).value()))
    throw Error(ErrorKind::Shape, fmt::format("a constant of {} bytes, expected {}{}", constant.data->bytes(),
                                              to_string(constant.dtype), to_string(shape)));
  return graph::of_data(constant.data, constant.dtype, shape);
}

Parsed parse_graph(const ProgramFile::Program& file) {
  std::vector<graph::NodeRef> constants;
  for (const ProgramFile::Constant& constant : file.constants)
    constants.push_back(graph::node_of(tensor_of(constant)));
  const std::vector<graph::NodeRef> nodes = graph::parse(
      file.graph, [&](uint64_t id) { return id < constants.size() ? constants[id] : graph::NodeRef(); });
  if (nodes.size() < file.outputs.size() + file.narrow_outputs.size())
    throw Error(ErrorKind::Syntax, "a graph of fewer outputs than it names");
  const auto input_at = [&](size_t k) {
    const auto* input = std::get_if<graph::InputAttr>(&nodes[k]->attr);
    if (!input || input->data) throw Error(ErrorKind::Syntax, "an input that is none");
    return input;
  };
  const size_t first_narrow = nodes.size() - file.narrow_outputs.size();
  Parsed parsed;
  for (size_t k = 0; k < file.outputs.size(); ++k) parsed.outputs.push_back({file.outputs[k], nodes[k]});
  for (size_t k = file.outputs.size(); k < first_narrow; ++k) {
    const auto* input = input_at(k);
    const auto [dtype, shape] = graph::declared_as(nodes[k]);
    parsed.inputs.push_back({input->name, dtype, shape, false});
  }
  for (size_t k = 0; k < file.narrow_outputs.size(); ++k) {
    const auto output = std::find_if(parsed.outputs.begin(), parsed.outputs.end(),
                                     [&](const auto& o) { return o.name == file.narrow_outputs[k]; });
    if (output == parsed.outputs.end()) throw Error(ErrorKind::Syntax, "a narrow output that is none");
    input_at(first_narrow + k);
    output->declared = graph::declared_as(nodes[first_narrow + k]);
  }
  return parsed;
}

/// States of the program's own, with the values that were saved.
std::vector<StateUse> states_of(const ProgramFile::Program& file) {
  std::vector<StateUse> states;
  for (const auto& [name, output, values] : file.states)
    states.push_back({detail::impl(State(name, tensor_of(values)))->buffer, output});
  return states;
}

/// Replays the moves of the plan's bodies, from `next` on.
void replay_bodies(search::Plan& plan, const ProgramFile::Program& file, size_t& next) {
  for (size_t k = 0; k < plan.bodies.size(); ++k) {
    const auto& body = plan.program->recurrences[k].body;
    if (next == file.body_moves.size()) throw Error(ErrorKind::Schedule, "moves of a body are missing");
    search::Plan made =
        search::replay(body, parse_moves(file.body_moves[next++]), target_for(file.options, *body));
    replay_bodies(made, file, next);
    plan.bodies[k] = std::make_shared<const search::Plan>(std::move(made));
  }
}

/// Returns the saved plan. If its moves are not legal on this machine or in this version of lathe, returns
/// the plan that compile() would find.
search::Plan plan_of(const std::shared_ptr<const lower::Program>& program, const ProgramFile::Program& file,
                     const std::vector<search::Move>& moves, AssembleOptions& how) {
  try {
    search::Plan plan = search::replay(program, moves, target_for(file.options, *program));
    size_t next = 0;
    replay_bodies(plan, file, next);
    return plan;
  } catch (const Error&) {
    search::SearchResult found = schedule(program, file.options);
    how.tuned = found.measured_seconds > 0;
    return std::move(found.plan);
  }
}

/// Runs `parse`, and adds the file's path to its errors.
template <class Parse> auto parsed(const std::string& path, Parse&& parse) {
  try {
    return parse();
  } catch (const Error& error) {
    throw Error(ErrorKind::File,
                fmt::format("{}: {}, expected a program of this version of lathe", path, error.what()));
  }
}

Executable from_file(const ProgramFile::Program& file, const SavedObjects& objects, const std::string& path) {
  runtime::device(file.options.device); // throws if the device is absent, before any work
  Parsed graph = parsed(path, [&] { return parse_graph(file); });
  std::vector<search::Move> graph_moves = parsed(path, [&] { return parse_moves(file.graph_moves); }),
                            moves = parsed(path, [&] { return parse_moves(file.moves); });
  std::vector<StateUse> states = parsed(path, [&] { return states_of(file); });
  parsed(path, [&] { check_donated(file.options.donated, graph.outputs, graph.inputs, states); });
  AssembleOptions how{
      file.options, std::move(graph.inputs), file.tuned, take_moved(graph.outputs), std::move(graph_moves),
      &objects};
  how.states = std::move(states);
  how.donated = file.options.donated;
  if (graph.outputs.empty())
    return assemble(search::initial_plan(std::make_shared<const lower::Program>()), how);
  const InExprScope inside(new_expr_scope()); // of the executable: see Program::expressions
  const auto program = std::make_shared<const lower::Program>(lower::lower(graph.outputs, constants_of));
  return assemble(plan_of(program, file, moves, how), how);
}

} // namespace
} // namespace pipeline

void save(const Executable& executable, const std::string& path) { save({.programs = {executable}}, path); }

Executable load_executable(const std::string& path) {
  SavedParts parts = load_parts(path);
  if (!parts.format.empty() || parts.programs.size() != 1)
    throw Error(ErrorKind::File,
                fmt::format("{}: holds {} programs of format '{}', expected one that save() wrote", path,
                            parts.programs.size(), parts.format));
  return parts.programs[0];
}

void save(const SavedParts& parts, const std::string& path) {
  if (parts.format.size() > pipeline::kLongestFormat)
    throw Error(ErrorKind::Value, fmt::format("save: format '{}', expected at most {} bytes", parts.format,
                                              pipeline::kLongestFormat));
  pipeline::ProgramFile file;
  file.format = parts.format;
  file.text = parts.text;
  pipeline::ObjectCollector objects(file.objects);
  for (const Executable& program : parts.programs)
    file.programs.push_back(pipeline::to_file(*detail::impl(program), objects));
  for (const Tensor& tensor : parts.tensors) file.tensors.push_back(pipeline::to_file(tensor));
  pipeline::write_program_file(file, path);
}

SavedParts load_parts(const std::string& path) {
  const pipeline::ProgramFile file = pipeline::read_program_file(path);
  SavedParts parts{file.format, file.text, {}, {}};
  for (const pipeline::ProgramFile::Program& program : file.programs)
    parts.programs.push_back(pipeline::from_file(program, file.objects, path));
  for (const pipeline::ProgramFile::Constant& tensor : file.tensors)
    parts.tensors.push_back(pipeline::parsed(path, [&] { return pipeline::tensor_of(tensor); }));
  return parts;
}

} // namespace lathe
