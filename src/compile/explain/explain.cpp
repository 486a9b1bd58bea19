#include "lathe/explain.hpp"

#include <algorithm>
#include <span>
#include <unordered_map>

#include <fmt/format.h>

#include "compile/explain/borders.hpp"
#include "compile/explain/duration.hpp"
#include "compile/front/target.hpp"
#include "compile/run/executable_impl.hpp"
#include "compile/run/kernel_limit.hpp"
#include "compile/run/recurrence.hpp"
#include "lathe/detail/access.hpp"
#include "search/machine/profile.hpp"
#include "view/expr_scope.hpp"

namespace lathe {
namespace {

using search::KernelPlan;
using search::Plan;

constexpr size_t kSavings = 5;
constexpr size_t kNamedInlined = 4, kNamedStages = 6;
constexpr double kWorthwhile = 0.99; // ratio of predicted times: less than one per cent is no help

/// The stages by name, the results last. Of many, those before the last few are counted.
std::string stages_text(const KernelPlan& kernel, const lower::Program& program) {
  const size_t first = kernel.stages.size() - std::min(kernel.stages.size(), kNamedStages);
  std::vector<std::string> names;
  const auto add = [&](const std::vector<int>& stages, size_t from, const char* how) {
    for (const int number : std::span(stages).subspan(from)) {
      const lower::Stage& stage = program.stages[static_cast<size_t>(number)];
      names.push_back(fmt::format("{}{}{}{}", stage.buffer->name, to_string(stage.buffer->shape),
                                  stage.is_reduction ? " sum" : "", how));
    }
  };
  if (kernel.inlined.size() > kNamedInlined)
    names.push_back(fmt::format("{} inlined stages", kernel.inlined.size()));
  else
    add(kernel.inlined, 0, " (inlined)");
  if (first > 0) names.push_back(fmt::format("{} further stages", first));
  add(kernel.stages, first, "");
  return fmt::format("{}", fmt::join(names, ", "));
}

/// The one more proposal that the model ranks first, of each kernel. Equal kernels are asked about once.
class BestMoves {
public:
  BestMoves(const Plan& plan, search::CostModel& model) : plan_(plan), loops_(model, 1, 1, false, true) {}

  /// Adds that of plan.kernels[k].
  void add(size_t k, KernelExplanation& to) {
    const search::KernelPlanRef& kernel = plan_.kernels[k];
    const auto [at, is_new] = known_.try_emplace(kernel->hash);
    if (is_new) at->second = best(k, to.predicted);
    const Known& found = at->second;
    if (found.moves.empty()) return;
    std::vector<std::string> texts;
    for (const search::Move& move : moves_for_equal(*plan_.program, found.moves, *found.kernel, *kernel))
      texts.push_back(to_string(move));
    to.best_moves = fmt::format("{}", fmt::join(texts, "; "));
    to.with_best_moves = found.seconds;
  }

private:
  struct Known {
    search::KernelPlanRef kernel;
    std::vector<search::Move> moves; // empty: none helps
    double seconds = 0;
  };
  Known best(size_t k, double predicted) {
    Known found{plan_.kernels[k], {}, predicted * kWorthwhile};
    for (search::Schedule& next : loops_.neighbours(plan_, k, {plan_.kernels[k], {}, predicted}))
      if (next.seconds < found.seconds) found.seconds = next.seconds, found.moves = std::move(next.moves);
    return found;
  }

