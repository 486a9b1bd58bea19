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

double longest_reduction(const TileProblem& p) {
  double longest = 1;
  for (const auto& r : p.reduce) longest = std::max(longest, r.average);
  return longest;
}

/// Whether the reduction has several blocks of so many iterations: of its longest loop, or, where that is not
/// longer than a block, of all loops together. The latter pays only for many blocks, since the operands of a
/// few stay in a near cache anyway.
bool has_blocks(const TileProblem& p, double size) {
  constexpr double kMany = 4;
  double together = 1;
  for (const auto& r : p.reduce) together *= r.average;
  return longest_reduction(p) > size || together >= kMany * size;
}

/// Adds variants of each choice that reads one tile along the lanes for all rows. One runs the reduction in
/// blocks, so that the operands of a block stay in the second-level cache; one prefetches the next tile.
void add_blocks_and_prefetches(const TileProblem& p, const SuggestContext& context,
                               std::vector<TileChoice>& choices) {
  const double longest = longest_reduction(p);
  const auto one_tile = [](const TileChoice& c) {
    return c.rows >= 0 && !c.rows_outside && !c.panels_outside && c.vector_block == 0 && !c.instruction;
  };
  const std::vector<double> depths =
      context.thorough ? std::vector<double>{256, 400, 800} : std::vector<double>{400};
  for (size_t i = 0, n = choices.size(); i < n && !p.fused(); ++i) {
    if (!one_tile(choices[i]) || choices[i].reduce_block) continue;
    for (double depth : depths) {
      if (!has_blocks(p, depth)) continue;
      TileChoice c = choices[i];
      c.reduce_block = longest > depth ? even_block(longest, depth) : static_cast<int64_t>(depth);
      choices.push_back(c);
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
    if (choices[i].instruction || !is_constant_along(p, choices[i].vector)) continue;
    if (context.thorough) choices.push_back(choices[i]);
    choices[i].hint_streams = context.machine.hint_streams;
  }
}

/// The operands of a product of which one, `along`, moves with the loop along the lanes and the other does
/// not. Nothing if the problem is no such product.
struct Factors {
  const TileProblem::Operand *across, *along;
};
std::optional<Factors> factors_of(const TileProblem& p, int vector) {
  if (!p.adds_products || p.operands.size() != 2) return {};
  Factors out{&p.operands[0], &p.operands[1]};
  if (out.across->out_strides[vector] != 0) std::swap(out.across, out.along);
  if (out.across->out_strides[vector] != 0 || out.along->out_strides[vector] == 0) return {};
  return out;
}

/// The reducing loop along an instruction's k: one along which `across` lies element by element, or else the
/// longest.
int inner_loop(const TileProblem& p, const Factors& factors, const InstructionInfo& row) {
  int best = 0;
  const auto rank = [&](int i) {
    const bool in_place = factors.across->reduce_strides[i] == 1 && p.reduce[i].extent >= row.pack;
    return std::pair(in_place, p.reduce[i].extent);
  };
  for (int i = 1; i < static_cast<int>(p.reduce.size()); ++i)
    if (rank(i) > rank(best)) best = i;
  return best;
}

/// Whether the instruction can multiply these operands, with these loops of the tile.
bool can_use(const TileProblem& p, const Factors& factors, const InstructionInfo& row, int rows,
             const Target& target) {
  if (!row.is_tensor() || row.c != p.sum || row.a != factors.across->dtype || row.b != factors.along->dtype)
    return false;
  if (!factors.along->packable || p.lanes != (row.n != 0 ? row.n : target.lanes(row.c))) return false;
  if (p.reduce[inner_loop(p, factors, row)].extent < (row.is_tile() ? row.pack + 1 : 2)) return false;
  // Where sizes are not known, there may be a single row.
  return !row.is_tile() || (rows >= 0 && p.out[rows].is_fixed && p.out[rows].extent > row.m / 4 &&
                            factors.across->out_strides[rows] != 0 && factors.along->out_strides[rows] == 0);
}

/// Of a loop with so many iterations, how many an instruction takes that can take up to `most`, by `unit`: as
/// many as it can take, but for a lower number that divides the loop, if that fills most of the instruction.
int64_t share_of(int64_t extent, int64_t most, int64_t unit) {
  if (extent <= most) return (extent + unit - 1) / unit * unit;
  for (int64_t share = most; 4 * share >= 3 * most; share -= unit)
    if (extent % share == 0) return share;
  return most;
}

/// Heights and widths of a tile of sums, in registers of the instruction: those that share most loads first.
/// `each`: rows of one instruction. `within`: some loop must lie around the tiles along the lanes.
std::vector<std::pair<int, int>> tensor_tiles(const TileProblem& p, const InstructionInfo& row, int vector,
                                              int rows, int64_t each, bool within,
                                              const SuggestContext& context) {
  std::vector<std::pair<double, std::pair<int, int>>> ranked;
  // Beside sums and operands along the lanes: the other operand, and products that are not yet added.
  const int registers = row.is_tile() ? 6 : context.target.vector_registers - (row.is_pair() ? 2 : 1);
  const double high = rows < 0 ? 1 : p.out[rows].average, wide = p.out[vector].average;
  for (int width = 1; width <= 4; ++width)
    for (int height = 1; (height + (row.is_tile() ? 0 : 1)) * width <= registers; ++height) {
      const double tall = static_cast<double>(each) * height, broad = static_cast<double>(p.lanes) * width;
      if (tall - static_cast<double>(each) >= high || broad - p.lanes >= wide || (within && broad >= wide))
        continue;
      const double filled = high / (std::ceil(high / tall) * tall) * wide / (std::ceil(wide / broad) * broad);
      const double loads = (1.0 / height + 1.0 / width) * (row.is_tile() && height * width > 4 ? 1.5 : 1);
      ranked.push_back({(1 + loads) / filled, {height, width}});
    }
  std::sort(ranked.begin(), ranked.end());
  if (const size_t most = context.thorough ? 6 : 2; ranked.size() > most) ranked.resize(most);
  std::vector<std::pair<int, int>> tiles;
  for (const auto& [rank, tile] : ranked) tiles.push_back(tile);
  return tiles;
}

/// Whether the target has this instruction with 16 bits in place of the 8 of A.
bool takes_wide_rows(const InstructionInfo& row, const Target& target) {
  return row.is_pair() && row.widens(row.a) &&
         std::any_of(target.instructions.begin(), target.instructions.end(), [&](Instruction other) {
           return info(other).is_pair() && info(other).a == DType::I16 && info(other).b == row.b;
         });
}

/// The tiles of one instruction. The operand along the lanes is always packed: no array lies as the
/// instruction takes it.
void add_tensor_choices(const TileProblem& p, const Factors& factors, Instruction instruction, int vector,
                        int rows, const SuggestContext& context, std::vector<TileChoice>& choices) {
  const InstructionInfo& row = info(instruction);
  TileChoice c;
  c.vector = vector;
  c.rows = rows;
  c.instruction = instruction;
  c.inner = inner_loop(p, factors, row);
  c.pack_vector = true;
  const int64_t depth = p.reduce[c.inner].extent;
  c.depth = share_of(depth, row.k, row.pack);
  c.each = row.is_tile() ? share_of(p.out[rows].extent, row.m, 1) : 1;
  // The last products of many can be added one by one.
  const bool ends_well =
      (depth % c.depth == 0 && p.reduce[c.inner].is_fixed) || (!row.is_tile() && depth >= 16 * row.k);
  const bool lies_well = factors.across->reduce_strides[c.inner] == 1 && ends_well;
  // A constant's copy lies as it must.
  const bool in_place = lies_well || (factors.across->constant && factors.across->packable);
  const bool outer_axes = p.out.size() > (rows < 0 ? 1u : 2u);
  const bool widens = takes_wide_rows(row, context.target),
             widens_constant = widens && factors.across->constant && factors.across->packable;
  // A copy is made in some loop. A constant's is made before the first run.
  const bool within = !factors.along->constant && !outer_axes;
  for (const auto& [height, width] : tensor_tiles(p, row, vector, rows, c.each, within, context)) {
    c.height = height;
    c.vectors = width;
    const int64_t broad = int64_t{width} * p.lanes;
    const bool whole = in_place && (!row.is_tile() || factors.across->constant ||
                                    p.out[rows].extent % (height * c.each) == 0);
    const auto with_blocks = [&](TileChoice choice) {
      choices.push_back(choice);
      if (p.fused()) return;
      for (const int64_t block : {512, 1024, 2048}) {
        choice.reduce_block = 0;
        choice.vector_block = 0;
        if (block < depth && block % c.depth == 0) {
          choice.reduce_block = block;
          choices.push_back(choice);
        }
        if (choice.rows_outside) continue;
        choice.vector_block = block / 4 / broad * broad;
        if (choice.vector_block >= 2 * broad && choice.vector_block < p.out[vector].extent)
          choices.push_back(choice);
      }
    };
    if (whole || rows < 0) {
      if (serves_other_axes(p, vector, rows)) {
        c.panels_outside = true;
        choices.push_back(c);
        c.panels_outside = false;
      }
      with_blocks(c);
      if (widens_constant) {
        c.widen_rows = true;
        with_blocks(c);
        c.widen_rows = false;
      }
    }
    if (rows < 0 || within) continue;
    TileChoice outside = c;
    outside.rows_outside = true;
    for (const bool packed : {false, true}) {
      outside.pack_rows = packed;
      outside.widen_rows = packed && widens;
      const bool can_pack = factors.across->packable && height * c.each < p.out[rows].extent;
      if (packed ? can_pack && !factors.across->constant : whole) with_blocks(outside);
      if (!packed && whole && widens_constant) {
        outside.widen_rows = true;
        with_blocks(outside);
      }
    }
  }
}

/// Whether the operand along the lanes, once packed, is read more than once: for other rows, other axes or,
/// being constant, other runs. If it is not, long sums pay for packing, too, but not the few products of a
/// depthwise convolution.
bool pays_for_packing(const TileProblem& p, int vector, int rows) {
  constexpr double kLongSum = 64;
  double products = 1;
  for (const auto& loop : p.reduce) products *= loop.average;
  return products >= kLongSum || rows >= 0 || is_constant_along(p, vector) ||
         serves_other_axes(p, vector, rows);
}

/// The first of the loops whose extent is a number; if there is none, the first.
int fixed_first(const TileProblem& p, const std::vector<int>& loops) {
  const auto fixed =
      std::find_if(loops.begin(), loops.end(), [&](int i) { return i >= 0 && p.out[i].is_fixed; });
  return fixed == loops.end() ? loops.front() : *fixed;
}

/// Adds the tiles of all instructions that the target has for the product. False if it has none.
bool add_tensor_choices(const TileProblem& p, int vector, int rows, const SuggestContext& context,
                        std::vector<TileChoice>& choices) {
  const auto factors = factors_of(p, vector);
  if (!factors) return false;
  const size_t before = choices.size();
  for (const Instruction instruction : context.target.instructions) {
    const bool others = choices.size() > before; // tiles come before vectors, and are faster
    if (others && !context.thorough) break;
    if (can_use(p, *factors, info(instruction), rows, context.target))
      add_tensor_choices(p, *factors, instruction, vector, rows, context, choices);
  }
  return choices.size() > before;
}

} // namespace

std::vector<TileChoice> tile_choices(const TileProblem& p, const SuggestContext& context) {
  std::vector<TileChoice> choices;
  std::vector<int> vectors_along = vector_loops(p);
  if (vectors_along.size() > 2) vectors_along.resize(2);
  const int registers = context.target.vector_registers;
  for (int n : vectors_along) {
    std::vector<int> rows_along = row_loops(p, n);
    if (rows_along.size() > (context.thorough ? 2u : 1u)) rows_along.resize(context.thorough ? 2 : 1);
    for (int m : rows_along) {
      if (m == rows_along.front() && p.out[n].is_fixed && pays_for_packing(p, n, m) &&
          add_tensor_choices(p, n, fixed_first(p, row_loops(p, n)), context, choices))
        continue;
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
            if (!p.fused() && has_blocks(p, 511))
              for (int64_t k :
                   context.thorough ? std::vector<int64_t>{128, 256, 512, 1024} : std::vector<int64_t>{512})
                if (has_blocks(p, static_cast<double>(k))) depths.push_back(k);
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
