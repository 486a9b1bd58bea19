// Makes a failing program smaller for as long as it fails: fewer outputs and steps, simpler parameters,
// smaller sizes, plainer values.
#include <algorithm>
#include <chrono>

#include "net/program.hpp"

namespace lathe::net {
namespace {

using Clock = std::chrono::steady_clock;

/// How many operands a function has at least.
size_t needed(const Function& f) {
  if (f.name == "concat" || f.name == "stack" || f.name == "layer_norm" || f.name == "rms_norm" ||
      f.name == "group_norm")
    return 1;
  if (f.name == "batch_norm" || f.name == "attention") return 3;
  return f.name.starts_with("conv") ? 2 : 100;
}

class Shrinker {
public:
  Shrinker(Program program, const RunOptions& options, double seconds)
      : best_(std::move(program)), options_(options),
        end_(Clock::now() + std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000))) {
    const auto first = failure_of(best_, options_);
    thrown_ = first && first->output < 0;
  }

  Program run() {
    for (bool better = true; better && !late();) {
      better = fewer_outputs();
      better |= fewer_steps();
      better |= leaves_instead();
      better |= plainer_numbers();
      better |= smaller_sizes();
      better |= plainer_values();
    }
    return best_;
  }

private:
  bool late() const { return Clock::now() > end_; }

  /// Keeps the program if it is one and still fails.
  bool keep(Program p) {
    if (late()) return false;
    try {
      p = pruned(p);
      const auto failure = failure_of(p, options_);
      if (!failure || (failure->output < 0) != thrown_) return false;
    } catch (const std::exception&) {
      return false;
    }
    best_ = std::move(p);
    return true;
  }

  bool fewer_outputs() {
    bool better = false;
    for (size_t k = best_.outputs.size(); k-- > 0 && best_.outputs.size() > 1;) {
      Program p = best_; // that one alone
      p.outputs = {best_.outputs[k]};
      if (keep(p)) return true;
    }
    for (size_t k = best_.outputs.size(); k-- > 0 && best_.outputs.size() > 1;) {
      Program p = best_;
      p.outputs.erase(p.outputs.begin() + static_cast<long>(k));
      better |= keep(p);
      k = std::min(k, best_.outputs.size());
    }
    return better;
  }

  /// A step's operand, or any earlier value, in its place.
  bool fewer_steps() {
    bool better = false;
    for (int k = static_cast<int>(best_.steps.size()) - 1; k >= 0; --k) {
      if (k >= static_cast<int>(best_.steps.size())) continue;
      const std::vector<int> operands = best_.steps[static_cast<size_t>(k)].in;
      for (int i : operands) {
        Program p = best_;
        for (Step& s : p.steps) std::replace(s.in.begin(), s.in.end(), k, i);
        std::replace(p.outputs.begin(), p.outputs.end(), k, i);
        if (is_leaf(p.steps[static_cast<size_t>(i)]) && std::count(p.outputs.begin(), p.outputs.end(), i))
          continue;
        if (keep(p)) {
          better = true;
          break;
        }
      }
    }
    for (size_t k = 0; k < best_.steps.size(); ++k)
      if (best_.steps[k].in.size() > needed(*best_.steps[k].function)) {
        Program p = best_;
        p.steps[k].in.pop_back();
        better |= keep(p);
      }
    return better;
  }

  /// An input holding a step's value in place of the step.
  bool leaves_instead() {
    bool better = false;
    for (size_t k = 0; k < best_.steps.size(); ++k) {
      if (is_leaf(best_.steps[k])) continue;
      const std::vector<Array> values = evaluate_reference(best_);
      const Array& a = values[k];
      if (std::any_of(a.at.begin(), a.at.end(), [](Cell c) { return !c.exact(); })) continue;
      if (std::count(best_.outputs.begin(), best_.outputs.end(), static_cast<int>(k))) continue;
      Program p = best_;
      Step leaf;
      leaf.function = &function_named("input");
      leaf.ints = a.shape;
      leaf.dtype = a.dtype;
      leaf.more = {0, 0};
      leaf.values = a.at;
      p.steps[k] = leaf;
      better |= keep(p);
    }
    for (size_t k = 0; k < best_.steps.size(); ++k)
      if (best_.steps[k].function->name == "data") {
        Program p = best_;
        p.steps[k].function = &function_named("input");
        better |= keep(p);
      }
    return better;
  }

