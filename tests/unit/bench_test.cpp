// What lathe-bench's figures rest on: errors are found, medians are medians, shapes are read as documented.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "comparison.hpp"
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

TEST_CASE("a slow contender gets fewer samples, and one that times itself is believed") {
  int calls = 0;
  auto slow = [&](int repeats) {
    calls += repeats;
    return 3.0;
  };
  std::vector<double> medians = alternate({slow, timed([] {})}, {.seconds = 0.01, .slow_seconds = 2});
  CHECK(medians[0] == 3.0);
  CHECK(medians[1] < 1e-3);
  CHECK(calls == 3);
}

TEST_CASE("each round has its own order, and what a rival left in the caches is not timed") {
  std::vector<size_t> order;
  std::vector<int> repeats;
  std::vector<bench::Calls> contenders;
  for (size_t i = 0; i < 3; ++i)
    contenders.push_back([&, i](int n) {
      order.push_back(i);
      repeats.push_back(n);
      return 4e-3;
    });
  alternate(contenders, {.seconds = 0.16, .settle_seconds = 10e-3});
  const size_t trial = 6, round = 6; // two calls each to see how long it takes; then a warm-up and a sample
  REQUIRE(order.size() == trial + 10 * round);
  size_t like_first = 0;
  for (size_t at = trial; at < order.size(); at += 2) {
    CHECK(order[at] == order[at + 1]);
    CHECK(repeats[at] == 3);
    CHECK(repeats[at + 1] == 1);
  }
  for (size_t at = trial; at < order.size(); at += round)
    like_first += std::equal(order.begin() + trial, order.begin() + trial + round,
                             order.begin() + static_cast<long>(at));
  CHECK(like_first < 10);
}

TEST_CASE("after a pause a contender warms up for all of the settling time") {
  std::vector<int> repeats;
  const auto contender = [&](int n) {
    repeats.push_back(n);
    return 100e-6;
  };
  alternate({contender}, {.seconds = 0.002,
                          .least = 2,
                          .sample_seconds = 400e-6,
                          .settle_seconds = 10e-3,
                          .pause_seconds = 1e-6});
  REQUIRE(repeats.size() >= 6);
  for (size_t i = 2; i < repeats.size(); i += 2) {
    CHECK(repeats[i] == 100);
    CHECK(repeats[i + 1] == 4);
  }
}

namespace {
Row row_of(const std::string& group, const std::string& workload, double seconds,
           std::vector<PeerTime> peers) {
  Row row;
  row.group = group;
  row.workload = workload;
  row.shape = {4};
  row.dtype = "f32";
  row.seconds = seconds;
  row.peers = std::move(peers);
  return row;
}
} // namespace

TEST_CASE("a comparison's means are geometric, against the best peer of each row and against each peer") {
  std::vector<Row> rows{row_of("first", "w1", 1.0, {{"a", 4.0}, {"b", 2.0}}), row_of("second", "w2", 1.0, {}),
                        row_of("first", "w3", 2.0, {{"a", 1.0}})};
  std::vector<Summary> all = summarise(rows);
  CHECK(all.size() == 2);
  const Summary& first = all[0];
  CHECK(first.group == "first");
  CHECK(first.best.rows == 2);
  CHECK(first.best.ratio == doctest::Approx(1.0)); // 2 and 1/2
  CHECK(first.worst == &rows[2]);
  CHECK(first.peers.size() == 2);
  CHECK(first.peers[0].ratio == doctest::Approx(std::sqrt(2.0))); // 4 and 1/2
  CHECK(first.peers[1].ratio == doctest::Approx(2.0));
  CHECK(first.peers[1].rows == 1);
  CHECK(all[1].worst == nullptr);
  std::string text = comparison_text(rows);
  CHECK(text.find("first: 1.00 of the best peer over 2 rows; worst 0.50, w3 4 against a") !=
        std::string::npos);
  CHECK(text.find("second: no peer") != std::string::npos);
  CHECK(comparison_json(rows)["groups"][0]["worst"]["ratio"] == doctest::Approx(0.5));
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

namespace {
/// The largest error of the compiled program against the reference.
double error_of(const Case& c) {
  Executable executable = compile(c.program);
  std::map<std::string, const void*> inputs;
  for (const KernelParam& input : executable.inputs()) {
    CHECK(c.constants.count(input.name) == 0);
    inputs[input.name] = c.inputs.at(input.name).data();
  }
  CHECK(inputs.size() + c.constants.size() == c.inputs.size());
  HostTensors made;
  std::map<std::string, void*> outputs;
  for (const KernelParam& output : executable.outputs()) {
    Sizes sizes;
    for (const Expr& size : output.shape) sizes.push_back(size.value());
    outputs[output.name] = made.emplace(output.name, HostTensor(output.dtype, sizes)).first->second.data();
  }
  executable.run(inputs, outputs);
  double worst = 0;
  for (const auto& [name, values] : c.reference(c.inputs))
    worst = std::max(worst, bench::max_error(made.at(name), values));
  return worst;
}
} // namespace

TEST_CASE("every workload's program computes what its reference says") {
  for (const Workload& workload : workloads()) {
    CAPTURE(workload.name);
    Sizes small = workload.shapes.front();
    for (int64_t& size : small) size = std::min<int64_t>(size, 12);
    Case c = make_case(workload, small, DType::F32);
    CHECK(c.reference(c.inputs).size() == c.program.size());
    CHECK(c.bytes_read > 0);
    CHECK(c.bytes_written > 0);
    CHECK(error_of(c) <= c.tolerance);
  }
}

TEST_CASE("blocked convolutions hold 16 channels side by side, and the others as they are") {
  const Workload &conv = find_workload("conv2d-blocked"),
                 &depthwise = find_workload("depthwise-conv2d-blocked");
  for (const Sizes& shape :
       {Sizes{32, 7, 5, 48, 3, 3, 2}, Sizes{3, 7, 5, 32, 3, 5, 1}, Sizes{16, 6, 6, 10, 1, 1, 1}}) {
    Case c = make_case(conv, shape, DType::F32);
    CAPTURE(to_string(shape));
    CHECK(c.inputs.at("x").shape().size() == (shape[0] % 16 ? 4 : 5));
    CHECK(c.program.at("y").rank() == (shape[3] % 16 ? 4 : 5));
    CHECK(error_of(c) <= c.tolerance);
  }
  Case c = make_case(depthwise, {32, 9, 8, 3, 3, 2}, DType::F32);
  CHECK(c.program.at("y").rank() == 5);
  CHECK(error_of(c) <= c.tolerance);
}

TEST_CASE("the plain nearest neighbour gets 767 of the digits right") {
  CHECK(digits().rows() == 1797);
  Case c = make_case(find_workload("digits"), {1000, 797}, DType::F32);
  CHECK(c.reference(c.inputs).at("correct") == std::vector<double>{767});
}
