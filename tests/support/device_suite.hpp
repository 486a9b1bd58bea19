// What every device must get right: each op on each dtype, casts, and the loops that schedules make, against
// the interpreter.
#pragma once
#include <doctest/doctest.h>

#include "support/kernel_check.hpp"
#include "support/op_kernels.hpp"
#include "support/sample_kernels.hpp"

namespace lathe::test {

inline void check_ops(runtime::Device& device) {
  for (int i = 0; i < kDTypeCount; ++i)
    for (int width : {0, 16}) {
      CAPTURE(to_string(static_cast<DType>(i)));
      CAPTURE(width);
      CHECK(compare(device, arithmetic_kernel(static_cast<DType>(i), width), {}, 0, true) == "");
    }
}

inline void check_casts(runtime::Device& device) {
  for (int i = 0; i < kDTypeCount; ++i)
    for (int width : {0, 8, 16}) {
      CAPTURE(to_string(static_cast<DType>(i)));
      CAPTURE(width);
      CHECK(compare(device, cast_kernel(static_cast<DType>(i), width), {}, 0, true) == "");
    }
}

inline void check_loops(runtime::Device& device) {
  for (const SampleKernel& sample : sample_kernels())
    for (const auto& values : sample.shape_values) {
      CAPTURE(sample.name);
      CHECK(compare(device, ast::parse(sample.text), values, sample.tolerance) == "");
    }
}

} // namespace lathe::test
