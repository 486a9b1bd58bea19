// The move fuse_loops: which loops may become one, and that what they compute stays the same.
#include <doctest/doctest.h>

#include "support/inlined.hpp"
#include "support/moves.hpp"
#include "support/run_plan.hpp"
#include "support/search_programs.hpp"

using namespace lathe;
using namespace lathe::search;

namespace {

int stage_of(const Plan& plan, size_t kernel) { return plan.kernels.at(kernel)->stages.back(); }

/// The plan with the first kernel beside the second, then these moves. In them, {0} and {1} are the stages of
/// the two.
Applied moved(const NamedTensors& outputs, const std::vector<std::string>& texts) {
  const Plan plan = test::inlined_plan(outputs);
  REQUIRE(plan.kernels.size() == 2);
  const std::string first = fmt::format("t{}", stage_of(plan, 0)),
                    second = fmt::format("t{}", stage_of(plan, 1));
  std::vector<Move> moves{test::move("fuse_at({}, {}, packed)", first, second)};
  for (const std::string& text : texts)
    moves.push_back(parse_move(fmt::format(fmt::runtime(text), first, second)));
  return apply(plan, moves, test::target());
}

/// How the results change; empty if they don't.
std::string change(const NamedTensors& outputs, const std::vector<std::string>& texts) {
  const Applied applied = moved(outputs, texts);
  REQUIRE_MESSAGE(applied.plan, applied.reason);
  const Plan before = test::inlined_plan(outputs);
  test::Memory want = test::random_inputs(*before.program, 7), got = want;
  test::run_plan(before, want, nullptr);
  test::run_plan(*applied.plan, got, nullptr);
  return test::exact_difference(*before.program, got, want);
}

std::string refusal(const NamedTensors& outputs, const std::vector<std::string>& texts) {
  return moved(outputs, texts).reason;
}

bool says(const std::string& reason, const std::string& part) {
  return reason.find(part) != std::string::npos;
}

} // namespace

TEST_CASE("reductions of rows share the loop over the rows") {
  for (const int64_t rows : {5, 7, 33})
    for (const int64_t columns : {2, 17}) {
      const Tensor x = test::in("x", {rows, columns});
      CHECK(change({{"a", x.max(1)}, {"b", x.sum(1)}}, {"fuse_loops({0}.i0, {1}.i0)"}) == "");
      CHECK(change({{"a", x.max(1)}, {"b", x.sum(1)}},
                   {"split({0}.i0, 4)", "split({1}.i0, 4)", "fuse_loops({0}.i0.o, {1}.i0.o)"}) == "");
    }
}

TEST_CASE("whole reductions share parts of their loops") {
  for (const int64_t count : {6, 7, 64, 101}) {
    const Tensor x = test::in("x", {count});
    const NamedTensors both{{"a", x.max()}, {"b", (x * x).sum()}};
    CHECK(change(both, {"fuse_loops({0}.r0, {1}.r0)"}) == "");
    CHECK(change(both, {"split({0}.r0, 5)", "split({1}.r0, 5)", "fuse_loops({0}.r0.o, {1}.r0.o)"}) == "");
  }
}

TEST_CASE("a loop reads what the other has stored in the same iteration") {
  const Tensor x = test::in("x", {9, 6}), y = x * 2.0f + 1.0f;
  CHECK(change({{"a", y}, {"b", y.sum(1)}}, {"fuse_loops({0}.i0, {1}.i0)"}) == "");
  CHECK(change({{"a", y}, {"b", y.flip({1}) * 3.0f}}, {"fuse_loops({0}.i0, {1}.i0)"}) == "");
  const std::vector<std::string> halves{"split({0}.i0, 4)", "split({1}.i0, 4)",
                                        "fuse_loops({0}.i0.o, {1}.i0.o)"};
  CHECK(change({{"a", y}, {"b", y.sum(1)}}, halves) == "");
}

TEST_CASE("loops stay apart where one loop would compute something else") {
  const std::vector<std::string> fuse{"fuse_loops({0}.i0, {1}.i0)"};
  const Tensor x = test::in("x", {8, 8}), y = x * 2.0f;
  CHECK(says(refusal({{"a", y}, {"b", y.flip({0}) + 1.0f}}, fuse), "share parts of"));
  CHECK(says(refusal({{"a", y}, {"b", y.permute({1, 0}) + 1.0f}}, fuse), "share parts of"));
  CHECK(says(refusal({{"a", y}, {"b", y.sum(0)}}, {"fuse_loops({0}.i0, {1}.i1)"}), "share parts of"));
  CHECK(says(refusal({{"a", x.sum(1)}, {"b", x.sum(1) * x}},
                     {"split({0}.i0, 4)", "split({1}.i0, 2)", "fuse_loops({0}.i0.o, {1}.i0.o)"}),
             "have other lengths"));
  CHECK(says(refusal({{"a", y}, {"b", x + 1.0f}}, {"vectorise({0}.i1)", "fuse_loops({0}.i1, {1}.i1)"}),
             "is not a serial loop"));
  CHECK(says(refusal({{"a", y}, {"b", x + 1.0f}}, {"fuse_loops({0}.i1, {1}.i1)"}), "does not follow"));
  CHECK(says(refusal({{"a", y}, {"b", x + 1.0f}}, {"fuse_loops({1}.i0, {0}.i0)"}), "does not follow"));
  CHECK(says(refusal({{"a", y}, {"b", x + 1.0f}}, {"fuse_loops({0}.i2, {1}.i0)"}), "there is no loop"));
}

TEST_CASE("windows that reach into the next iteration's rows keep their loop") {
  const Tensor x = test::in("x", {8, 6}), y = x * 2.0f;
  const auto pooled = [&](int64_t rows) { // windows of so many rows, every second row
    const Tensor padded = y.pad({{0, rows - 2}, {0, 0}}).reshape({1, 1, 6 + rows, 6});
    return padded.max_pool2d({rows, 1}, {.stride = {2, 1}});
  };
  const std::vector<std::string> fuse{"split({0}.i0, 2)", "fuse_loops({0}.i0.o, {1}.i2)"};
  CHECK(change({{"a", y}, {"b", pooled(2)}}, fuse) == "");
  CHECK(says(refusal({{"a", y}, {"b", pooled(3)}}, fuse), "share parts of"));
}

TEST_CASE("what a loop writes is not copied before it") {
  const Tensor x = test::in("x", {9, 6}), y = x * 2.0f;
  const NamedTensors both{{"a", y}, {"b", y.flip({1}) * 3.0f}};
  CHECK(change(both, {"pack({1}, {0}, {1}.i0, packed)"}) == "");
  CHECK(says(refusal(both, {"fuse_loops({0}.i0, {1}.i0)", "pack({1}, {0}, {1}.i0, packed)"}),
             "is written under"));
}

TEST_CASE("a loop passes only what does not use its results") {
  // Between the loops over the rows lies the nest that sets the second result.
  const Tensor x = test::in("x", {6, 5});
  const NamedTensors both{{"a", x.max(1)}, {"b", x.sum(1)}};
  CHECK(change(both, {"fuse_loops({0}.i0, {1}.z0)", "fuse_loops({1}.z0, {1}.i0)"}) == "");
  CHECK(says(refusal(both, {"fuse_loops({0}.z0, {1}.i0)"}), "is also used between"));
}
