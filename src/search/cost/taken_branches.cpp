#include "search/cost/taken_branches.hpp"

#include <bit>
#include <optional>

#include "ast/values.hpp"

namespace lathe::search {

using namespace ast;

namespace {

constexpr int64_t kMostIterations = 8;

/// The iterations of the loop in which the condition holds; nothing if it depends on more than the loop.
std::optional<uint64_t> iterations_of(const Value& condition, const For& loop) {
  if (condition.op != Op::Index) return std::nullopt;
  const Expr e = std::get<Expr>(condition.attr);
  uint64_t held = 0;
  for (int64_t i = 0; i < loop.extent.value(); ++i) {
    const Expr now = substitute(e, {{loop.var, Expr(i)}});
    if (!now.is_const()) return std::nullopt;
    if (now.value() != 0) held |= uint64_t{1} << i;
  }
  return held;
}

} // namespace

TakenBranches::TakenBranches(const ValueRef& root, const For& loop) {
  if (!loop.extent.is_const() || loop.extent.value() < 2 || loop.extent.value() > kMostIterations) return;
  std::vector<const Value*> order; // sources before users
  std::unordered_map<const Value*, uint64_t> known;
  visit(root, [&](const ValueRef& v) {
    order.push_back(v.get());
    if (v->op != Op::Where) return;
    if (const auto held = iterations_of(*v->sources[0], loop)) known[v.get()] = *held;
  });
  if (known.empty()) return;
  iterations_ = loop.extent.value();
  alive_[root.get()] = (uint64_t{1} << iterations_) - 1;
  for (auto v = order.rbegin(); v != order.rend(); ++v) {
    const uint64_t here = alive_[*v];
    const auto choice = known.find(*v);
    for (size_t k = 0; k < (*v)->sources.size(); ++k) {
      uint64_t taken = here;
      if (choice != known.end()) taken &= k == 0 ? 0 : k == 1 ? choice->second : ~choice->second;
      alive_[(*v)->sources[k].get()] |= taken;
    }
    if (choice != known.end()) alive_[*v] = 0; // one of its branches takes its place
  }
}

double TakenBranches::share(const Value& v) const {
  const auto found = alive_.find(&v);
  return found == alive_.end()
             ? 1
             : static_cast<double>(std::popcount(found->second)) / static_cast<double>(iterations_);
}

} // namespace lathe::search
