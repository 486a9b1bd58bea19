// Columns of a tile in registers. The printer transposes as many rows as there are lanes at once, and
// remembers all their columns till the tile is written or the block ends.
#include <algorithm>

#include "render/c_family.hpp"
#include "render/transpose.hpp"

namespace lathe::render {

std::optional<Operand> CFamily::load_column(const ast::BufferRef& buffer, Expr flat, const Chunk& chunk) {
  const Slices* slices = slices_of(buffer);
  if (!slices) return {};
  const int lanes = chunk.lanes;
  const int64_t start = at_lane(flat, chunk, 0).value(), row = at_lane(flat, chunk, 1).value() - start;
  const int64_t first = start - start % row % lanes;
  Operand out{"", buffer->dtype, lanes};
  const auto known = columns_.find({buffer->id, start, row, lanes, chunk.active});
  if (known != columns_.end()) {
    out.text = known->second;
    return out;
  }
  std::vector<std::string> rows;
  int common =
      lanes; // columns that all rows have; the elements past them are other variables, or don't exist
  for (int i = 0; i < chunk.active; ++i) {
    const auto slice = slices->find(first + i * row);
    if (slice == slices->end() || slice->second.lanes != lanes) return {};
    common = std::min(common, slice->second.active);
    rows.push_back(slice->second.name);
  }
  if (start - first >= common) return {};
  rows.resize(lanes, rows.front());
  const std::string type = ops_.type_of(out);
  const auto columns =
      transposed(std::move(rows), std::min(lanes, 16 / bytes_in_register(buffer->dtype)),
                 [&](const std::string& x, const std::string& y, const std::vector<int>& pick) {
                   return local(type, dialect_.shuffle(x, y, pick, buffer->dtype));
                 });
  for (int i = 0; i < common; ++i) columns_[{buffer->id, first + i, row, lanes, chunk.active}] = columns[i];
  out.text = columns_.at({buffer->id, start, row, lanes, chunk.active});
  return out;
}

} // namespace lathe::render
