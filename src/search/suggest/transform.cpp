// Proposals for Winograd's convolutions. The reader of a transform computes the transform tile by tile, under
// its own loops. A transform computes the products that it reads for one block of channels after the other,
// so that their results stay in a near cache.
#include <algorithm>

#include <fmt/format.h>

#include "graph/node.hpp"
#include "search/moves/draft.hpp"
#include "search/suggest/readers.hpp"
#include "search/suggest/suggest.hpp"

namespace lathe::search {
namespace {

/// The index at which the kernel reads the buffer; nothing unless it is the same at every load.
std::optional<std::vector<Expr>> read_at(const ast::Kernel& kernel, int buffer) {
  std::optional<std::vector<Expr>> index;
  bool is_one = true;
  for_each_load(kernel.body, [&](const ast::Value& value) {
    const auto& attr = std::get<ast::LoadAttr>(value.attr);
    if (attr.buffer->id != buffer) return;
    is_one &= value.op == Op::Load && (!index || *index == attr.index);
    index = attr.index;
  });
  return is_one ? index : std::nullopt;
}

/// Proposes loops over tiles for a reader that runs through a transform's results row by row, and the
/// transform under these loops. The results of the transform then stay in registers.
void under_tiles(const SuggestContext& c, const lower::Stage& transform, std::vector<Proposal>& out) {
  const Features& f = c.features;
  const std::vector<Leaf> leaves = c.leaves();
  if (leaves.size() != 1 || leaves[0].combine || leaves[0].random || leaves[0].own != 0) return;
  const Leaf& leaf = leaves[0];
  const auto index = read_at(c.kernel.kernel, transform.buffer->id);
  if (!index) return;
  const Shape& shape = transform.buffer->shape;
  const std::vector<int>& axes = std::get<graph::TransformAttr>(transform.node->attr).axes;

  Script script(c.kernel);
  std::vector<LoopHandle> outside, inside;
  int lane = -1;
  size_t tiled = 0;
  for (const int l : leaf.loops) {
    if (!is_serial(f, l)) return;
    const Expr var = f.loops[l].loop->var;
    const auto axis = std::find_if(axes.begin(), axes.end(), [&](int a) {
      return (*index)[static_cast<size_t>(a)] == mod(var, shape[static_cast<size_t>(a)]);
    });
    if (axis != axes.end()) {
      const Halves tiles = script.split(c.loop(l), shape[static_cast<size_t>(*axis)].value());
      outside.push_back(tiles.outer);
      inside.push_back(tiles.inner);
      ++tiled;
    } else if (std::abs(f.stride(f.accesses[leaf.store], l)) == 1) {
      lane = l;
    } else {
      outside.push_back(c.loop(l));
    }
  }
  if (tiled != axes.size() || lane < 0 || outside.empty()) return;
  const Expr lanes_var = f.loops[lane].loop->var;
  const auto channel = std::find(index->begin(), index->end(), lanes_var);
  if (channel == index->end()) return;
  LoopHandle vector = c.loop(lane);
  if (const int lanes = lanes_of(f, leaf, c.target); longest(f, lane) > lanes) {
    const Halves halves = script.split(vector, lanes);
    outside.push_back(halves.outer);
    vector = halves.inner;
  }
  std::vector<LoopHandle> order = outside;
  order.insert(order.end(), inside.begin(), inside.end());
  order.push_back(vector);
  script.reorder(order);
  script.add(MoveKind::FuseAt, StageHandle(transform.id), Place(outside.back()), ast::Scope::Register);
  script.vectorise(axis_loop(transform.id, static_cast<int>(channel - index->begin())));
  script.vectorise(vector);
  for (const LoopHandle loop : inside) script.unroll(loop);
  out.push_back({script.take(), fmt::format("compute {} by tiles, as {} needs it", transform.buffer->name,
                                            leaf.result.name())});
}

/// Proposes an outermost loop over blocks of channels, which lie along the lanes, with the products of a
/// block under it. Their results stay in a near cache until they are transformed. The price: their operands
/// are read again for each block.
void under_channels(const SuggestContext& c, const lower::Stage& products, std::vector<Proposal>& out) {
  const Features& f = c.features;
  const std::vector<int> reads = accesses_to(f, products.buffer->id);
  std::vector<int> loops = loops_around(f, reads);
  std::reverse(loops.begin(), loops.end()); // outermost first
  if (loops.size() < 2) return;
  const double lanes = c.target.vector_bytes / size_of(products.buffer->dtype);
  for (const int l : loops) {
    const double stride = f.stride(f.accesses[reads[0]], l);
    if (stride != 1 && stride != lanes) continue;
    for (const int vectors : c.thorough ? std::vector<int>{1, 2, 3, 4, 8} : std::vector<int>{2, 4}) {
      const auto block = static_cast<int64_t>(vectors * lanes / stride);
      if (block >= longest(f, l)) break;
      Script script(c.kernel);
      const Halves blocks = block > 1 ? script.split(c.loop(l), block) : Halves{c.loop(l), {}};
      std::vector<LoopHandle> order{blocks.outer};
      for (const int other : loops)
        if (other != l)
          order.push_back(c.loop(other));
        else if (blocks.inner)
          order.push_back(blocks.inner);
      if (loops.front() != l || block > 1) script.reorder(order);
      script.add(MoveKind::FuseAt, StageHandle(products.id), Place(blocks.outer), ast::Scope::Packed);
      out.push_back({script.take(),
                     fmt::format("{} for {} vectors of channels at a time", products.buffer->name, vectors)});
    }
  }
}

} // namespace

std::vector<Proposal> suggest_transform(const SuggestContext& c) {
  std::vector<Proposal> proposals;
  const auto& stages = c.plan.program->stages;
  for (const int read : c.kernel.reads) {
    if (!sole_producer(c, read)) continue;
    if (stages[read].is_transform) under_tiles(c, stages[read], proposals);
    const bool is_transformed =
        std::any_of(stages[read].users.begin(), stages[read].users.end(), [&](int user) {
          return stages[user].is_transform &&
                 std::binary_search(c.kernel.stages.begin(), c.kernel.stages.end(), user);
        });
    if (stages[read].is_reduction && is_transformed) under_channels(c, stages[read], proposals);
  }
  return proposals;
}

} // namespace lathe::search
