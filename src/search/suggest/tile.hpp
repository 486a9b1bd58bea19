// Tiles of a reduction: which loops a register tile may take, and the moves that make it.
#pragma once
#include <optional>
#include <vector>

#include "search/machine/target.hpp"
#include "search/suggest/suggest.hpp"

namespace lathe::search {

/// A reduction's update nest as the tiler sees it.
struct TileProblem {
  struct Loop {
    LoopHandle name;   // in the reduction's own nest
    LoopHandle around; // the consumer's loop of the same axis, if the reduction is fused under it
    int64_t extent;    // upper bound
    double average;
    double store_stride;
    LoopHandle
        around_inner{}; // set if two of the consumer's loops make up the axis: `around` is the outer one
    int64_t inner_extent = 0;
    bool is_fixed = true; // the extent is a number
  };
  struct Operand {
    BufferHandle buffer;
    bool packable;
    bool constant; // its copy is made once, before the first run, so it costs nothing in any layout
    int64_t element_bytes;
    std::vector<double> out_strides, reduce_strides; // elements per iteration of `out` and `reduce` below
    DType dtype = DType::F32;
  };
  StoredHandle result;
  std::vector<Loop> out, reduce;
  std::vector<Operand> operands;
  int lanes = 1;
  ScratchNumbers numbers{};
  bool whole = true;          // the nest lies under no other loop
  bool adds_products = false; // of two operands, as an instruction on tensors may
  DType sum = DType::F32;
  bool fused() const { return !out.empty() && out[0].around; }
};

/// All decisions of one tiling.
struct TileChoice {
  int vector = 0;              // position in out: the loop along the lanes
  int rows = -1;               // position in out: the other loop of the tile; -1: none
  int vectors = 1;             // registers along the lanes
  int height = 1;              // rows in the tile
  bool rows_outside = false;   // order of the tile loops
  bool panels_outside = false; // tiles along the lanes outermost: a panel serves all other axes
  bool pack_vector = false, pack_rows = false;
  bool widen_rows = false; // the copy of the operand that all lanes share holds 16 bits, not 8
  /// An instruction that takes several elements at once; then `height` counts its rows.
  std::optional<Instruction> instruction = {};
  int inner = 0;               // position in reduce: the loop along the instruction's k
  int64_t each = 1, depth = 1; // rows and k that one instruction takes
  int64_t vector_block = 0;    // elements; 0: none
  int64_t reduce_block = 0;    // iterations of the longest reducing loop; of all together if none has so many
  /// Streams in which the next tile along the lanes, or a constant's next block, is prefetched; 0: none.
  int hint_streams = 0;
};

std::vector<TileChoice> tile_choices(const TileProblem& problem, const SuggestContext& context);
Proposal tile_moves(const TileProblem& problem, const TileChoice& choice);

/// The update nests of a kernel's reductions that are untouched so far and worth tiling. A nest is whole, or
/// the part of it under the loops that it shares with other nests.
std::vector<TileProblem> read_tile_problems(const Features& features, const lower::Program& program,
                                            const KernelPlan& kernel, const Target& target);

} // namespace lathe::search
