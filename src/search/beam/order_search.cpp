#include "search/beam/order_search.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <unordered_map>

#include "graph/forms/storage_order.hpp"
#include "graph/realise.hpp"
#include "search/beam/isolated.hpp"
#include "search/beam/pieces.hpp"
#include "search/beam/search.hpp"
#include "search/cost/cost.hpp"
#include "search/moves/plan.hpp"
#include "view/expr_scope.hpp"

namespace lathe::search {
namespace {

using graph::NodeRef;

constexpr double kWorthwhileOrder = 0.98; // ratio of the sums' predicted times; a move must save two per cent
constexpr int64_t kFewTerms = 8;          // terms of a sum; with fewer, lanes along them stay empty
constexpr int kPasses = 2;                // over all families

/// Values that are stored in the same order: as they are, or with the seed's axis innermost.
struct Family {
  StageHandle seed;
  bool innermost = false;
};

/// A sum or transform whose time depends on the orders of families.
struct Coupler {
  NodeRef node;
  std::vector<int> families;
};

class OrderSearch {
public:
  OrderSearch(const Plan& plan, CostModel& model, const SearchOptions& options)
      : plan_(plan), model_(model), options_(options) {}

  std::optional<Move> best() {
    find_families();
    if (families_.empty()) return {};
    find_couplers();
    const double as_it_is = seconds_with(false), all = seconds_with(true);
    double now = as_it_is;
    if (all < as_it_is)
      now = all;
    else
      seconds_with(false);
    improve(now);
    if (now > kWorthwhileOrder * as_it_is) return {};
    Move move{MoveKind::Innermost, {}};
    for (const Family& family : families_)
      if (family.innermost) move.arguments.push_back(family.seed);
    move.arguments.push_back(int64_t{axis_});
    return move;
  }

private:
  /// Finds the families whose seeds name the same axis, since a move has one axis. Families of other axes are
  /// left for the next move.
  void find_families() {
    std::vector<NodeRef> outputs;
    for (const lower::OutputBuffer& output : plan_.program->outputs) outputs.push_back(output.node);
    const graph::Families families(outputs);
    std::unordered_map<const graph::Node*, StageHandle> stages;
    for (const lower::Stage& stage : plan_.program->stages)
      stages.emplace(stage.node.get(), StageHandle(stage.id));
    for (const lower::Stage& stage : plan_.program->stages) {
      const auto summed = graph::summed_axis(stage.node);
      if (!summed || summed->terms < kFewTerms || !stages.contains(summed->value.get())) continue;
      if (graph::is_innermost(summed->value, summed->axis)) continue;
      if (axis_ < 0) axis_ = summed->axis;
      if (summed->axis != axis_) continue;
      if (member_of_.contains(summed->value.get())) continue;
      const graph::StorageOrders family = families.around(summed->value, axis_);
      if (family.empty()) continue; // its order is the user's
      for (const auto& [node, order] : family)
        member_of_.emplace(node, Member{static_cast<int>(families_.size()), order});
      families_.push_back({stages.at(summed->value.get())});
    }
  }

  void find_couplers() {
    for (const lower::Stage& stage : plan_.program->stages) {
      if (!stage.is_reduction && !stage.is_transform) continue;
      Coupler coupler{stage.node, {}};
      for (const NodeRef& node : stored_around(stage.node))
        if (const auto m = member_of_.find(node.get()); m != member_of_.end())
          coupler.families.push_back(m->second.family);
      std::sort(coupler.families.begin(), coupler.families.end());
      coupler.families.erase(std::unique(coupler.families.begin(), coupler.families.end()),
                             coupler.families.end());
      if (!coupler.families.empty()) couplers_.push_back(std::move(coupler));
    }
    of_family_.resize(families_.size());
    for (size_t c = 0; c < couplers_.size(); ++c)
      for (int f : couplers_[c].families) of_family_[static_cast<size_t>(f)].push_back(c);
  }

