#include "search/cost/tensor_work.hpp"

#include <algorithm>

#include "ast/tensor.hpp"

namespace lathe::search {
namespace {

/// A copy of several rows of k into one vector. Rows are mixed by shuffles. Columns that lie apart are put
/// into the vector one by one.
Work copy_work(const ast::TensorCopy& copy, LoopsAround& loops) {
  AccessInfo access{};
  loops.add_access(copy.from->buffer.get(), copy.from->index, access);
  const size_t columns = loops.size() - 2;
  const Features& features = loops.features();
  const bool in_rows = features.strides[features.accesses.back().strides + columns] == 1;
  access.store = true;
  loops.add_access(copy.store->buffer.get(), copy.store->index, access);
  const auto parts = static_cast<double>((in_rows ? copy.k : copy.columns)->extent.value());
  Work work;
  work.loads = parts;
  work.arithmetic = in_rows ? parts - 1 : parts;
  work.stores = 1;
  return work;
}

/// The products of `row`, whose own loops are those of depth `own` and beyond.
Work product_work(const ast::TensorProduct& product, const InstructionInfo& row, size_t begin, size_t own,
                  LoopsAround& loops) {
  // The copies that unrolling makes of what moves with the loops of `mask`.
  const auto copies_of = [&](uint64_t mask) {
    double n = 1;
    for (size_t d = begin; d < own; ++d)
      if (mask >> d & 1) n *= std::max(1.0, loops[d].extent);
    return n;
  };
  const auto loads_of = [&](const ast::LoadAttr& load) {
    return copies_of(loops.add_access(load.buffer.get(), load.index, {})) * (row.is_tile() ? row.m : 1);
  };
  const double loads_of_a = loads_of(*product.a), loads_of_b = loads_of(*product.b);
  AccessInfo access{};
  access.store = access.combine = true;
  const double sums = copies_of(loops.add_access(product.store->buffer.get(), product.store->index, access)),
               all = copies_of(~uint64_t{0});
  const double columns = row.n != 0 ? row.n : product.columns->extent.value();
  Work work;
  work.loads = loads_of_a + loads_of_b;
  work.operations = all * row.m * columns * row.k;
  if (row.is_tile()) {
    work.waits = all * row.cycles;
    work.other = all;
  } else {
    work.arithmetic = all * row.cycles / info(Instruction::MultiplyAdd).cycles;
    work.multiplications = all;
    // Few bytes are spread over a vector by a shuffle, and widened by another.
    if (row.widens(row.a)) work.arithmetic += 2 * loads_of_a;
    if (row.widens(row.b)) work.arithmetic += loads_of_b;
    work.registers = sums + std::min(all / sums, work.loads) + (row.is_pair() ? 2 : 1);
  }
  work.chain.others = row.latency * all / sums;
  return work;
}

} // namespace

std::optional<Work> tensor_work(size_t begin, const Target& target, LoopsAround& loops) {
  size_t own = loops.size();
  while (own > begin && loops[own - 1].loop->kind == ast::LoopKind::Tensor) --own;
  const auto nest = own < loops.size() ? ast::tensor_nest(*loops[own].loop) : std::nullopt;
  if (!nest) return {};
  if (const auto copy = ast::tensor_copy(*nest)) return copy_work(*copy, loops);
  const auto product = ast::tensor_product(*nest);
  const auto instruction = product ? ast::instruction_of(*product, target.instructions) : std::nullopt;
  if (!instruction) return {};
  const InstructionInfo& row = info(*instruction);
  // The last products of a dot product may be guarded: passes peel them.
  if (!ast::is_laid_out(*product, row, row.is_tile())) return {};
  return product_work(*product, row, begin, own, loops);
}

} // namespace lathe::search
