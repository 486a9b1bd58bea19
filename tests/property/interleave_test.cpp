// Copies of a long function advance together, and compute what they computed one after the other, bit for
// bit.
#include <set>

#include <doctest/doctest.h>

#include <fmt/format.h>

#include "ast/passes/interleave.hpp"
#include "ast/passes/prepare.hpp"
#include "unit/ast_run.hpp"

using namespace lathe;
using namespace lathe::ast;
using namespace lathe::ast::test;

namespace {

/// y = f(x) for `copies` vectors of `lanes` in each of three iterations.
Kernel function_of(const std::string& f, int copies, int lanes,
                   const std::string& store = "y[i*{0} + c*{1} + l] =") {
  const int each = copies * lanes;
  return expand_math(expand_unrolled(parse(
      fmt::format(
          "kernel k(x: f32[{}] in, z: f32[{}] in, y: f32[{}] out) {{\nfor i in 3 {{\nfor c in {} unroll {{\n"
          "for l in {} vector({}) {{\n",
          3 * each, lanes, 3 * each, copies, lanes, lanes) +
      fmt::format(fmt::runtime(store), each, lanes) + " " + fmt::format(fmt::runtime(f), each, lanes) +
      "\n}\n}\n}\n}")));
}

const std::string kX = "x[i*{0} + c*{1} + l]";
const std::string kSigmoid = kX + " / (exp2(" + kX + " * -1.442695:f32) + 1:f32)";

/// Of the vector loops that store in registers, in order, the arrays: each copy has one.
std::vector<int> turns_of(const Kernel& kernel) {
  std::vector<int> turns;
  visit(kernel.body, [&](const Stmt& stmt, const std::vector<const For*>&) {
    const auto* store = std::get_if<Store>(&stmt.node);
    if (store && store->buffer->scope == Scope::Register) turns.push_back(store->buffer->id);
  });
  return turns;
}

} // namespace

TEST_CASE("of every operation all copies have their turn before the next") {
  const Kernel k = function_of(kSigmoid, 3, 8), together = interleave_copies(k);
  CAPTURE(print(together));
  verify(together);
  const std::vector<int> turns = turns_of(together);
  REQUIRE(turns.size() >= 3 * 12);
  CHECK(std::set<int>(turns.begin(), turns.begin() + 3).size() == 3);
  for (size_t i = 3; i < turns.size(); ++i) CHECK(turns[i] == turns[i - 3]);
}

TEST_CASE("of any number of copies and lanes the bits are the same") {
  const std::vector<std::string> functions{
      kSigmoid, "exp2(" + kX + ") - exp2(" + kX + " * -1:f32) * z[l]", "log2(" + kX + ") * " + kX,
      "(exp2(" + kX + ") + 1:f32) * (exp2(z[0]) + z[l])",
      "where(" + kX + " < 0:f32, exp2(" + kX + "), exp2(z[l] * " + kX + "))"};
  for (const std::string& f : functions)
    for (int copies = 1; copies <= 9; ++copies)
      for (int lanes : {2, 16}) {
        const Kernel k = function_of(f, copies, lanes), together = interleave_copies(k);
        CAPTURE(print(together));
        verify(together);
        CHECK(run(together) == run(k));
        CHECK(turns_of(together).empty() == (copies == 1));
        CHECK(print(interleave_copies(together)) == print(together));
      }
}

TEST_CASE("what is short, combined, read by the next copy, or seldom needed stays as it is") {
  const std::string y = "y[i*{0} + c*{1} + l]";
  const std::string before = "y[i*{0} + c*{1} + l - {1}; {1} <= i*{0} + c*{1}]";
  for (const Kernel& k :
       {function_of(kX + " * 2:f32 + z[l]", 4, 16), function_of(kSigmoid, 4, 16, y + " +="),
        function_of(kSigmoid + " + " + before, 4, 16), function_of("sin(" + kX + ")", 4, 16)})
    CHECK(print(interleave_copies(k)) == print(k));
}
