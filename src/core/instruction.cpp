#include "core/instruction.hpp"

#include <cfloat>
#include <cmath>

#include "lathe/error.hpp"

namespace lathe {
namespace {

/// Subnormal numbers are 0 to these instructions, as operands and as results.
float flushed(float x) { return std::fabs(x) < FLT_MIN ? std::copysign(0.0f, x) : x; }

float multiply_add(Factors f, float sum) { return flushed(std::fma(flushed(f.a), flushed(f.b), sum)); }

} // namespace

float add_products(Instruction by, float sum, std::span<const Factors> products) {
  sum = flushed(sum);
  switch (by) {
  case Instruction::DotBF16:
    for (size_t k = products.size(); k-- > 0;) sum = multiply_add(products[k], sum);
    return sum;
  case Instruction::TileBF16: {
    float parts[2] = {0, 0};
    for (size_t k = 0; k < products.size(); ++k) parts[k % 2] = multiply_add(products[k], parts[k % 2]);
    return flushed(sum + flushed(parts[0] + parts[1]));
  }
  default: throw InternalError("add_products: an instruction that adds no floats");
  }
}

} // namespace lathe
