#include "search/beam/form_search.hpp"

#include <algorithm>
#include <chrono>
#include <fmt/format.h>
#include <map>

#include "graph/forms/strassen.hpp"
#include "graph/forms/winograd.hpp"
#include "search/beam/byte_sums.hpp"
#include "search/beam/forms.hpp"
#include "search/beam/isolated.hpp"
#include "search/beam/joint_search.hpp"
#include "search/beam/order_search.hpp"
#include "search/beam/pieces.hpp"
#include "search/beam/region_search.hpp"
#include "search/beam/search.hpp"
#include "search/cost/cost.hpp"
#include "search/moves/plan.hpp"

namespace lathe::search {
namespace {

using Clock = std::chrono::steady_clock;
using graph::NodeRef;

constexpr double kNear = 1.5;        // ratio to the best predicted time; slower forms are not measured
constexpr double kAskedFor = 0.98;   // ratio of times; a form that the user asked for must save two per cent
constexpr double kForDeciding = 0.5; // share of the budget for single sums, if several have forms
constexpr int kMostAxes = 3;         // axes along which a form stores values innermost
constexpr int64_t kFewChannels = 8;  // channels; with fewer, transforms cost more than products
constexpr int64_t kSmallBlock = 16;  // rows, columns or terms; below, sums of blocks cost more than products

/// The moves that make other forms of this stage, where a form may pay.
std::vector<Move> forms_of(const lower::Stage& stage, const AllowedForms& allowed) {
  std::vector<Move> forms;
  const auto c = allowed.winograd > 0 ? graph::read_convolution(stage.node) : std::nullopt;
  if (c && c->channels >= kFewChannels && c->outputs >= kFewChannels)
    for (int tile = allowed.winograd; tile >= 2; tile -= 2)
      forms.push_back({MoveKind::Winograd, {StageHandle(stage.id), tile}});
  const auto p = allowed.strassen > 0 ? graph::read_product(stage.node) : std::nullopt;
  for (int levels = 1; p && levels <= allowed.strassen; ++levels)
    if (graph::can_halve(*p, levels) && std::min({p->rows, p->columns, p->terms}) >> levels >= kSmallBlock)
      forms.push_back({MoveKind::Strassen, {StageHandle(stage.id), levels}});
  return forms;
}

/// Stages that have other forms.
std::vector<int> sums_with_forms(const lower::Program& program, const AllowedForms& allowed) {
  std::vector<int> found;
  for (const lower::Stage& stage : program.stages)
    if (!forms_of(stage, allowed).empty()) found.push_back(stage.id);
  return found;
}

/// The seeds that begin with this form's moves, as plans of the form's own program.
std::vector<Plan> seeds_of(const Plan& form, const std::vector<Plan>& seeds, const Target& target) {
  const std::vector<Move> first = form.moves();
  std::vector<Plan> out;
  for (const Plan& seed : seeds) {
    const std::vector<Move> moves = seed.moves();
    if (moves.size() < first.size() || !std::equal(first.begin(), first.end(), moves.begin())) continue;
    const std::vector<Move> rest(moves.begin() + static_cast<long>(first.size()), moves.end());
    if (std::any_of(rest.begin(), rest.end(), [](const Move& m) { return rewrites_graph(m.kind); })) continue;
    if (Applied applied = apply(form, rest, target); applied.plan) out.push_back(std::move(*applied.plan));
  }
  return out;
}

/// The plan with values stored in orders that make its sums faster. A round decides one axis.
Plan ordered(Plan plan, CostModel& model, const SearchOptions& options) {
  for (int axes = 0; axes < kMostAxes; ++axes) {
    const std::optional<Move> order = suggest_order(plan, model, options);
    if (!order) break;
    Applied applied = apply(plan, *order, model.target());
    if (!applied.plan) break;
    plan = std::move(*applied.plan);
  }
  return plan;
}

struct Form {
  Plan plan;
  SearchResult by_model;
  double worthwhile = 1; // ratio to the time of the best form so far; below it, this form wins
};

/// The best plan of a program in which one sum has other forms, made by the moves `others`.
SearchResult decide(const Plan& start, const std::vector<Move>& others, CostModel& model,
                    const SearchOptions& options, const MakeMeasure& make_measure) {
  const SearchOptions quick = by_model_alone(options);
  std::vector<std::optional<Form>> made(1 + others.size());
  search_pieces(made.size(), quick, [&](size_t k, SearchTrace* trace) {
    std::optional<Plan> plan = k == 0 ? start : std::move(apply(start, others[k - 1], model.target()).plan);
    if (!plan) return;
    SearchOptions own = quick;
    own.trace = trace;
    Plan form = ordered(std::move(*plan), model, own);
    SearchResult found = search(form, model, own);
    const bool asked_for = k > 0 && others[k - 1].kind == MoveKind::Strassen;
    made[k] = Form{std::move(form), std::move(found), k == 0 ? 1 : asked_for ? kAskedFor : kWorthwhileForm};
  });
  std::vector<Form> forms;
  for (std::optional<Form>& form : made)
    if (form) forms.push_back(std::move(*form));
  double best = forms[0].by_model.predicted_seconds;
  for (const Form& form : forms) best = std::min(best, form.by_model.predicted_seconds);
  SearchResult result = std::move(forms[0].by_model);
  if (make_measure) {
    std::erase_if(forms, [&](const Form& f) { return f.by_model.predicted_seconds > kNear * best; });
    SearchOptions how = options;
    how.budget_seconds /= static_cast<double>(std::max<size_t>(1, forms.size()));
    result.measured_seconds = 0;
    for (const Form& form : forms) {
      make_measure(form.plan.program, how);
      // Plans of earlier searches compete with the plan that the model ranks first today.
      how.seeds = seeds_of(form.plan, options.seeds, model.target());
      how.seeds.insert(how.seeds.begin(), form.by_model.plan);
      SearchResult found = search(form.plan, model, how);
      const bool better =
          result.measured_seconds == 0 || found.measured_seconds < form.worthwhile * result.measured_seconds;
      found.proposed += result.proposed;
      found.measured += result.measured;
      found.rejected += result.rejected;
      for (const auto& [why, count] : result.rejections) found.rejections[why] += count;
      if (better && found.measured_seconds > 0) {
        // A later form that loses is no rival: it rounds differently, so it has to win clearly.
        if (result.measured_seconds > 0) found.rivals.push_back(std::move(result.plan));
        result = std::move(found);
      } else {
        result.proposed = found.proposed, result.measured = found.measured, result.rejected = found.rejected,
        result.rejections = std::move(found.rejections);
      }
    }
    return result;
  }
  for (size_t k = 1; k < forms.size(); ++k) {
    SearchResult& found = forms[k].by_model;
    found.proposed += result.proposed;
    found.rejected += result.rejected;
    if (found.predicted_seconds < forms[k].worthwhile * result.predicted_seconds)
      result = std::move(found);
    else
      result.proposed = found.proposed, result.rejected = found.rejected;
  }
  return result;
}

/// The move that made the form of the plan found, without its stages. Nothing if the form is as written.
std::optional<Move> form_of(const SearchResult& found) {
  const std::vector<Move> moves = found.plan.moves();
  if (moves.empty() || (moves[0].kind != MoveKind::Winograd && moves[0].kind != MoveKind::Strassen))
    return {};
  return Move{moves[0].kind, {moves[0].arguments.back()}};
}

} // namespace

SearchResult search_forms(const Plan& as_written, CostModel& model, const SearchOptions& given,
                          const AllowedForms& allowed, const MakeMeasure& make_measure) {
  SearchOptions options = given;
  if (!make_measure) options.whole_seconds = least_seconds(as_written, model);
  if (options.quick) return search(as_written, model, options);
  const Plan start = with_byte_sums(as_written, model, options);
  const auto began = Clock::now();
  const auto stage_at = [](const Plan& plan, int s) -> const lower::Stage& {
    return plan.program->stages[static_cast<size_t>(s)];
  };
  const std::vector<int> sums = sums_with_forms(*start.program, allowed);
  if (sums.size() == 1)
    return decide(start, forms_of(stage_at(start, sums[0]), allowed), model, options, make_measure);

  Plan plan = start;
  if (!sums.empty()) {
    std::map<std::string, lower::NamedOutput> distinct;
    for (const int s : sums) {
      const NodeRef alone = isolated(stage_at(start, s).node);
      distinct.emplace(signature_of(alone), lower::NamedOutput{"y", alone});
    }
    std::map<std::string, Move> chosen; // by signature
    SearchOptions share = options;
    share.budget_seconds *= kForDeciding / static_cast<double>(distinct.size());
    share.progress = nullptr;
    const bool is_quick = is_long(*start.program);
    if (is_quick) share.beam = SearchOptions().beam;
    const std::vector<std::pair<std::string, lower::NamedOutput>> each(distinct.begin(), distinct.end());
    const MakeMeasure measuring = is_quick ? MakeMeasure() : make_measure;
    std::vector<std::optional<Move>> found(each.size());
    const auto decide_one = [&](size_t k, SearchTrace* trace) {
      const Plan by_itself = initial_plan(
          std::make_shared<const lower::Program>(lower::lower({each[k].second}, start.program->evaluate)));
      const std::vector<int> only = sums_with_forms(*by_itself.program, allowed);
      if (only.size() != 1) return;
      SearchOptions own = share;
      own.trace = trace;
      found[k] =
          form_of(decide(by_itself, forms_of(stage_at(by_itself, only[0]), allowed), model, own, measuring));
    };
    if (measuring) { // what is timed has the machine for itself
      for (size_t k = 0; k < each.size(); ++k) decide_one(k, share.trace);
    } else {
      search_pieces(each.size(), share, decide_one);
    }
    for (size_t k = 0; k < each.size(); ++k)
      if (found[k]) chosen.emplace(each[k].first, std::move(*found[k]));
    // One move rewrites all sums of a form, since each such move numbers the stages anew.
    std::vector<Move> forms;
    for (const auto& [key, form] : chosen)
      if (std::find(forms.begin(), forms.end(), form) == forms.end()) forms.push_back(form);
    for (const Move& form : forms) {
      Move move = form;
      for (const int s : sums_with_forms(*plan.program, allowed)) {
        const lower::Stage& stage = stage_at(plan, s);
        const auto it = chosen.find(signature_of(isolated(stage.node)));
        if (it != chosen.end() && it->second == form)
          move.arguments.insert(move.arguments.end() - 1, StageHandle(s));
      }
      if (move == form) continue;
      if (Applied applied = apply(plan, move, model.target()); applied.plan) plan = std::move(*applied.plan);
    }
  }
  plan = ordered(std::move(plan), model, options);
  SearchOptions how = options;
  if (make_measure) {
    make_measure(plan.program, how);
    how.seeds = seeds_of(plan, options.seeds, model.target());
    const double spent = std::chrono::duration<double>(Clock::now() - began).count();
    if (how.budget_seconds > 0)
      how.budget_seconds = std::max(0.1 * how.budget_seconds, how.budget_seconds - spent);
  }
  return search(plan, model, how);
}

} // namespace lathe::search
