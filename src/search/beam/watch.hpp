// The clock of a search: how long the search has run, and whether it has to end.
#pragma once
#include <atomic>
#include <chrono>

namespace lathe::search {

class Watch {
public:
  /// budget 0: no limit. `stop` may be null.
  Watch(double budget_seconds, const std::atomic<bool>* stop) : budget_(budget_seconds), stop_(stop) {}
  double elapsed() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - began_).count();
  }
  double left() const { return budget_ > 0 ? budget_ - elapsed() : 1e9; }
  bool stopped() const { return stop_ && stop_->load(std::memory_order_relaxed); }
  /// Whether this share of the budget is spent, or the search was told to stop.
  bool over(double share = 1) const { return stopped() || (budget_ > 0 && elapsed() >= share * budget_); }

private:
  std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  double budget_;
  const std::atomic<bool>* stop_;
};

} // namespace lathe::search
