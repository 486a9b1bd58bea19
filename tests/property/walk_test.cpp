// Any plan that moves can reach computes what the unscheduled kernels compute in the interpreter.
//   walk_test [doctest options] ; the number of plans and the device come from LATHE_WALKS and
//   LATHE_WALK_DEVICE.
#include <algorithm>
#include <cstdlib>
#include <iostream>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "graph/forms/three_bytes.hpp"
#include "graph/tensor_impl.hpp"
#include "search/suggest/suggest.hpp"
#include "support/programs.hpp"
#include "support/run_plan.hpp"
#include "support/vector_forms.hpp"
#include "support/walk.hpp"

using namespace lathe;

namespace {

std::string describe(const std::vector<search::Move>& moves) {
  std::string text;
  for (const auto& move : moves) text += "  " + to_string(move) + "\n";
  return text;
}

/// Nests merged in rows, and running sums, which a walk seldom comes upon; nothing if the program has none.
std::optional<search::Plan> in_rows(const search::Plan& start, const search::Target& target) {
  search::Plan plan = start;
  for (search::Suggester suggest : {search::suggest_inline, search::suggest_fuse})
    for (size_t k = 0; k < plan.kernels.size(); ++k) {
      search::Features features;
      read_features(plan.kernels[k]->kernel, target, features);
      const search::MachineProfile machine;
      for (const auto& p : suggest({plan, *plan.kernels[k], features, target, machine, false, {}, true})) {
        const bool rows = std::any_of(p.moves.begin(), p.moves.end(), [](const search::Move& m) {
          return m.kind == search::MoveKind::Merge || m.kind == search::MoveKind::Carry;
        });
        if (!rows && (suggest != search::suggest_inline || p.moves.size() == 1)) continue; // all at once
        search::Applied applied = apply(plan, p.moves, target);
        if (!applied.plan) continue;
        plan = std::move(*applied.plan);
        if (rows) return plan;
        break;
      }
    }
  return {};
}

/// The last reduction in tiles of an instruction, if the target has one for it.
std::optional<search::Plan> in_tensors(const search::Plan& start, const search::Target& target) {
  search::Plan plan = start;
  for (const search::Suggester suggest : {search::suggest_inline, search::suggest_tile}) {
    // The former proposes for the first kernel what it proposes for all.
    const search::KernelPlanRef kernel =
        suggest == search::suggest_inline ? plan.kernels.front() : plan.kernels.back();
    search::Features features;
    read_features(kernel->kernel, target, features);
    const search::MachineProfile machine;
    std::optional<search::Plan> next;
    for (const auto& p : suggest({plan, *kernel, features, target, machine, false, {}, true})) {
      const bool tensors = std::any_of(p.moves.begin(), p.moves.end(), [](const search::Move& m) {
        return m.kind == search::MoveKind::Tensorise;
      });
      if (tensors || suggest == search::suggest_inline) next = apply(plan, p.moves, target).plan;
      if (next) break;
    }
    if (!next && suggest == search::suggest_tile) return {};
    if (next) plan = std::move(*next);
  }
  return plan;
}

/// Sums over blocks by products of bytes, whose operands are unpacked where the target has an instruction for
/// them; nothing if the program has no such sums.
std::optional<search::Plan> by_bytes(const search::Plan& start, const search::Target& target) {
  search::Move move{search::MoveKind::ThreeBytes, {}};
  for (const lower::Stage& stage : start.program->stages)
    if (graph::read_block_of_bytes(stage.node)) move.arguments.push_back(search::StageHandle(stage.id));
  if (move.arguments.empty()) return {};
  search::Applied rewritten = apply(start, move, target);
  REQUIRE_MESSAGE(rewritten.plan, rewritten.reason);
  const search::Plan bytes = std::move(*rewritten.plan);
  const search::MachineProfile machine;
  const auto proposals = [&](search::Suggester suggest, const search::Plan& plan,
                             const search::KernelPlan& kernel) {
    search::Features features;
    read_features(kernel.kernel, target, features);
    return suggest({plan, kernel, features, target, machine, false, {}, true});
  };
  for (const auto& all : proposals(search::suggest_inline, bytes, *bytes.kernels.front())) {
    const search::Applied inlined = apply(bytes, all.moves, target);
    if (!inlined.plan) continue;
    for (const search::KernelPlanRef& kernel : inlined.plan->kernels)
      for (const auto& p : proposals(search::suggest_block_sums, *inlined.plan, *kernel))
        if (search::Applied made = apply(*inlined.plan, p.moves, target); made.plan) return made.plan;
  }
  return bytes;
}

} // namespace