  const Plan& plan_;
  search::KernelSearch loops_;
  std::unordered_map<uint64_t, Known> known_; // by hash
};

/// What would save time at this kernel. A predicted share is taken of the measured time.
void add_savings(const KernelExplanation& k, std::vector<Saving>& out) {
  const double scale = k.predicted > 0 ? k.seconds() / k.predicted : 1;
  if (k.limit > 0 && k.seconds() > k.limit)
    out.push_back({k.seconds() - k.limit, fmt::format("{}: at its {} limit, which it misses by {:.1f}x",
                                                      k.name, k.bound, k.seconds() / k.limit)});
  if (!k.best_moves.empty())
    out.push_back({(k.predicted - k.with_best_moves) * scale, fmt::format("{}: {}", k.name, k.best_moves)});
  for (const KernelBorder& border : k.borders)
    if (border.legal && border.together < border.apart && !border.at_least)
      out.push_back({(border.apart - border.together) * scale,
                     fmt::format("{}: one kernel with {}, by {}", k.name, border.other, border.moves)});
}

/// Adds the terms of a kernel of `program`, `times` over. A recurrence has those of its launch, and those of
/// all steps of its body.
void add_terms(const Kernel& kernel, const Executable::Impl& program, const search::Target& target,
               double times, std::vector<std::pair<std::string, double>>& out) {
  const KernelPlan& plan = *detail::impl(kernel)->plan;
  for (const search::CostTerm& term : search::cost(plan, target, search::machine_profile()).terms) {
    const auto known =
        std::find_if(out.begin(), out.end(), [&](const auto& other) { return other.first == term.name; });
    if (known != out.end())
      known->second += times * term.seconds;
    else
      out.emplace_back(term.name, times * term.seconds);
  }
  const pipeline::RecurrenceProgram* recurrence = pipeline::recurrence_of(kernel);
  if (!recurrence) return;
  times *= search::estimated_steps(program.program->recurrences[static_cast<size_t>(plan.recurrence)]);
  const Executable::Impl& body = recurrence->body();
  const search::Target of_body = pipeline::target_for(body.options, *body.program);
  for (const Kernel& inside : body.kernels) add_terms(inside, body, of_body, times, out);
}

/// How often a recurrence runs its kernels, and which of them takes longest; nothing for other kernels.
std::string steps_text(const Kernel& kernel) {
  const pipeline::RecurrenceProgram* recurrence = pipeline::recurrence_of(kernel);
  if (!recurrence || recurrence->body().kernels.empty()) return {};
  const std::vector<Kernel>& kernels = recurrence->body().kernels;
  const Kernel& longest =
      *std::max_element(kernels.begin(), kernels.end(), [](const Kernel& a, const Kernel& b) {
        return a.predicted_seconds() < b.predicted_seconds();
      });
  return fmt::format(", {} {} kernels, of which {} takes longest, {}", recurrence->times(), kernels.size(),
                     longest.name(), pipeline::duration(longest.predicted_seconds()));
}

} // namespace

Explanation explain(const Executable& program, const std::map<std::string, double>& measured) {
  const Executable::Impl& impl = *detail::impl(program);
  const InExprScope of_program(impl.program->expressions);
  const InExprScope inside(new_expr_scope());
  const search::Target target = pipeline::target_for(impl.options, *impl.program);
  search::CostModel model(target, search::machine_profile());
  std::vector<search::Move> moves = impl.moves; // the program is what those that rewrite the graph left
  std::erase_if(moves, [](const search::Move& m) { return search::rewrites_graph(m.kind); });
  Plan
      plan; // with its kernels as they were compiled; made again by its moves, it would cost a search's tenth
  plan.program = impl.program;
  for (const Kernel& kernel : impl.kernels) plan.kernels.push_back(detail::impl(kernel)->plan);
  pipeline::Borders borders(plan, std::move(moves), impl.fusions.get(), model);
  BestMoves best_moves(plan, model);
  Explanation out;
  for (size_t position = 0; position < impl.kernels.size(); ++position) {
    const Kernel::Impl& of = *detail::impl(impl.kernels[position]);
    KernelExplanation& k = out.kernels.emplace_back();
    k.name = of.name;
    k.stages = stages_text(*of.plan, *impl.program) + steps_text(impl.kernels[position]);
    k.predicted = of.predicted_seconds;
    if (const auto seconds = measured.find(of.name); seconds != measured.end()) k.measured = seconds->second;
    if (const std::optional<pipeline::KernelLimit> least = pipeline::limit_of(of, *impl.program))
      k.limit = least->limit.seconds, k.bound = least->limit.kind;
    add_terms(impl.kernels[position], impl, target, 1, k.terms);
    k.borders = borders.of(*of.plan);
    if (of.plan->recurrence < 0) best_moves.add(position, k);
  }
  out.savings = largest_savings(out.kernels);
  return out;
}

std::vector<Saving> largest_savings(const std::vector<KernelExplanation>& kernels) {
  std::vector<Saving> savings;
  for (const KernelExplanation& kernel : kernels) add_savings(kernel, savings);
  std::stable_sort(savings.begin(), savings.end(),
                   [](const Saving& a, const Saving& b) { return a.seconds > b.seconds; });
  if (savings.size() > kSavings) savings.resize(kSavings);
  return savings;
}

} // namespace lathe
