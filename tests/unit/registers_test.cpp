// What the cost model takes to stay in registers, and what spills.
#include <doctest/doctest.h>

#include <algorithm>

#include "support/kernel_text.hpp"
#include "support/search_programs.hpp"

using namespace lathe;
using namespace lathe::search;
using test::replaced;

namespace {

double seconds_here(const std::string& text) { return test::seconds_of(text, test::target()); }

} // namespace

TEST_CASE("what a loop combines into one place of memory stays in registers meanwhile") {
  const std::string rows = R"(kernel k(a: f32[64, 4096] in, y: f32[64] out) {
  for i in 64 {
    for r in 4096 {
      y[i] += a[i, r]
    }
  }
})";
  const std::string by_hand = R"(kernel k(a: f32[64, 4096] in, y: f32[64] out) {
  alloc s: f32[1] register {
    for i in 64 {
      s[0] = 0:f32
      for r in 4096 {
        s[0] += a[i, r]
      }
      y[i] += s[0]
    }
  }
})";
  CHECK(seconds_here(rows) == doctest::Approx(seconds_here(by_hand)).epsilon(0.05));
  // Four copies have a register each, so that none waits for another.
  const std::string unrolled = replaced(replaced(rows, "in 4096 {", "in 1024 {\n      for u in 4 unroll {"),
                                        "a[i, r]", "a[i, r*4 + u]") +
                               "\n}";
  CHECK(seconds_here(unrolled) < 0.5 * seconds_here(rows));
}

TEST_CASE("more accumulators than registers spill") {
  const auto tile = [](int height) {
    std::string text = R"(kernel k(a: f32[H, 256] in, b: f32[256, 32] in, y: f32[H, 32] out) {
  alloc c: f32[H, 2, 16] register {
    for r in 256 {
      for i in H unroll {
        for j in 2 unroll {
          for l in 16 vector(16) {
            c[i, j, l] += a[i, r] * b[r, j*16 + l]
          }
        }
      }
    }
    for i2 in H unroll {
      for j2 in 2 unroll {
        for l2 in 16 vector(16) {
          y[i2, j2*16 + l2] = c[i2, j2, l2]
        }
      }
    }
  }
})";
    return seconds_here(replaced(text, "H", std::to_string(height))) / height;
  };
  CHECK(tile(14) < tile(3));        // three rows of two do not hide the latency
  CHECK(tile(20) > 1.2 * tile(14)); // 40 accumulators
  // 14 x 32 runs at the machine's peak.
  CHECK(2.0 * 256 * 32 / tile(14) > 0.7 * test::machine().flops_per_second[2]);
}

TEST_CASE("vectors that unrolled iterations share are loaded once, stay in registers, and spill") {
  const auto row = [](int width, const char* column) {
    std::string text = R"(kernel k(x: f32[256, 34, 16] in, w: f32[256, 3, 16] in, y: f32[W, 16] out) {
  alloc c: f32[W, 16] register {
    for r in 256 {
      for k in 3 unroll {
        for i in W unroll {
          for l in 16 vector(16) {
            c[i, l] += x[r, COLUMN, l] * w[r, k, l]
          }
        }
      }
    }
    for i2 in W unroll {
      for l2 in 16 vector(16) {
        y[i2, l2] = c[i2, l2]
      }
    }
  }
})";
    return seconds_here(replaced(replaced(text, "COLUMN", column), "W", std::to_string(width))) / width;
  };
  CHECK(row(28, "i + k") > 1.3 * row(14, "i + k")); // 28 accumulators and 30 vectors of x
  CHECK(row(24, "i") < 1.1 * row(14, "i"));         // where every iteration of k reads the same
}

TEST_CASE("rows of a ragged tile take no registers that full ones would not") {
  // 27 accumulators, three vectors and a row: of 86 tiles, the last has three rows. Their average is a
  // fraction.
  const Cost c =
      cost(test::plan_of(R"(kernel k(a: f32[768, 768] in, b: f32[768, 48] in, y: f32[768, 48] out) {
  for i in 86 {
    alloc c: f32[9, 3, 16] register {
      for r in 768 {
        for u in min(9, 768 - i*9) unroll {
          for j in 3 unroll {
            for l in 16 vector(16) {
              c[u, j, l] += a[i*9 + u, r] * b[r, j*16 + l]
            }
          }
        }
      }
      for u2 in min(9, 768 - i*9) unroll {
        for j2 in 3 unroll {
          for l2 in 16 vector(16) {
            y[i*9 + u2, j2*16 + l2] = c[u2, j2, l2]
          }
        }
      }
    }
  }
})"),
           test::target(), test::machine());
  CHECK(std::none_of(c.terms.begin(), c.terms.end(), [](const CostTerm& t) { return t.name == "spills"; }));
}
