// What threads gain, by the cost model.
#include <doctest/doctest.h>

#include "support/kernel_text.hpp"
#include "support/search_programs.hpp"

using namespace lathe;
using test::replaced;

namespace {

double seconds_by(const std::string& text, int threads = 1) {
  return test::seconds_of(text, test::target(threads));
}

} // namespace

TEST_CASE("threads divide the work of parallel loops, in whole chunks") {
  const std::string serial = R"(kernel k(a: f32[8, 65536] in, y: f32[8, 65536] out) {
  for i in 8 {
    for j in 65536 {
      y[i, j] = exp2(a[i, j])
    }
  }
})";
  const std::string parallel = replaced(serial, "in 8 {", "in 8 parallel {");
  const double one = seconds_by(serial), two = seconds_by(parallel, 2);
  CHECK(two < 0.55 * one);
  CHECK(two > 0.49 * one);
  // Eight rows on three threads take as long as nine would.
  CHECK(seconds_by(parallel, 3) == doctest::Approx(one * 3 / 8).epsilon(0.02));
}

TEST_CASE("two threads gain as much as their parts are equal") {
  // 30 blocks: in 2 parts of 15, or in 2 of 3 rows of 10 where the one thread has two rows.
  const auto product = [](const std::string& loops, const std::string& column, const std::string& ends) {
    return "kernel k(a: f32[4096] in, b: f32[30, 16] in, y: f32[30, 16] out) {\n" + loops +
           "for r in 4096 {\nfor l in 16 vector(16) {\ny[" + column + ", l] += a[r] * b[" + column +
           ", l]\n}\n}\n" + ends + "}";
  };
  const std::string even = product("for o in 2 parallel {\nfor i in 15 {\n", "o*15 + i", "}\n}\n");
  const std::string uneven = product("for o in 2 parallel {\nfor m in min(2, 3 - o*2) {\nfor i in 10 {\n",
                                     "o*20 + m*10 + i", "}\n}\n}\n");
  const double gain_even = seconds_by(even) / seconds_by(even, 2),
               gain_uneven = seconds_by(uneven) / seconds_by(uneven, 2);
  CHECK(gain_even == doctest::Approx(2).epsilon(0.1));
  CHECK(gain_uneven == doctest::Approx(1.5).epsilon(0.1));
}