  bool smaller(size_t step, std::vector<int64_t> Step::* list, size_t at) {
    const int64_t v = (best_.steps[step].*list)[at];
    for (int64_t w : {int64_t{0}, int64_t{1}, v / 2, v - 1, v + 1}) {
      if (std::abs(w) >= std::abs(v) && !(v < 0 && w == v + 1)) continue;
      Program p = best_;
      (p.steps[step].*list)[at] = w;
      if (keep(p)) return true;
    }
    return false;
  }

  bool plainer_numbers() {
    bool better = false;
    for (size_t k = 0; k < best_.steps.size(); ++k) {
      for (size_t i = 0; i < best_.steps[k].ints.size(); ++i) better |= smaller(k, &Step::ints, i);
      for (size_t i = 0; i < best_.steps[k].more.size(); ++i)
        if (!is_leaf(best_.steps[k])) better |= smaller(k, &Step::more, i);
      for (size_t i = 0; i < best_.steps[k].reals.size(); ++i)
        for (double v : {0.0, 1.0, std::trunc(best_.steps[k].reals[i])}) {
          if (std::fabs(v) >= std::fabs(best_.steps[k].reals[i])) continue;
          Program p = best_;
          p.steps[k].reals[i] = v;
          if (keep(p)) {
            better = true;
            break;
          }
        }
    }
    return better;
  }

  /// One size for another everywhere at once.
  bool smaller_sizes() {
    std::vector<int64_t> sizes;
    for (const Step& s : best_.steps)
      for (int64_t n : s.ints)
        if (n > 1 && !std::count(sizes.begin(), sizes.end(), n)) sizes.push_back(n);
    std::sort(sizes.rbegin(), sizes.rend());
    bool better = false;
    for (int64_t n : sizes)
      for (int64_t m : {int64_t{1}, int64_t{2}, n / 2, n - 1}) {
        if (m >= n || m < 1) continue;
        Program p = best_;
        for (Step& s : p.steps) std::replace(s.ints.begin(), s.ints.end(), n, m);
        if (keep(p)) {
          better = true;
          break;
        }
      }
    return better;
  }

  bool plainer_values() {
    bool better = false;
    for (size_t k = 0; k < best_.steps.size(); ++k) {
      if (!is_leaf(best_.steps[k])) continue;
      const std::vector<Cell> now = evaluate_reference(best_)[k].at;
      const bool one_value = std::all_of(now.begin(), now.end(), [&](Cell c) { return c.v == now[0].v; });
      for (Real v : {Real{0}, Real{1}}) {
        if (one_value && (now[0].v == v || std::fabs(now[0].v) < v)) continue;
        Program p = best_;
        p.steps[k].values.assign(now.size(), {v, 0});
        if (keep(p)) {
          better = true;
          break;
        }
      }
      if (now.size() > 40) continue;
      for (size_t i = 0; i < now.size(); ++i)
        for (Real v : {Real{0}, Real{1}, std::trunc(now[i].v)}) {
          const Cell c = evaluate_reference(best_)[k].at[i];
          if (c.v == v || !(std::fabs(v) <= std::fabs(c.v) || std::isnan(c.v)) ||
              (c.v == 1 && v == 0 && false))
            continue;
          Program p = best_;
          p.steps[k].values = evaluate_reference(best_)[k].at;
          p.steps[k].values[i] = {v, 0};
          if (keep(p)) {
            better = true;
            break;
          }
        }
    }
    return better;
  }

  Program best_;
  RunOptions options_;
  Clock::time_point end_;
  bool thrown_ = false;
};

} // namespace

Program shrink(Program program, const RunOptions& options, double seconds) {
  return Shrinker(std::move(program), options, seconds).run();
}

} // namespace lathe::net
