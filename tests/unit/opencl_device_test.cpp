// The OpenCL device against the interpreter: every op on every dtype, loops as schedules make them,
// work-groups.
#include <doctest/doctest.h>

#include <set>

#include "support/kernel_check.hpp"
#include "support/op_kernels.hpp"
#include "support/sample_kernels.hpp"

using namespace lathe;
using namespace lathe::test;

namespace {
/// Null where there is no OpenCL device; the tests then have nothing to run on.
runtime::Device* cl() {
  static const auto device = []() -> std::unique_ptr<runtime::Device> {
    try {
      return runtime::make_opencl_device();
    } catch (const Error& e) {
      MESSAGE("skipped: " << e.what());
      return nullptr;
    }
  }();
  return device.get();
}
} // namespace

TEST_CASE("every op on every dtype, scalars and vectors") {
  if (!cl()) return;
  for (int i = 0; i < kDTypeCount; ++i)
    for (int width : {0, 16}) {
      CAPTURE(to_string(static_cast<DType>(i)));
      CAPTURE(width);
      CHECK(compare(*cl(), arithmetic_kernel(static_cast<DType>(i), width), {}, 0, true) == "");
    }
}

TEST_CASE("every cast and bitcast, scalars and vectors") {
  if (!cl()) return;
  for (int i = 0; i < kDTypeCount; ++i)
    for (int width : {0, 8}) {
      CAPTURE(to_string(static_cast<DType>(i)));
      CAPTURE(width);
      CHECK(compare(*cl(), cast_kernel(static_cast<DType>(i), width), {}, 0, true) == "");
    }
}

TEST_CASE("loops as schedules make them") {
  if (!cl()) return;
  for (const SampleKernel& sample : sample_kernels())
    for (const auto& values : sample.shape_values) {
      CAPTURE(sample.name);
      CHECK(compare(*cl(), ast::parse(sample.text), values, sample.tolerance) == "");
    }
}

TEST_CASE("work-groups, work-items and local memory") {
  if (!cl()) return;
  for (const SampleKernel& sample : group_kernels())
    for (const auto& values : sample.shape_values) {
      CAPTURE(sample.name);
      CHECK(compare(*cl(), ast::parse(sample.text), values, sample.tolerance) == "");
    }
}

TEST_CASE("kernels that are compiled together, of different names and of one") {
  if (!cl()) return;
  std::vector<ast::Kernel> kernels;
  std::set<std::string> names;
  for (const SampleKernel& sample : group_kernels()) {
    ast::Kernel kernel = ast::parse(sample.text);
    if (kernel.shape_vars.empty() && names.insert(kernel.name).second) kernels.push_back(std::move(kernel));
  }
  REQUIRE(kernels.size() > 1);
  for (const bool repeated : {false, true}) {
    CAPTURE(repeated);
    if (repeated) kernels.push_back(kernels.front());
    const auto programs = cl()->compile_all(kernels, {});
    REQUIRE(programs.size() == kernels.size());
    for (size_t k = 0; k < kernels.size(); ++k) {
      CAPTURE(kernels[k].name);
      Contents want = sample_contents(kernels[k], {}, false, 1), got = want;
      interpret(kernels[k], want, {});
      run_on(*cl(), *programs[k], got, {});
      CHECK(first_difference(kernels[k], got, want, 1e-5) == "");
    }
  }
}
