#include "search/cost/parallelism.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace lathe::search {

double unevenness(const Features& f, int l) {
  double most = 1;
  std::array<double, 64> above{1}; // by depth below l
  for (int inner = l + 1; inner < f.loops[l].end; ++inner) {
    const LoopInfo& loop = f.loops[inner];
    const auto below = static_cast<size_t>(loop.depth - f.loops[l].depth);
    if (below >= above.size()) continue;
    above[below] = above[below - 1];
    if (!loop.loop->extent.is_const() && depends_on(loop.loop->extent, f.loops[l].loop->var))
      above[below] *= std::max(1.0, static_cast<double>(loop.loop->extent.hi()) / std::max(1.0, loop.extent));
    most = std::max(most, above[below]);
  }
  return most;
}

double parallelism(const Features& f, int nest, const Target& target) {
  double units = 1, locals = 1, longest = 1;
  for (int l = nest; l < f.loops[nest].end; ++l) {
    const auto kind = f.loops[l].loop->kind;
    if (kind == ast::LoopKind::Parallel || kind == ast::LoopKind::Group) {
      units = std::max(units, 1.0) * std::max(1.0, f.loops[l].extent);
      if (!target.gpu && target.threads > 1) longest = std::max(longest, unevenness(f, l));
    }
    if (kind == ast::LoopKind::Local) locals *= std::max(1.0, f.loops[l].extent);
  }
  if (target.gpu) return std::max(1.0, std::min(units, 256.0) * std::min(locals, 256.0));
  const double threads = target.threads;
  if (units <= 1 || threads <= 1) return 1;
  longest = std::min(longest, units);
  // In average units. Either only the last is short, or they shrink and the threads share what is left.
  const double last = std::max(0.0, units - (units - 1) * longest);
  const double in_turn =
      std::max(std::ceil((units - 1) / threads) * longest, (std::ceil(units / threads) - 1) * longest + last);
  const double shared = (units - longest) / threads + longest;
  return units / std::min(in_turn, std::max(shared, longest));
}

bool has_parallel(const Features& f, int nest) {
  for (int l = nest; l < f.loops[nest].end; ++l)
    if (f.loops[l].loop->kind == ast::LoopKind::Parallel) return true;
  return false;
}

} // namespace lathe::search
