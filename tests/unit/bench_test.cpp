// What lathe-bench's figures rest on: errors are found, medians are medians, shapes are read as documented.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "digits.hpp"
#include "timing.hpp"
#include "workloads.hpp"

using namespace lathe;
using namespace lathe::bench;

TEST_CASE("max_error finds what is wrong") {
  HostTensor got(DType::F32, {2, 3});
  std::vector<double> want{1, -2, 3, 0, 5, 6};
  for (int64_t i = 0; i < 6; ++i) got.set(i, want[static_cast<size_t>(i)]);
  CHECK(bench::max_error(got, want) == 0);
  got.set(4, 5.5);
  CHECK(bench::max_error(got, want) == doctest::Approx(0.1));
  got.set(3, 0.1); // relative to the root mean square where the value itself is small
  got.set(4, 5);
  CHECK(bench::max_error(got, want) == doctest::Approx(0.1 / std::sqrt(75.0 / 6)));
  got.set(0, std::numeric_limits<double>::quiet_NaN());
  CHECK(std::isinf(bench::max_error(got, want)));
  CHECK(std::isinf(bench::max_error(got, {1, 2})));
}

TEST_CASE("an output that nobody wrote never passes") {
  for (DType dtype : {DType::F32, DType::F64, DType::F16, DType::BF16}) {
    HostTensor got(dtype, {4});
    got.poison();
    CHECK(std::isinf(bench::max_error(got, {0, 0, 0, 0})));
  }
  HostTensor integers(DType::I64, {1});
  integers.poison();
  CHECK(bench::max_error(integers, {767}) > 0.5);
}

TEST_CASE("median_seconds calls every contender and gives plausible times") {
  int calls[2] = {0, 0};
  std::vector<double> medians = median_seconds({[&] { ++calls[0]; }, [&] { ++calls[1]; }}, {.seconds = 0.01});
  CHECK(medians.size() == 2);
  CHECK(calls[0] > 5);
  CHECK(calls[1] > 5);
  CHECK(medians[0] > 0);
  CHECK(medians[0] < 1e-3);
}

TEST_CASE("shapes") {
  const Workload &matmul = find_workload("matmul"), &conv = find_workload("conv2d");
  CHECK(parse_shape(matmul, "") == Sizes{512, 512, 512});
  CHECK(parse_shape(matmul, "1x2x3") == Sizes{1, 2, 3});
  CHECK(parse_shape(matmul, "1,2,3") == Sizes{1, 2, 3});
  CHECK(parse_shape(conv, "3x8x8x4x3x3").back() == 1); // the stride may be left out
  for (const char* bad : {"1x2", "1x2x3x4", "x1x2", "1x2x", "1x2xa", "1x2x0", "1x2x-3", " 1x2x3", "1e3x2x3"})
    CHECK_THROWS_AS(parse_shape(matmul, bad), Error);
  CHECK_THROWS_AS(find_workload("nonsense"), Error);
}

TEST_CASE("every workload builds a program over its inputs, and its reference covers every output") {
  for (const Workload& workload : workloads()) {
    CAPTURE(workload.name);
    Sizes small = workload.shapes.front();
    for (int64_t& size : small) size = std::min<int64_t>(size, 12);
    Case c = make_case(workload, small, DType::F32);
    Reference want = c.reference(c.inputs);
    CHECK(want.size() == c.program.size());
    for (const auto& [name, tensor] : c.program)
      CHECK(static_cast<int64_t>(want.at(name).size()) == tensor.element_count());
    CHECK(c.bytes_read > 0);
    CHECK(c.bytes_written > 0);
  }
}

TEST_CASE("the plain nearest neighbour gets 767 of the digits right") {
  CHECK(digits().rows() == 1797);
  Case c = make_case(find_workload("digits"), {1000, 797}, DType::F32);
  CHECK(c.reference(c.inputs).at("correct") == std::vector<double>{767});
}
