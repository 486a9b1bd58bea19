// The LLVM backend against the interpreter: every op on every dtype, and the shapes of loops that schedules make.
#include <doctest/doctest.h>

#include "support/kernel_check.hpp"
#include "support/op_kernels.hpp"

using namespace lathe;
using namespace lathe::test;

namespace {
runtime::Device& cpu() {
  static const auto device = runtime::make_cpu_device();
  return *device;
}
} // namespace

TEST_CASE("every op on every dtype, scalars and vectors") {
  for (int i = 0; i < kDTypeCount; ++i)
    for (int width : {0, 16}) {
      CAPTURE(to_string(static_cast<DType>(i)));
      CAPTURE(width);
      const ast::Kernel k = arithmetic_kernel(static_cast<DType>(i), width);
      CHECK(compare(cpu(), k, {}, 0, true) == "");
    }
}

TEST_CASE("every cast and bitcast, scalars and vectors") {
  for (int i = 0; i < kDTypeCount; ++i)
    for (int width : {0, 8, 16}) {
      CAPTURE(to_string(static_cast<DType>(i)));
      CAPTURE(width);
      CHECK(compare(cpu(), cast_kernel(static_cast<DType>(i), width), {}, 0, true) == "");
    }
}