TEST_CASE("random walks agree with the interpreter") {
  const char* device_name = std::getenv("LATHE_WALK_DEVICE");
  const char* walks = std::getenv("LATHE_WALKS");
  const std::string name = device_name ? device_name : "interp";
  const int plans = walks ? std::atoi(walks) : 500;
  runtime::Device* device = nullptr;
  try {
    device = &runtime::device(name);
  } catch (const Error& error) {
    MESSAGE("skipped: " << error.what());
    return;
  }
  search::Target target;
  target.device = name;
  target.threads = 2;
  target.groups = name == "opencl";
  for (size_t i = 0; i < std::size(kInstructions); ++i)
    if (kInstructions[i].is_tensor()) target.instructions.push_back(static_cast<Instruction>(i));

  struct Case {
    std::string name;
    std::shared_ptr<const lower::Program> program; // of which the start is a plan, perhaps of another form
    search::Plan start;
    test::Memory inputs, expected;
    int64_t reduction_length;
    bool exact;
  };
  std::vector<Case> cases;
  std::vector<test::NamedProgram> programs = test::small_programs();
  for (auto more :
       {test::rewritable_programs, test::long_sums, test::programs_of_all_dtypes, test::narrow_products})
    for (auto& program : more()) programs.push_back(std::move(program));
  for (const auto& program : programs) {
    std::vector<lower::NamedOutput> outputs;
    for (const auto& [label, tensor] : program.outputs) outputs.push_back({label, graph::node_of(tensor)});
    auto lowered = std::make_shared<const lower::Program>(lower::lower(outputs));
    Case c{program.name,
           lowered,
           search::initial_plan(lowered),
           test::random_inputs(*lowered, 7, program.whole),
           {},
           program.reduction_length,
           program.whole};
    c.expected = c.inputs;
    test::run_plan(c.start, c.expected, nullptr);
    cases.push_back(c);
    const std::string plain = c.name;
    const search::Plan start = c.start;
    for (const auto& [way, other] : {std::pair{" in rows", in_rows(start, target)},
                                     {" in tensors", in_tensors(start, target)},
                                     {" by bytes", by_bytes(start, target)}})
      if (other) {
        c.start = *other;
        c.name = plain + way;
        cases.push_back(c);
      }
  }

  const auto forms = test::all_vector_forms();
  test::Programs unchanged;
  std::map<std::string, int64_t> moves; // by kind
  for (int i = 0; i < plans; ++i) {
    const Case& c = cases[static_cast<size_t>(i) % cases.size()];
    test::Walker walker(static_cast<uint64_t>(i), target);
    const search::Plan plan = walker.walk(c.start, 60);
    for (const auto& move : plan.moves()) {
      std::string kind(search::row_of(move.kind).name);
      if (move.kind == search::MoveKind::Bind) kind += " to " + to_string(move.arguments[1]);
      ++moves[kind];
    }
    const lower::Program &first = *c.program, &last = *plan.program;
    const test::Memory expected = test::renamed(c.expected, first, last);
    test::Memory memory = test::renamed(c.inputs, first, last);
    std::string failure;
    try {
      // The machine form of each target in turn, which the interpreter runs as it does any kernel.
      const ast::VectorForms* form =
          name == "interp" ? &forms[static_cast<size_t>(i) % forms.size()] : nullptr;
      test::run_plan(plan, memory, device, &unchanged, form);
      failure = c.exact ? test::exact_difference(last, memory, expected)
                        : test::difference(last, memory, expected, c.reduction_length);
    } catch (const std::exception& error) {
      failure = error.what();
    }
    if (!failure.empty()) {
      std::string kernels;
      for (const auto& k : plan.kernels) kernels += ast::print(k->kernel);
      FAIL_CHECK("plan " << i << " of " << c.name << ": " << failure << "\n"
                         << describe(plan.moves()) << kernels);
    }
    // The list of moves rebuilds the plan, also from its text.
    std::vector<search::Move> parsed;
    for (const auto& move : plan.moves()) parsed.push_back(search::parse_move(to_string(move)));
    const search::Plan again = search::replay(c.program, parsed, target);
    REQUIRE(again.kernels.size() == plan.kernels.size());
    for (size_t k = 0; k < plan.kernels.size(); ++k) CHECK(again.kernels[k]->hash == plan.kernels[k]->hash);
  }
  std::string counts;
  for (const auto& [kind, count] : moves) counts += fmt::format(" {} {}", kind, count);
  MESSAGE(plans << " plans on " << name << ", moves:" << counts);
  if (plans < 1000) return;
  std::vector<std::string> kinds; // each was legal somewhere
  for (const std::string_view name : search::move_names()) kinds.emplace_back(name);
  REQUIRE(kinds.size() > 20);
  std::erase(kinds, "bind");
  if (target.groups) kinds.insert(kinds.end(), {"bind to group", "bind to local"});
  for (const std::string& kind : kinds) {
    CAPTURE(kind);
    CHECK(moves[kind] > 0);
  }
}
