#include "compile/trace/search_recorder.hpp"

#include "core/hash.hpp"
#include "search/moves/plan_hash.hpp"
#include "search/store/database.hpp"

namespace lathe::tracing {

using search::KernelPlan;
using search::Plan;

/// A recorder of one piece. What only the trace can say, it asks the whole recorder, which does not change.
class PieceRecorder final : public SearchRecorder {
public:
  explicit PieceRecorder(const SearchRecorder& whole) : SearchRecorder(whole.began_) { whole_ = &whole; }
  std::string fields_of(const lower::Program& program, uint64_t hash,
                        const search::Target& target) const override {
    return whole_->fields_of(program, hash, target);
  }
  void told(bool) override {}
};

namespace {

/// The moves after those that rewrite the graph: the plan's program is what these left.
std::vector<search::Move> moves_in_program(const Plan& plan) {
  std::vector<search::Move> moves = plan.moves();
  std::erase_if(moves, [](const search::Move& m) { return search::rewrites_graph(m.kind); });
  return moves;
}

void put_terms(ByteLog& log, const search::Cost& cost) {
  log.put(static_cast<uint32_t>(cost.terms.size()));
  for (const search::CostTerm& term : cost.terms) {
    log.put_text(term.name);
    log.put(term.seconds);
  }
}

void put_stages(ByteLog& log, const KernelPlan& kernel) {
  log.put(static_cast<uint32_t>(kernel.stages.size()));
  log.put_all(kernel.stages);
}

} // namespace

void SearchRecorder::begin(Told kind) {
  log_.put(kind);
  log_.put(std::chrono::duration<double>(Clock::now() - began_).count());
}

void SearchRecorder::begins(const Plan& start, search::CostModel& model, bool measures) {
  const uint64_t hash = search::program_hash(*start.program);
  if (is_new(hash)) {
    begin(Told::Program);
    log_.put(hash);
    log_.put_text(fields_of(*start.program, hash, model.target()));
  }
  models_.push_back(&model);
  programs_.push_back(hash);
  begin(Told::Begins);
  log_.put(hash);
  search::put_moves(log_, moves_in_program(start));
  log_.put(measures);
  end();
}

void SearchRecorder::ends(const Plan& found, double predicted_seconds, double measured_seconds) {
  if (models_.empty()) return;
  begin(Told::Ends);
  search::put_moves(log_, moves_in_program(found));
  log_.put(predicted_seconds);
  log_.put(measured_seconds);
  log_.put(search::plan_hash(found));
  models_.pop_back();
  programs_.pop_back();
  end();
}

void SearchRecorder::starts_at(const Plan& plan, double seconds) {
  const uint64_t hash = search::plan_hash(plan);
  if (!open() || !is_new(mix(program(), hash))) return;
  begin(Told::Plan);
  search::put_moves(log_, moves_in_program(plan));
  log_.put(seconds);
  log_.put(hash);
  end();
}

void SearchRecorder::plans_from(const Plan& from, const search::TriedList& tried) {
  if (!open()) return;
  starts_at(from, 0); // for a plan that no record has yet
  begin(Told::Plans);
  log_.put(search::plan_hash(from));
  log_.put_text(tried.bytes());
  end();
}

void SearchRecorder::keeps_plans(const std::vector<const Plan*>& plans) {
  if (!open()) return;
  begin(Told::KeptPlans);
  log_.put(static_cast<uint32_t>(plans.size()));
  for (const Plan* plan : plans) log_.put(search::plan_hash(*plan));
  end();
}

void SearchRecorder::schedules(const Plan& plan, size_t k, double seconds) {
  if (!open()) return;
  begin(Told::Root);
  log_.put(plan.kernels[k]->hash);
  log_.put(search::plan_hash(plan));
  log_.put(seconds);
  put_stages(log_, *plan.kernels[k]);
  end();
}

void SearchRecorder::kernels_from(const KernelPlan& from, const search::TriedList& tried) {
  if (!open()) return;
  begin(Told::Kernels);
  log_.put(from.hash);
  log_.put_text(tried.bytes());
  end();
}

void SearchRecorder::keeps_kernels(const std::vector<search::KernelPlanRef>& kernels) {
  if (!open()) return;
  begin(Told::KeptKernels);
  log_.put(static_cast<uint32_t>(kernels.size()));
  for (const search::KernelPlanRef& kernel : kernels) {
    log_.put(kernel->hash);
    put_terms(log_, model().cost(kernel));
  }
  end();
}

void SearchRecorder::measured(const KernelPlan& kernel, double predicted_seconds,
                              const search::Measurement& result) {
  if (!open()) return;
  begin(Told::Measured);
  log_.put(kernel.hash);
  log_.put(predicted_seconds);
  log_.put(result.ok ? result.seconds : 0.0);
  log_.put_text(result.ok ? std::string() : result.error);
  put_stages(log_, kernel);
  search::put_moves(log_, kernel.moves);
  put_terms(log_, search::cost(kernel, model().target(), model().machine()));
  end();
}

std::unique_ptr<search::SearchTrace> SearchRecorder::piece() {
  return std::make_unique<PieceRecorder>(*this);
}

void SearchRecorder::join(search::SearchTrace& piece) {
  auto& part = static_cast<PieceRecorder&>(piece); // piece() made it
  told(true);                                      // so that what the piece was told need not be copied
  if (log_.empty())
    std::swap(log_, part.log_);
  else
    log_.append(part.log_);
  known_.merge(part.known_);
  end();
}

} // namespace lathe::tracing
