// The C device against the interpreter: every op on every dtype, and the shapes of loops that schedules make.
#include <doctest/doctest.h>

#include "support/kernel_check.hpp"
#include "support/op_kernels.hpp"
#include "support/sample_kernels.hpp"

using namespace lathe;
using namespace lathe::test;

namespace {
runtime::Device& c() {
  static const auto device = runtime::make_c_device();
  return *device;
}
} // namespace

TEST_CASE("every op on every dtype, scalars and vectors") {
  for (int i = 0; i < kDTypeCount; ++i)
    for (int width : {0, 16}) {
      CAPTURE(to_string(static_cast<DType>(i)));
      CAPTURE(width);
      const ast::Kernel k = arithmetic_kernel(static_cast<DType>(i), width);
      CHECK(compare(c(), k, {}, 0, true) == "");
    }
}

TEST_CASE("every cast and bitcast, scalars and vectors") {
  for (int i = 0; i < kDTypeCount; ++i)
    for (int width : {0, 8, 16}) {
      CAPTURE(to_string(static_cast<DType>(i)));
      CAPTURE(width);
      CHECK(compare(c(), cast_kernel(static_cast<DType>(i), width), {}, 0, true) == "");
    }
}

TEST_CASE("loops as schedules make them") {
  for (const SampleKernel& sample : sample_kernels())
    for (const auto& values : sample.shape_values) {
      CAPTURE(sample.name);
      CHECK(compare(c(), ast::parse(sample.text), values, sample.tolerance) == "");
    }
}
