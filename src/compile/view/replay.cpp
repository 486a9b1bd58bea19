#include "compile/view/replay.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "lathe/error.hpp"
#include "search/moves/plan_hash.hpp"

namespace lathe::view {
namespace {

[[noreturn]] void fail(int64_t state, const std::string& what) {
  throw Error(ErrorKind::Schedule, fmt::format("state {}: {}", state, what));
}

std::vector<search::Move> parsed(const std::vector<std::string>& texts) {
  std::vector<search::Move> moves;
  for (const std::string& text : texts) moves.push_back(search::parse_move(text));
  return moves;
}

/// A constant of the program, with memory that nobody reads.
graph::NodeRef stand_in(const ProgramRecord& program, uint64_t id) {
  for (const ProgramRecord::Data& data : program.data) {
    if (data.id != id) continue;
    Shape shape;
    for (const std::string& size : data.shape)
      shape.push_back(parse_expr(size, [](std::string_view) -> std::optional<Expr> { return {}; }));
    const DType dtype = parse_dtype(data.dtype);
    graph::check_shape("trace", shape, dtype);
    const int64_t bytes = num_elements(shape).value() * size_of(dtype);
    return graph::realised(Storage::allocate(static_cast<size_t>(bytes)), dtype, shape);
  }
  throw Error(ErrorKind::Name,
              fmt::format("trace: constant {} of a program has no record, expected one", id));
}

} // namespace

const StateRecord& Replay::record(int64_t state) const {
  const auto found = of_.states.find(state);
  if (found == of_.states.end()) fail(state, "the trace has no record of it, expected one");
  return found->second;
}

std::shared_ptr<const lower::Program> Replay::program(int64_t id) {
  if (const auto known = programs_.find(id); known != programs_.end()) return known->second;
  const ProgramRecord& record = of_.programs.at(id);
  const std::vector<graph::NodeRef> nodes =
      graph::parse(record.graph, [&](uint64_t data) { return stand_in(record, data); });
  if (nodes.size() != record.outputs.size())
    throw Error(ErrorKind::Syntax,
                fmt::format("trace: program {} has {} outputs and {} names, expected as many", id,
                            nodes.size(), record.outputs.size()));
  std::vector<lower::NamedOutput> outputs;
  for (size_t k = 0; k < nodes.size(); ++k) outputs.push_back({record.outputs[k], nodes[k]});
  return programs_[id] = std::make_shared<const lower::Program>(lower::lower(outputs));
}

Replay::Made Replay::root(const StateRecord& state) {
  const int64_t id = of_.searches.at(state.search).program;
  auto [plans, is_new] = plans_.try_emplace(id);
  if (is_new)
    for (const auto& [other, candidate] : of_.states)
      if (candidate.kind == StateRecord::Kind::Plan && of_.searches.at(candidate.search).program == id)
        plans->second.emplace(candidate.hash, other);
  const auto plan = plans->second.find(state.plan);
  if (plan == plans->second.end()) throw Error(ErrorKind::Name, "its plan has no record, expected one");
  return {made(plan->second).plan, state.stages};
}

const Replay::Made& Replay::made(int64_t state) {
  // Chains of parents are long: no recursion along them.
  std::vector<int64_t> chain;
  for (int64_t at = state; at >= 0 && !made_.contains(at); at = record(at).parent) {
    chain.push_back(at);
    if (chain.size() > of_.states.size()) fail(state, "is among its own parents, expected a tree");
  }
  for (auto at = chain.rbegin(); at != chain.rend(); ++at) {
    const StateRecord& one = record(*at);
    const int64_t id = of_.searches.at(one.search).program;
    Made made;
    try {
      if (one.kind == StateRecord::Kind::Root)
        made = root(one);
      else if (one.parent < 0)
        made = {search::replay(program(id), parsed(one.moves), of_.programs.at(id).target), {}};
      else {
        const Made& parent = made_.at(one.parent);
        search::Applied applied = search::apply(parent.plan, parsed(one.moves), of_.programs.at(id).target);
        if (!applied.plan) throw Error(ErrorKind::Schedule, applied.reason);
        made = {std::move(*applied.plan), parent.stages};
      }
    } catch (const Error& e) {
      fail(*at, e.what());
    }
    made_.emplace(*at, std::move(made));
  }
  return made_.at(state);
}

search::KernelPlanRef Replay::kernel(int64_t state) {
  const InExprScope inside(scope_);
  const Made& found = made(state);
  for (const search::KernelPlanRef& kernel : found.plan.kernels) {
    if (kernel->stages != found.stages) continue;
    if (kernel->hash != record(state).hash)
      fail(state, fmt::format("its moves make a kernel of hash {:016x}, expected {:016x}", kernel->hash,
                              record(state).hash));
    return kernel;
  }
  fail(state, "its moves leave no kernel of its stages, expected one");
}

search::Plan Replay::plan(int64_t state) {
  const InExprScope inside(scope_);
  const search::Plan& plan = made(state).plan;
  if (search::plan_hash(plan) != record(state).hash)
    fail(state, fmt::format("its moves make a plan of hash {:016x}, expected {:016x}",
                            search::plan_hash(plan), record(state).hash));
  return plan;
}

void Replay::check(int64_t state) {
  if (record(state).kind == StateRecord::Kind::Plan)
    plan(state);
  else
    kernel(state);
}

} // namespace lathe::view
