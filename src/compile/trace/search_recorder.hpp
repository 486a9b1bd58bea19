// What a search tells a trace, kept as it is told: hashes, numbers and moves by their handles. It becomes
// text later, in write_search.cpp, where states get their numbers. A recorder of a piece of the search
// belongs to the thread of that piece; its record follows the whole one's when the pieces are joined.
#pragma once
#include <chrono>
#include <unordered_set>
#include <vector>

#include "core/byte_log.hpp"
#include "search/beam/search_trace.hpp"

namespace lathe::tracing {

using Clock = std::chrono::steady_clock;

/// The records of a search, as the log has them. Each begins with its kind and the seconds since the
/// compilation began.
enum class Told : uint8_t {
  Program,     // hash, text: a program's fields, before the first search of it here
  Begins,      // program's hash, moves, measures
  Ends,        // moves, predicted, measured, hash
  Plan,        // moves, seconds, hash
  Plans,       // hash of the plan they come from, tried
  KeptPlans,   // count, hashes
  Root,        // hash, hash of its plan, seconds, count of stages, stages
  Kernels,     // hash of the kernel they come from, tried
  KeptKernels, // count; of each its hash and its terms
  Measured,    // hash, predicted, seconds, error, count of stages, stages, moves, terms
};

class SearchRecorder : public search::SearchTrace {
public:
  void begins(const search::Plan& start, search::CostModel& model, bool measures) override;
  void ends(const search::Plan& found, double predicted_seconds, double measured_seconds) override;
  void starts_at(const search::Plan& plan, double seconds) override;
  void plans_from(const search::Plan& from, const search::TriedList& tried) override;
  void keeps_plans(const std::vector<const search::Plan*>& plans) override;
  void schedules(const search::Plan& plan, size_t k, double seconds) override;
  void kernels_from(const search::KernelPlan& from, const search::TriedList& tried) override;
  void keeps_kernels(const std::vector<search::KernelPlanRef>& kernels) override;
  void measured(const search::KernelPlan& kernel, double predicted_seconds,
                const search::Measurement& result) override;
  std::unique_ptr<SearchTrace> piece() override;
  void join(SearchTrace& piece) override;

protected:
  explicit SearchRecorder(Clock::time_point began) : began_(began) {}
  /// A program's fields in its record.
  virtual std::string fields_of(const lower::Program& program, uint64_t hash,
                                const search::Target& target) const = 0;
  /// Called after each record; `all`: now is a time to write what was told.
  virtual void told(bool all) = 0;

  const Clock::time_point began_;
  ByteLog log_;

private:
  friend class PieceRecorder;
  void begin(Told kind);
  void end() { told(models_.empty()); }
  /// Whether this, or the recorder of which it is a piece, has put the thing of this hash before.
  bool knows(uint64_t hash) const { return known_.contains(hash) || (whole_ && whole_->knows(hash)); }
  bool is_new(uint64_t hash) { return !knows(hash) && known_.insert(hash).second; }
  search::CostModel& model() const { return models_.empty() ? whole_->model() : *models_.back(); }
  uint64_t program() const { return programs_.empty() ? whole_->program() : programs_.back(); }
  bool open() const { return !models_.empty() || (whole_ && whole_->open()); }

  const SearchRecorder* whole_ = nullptr;  // of a piece; it says nothing while its pieces are told
  std::vector<search::CostModel*> models_; // of the open searches, the inner ones last
  std::vector<uint64_t> programs_;         // hashes, of the same
  std::unordered_set<uint64_t> known_;     // programs, and plans by program
};

} // namespace lathe::tracing
