// Programs lowered for tests of the search, without compiling anything.
#pragma once
#include <memory>

#include "graph/tensor_impl.hpp"
#include "lathe/lathe.hpp"
#include "search/beam/search.hpp"
#include "search/cost/cost.hpp"
#include "search/machine/profile.hpp"
#include "search/moves/plan.hpp"
#include "support/files.hpp"

namespace lathe::test {

inline std::shared_ptr<const lower::Program> lowered(const Tensor& y) {
  return std::make_shared<const lower::Program>(
      lower::lower({{"y", graph::simplify({graph::node_of(y)})[0]}}));
}
inline Tensor in(const std::string& name, const Shape& shape) { return Tensor::input(name, shape); }

/// A machine and target of fixed size, so that tests mean the same everywhere.
inline search::MachineProfile machine() {
  search::MachineProfile m;
  m.cores = 2;
  m.fingerprint = "test machine";
  return m;
}
inline search::Target target(int threads = 1) {
  search::Target t;
  t.threads = threads;
  return t;
}

/// A kernel of a plan, from its text.
inline search::KernelPlan plan_of(const std::string& text) {
  search::KernelPlan plan;
  plan.kernel = ast::parse(text);
  plan.hash = ast::structural_hash(plan.kernel);
  return plan;
}

/// What the model says of a kernel, without the launch, which says nothing about loops.
inline double seconds_of(const std::string& text, const search::Target& target,
                         const search::MachineProfile& on = machine()) {
  return search::cost(plan_of(text), target, on).seconds - on.launch_seconds;
}

/// The reason why a move is not legal, without the move's own text; empty if it is.
inline std::string why_not(const search::Plan& plan, const char* move) {
  const std::string reason = search::apply(plan, search::parse_move(move), target()).reason;
  const size_t colon = reason.find(": ");
  return colon == std::string::npos ? reason : reason.substr(colon + 2);
}

inline search::SearchResult searched(const Tensor& y, const search::SearchOptions& options = {},
                                     int threads = 1) {
  search::CostModel model(target(threads), machine());
  return search::search(search::initial_plan(lowered(y)), model, options);
}

} // namespace lathe::test
