#include "search/cost/access_work.hpp"

#include <algorithm>
#include <cmath>

#include "ast/flat_index.hpp"
#include "ast/machine/access.hpp"
#include "search/cost/constants.hpp"

namespace lathe::search {

double AccessWork::masked_tails() const {
  if (tile_.vector < 0) return 0;
  if (tile_.partial) return 1;
  return std::clamp(2 * (1 - loops_[tile_.vector].extent / tile_.lanes), 0.0, 1.0);
}

void AccessWork::count_spaced(double stride, double n, double parts) {
  work_.loads += n * parts * stride;
  work_.arithmetic += 2 * n * parts * (stride - 1);
}

bool AccessWork::is_picked(const ast::LoadAttr& attr, double stride) const {
  if (target_.groups || stride == std::floor(stride)) return false;
  return ast::picked_load(*attr.buffer, flat_index(*attr.buffer, attr.index), loops_[tile_.vector].loop->var,
                          static_cast<int>(tile_.lanes))
      .has_value();
}

bool AccessWork::loads_row(double stride, DType dtype) const {
  return stride == 1 && target_.device == "cpu" && ast::masks_loads(target_.vector_bytes, dtype);
}

void AccessWork::count(const AccessInfo& access, uint64_t mask, double n, DType dtype, double& slots,
                       double masked) {
  const bool vector = code_.is_vector(mask);
  const double parts = code_.registers_for(vector, dtype);
  if (!vector) {
    slots += n;
    return;
  }
  if (access.in_registers && target_.byte_table == 128) {
    work_.arithmetic += 6 * n * parts; // two permutations, which have one port, and a choice
    return;
  }
  if (access.in_registers && tile_.lanes >= 16) {
    // For each of the table's 16 parts: a load, a shuffle, a subtraction and an `xor`. The last three count
    // as two, since four ports do them.
    const double vectors = 16 * n * parts;
    work_.arithmetic += 2 * vectors;
    slots += vectors;
    return;
  }
  double stride = features_.strides[access.strides + tile_.vector];
  if (access.random && !loads_row(stride, dtype)) stride = 0.5;
  if (access.random && stride == 1) work_.arithmetic += 2 * n * parts; // which lanes are in range
  if (ast::is_one_vector(stride)) {
    // A vector that isn't aligned to its size touches two cache lines now and then.
    const double line = 64.0 / size_of(dtype);
    double crossing = 1;
    for (size_t d = 0; d < loops_.size() && crossing == 1; ++d)
      if (static_cast<int>(d) != tile_.vector &&
          std::fmod(features_.strides[access.strides + d], std::min(line, tile_.lanes)) != 0)
        crossing = 1 + std::min(1.0, tile_.lanes / line) * 0.9;
    slots += n * parts * crossing;
    if (stride < 0) work_.other += n * parts;
  } else {
    slots += n * tile_.lanes;
    work_.other += n * tile_.lanes;
    work_.arithmetic += n * tile_.lanes * 0.5; // inserts and extracts share a vector port
    // No instruction gathers bytes and words: each lane's index comes out of a vector, and its value goes
    // into one. A lane that a mask may leave out is a branch.
    if (size_of(dtype) < 4) {
      const double one_by_one = access.random ? n : n * masked;
      work_.other += 3 * one_by_one * tile_.lanes;
      work_.arithmetic += 6 * one_by_one * tile_.lanes;
    }
  }
}

bool AccessWork::stays_in_registers(const ast::Buffer& buffer, const AccessInfo& access,
                                    uint64_t mask) const {
  if (buffer.scope != ast::Scope::Register || (mask & ~tile_.inside) != 0) return false;
  if (!code_.is_vector(mask)) return true;
  return ast::is_one_vector(features_.strides[access.strides + tile_.vector]) && !lies_across(access);
}

bool AccessWork::lies_across(const AccessInfo& access) const {
  if (std::fmod(access.offset, tile_.lanes) != 0) return true;
  for (size_t d = 0; d < loops_.size(); ++d)
    if (static_cast<int>(d) != tile_.vector &&
        std::fmod(features_.strides[access.strides + d], tile_.lanes) != 0)
      return true;
  return false;
}

bool AccessWork::is_column(const ast::Buffer& buffer, const AccessInfo& access, uint64_t mask) const {
  if (buffer.scope != ast::Scope::Register || (mask & ~tile_.inside) != 0) return false;
  return code_.is_vector(mask) && !tile_.partial &&
         ast::is_column_step(features_.strides[access.strides + tile_.vector], tile_.lanes);
}

void AccessWork::count_divisions(Expr e) {
  if (e.is_const() || e.is_var() || std::find(seen_.begin(), seen_.end(), e) != seen_.end()) return;
  seen_.push_back(e);
  const uint64_t mask = loops_.dependence(e);
  const uint64_t innermost = tile_.begin > 0 ? uint64_t{1} << std::min<size_t>(tile_.begin - 1, 63) : 0;
  if ((mask & (tile_.inside | innermost)) == 0) return;
  if (e.kind() == ExprKind::FloorDiv || e.kind() == ExprKind::Mod)
    work_.other += cost_constants.division_instructions * code_.copies(mask);
  count_divisions(e.lhs());
  count_divisions(e.rhs());
}

double AccessWork::window_of(const AccessInfo& access) const {
  double span = 1, step = 0;
  for (size_t d = tile_.begin; d < loops_.size(); ++d) {
    const double stride = std::abs(features_.strides[access.strides + d]);
    if (static_cast<int>(d) == tile_.vector || stride == 0) continue;
    span += std::max(0.0, loops_[d].extent - 1) * stride; // a loop may run less than once on average
    step = step == 0 ? stride : std::min(step, stride);
  }
  return step == 0 ? span : 1 + (span - 1) / step;
}

void AccessWork::count_load(const ast::LoadAttr& attr, const AccessInfo& added, uint64_t mask, double guarded,
                            double masked, DType dtype) {
  const double n = code_.copies(mask);
  const bool vector = code_.is_vector(mask);
  // A scalar load under a condition: the conditions joined, the address chosen, the value apart from its
  // use.
  if (!vector) work_.other += 6 * guarded * n;
  seen_.clear();
  for (const Expr& e : attr.index) count_divisions(e);
  if (is_column(*attr.buffer, added, mask)) { // of a tile transposed by shuffles, which have one port
    const double parts = code_.registers_for(vector, dtype);
    work_.arithmetic += 2 * n * parts * std::log2(tile_.lanes);
    pressure_.operands += n * parts;
    pressure_.largest = std::max(pressure_.largest, n * parts);
    return;
  }
  if (stays_in_registers(*attr.buffer, added, mask)) {
    pressure_.accumulators = std::max(pressure_.accumulators, n * code_.registers_for(vector, dtype));
    return;
  }
  if (attr.buffer->scope == ast::Scope::Register && vector && lies_across(added))
    work_.waits += n * cost_constants.across_forward;
  // Averages of ragged loops are fractions, equal but for rounding.
  const double window = added.random ? n : window_of(added);
  const bool shared = window < 0.999 * n;
  const double different = shared ? window : n;
  work_.other += attr.ahead ? different : 0;
  work_.loads += attr.ahead ? cost_constants.hint_loads * different : 0;
  const double stride = vector ? features_.strides[added.strides + tile_.vector] : 0;
  const bool can_mask = target_.device == "cpu"; // VectorForms::masks_spaced
  if (vector && !added.random && (can_mask || masked < 0.5) && attr.buffer->scope != ast::Scope::Register &&
      ast::is_spaced_step(stride, dtype))
    count_spaced(stride, different, code_.registers_for(vector, dtype));
  else if (vector && !added.random && masked < 0.5 && is_picked(attr, stride))
    count_spaced(1.5, different, code_.registers_for(vector, dtype)); // a load, and a shuffle
  else
    count(added, mask, different, dtype, work_.loads, masked);
  if (added.random) work_.other += 3 * n;
  const double live = different * code_.registers_for(vector, dtype);
  if (shared) {
    pressure_.windows += live;
    return;
  }
  pressure_.operands += live;
  pressure_.largest = std::max(pressure_.largest, live);
}

} // namespace lathe::search
