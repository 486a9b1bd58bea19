// The clock of a search: how long the search has run, and whether it has to end or is not wanted any more.
#pragma once
#include <chrono>
#include <stop_token>
#include <utility>

#include "core/throw_if_stopped.hpp"

namespace lathe::search {

class Watch {
public:
  /// budget 0: no limit.
  explicit Watch(double budget_seconds, std::stop_token stop = {}, std::stop_token abandon = {})
      : budget_(budget_seconds), stop_(std::move(stop)), abandon_(std::move(abandon)) {}
  double elapsed() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - began_).count();
  }
  double left() const { return budget_ > 0 ? budget_ - elapsed() : 1e9; }
  bool stopped() const { return stop_.stop_requested(); }
  /// Whether this share of the budget is spent, or the search was told to stop. Error(Stopped) if nobody
  /// wants what it would find.
  bool over(double share = 1) const {
    throw_if_stopped(abandon_);
    return stopped() || (budget_ > 0 && elapsed() >= share * budget_);
  }

private:
  std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  double budget_;
  std::stop_token stop_, abandon_;
};

} // namespace lathe::search
