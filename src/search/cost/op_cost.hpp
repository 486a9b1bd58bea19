// What one scalar op costs as machine instructions, for a vector register or a scalar alike.
#pragma once
#include "core/op.hpp"

namespace lathe::search {

struct OpCost {
  double instructions = 1; // on the vector ports
  double divisions = 0;    // time of the divide unit, in f32 divisions of as many bytes
  double per_lane = 0;     // cycles for each lane, where no vector instruction exists
  double latency = 4;      // cycles; of f32 sums and maxima the machine's own are known
};
/// `scales`: y * 2^n is one instruction, as it is of vectors with AVX-512.
OpCost op_cost(Op op, DType dtype, bool scales = false);

} // namespace lathe::search