  /// The current orders of the coupler's families.
  std::vector<bool> orders_of(size_t c) const {
    std::vector<bool> now;
    for (int f : couplers_[c].families) now.push_back(families_[static_cast<size_t>(f)].innermost);
    return now;
  }

  /// The coupler by itself, with the families' current orders.
  NodeRef alone_now(size_t c) const {
    return isolated(couplers_[c].node, [&](const NodeRef& node) -> const graph::AxisOrder* {
      const auto m = member_of_.find(node.get());
      const bool reordered =
          m != member_of_.end() && families_[static_cast<size_t>(m->second.family)].innermost;
      return reordered ? &m->second.order : nullptr;
    });
  }

  /// Predicts the time of each of these couplers with the families' current orders, equal ones once.
  void predict(const std::vector<size_t>& couplers) {
    std::vector<std::pair<double*, NodeRef>> fresh;          // what is to be predicted, and its place
    std::vector<std::pair<double*, const double*>> as_equal; // a coupler's time, and where it will be
    for (const size_t c : couplers) {
      const auto [place, added] = known_.emplace(std::make_pair(c, orders_of(c)), 0);
      if (!added) continue;
      const NodeRef alone = alone_now(c);
      const auto [seconds, is_new] =
          of_equals_.emplace(graph::print(graph::without_data({alone}).outputs), 0);
      if (is_new) fresh.emplace_back(&seconds->second, alone);
      as_equal.emplace_back(&place->second, &seconds->second);
    }
    SearchOptions quick;
    quick.stop = options_.stop;
    quick.abandon = options_.abandon;
    quick.joins = false;
    quick.whole_seconds = options_.whole_seconds;
    search_pieces(fresh.size(), options_, [&](size_t k, SearchTrace*) {
      const InExprScope own(new_expr_scope());
      const Plan start = initial_plan(std::make_shared<const lower::Program>(
          lower::lower({{"y", fresh[k].second}}, plan_.program->evaluate)));
      *fresh[k].first = search(start, model_, quick).predicted_seconds;
    });
    for (const auto& [place, seconds] : as_equal) *place = *seconds;
  }

  /// The sum of the couplers' predicted seconds.
  double seconds_of(const std::vector<size_t>& couplers) {
    predict(couplers);
    double sum = 0;
    for (const size_t c : couplers) sum += known_.at({c, orders_of(c)});
    return sum;
  }

  double seconds_with(bool innermost) {
    for (Family& family : families_) family.innermost = innermost;
    std::vector<size_t> all(couplers_.size());
    std::iota(all.begin(), all.end(), size_t{0});
    return seconds_of(all);
  }

  /// Changes the order of one family at a time, as long as that saves time.
  void improve(double& now) {
    bool changed = true;
    for (int pass = 0; pass < kPasses && changed; ++pass) {
      changed = false;
      for (size_t f = 0; f < families_.size(); ++f) {
        const double before = seconds_of(of_family_[f]);
        families_[f].innermost = !families_[f].innermost;
        const double after = seconds_of(of_family_[f]);
        if (after < before) {
          now += after - before;
          changed = true;
        } else {
          families_[f].innermost = !families_[f].innermost;
        }
      }
    }
  }

  struct Member {
    int family;
    graph::AxisOrder order;
  };
  const Plan& plan_;
  CostModel& model_;
  const SearchOptions& options_;
  int axis_ = -1;
  std::vector<Family> families_;
  std::unordered_map<const graph::Node*, Member> member_of_;
  std::vector<Coupler> couplers_;
  std::vector<std::vector<size_t>> of_family_;                   // by family: positions of its couplers
  std::map<std::pair<size_t, std::vector<bool>>, double> known_; // seconds, by coupler and orders
  std::map<std::string, double> of_equals_;                      // seconds, by the isolated graph's text
};

} // namespace

std::optional<Move> suggest_order(const Plan& plan, CostModel& model, const SearchOptions& options) {
  return OrderSearch(plan, model, options).best();
}

} // namespace lathe::search
