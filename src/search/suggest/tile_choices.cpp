// The choices of a tiling: the loops of the tile, its size, the operands to pack, and blocks around it.
#include <algorithm>
#include <cmath>
#include <tuple>

#include "search/suggest/suggest.hpp"
#include "search/suggest/tile.hpp"

namespace lathe::search {
namespace {

/// Loops fit for the lanes, best first.
std::vector<int> vector_loops(const TileProblem& p) {
  std::vector<std::pair<double, int>> ranked;
  for (size_t i = 0; i < p.out.size(); ++i) {
    if (p.out[i].extent < 2) continue;
    double contiguous = std::abs(p.out[i].store_stride) == 1 ? 0.5 : 0, strided = 0;
    for (const auto& o : p.operands) {
      const double s = std::abs(o.out_strides[i]);
      if (s == 1 || (s != 0 && o.constant))
        contiguous += 1;
      else if (s != 0)
        strided += 1;
    }
    const double filled = std::min(1.0, p.out[i].average / p.lanes);
    ranked.emplace_back(-(contiguous - strided + filled), static_cast<int>(i));
  }
  std::sort(ranked.begin(), ranked.end());
  std::vector<int> loops;
  for (const auto& [score, i] : ranked) loops.push_back(i);
  return loops;
}

/// Loops along which the operand on the lanes is reused, longest first.
std::vector<int> row_loops(const TileProblem& p, int vector) {
  std::vector<std::tuple<double, double, int>> ranked; // of equally long ones, first the one on fewer lines
  for (size_t i = 0; i < p.out.size(); ++i) {
    if (static_cast<int>(i) == vector || p.out[i].extent < 2) continue;
    bool reused = false;
    double step = std::abs(p.out[i].store_stride);
    for (const auto& o : p.operands) {
      reused |= o.out_strides[vector] != 0 && o.out_strides[i] == 0;
      step += std::abs(o.out_strides[i]);
    }
    if (reused) ranked.emplace_back(-p.out[i].average, step, static_cast<int>(i));
  }
  std::sort(ranked.begin(), ranked.end());
  std::vector<int> loops;
  for (const auto& [extent, step, i] : ranked) loops.push_back(i);
  if (loops.empty()) loops.push_back(-1);
  return loops;
}

bool is_constant_along(const TileProblem& p, int vector) {
  return std::any_of(p.operands.begin(), p.operands.end(),
                     [&](const auto& o) { return o.constant && o.packable && o.out_strides[vector] != 0; });
}

/// Whether an axis outside the tile reuses the operand along the lanes.
bool serves_other_axes(const TileProblem& p, int vector, int rows) {
  for (int i = 0; i < static_cast<int>(p.out.size()); ++i) {
    if (i == vector || i == rows || p.out[i].extent < 2) continue;
    for (const auto& o : p.operands)
      if (o.out_strides[vector] != 0 && o.out_strides[i] == 0) return true;
  }
  return false;
}

/// Heights of the tile that fill the registers and leave few rows over at the end of the loop.
std::vector<int> heights(int most, double extent, size_t count) {
  std::vector<std::pair<double, int>> ranked;
  const int largest = static_cast<int>(std::min<double>(most, std::ceil(extent)));
  for (int h = std::max(1, largest / 2); h <= largest; ++h) {
    const double tiles = std::ceil(extent / h);
    const double wasted = tiles * h / extent - 1 + (std::fmod(extent, h) != 0 ? 0.03 : 0);
    ranked.emplace_back(wasted + 0.5 / h, h);
  }
  std::sort(ranked.begin(), ranked.end());
  std::vector<int> out;
  for (size_t i = 0; i < ranked.size() && i < count; ++i) out.push_back(ranked[i].second);
  return out;
}

/// Size of equal blocks, about `size`, that `extent` is divided into.
int64_t even_block(double extent, double size) {
  return static_cast<int64_t>(std::ceil(extent / std::ceil(extent / size)));
}

/// Adds variants of each choice that reads one tile along the lanes for all rows. One runs the reduction in
/// blocks, so that the operands of a block stay in the second-level cache; one prefetches the next tile.
void add_blocks_and_prefetches(const TileProblem& p, const SuggestContext& context,
                               std::vector<TileChoice>& choices) {
  double longest = 1;
  for (const auto& r : p.reduce) longest = std::max(longest, r.average);
  const auto one_tile = [](const TileChoice& c) {
    return c.rows >= 0 && !c.rows_outside && !c.panels_outside && c.vector_block == 0;
  };
  const std::vector<double> depths =
      context.thorough ? std::vector<double>{256, 400, 800} : std::vector<double>{400};
  for (size_t i = 0, n = choices.size(); i < n && !p.fused(); ++i) {
    if (!one_tile(choices[i]) || choices[i].reduce_block) continue;
    for (double depth : depths) {
      TileChoice c = choices[i];
      c.reduce_block = even_block(longest, depth);
      if (static_cast<double>(c.reduce_block) < longest) choices.push_back(c);
    }
  }
  if (p.reduce.size() != 1) return;
  for (size_t i = 0, n = choices.size(); i < n; ++i) {
    if (!one_tile(choices[i]) || is_constant_along(p, choices[i].vector)) continue;
    choices.push_back(choices[i]);
    choices.back().hint_streams = context.machine.hint_streams;
  }
}

/// Adds prefetches of constants where the second-level cache has lost them since the last run.
void prefetch_constants(const TileProblem& p, const SuggestContext& context,
                        std::vector<TileChoice>& choices) {
  const auto& levels = context.machine.levels;
  const int64_t kept = levels[std::min<size_t>(1, levels.size() - 1)].bytes;
  if (context.target.groups || context.target.constant_bytes <= kept) return;
  for (size_t i = 0, n = choices.size(); i < n; ++i) {
    if (!is_constant_along(p, choices[i].vector)) continue;
    if (context.thorough) choices.push_back(choices[i]);
    choices[i].hint_streams = context.machine.hint_streams;
  }
}

} // namespace

std::vector<TileChoice> tile_choices(const TileProblem& p, const SuggestContext& context) {
  std::vector<TileChoice> choices;
  double longest = 1;
  for (const auto& r : p.reduce) longest = std::max(longest, r.average);
  std::vector<int> vectors_along = vector_loops(p);
  if (vectors_along.size() > 2) vectors_along.resize(2);
  const int registers = context.target.vector_registers;
  for (int n : vectors_along) {
    std::vector<int> rows_along = row_loops(p, n);
    if (rows_along.size() > (context.thorough ? 2u : 1u)) rows_along.resize(context.thorough ? 2 : 1);
    for (int m : rows_along) {
      for (int vectors = 1; vectors <= 4; ++vectors) {
        if (vectors > 1 && (vectors - 1) * p.lanes >= p.out[n].extent) break;
        const int most = std::max(1, (registers - vectors - 1) / vectors);
        // A tile of one vector per row shares few loads. It is worth a try only where there is no second
        // vector, or where one tile has all rows, so that the operand along the lanes is read once.
        if (!context.thorough && m >= 0 && vectors == 1 && p.out[n].extent > 2 * p.lanes &&
            p.out[m].extent > most)
          continue;
        const std::vector<int> tall =
            m < 0 ? std::vector<int>{1} : heights(most, p.out[m].average, context.thorough ? 4 : 1);
        for (int height : tall) {
          TileChoice c;
          c.vector = n;
          c.rows = m;
          c.vectors = vectors;
          c.height = height;
          const int64_t width = int64_t{vectors} * p.lanes;
          const auto with_blocks = [&](TileChoice choice) {
            choices.push_back(choice);
            if (!choice.pack_vector || choice.rows_outside) return;
            const std::vector<int64_t> panels =
                context.thorough ? std::vector<int64_t>{2, 4, 8} : std::vector<int64_t>{4};
            std::vector<int64_t> depths{0};
            if (!p.fused() && longest >= 512)
              for (int64_t k :
                   context.thorough ? std::vector<int64_t>{128, 256, 512, 1024} : std::vector<int64_t>{512})
                if (longest > static_cast<double>(k)) depths.push_back(k);
            for (int64_t depth : depths) {
              choice.reduce_block = depth;
              choice.vector_block = 0;
              if (depth) choices.push_back(choice);
              for (int64_t panel : panels) {
                if (panel * width >= p.out[n].extent) break;
                choice.vector_block = panel * width;
                choices.push_back(choice);
              }
            }
          };
          // A constant's copy costs nothing, wherever it is read.
          c.pack_vector = is_constant_along(p, n);
          if (serves_other_axes(p, n, m)) { // first: of equal predictions, this choice is the faster
            c.panels_outside = true;
            choices.push_back(c);
            if (!c.pack_vector) {
              c.pack_vector = true;
              choices.push_back(c);
              c.pack_vector = false;
            }
            c.panels_outside = false;
          }
          with_blocks(c);
          c.rows_outside = true;
          if (m >= 0) {
            choices.push_back(c);
            c.pack_rows = true;
            if (context.thorough) choices.push_back(c);
            if (c.pack_vector) continue;
            c.pack_rows = false;
            c.rows_outside = false;
            c.pack_vector = true;
            with_blocks(c);
          }
        }
      }
    }
  }
  add_blocks_and_prefetches(p, context, choices);
  prefetch_constants(p, context, choices);
  return choices;
}

} // namespace lathe::search
