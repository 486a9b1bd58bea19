#include "search/cost/straight_code.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "search/cost/constants.hpp"

namespace lathe::search {
namespace {

/// Without shape variables: once the loops around are partitioned it is a constant.
bool is_known(Expr e) {
  std::vector<Expr> vars;
  collect_vars(e, vars);
  return std::all_of(vars.begin(), vars.end(), [](Expr v) { return v.id() >= 0; });
}

Tile tile_inside(const LoopsAround& loops) {
  Tile t;
  t.begin = loops.size();
  while (t.begin > 0) {
    const LoopInfo& l = loops[t.begin - 1];
    if (!is_straight(l.loop->kind)) break;
    --t.begin;
    t.inside |= uint64_t{1} << std::min<size_t>(t.begin, 63);
    if (l.loop->kind == ast::LoopKind::Vector) {
      t.vector = static_cast<int>(t.begin);
      t.lanes = std::max(1, l.loop->width);
      t.partial = l.loop->extent.is_const() && l.loop->extent.value() < l.loop->width;
    }
    // The ragged remainder of an unrolled loop is a smaller tile of its own, or, where its size is not
    // known, a plain loop over memory.
    if (l.loop->kind == ast::LoopKind::Unroll && l.tail > 0)
      t.tail_factor *=
          1 + (is_known(l.loop->extent) ? cost_constants.small_tile : cost_constants.plain_loop) * l.tail;
  }
  return t;
}

/// Instructions so many times over, which the program asked for once.
void add(const Work& from, double times, Work& to) {
  to.arithmetic += from.arithmetic * times;
  to.multiplications += from.multiplications * times;
  to.loads += from.loads * times;
  to.stores += from.stores * times;
  to.other += from.other * times;
  for (int i = 0; i < 3; ++i) to.divisions[i] += from.divisions[i] * times;
  to.waits += from.waits * times;
  to.stalls += from.stalls * times;
  to.operations += from.operations;
}

} // namespace

StraightCode::StraightCode(const Target& target, LoopsAround& loops)
    : target(target), loops(loops), features(loops.features()), tile(tile_inside(loops)) {}

double StraightCode::copies(uint64_t mask) const {
  double n = 1;
  for (size_t d = tile.begin; d < loops.size(); ++d)
    if (static_cast<int>(d) != tile.vector && mask >> d & 1)
      n *= static_cast<int>(d) == branch_loop ? loops[d].extent * share : std::max(1.0, loops[d].extent);
  return n;
}

size_t StraightCode::home_of(uint64_t mask) const {
  const uint64_t around = mask & ((uint64_t{1} << std::min<size_t>(tile.begin, 63)) - 1);
  return static_cast<size_t>(std::bit_width(around));
}

double StraightCode::registers_for(bool vector, DType dtype) const {
  if (!vector) return 1;
  const int bytes = is_float(dtype) ? std::max(4, size_of(dtype)) : size_of(dtype);
  return std::max(1.0, std::ceil(tile.lanes * bytes / target.vector_bytes));
}

void StraightCode::add_to(size_t depth, const Work& counted) const { add(counted, 1, loops.body(depth)); }

void StraightCode::add_to_body() const {
  Work& body = loops.body(tile.begin);
  add(work, tile.tail_factor, body);
  if (const Chain chain = work.chain * tile.tail_factor; chain.cycles({}) > body.chain.cycles({}))
    body.chain = chain;
  body.registers = std::max(body.registers, work.registers);
}

} // namespace lathe::search
