// Proposes sums of blocks that are scaled and added up, as a vector times quantised weights makes them: the
// sums of a block lie in registers for a few vectors of results, and constants are laid out in the order in
// which they are read. Sums of products of bytes are made by an instruction on tensors, whose operand is
// unpacked into registers where it has to be.
#include <algorithm>

#include <fmt/format.h>

#include "search/suggest/readers.hpp"
#include "search/suggest/suggest.hpp"
#include "search/suggest/tile.hpp"

namespace lathe::search {
namespace {

// Iterations of a loop that is unrolled so that they share what they load: of one along results, of which
// each iteration needs sums of its own, and of one that is summed.
constexpr int64_t kMostCopies = 4, kMostSummed = 8;
constexpr int64_t kMostSums = 24;    // vectors: three quarters of the registers
constexpr int64_t kFewestSums = 4;   // that additions which wait for one another keep busy
constexpr int64_t kMostVectors = 64; // that meet a matrix
constexpr int64_t kFree = 4;         // registers beside sums and unpacked operands, for what is broadcast

/// The reduction of blocks and the one that adds them up, with the loops of both that go together.
struct Pair {
  TileProblem blocks, total;
  size_t along_blocks = 0, along = 0; // positions in `out`: the loop along the lanes
  std::vector<LoopHandle> far, near;  // of the total's reducing loops: around and inside the blocks' nest
  std::vector<LoopHandle> shared_out, shared_in; // of the blocks' loops: those that are unrolled
  std::vector<LoopHandle> steps;                 // the other reducing loops of the blocks
  std::vector<LoopHandle> parts, outside; // of the total's other loops: those that are unrolled, or not
  /// The loop of the blocks over sums that the total reads in one iteration, such as those of several bytes.
  LoopHandle together;
  /// The instruction on tensors that computes the blocks' sums, and the reducing loop that it takes; none: it
  /// adds products one by one.
  std::optional<Instruction> instruction;
  LoopHandle along_k;
  std::vector<LoopHandle>
      vectors_out; // of the blocks: over vectors that an instruction multiplies by the same numbers
  // The loop over several vectors that meet the matrix, in the total and in the blocks; 0 if there is none.
  LoopHandle vectors_of_total, vectors_of_blocks;
  int64_t vectors = 0;
  int64_t copies = 1; // of a vector of sums
};

/// Whether iterations of the loop, `most` at most, read the same element of a constant.
bool shares(const TileProblem& problem, const TileProblem::Loop& loop, bool is_out, size_t position,
            int64_t most) {
  if (loop.extent > most || !loop.is_fixed) return false;
  return std::any_of(problem.operands.begin(), problem.operands.end(), [&](const auto& operand) {
    return operand.constant && (is_out ? operand.out_strides : operand.reduce_strides)[position] == 0;
  });
}

/// The total's loop that runs along the same axis of the blocks' result; their number if there is none.
size_t find_loop(const std::vector<TileProblem::Loop>& loops, const std::vector<double>& strides,
                 const TileProblem::Loop& of_blocks) {
  size_t k = 0;
  while (k < loops.size() && (strides[k] != of_blocks.store_stride || loops[k].extent != of_blocks.extent))
    ++k;
  return k;
}

/// Sorts the loops; false if an axis of the blocks runs along no loop of the total, or no reducing loop is
/// left around the blocks.
bool match(Pair& p, const TileProblem::Operand& read) {
  std::vector<bool> is_near(p.total.reduce.size(), false), is_part(p.total.out.size(), false);
  bool has_lanes = false;
  for (size_t o = 0; o < p.blocks.out.size(); ++o) {
    const TileProblem::Loop& loop = p.blocks.out[o];
    if (loop.store_stride == read.out_strides[p.along] && loop.extent == p.total.out[p.along].extent) {
      p.along_blocks = o;
      has_lanes = true;
      continue;
    }
    const size_t r = find_loop(p.total.reduce, read.reduce_strides, loop);
    const size_t t = find_loop(p.total.out, read.out_strides, loop);
    if (r == is_near.size() && t == is_part.size()) {
      if (p.together || !shares(p.blocks, loop, true, o, kMostCopies)) return false;
      p.together = loop.name;
      p.copies *= loop.extent;
      continue;
    }
    if (!shares(p.blocks, loop, true, o, kMostCopies)) {
      if (t == is_part.size() || p.vectors || !shares(p.blocks, loop, true, o, kMostVectors)) continue;
      p.vectors_of_total = p.total.out[t].name;
      p.vectors_of_blocks = loop.name;
      p.vectors = loop.extent;
      continue;
    }
    if (r < is_near.size())
      is_near[r] = true;
    else
      is_part[t] = true;
    const bool other_vector =
        r == is_near.size() &&
        std::any_of(p.blocks.operands.begin(), p.blocks.operands.end(),
                    [&](const auto& operand) { return !operand.constant && operand.out_strides[o] != 0; });
    (p.instruction && other_vector ? p.vectors_out : p.shared_out).push_back(loop.name);
    p.copies *= loop.extent;
  }
  for (size_t t = 0; t < is_part.size(); ++t)
    if (t != p.along && !(p.vectors && p.total.out[t].name == p.vectors_of_total))
      (is_part[t] ? p.parts : p.outside).push_back(p.total.out[t].name);
  for (size_t r = 0; r < is_near.size(); ++r) (is_near[r] ? p.near : p.far).push_back(p.total.reduce[r].name);
  for (size_t r = 0; r < p.blocks.reduce.size(); ++r) {
    const LoopHandle loop = p.blocks.reduce[r].name;
    if (p.instruction && loop == p.along_k) continue;
    (shares(p.blocks, p.blocks.reduce[r], false, r, kMostSummed) ? p.shared_in : p.steps).push_back(loop);
  }
  return has_lanes && !p.far.empty();
}

/// Finds the instruction that takes the bytes of the blocks' products several at a time along a reducing
/// loop.
void find_instruction(Pair& p, const Target& target) {
  if (p.blocks.sum != DType::I32) return;
  const auto shared = std::find_if(p.blocks.operands.begin(), p.blocks.operands.end(),
                                   [](const auto& operand) { return !operand.constant; });
  if (shared == p.blocks.operands.end()) return;
  for (const Instruction instruction : target.instructions) {
    const InstructionInfo& row = info(instruction);
    if (!row.is_tensor() || row.is_tile() || row.a != shared->dtype || row.b != DType::U8) continue;
    for (size_t r = 0; r < p.blocks.reduce.size() && !p.instruction; ++r) {
      const TileProblem::Loop& loop = p.blocks.reduce[r];
      if (shared->reduce_strides[r] != 1 || !loop.is_fixed || loop.extent % row.pack != 0 ||
          loop.extent == row.pack)
        continue;
      p.instruction = instruction;
      p.along_k = loop.name;
    }
  }
}

void prepack_constants(Script& script, const TileProblem& problem) {
  for (const TileProblem::Operand& operand : problem.operands)
    if (operand.constant && operand.packable)
      script.prepack(StageHandle(problem.result.stage()), operand.buffer);
}

/// The two loops inside a tile along the lanes: over vectors, if there are several, and over lanes.
std::vector<LoopHandle> vectors_of(Script& script, LoopHandle loop, int64_t lanes, int64_t vectors) {
  if (vectors == 1) return {loop};
  const Halves halves = script.split(loop, lanes);
  return {halves.outer, halves.inner};
}

/// Vectorises the last of the loops and unrolls the others.
void straighten(Script& script, const std::vector<LoopHandle>& loops) {
  script.vectorise(loops.back());
  for (size_t k = 0; k + 1 < loops.size(); ++k) script.unroll(loops[k]);
}

std::vector<LoopHandle> joined(std::initializer_list<std::vector<LoopHandle>> parts) {
  std::vector<LoopHandle> all;
  for (const auto& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

/// The nest of the blocks' sums, one product after the other.
void one_by_one(Script& script, const Pair& p, int64_t lanes, int64_t width) {
  const LoopHandle rows = p.blocks.out[p.along_blocks].name;
  const std::vector<LoopHandle> inner =
      joined({p.shared_out, p.shared_in, vectors_of(script, rows, lanes, width)});
  const std::vector<LoopHandle> nest = joined({p.steps, inner});
  if (nest.size() > 1) script.reorder(nest);
  prepack_constants(script, p.blocks);
  straighten(script, inner);
}

/// The nest of the blocks' sums by an instruction. Where an operand is computed from a constant, it is
/// unpacked in the innermost loop that its numbers depend on.
void by_instruction(Script& script, const Pair& p, int64_t lanes, int64_t width) {
  const Halves k = script.split(p.along_k, info(*p.instruction).pack);
  const std::vector<LoopHandle> rows = vectors_of(script, p.blocks.out[p.along_blocks].name, lanes, width);
  const std::vector<LoopHandle> around = joined({p.steps, {k.outer}, p.shared_in, p.shared_out});
  std::vector<LoopHandle> inner = p.vectors_out;
  for (const LoopHandle loop : {p.vectors ? p.vectors_of_blocks : LoopHandle(), p.together})
    if (loop) inner.push_back(loop);
  inner = joined({inner, rows});
  script.reorder(joined({around, inner, {k.inner}}));

  const StageHandle stage(p.blocks.result.stage());
  BufferHandle read; // the constant along the lanes
  for (const TileProblem::Operand& operand : p.blocks.operands) {
    if (!operand.constant || !operand.packable) continue;
    const BufferHandle copy = script.prepack(stage, operand.buffer);
    if (!read && operand.out_strides[p.along_blocks] != 0) read = copy;
  }
  // Tensorising comes before unpacking: it fills the loops up, so that the operand is unpacked as full
  // vectors, with zeros past the ends.
  script.add(MoveKind::Tensorise, p.blocks.result, inner.back(), k.inner);
  PackedCopy unpacked;
  if (!p.blocks.adds_products)
    unpacked = script.unpack(p.blocks.result, read, around.back(), ast::Scope::Register);
  for (const LoopHandle loop : joined({p.shared_in, p.shared_out})) script.unroll(loop);
  for (size_t i = 0; i + 1 < inner.size(); ++i) script.unroll(inner[i]);
  if (p.blocks.adds_products) return;
  const int along = width > 1 ? 1 : 0; // the dimension of lanes; that of k follows
  script.add(MoveKind::Tensorise, StoredHandle(unpacked.buffer), unpacked.filling(along),
             unpacked.filling(along + 1));
  if (width > 1) script.unroll(unpacked.filling(0));
}

/// With `width` vectors of results for each of `height` vectors that meet the matrix.
Proposal in_registers(const SuggestContext& c, const Pair& pair, int64_t width, int64_t height) {
  Script script(c.kernel);
  Pair p = pair;
  std::vector<LoopHandle> around;
  if (p.vectors) {
    const Halves halves = script.split(p.vectors_of_total, height);
    around.push_back(halves.outer);
    p.parts.insert(p.parts.begin(), halves.inner);
  }
  const int64_t lanes = std::min(p.blocks.lanes, p.total.lanes);
  const TileProblem::Loop& along = p.total.out[p.along];
  const Halves tiles = script.split(along.name, lanes * width);
  const std::vector<LoopHandle> tile = joined({p.parts, vectors_of(script, tiles.inner, lanes, width)});
  script.reorder(joined({p.outside, {tiles.outer}, around, p.far, p.near, tile}));
  const Accumulator sums = script.accumulate(p.total.result, p.far.front());
  prepack_constants(script, p.total);
  script.add(MoveKind::FuseAt, StageHandle(p.blocks.result.stage()), Place(p.far.back()),
             ast::Scope::Register);
  std::vector<LoopHandle> copies = joined({p.vectors_out, p.shared_out});
  if (p.together) copies.insert(copies.begin(), p.together);
  if (p.vectors) copies.insert(copies.begin(), p.vectors_of_blocks);
  if (p.instruction) {
    by_instruction(script, p, lanes, width);
  } else {
    p.shared_out = copies;
    one_by_one(script, p, lanes, width);
  }
  std::vector<LoopHandle> clear;
  for (const LoopHandle loop : copies) clear.push_back(loop.setting());
  clear = joined({clear, vectors_of(script, p.blocks.out[p.along_blocks].name.setting(), lanes, width)});
  if (clear.size() > 1) script.reorder(clear);
  straighten(script, clear);
  straighten(script, joined({p.near, tile}));
  std::vector<LoopHandle> setting, writing;
  for (int k = 0; k < static_cast<int>(tile.size()); ++k) {
    setting.push_back(sums.setting(k));
    writing.push_back(sums.writing(k));
  }
  straighten(script, setting);
  straighten(script, writing);
  return {script.take(),
          fmt::format("sums of blocks of {} in registers, {} vectors of results for each of {}",
                      p.blocks.result.name(), width, height)};
}

} // namespace

std::vector<Proposal> suggest_block_sums(const SuggestContext& c) {
  std::vector<Proposal> proposals;
  const lower::Program& program = *c.plan.program;
  const std::vector<TileProblem> totals = read_tile_problems(c.features, program, c.kernel, c.target);
  if (totals.size() != 1 || !totals[0].whole) return proposals;
  for (const int stage : c.kernel.reads) {
    const KernelPlanRef producer = program.stages[stage].is_reduction ? sole_producer(c, stage) : nullptr;
    if (!producer) continue;
    Features f;
    read_features(producer->kernel, c.target, f);
    const std::vector<TileProblem> blocks = read_tile_problems(f, program, *producer, c.target);
    if (blocks.size() != 1 || !blocks[0].whole) continue;
    Pair pair;
    pair.blocks = blocks[0];
    pair.total = totals[0];
    const auto read =
        std::find_if(totals[0].operands.begin(), totals[0].operands.end(),
                     [&](const auto& operand) { return operand.buffer == StageHandle(stage).buffer(); });
    const auto along = std::find_if(pair.total.out.begin(), pair.total.out.end(),
                                    [](const auto& loop) { return loop.store_stride == 1; });
    if (read == totals[0].operands.end() || along == pair.total.out.end()) continue;
    pair.along = static_cast<size_t>(along - pair.total.out.begin());
    find_instruction(pair, c.target);
    if (!match(pair, *read)) continue;
    const int64_t lanes = std::min(pair.blocks.lanes, pair.total.lanes);
    for (const int64_t height : {1, 2, 4, 8})
      for (const int64_t width : {1, 2, 4, 8}) {
        const int64_t sums = width * height * pair.copies;
        const bool fits = pair.vectors ? height > 1 && pair.vectors % height == 0 : height == 1;
        const bool waits = sums < kFewestSums && along->extent >= 2 * lanes * width;
        const int64_t unpacked = pair.instruction && !pair.blocks.adds_products ? width : 0;
        if (unpacked > 0 && sums + unpacked > c.target.vector_registers - kFree) continue;
        if (fits && !waits && lanes > 1 && sums <= kMostSums && along->extent >= lanes * width)
          proposals.push_back(in_registers(c, pair, width, height));
      }
  }
  return proposals;
}

} // namespace lathe::search
