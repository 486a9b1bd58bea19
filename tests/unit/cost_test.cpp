// The cost model: seconds that react to loops as the machine does.
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include <fmt/format.h>

#include "support/kernel_text.hpp"
#include "support/search_programs.hpp"

using namespace lathe;
using namespace lathe::search;
using test::replaced;

namespace {

search::Cost cost_of(const std::string& text, const Target& t = test::target()) {
  return cost(test::plan_of(text), t, test::machine());
}
double seconds(const std::string& text, const Target& t = test::target()) {
  return test::seconds_of(text, t);
}

const std::string kCopySmall = R"(kernel k(a: f32[4096] in, y: f32[4096] out) {
  for i in 4096 {
    y[i] = a[i]
  }
})";
const std::string kCopySmallVector = R"(kernel k(a: f32[4096] in, y: f32[4096] out) {
  for i in 256 {
    for l in 16 vector(16) {
      y[i*16 + l] = a[i*16 + l]
    }
  }
})";
const std::string kSum = R"(kernel k(a: f32[4096] in, y: f32[1] out) {
  alloc s: f32[UNROLL, 16] register {
    for u in UNROLL unroll {
      for l in 16 vector(16) {
        s[u, l] = 0:f32
      }
    }
    for r in STEPS {
      for v in UNROLL unroll {
        for m in 16 vector(16) {
          s[v, m] += a[r*WIDTH + v*16 + m]
        }
      }
    }
    y[0] = s[0, 0]
  }
})";

std::string sum_with(int unroll) {
  std::string text = replaced(kSum, "UNROLL", std::to_string(unroll));
  text = replaced(text, "STEPS", std::to_string(4096 / 16 / unroll));
  return replaced(text, "WIDTH", std::to_string(16 * unroll));
}

std::string copy_of(int64_t n, bool streaming) {
  std::string text = R"(kernel k(a: f32[N] in, y: f32[N] out) {
  for i in STEPS {
    for l in 16 vector(16) {
      y[i*16 + l] = a[i*16 + l]
    }
  }
})";
  for (size_t at; (at = text.find('N')) != std::string::npos;) text.replace(at, 1, std::to_string(n));
  text = replaced(text, "STEPS", std::to_string(n / 16));
  return streaming ? replaced(text, "y[i*16 + l]", "stream y[i*16 + l]") : text;
}

} // namespace

TEST_CASE("a vector does the work of its lanes") {
  const double scalar = seconds(kCopySmall), vector = seconds(kCopySmallVector);
  CHECK(scalar > 4 * vector);
  CHECK(scalar < 40 * vector);
}

TEST_CASE("seconds are the sum of the terms, and all are named") {
  for (const std::string& text : {kCopySmall, kCopySmallVector, sum_with(4), copy_of(1 << 24, true)}) {
    const Cost c = cost_of(text);
    double sum = 0;
    for (const CostTerm& t : c.terms) {
      CHECK(t.seconds > 0);
      CHECK(!t.name.empty());
      sum += t.seconds;
    }
    CHECK(c.seconds == doctest::Approx(sum));
  }
}

TEST_CASE("one accumulator waits for its own latency, several hide it") {
  const double one = seconds(sum_with(1)), four = seconds(sum_with(4)), eight = seconds(sum_with(8));
  CHECK(one > 2 * four);
  CHECK(four > eight);
}

TEST_CASE("copies of a long function that advance together hide its latency, those one by one do not") {
  const auto function_of = [](int copies, int steps) {
    std::string value = "a[i*WIDTH + v*16 + m]";
    for (int k = 0; k < steps; ++k) value = fmt::format("fma({}, 0.5:f32, 1:f32)", value);
    std::string text = R"(kernel k(a: f32[16384] in, y: f32[16384] out) {
  for i in STEPS {
    for v in COPIES unroll {
      for m in 16 vector(16) {
        y[i*WIDTH + v*16 + m] = )" +
                       value + R"(
      }
    }
  }
})";
    for (const auto& [from, to] :
         {std::pair("STEPS", 1024 / copies), {"COPIES", copies}, {"WIDTH", 16 * copies}})
      for (size_t at; (at = text.find(from)) != std::string::npos;)
        text.replace(at, std::strlen(from), std::to_string(to));
    return text;
  };
  CHECK(seconds(function_of(1, 100)) > 1.5 * seconds(function_of(4, 100)));
  // Short functions overlap by themselves.
  CHECK(seconds(function_of(1, 8)) < 1.2 * seconds(function_of(4, 8)));
}

TEST_CASE("guards cost where they stay once borders are peeled and copies unrolled") {
  const std::string padded = R"(kernel k(a: f32[64, 30] in, y: f32[64, 28] out) {
  for c in 64 {
    for i in 28 {
      for t in 3 unroll {
        y[c, i] += a[c, i + t; GUARDS]
      }
    }
  }
})";
  const double plain = seconds(replaced(padded, "; GUARDS", ""));
  CHECK(seconds(replaced(padded, "GUARDS", "0 < i + t; i + t < 29")) < 1.25 * plain);
  CHECK(seconds(replaced(padded, "GUARDS", "i + t < 15")) < 1.25 * plain); // in two loops
  CHECK(seconds(replaced(padded, "GUARDS", "0 < (i + t) % 3")) > 1.5 * plain);
}

TEST_CASE("an unrolled loop computes only what each of its iterations chooses") {
  const auto seconds = [](const std::string& kind, const std::string& value) {
    return test::seconds_of("kernel k(x: f32[4096] in, y: f32[3, 4096] out) { for i in 256 { for p in 3 " +
                                kind + " { for l in 16 vector(16) { y[p, i*16 + l] = " + value + " } } } }",
                            test::target());
  };
  const std::string all = "exp2(sin(x[(i*16 + l + p*128) % 4096]))";
  const std::string one = "where(bool(p < 1), " + all + ", x[i*16 + l])";
  CHECK(seconds("unroll", one) < 0.6 * seconds("unroll", all));
  CHECK(seconds("unroll", one) < 0.6 * seconds("", one));
}

TEST_CASE("a vector across two that were just written waits for both") {
  const std::string windows = R"(kernel k(a: f32[512, 64] in, y: f32[512, 64] out) {
  for i in 512 {
    alloc t: f32[80] register {
      for o in 5 {
        for l in 16 vector(16) {
          t[o*16 + l] = a[i, o*16 + l; o*16 + l < 64]
        }
      }
      for p in 4 {
        for m in 16 vector(16) {
          y[i, p*16 + m] = t[p*16 + m + SHIFT]
        }
      }
    }
  }
})";
  const double whole = seconds(replaced(windows, "SHIFT", "16"));
  CHECK(seconds(replaced(windows, "SHIFT", "0")) == doctest::Approx(whole));
  CHECK(seconds(replaced(windows, "SHIFT", "1")) > whole + 512 * 4 * 5 / 3.6e9);
}

TEST_CASE("the next of many short sums begins while one waits for its chain") {
  const auto sums_of = [](int64_t length) {
    return replaced(replaced(R"(kernel k(a: f32[262144] in, y: f32[ROWS] out) {
  for i in ROWS {
    for r in LENGTH {
      y[i] += a[i*LENGTH + r]
    }
  }
})",
                             "ROWS", std::to_string(262144 / length)),
                    "LENGTH", std::to_string(length));
  };
  CHECK(seconds(sums_of(16384)) > 1.5 * seconds(sums_of(64)));
}

TEST_CASE("what a loop does not change is computed before it, but not what is written in it") {
  const auto of = [](const char* factor) {
    return seconds(replaced(R"(kernel k(a: f32[256] in, b: f32[256] in, y: f32[256, 256] out) {
  alloc t: f32[256] packed {
    for i in 256 {
      for j in 256 {
        t[i] = b[j]
        y[i, j] = b[j] * FACTOR
      }
    }
  }
})",
                            "FACTOR", factor));
  };
  const double one = of("a[i]"), each = of("exp2(a[j])");
  CHECK(each > 2 * one);
  CHECK(of("exp2(a[i])") < 1.1 * one);
  CHECK(of("exp2(exp2(a[0]))") < 1.1 * one);
  CHECK(of("exp2(t[i])") > 0.9 * each);
}

TEST_CASE("copies that add the same value are as many additions") {
  const std::string sums = R"(kernel k(a: f32[8] in, y: f32[8] out) {
  for r in ROUNDS {
    for u in COPIES unroll {
      for l in 8 vector(8) {
        y[l] += a[l]
      }
    }
  }
})";
  const double few = seconds(replaced(replaced(sums, "ROUNDS", "1024"), "COPIES", "16"));
  const double many = seconds(replaced(replaced(sums, "ROUNDS", "512"), "COPIES", "32"));
  CHECK(many == doctest::Approx(few).epsilon(0.2));
}

TEST_CASE("a loop that grows along two loops is not taken for an empty one") {
  // The inner loop runs up to four times: more often the later i and r are.
  const std::string grows = R"(kernel k(a: f32[64, 4096] in, y: f32[64] out) {
  for i in 2 {
    for r in 64 {
      for k in 1024 {
        for c in 4 unroll {
          for z in EXTENT unroll {
            y[r] += a[z*8 + i, k*4 + c]
          }
        }
      }
    }
  }
})";
  const double grown = seconds(replaced(grows, "EXTENT", "i*4 + (r - max(0, i*32 + r - 64) + 7) // 8 - 4"));
  const double twice = seconds(replaced(grows, "EXTENT", "2")); // about the average
  CHECK(grown > 0.4 * twice);
  CHECK(grown < 2.5 * twice);
}

TEST_CASE("streaming stores pay for what does not fit and cost for what does") {
  CHECK(seconds(copy_of(1 << 24, true)) < seconds(copy_of(1 << 24, false)));
  CHECK(seconds(copy_of(1 << 12, true)) > seconds(copy_of(1 << 12, false)));
}

TEST_CASE("large data moves at the speed of memory") {
  const MachineProfile m = test::machine();
  const double bytes = 4.0 * (1 << 24);
  const double t = seconds(copy_of(1 << 24, false));
  CHECK(t > bytes / m.levels.back().read_bytes_per_second);
  CHECK(t < 1.5 * (bytes / m.levels.back().read_bytes_per_second + bytes / m.write_bytes_per_second));
}

TEST_CASE("a strided walk costs more than a contiguous one") {
  const std::string rows = R"(kernel k(a: f32[2048, 2048] in, y: f32[2048, 2048] out) {
  for i in 2048 {
    for j in 2048 {
      y[i, j] = a[i, j]
    }
  }
})";
  CHECK(seconds(replaced(rows, "a[i, j]\n", "a[j, i]\n")) > 1.5 * seconds(rows));
}

TEST_CASE("a row that is shorter than a vector costs about as much as a whole vector") {
  const auto rows = [](int width) {
    const std::string text =
        R"(kernel k(x: f32[512, 16, 18] in, w: f32[512, 3, 3] in, y: f32[512, 14, 16] out) {
  for c in 512 {
    for i in 14 {
      alloc a: f32[16] register {
        for z in W vector(16) {
          a[z] = 0:f32
        }
        for r in 3 unroll {
          for s in 3 unroll {
            for l in W vector(16) {
              a[l] += x[c, i + r, l + s] * w[c, r, s]
            }
          }
        }
        for v in W vector(16) {
          y[c, i, v] = a[v]
        }
      }
    }
  }
})";
    return seconds(replaced(text, "W", std::to_string(width)));
  };
  CHECK(rows(14) < 1.2 * rows(16));
  CHECK(rows(14) > 0.8 * rows(16));
}

TEST_CASE("symbolic sizes have a cost") {
  const double t = seconds(R"(kernel k(a: f32[n] in, y: f32[n] out; n in [1, 4096]) {
  for i in n {
    y[i] = a[i]
  }
})");
  CHECK(t > seconds(replaced(kCopySmall, "4096", "64")));
  CHECK(t < seconds(kCopySmall));
}

TEST_CASE("the model is quick") {
  const KernelPlan plan = test::plan_of(sum_with(8));
  const auto start = std::chrono::steady_clock::now();
  double sum = 0;
  for (int i = 0; i < 5000; ++i) sum += cost(plan, test::target(), test::machine()).seconds;
  CHECK(sum > 0);
  // 20,000 a second, with room for a machine that is busy with something else.
  CHECK(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() < 2.5);
}

TEST_CASE("constants come from memory where no cache keeps all of the program's") {
  const auto product = [](bool constant) {
    const Tensor w = constant ? Tensor::from(std::vector<float>(256 * 256, 0.5f), {256, 256})
                              : Tensor::input("w", {256, 256});
    return test::lowered(Tensor::input("x", {4, 256}).matmul(w));
  };
  const auto with = [](const std::shared_ptr<const lower::Program>& program, int64_t constant_bytes) {
    Target target = test::target();
    target.constant_bytes = constant_bytes;
    target.constants = 1 << 20; // so small that they leave the kernel's results in place
    double sum = 0;
    for (const auto& kernel : initial_plan(program).kernels)
      sum += cost(*kernel, target, test::machine()).seconds;
    return sum;
  };
  const int64_t few = 256 * 256 * 4, many = int64_t{1} << 30; // the second level holds the few
  CHECK(with(product(true), few) < with(product(true), many));
  CHECK(with(product(false), few) == doctest::Approx(with(product(false), many)).epsilon(0.001));
}

TEST_CASE("what is read in passes comes from afar in the first, unless the passes before asked for it") {
  // Blocks of panels of 48 columns, each read for 7 tiles of 7 rows.
  const auto seconds_of = [](bool asks, int64_t constant_bytes, int64_t block = 96) {
    const Tensor w = Tensor::from(std::vector<float>(512 * 2048, 0.5f), {512, 2048});
    std::vector<Move> moves;
    for (const char* text :
         {"inline(t0)", "split(t1.i1, BLOCK)", "split(t1.i1.i, 48)", "split(t1.i1.i.i, 16)",
          "split(t1.i0, 7)", "reorder(t1.i1.o, t1.i0.o, t1.i1.i.o, t1.r2, t1.i0.i, t1.i1.i.i.o, t1.i1.i.i.i)",
          "prepack(t1, data1)", "prefetch_tile(t1, t1.k0, t1.i1.o, t1.i0.o, t1.r2, 4)",
          "accumulate(t1, t1.r2)", "unroll(t1.i0.i)", "unroll(t1.i1.i.i.o)", "vectorise(t1.i1.i.i.i)"})
      if (asks || std::string_view(text).rfind("prefetch_tile", 0) != 0)
        moves.push_back(parse_move(text == std::string("split(t1.i1, BLOCK)")
                                       ? replaced(text, "BLOCK", std::to_string(block))
                                       : text));
    const Plan plan = replay(test::lowered(Tensor::input("x", {49, 512}).matmul(w)), moves, test::target());
    Target target = test::target();
    target.constant_bytes = constant_bytes;
    double sum = 0;
    for (const auto& kernel : plan.kernels) sum += cost(*kernel, target, test::machine()).seconds;
    return sum;
  };
  const int64_t few = 512 * 2048 * 4, many = int64_t{1} << 30; // the third level holds the few
  CHECK(seconds_of(true, many) < 0.9 * seconds_of(false, many));
  CHECK(seconds_of(true, many) > seconds_of(true, few));
  // While the second of two blocks is worked on, what the first reads is asked for: 1056 columns during the
  // time of 992, or 1536 during that of 512.
  CHECK(seconds_of(true, many, 1536) > 1.05 * seconds_of(true, many, 1056));
  CHECK(seconds_of(false, many, 1536) < 1.01 * seconds_of(false, many, 1056));
  // From the third level hints bring nothing where a block is too large for the second: its lines have left
  // that again when their turn comes.
  CHECK(seconds_of(true, few) < 0.97 * seconds_of(false, few));
  CHECK(seconds_of(true, few, 1536) > 0.99 * seconds_of(false, few, 1536));
}

TEST_CASE("stores that jump hide behind computing between them") {
  const auto kernel = [](const std::string& sum, const std::string& index) {
    return "kernel k(a: f32[512] in, y: f32[65536, 1024] out) {\n  alloc s: f32[1] register {\n"
           "    for i in 65536 {\n      s[0] = 0:f32\n" +
           sum + "      y[" + index + "] = s[0]\n    }\n  }\n}";
  };
  const std::string sum = "      for r in 512 {\n        s[0] += a[r]\n      }\n";
  const std::string jumping = "i, 0", in_a_row = "i // 1024, i % 1024";
  const double alone = seconds(kernel("", jumping)) - seconds(kernel("", in_a_row));
  const double between = seconds(kernel(sum, jumping)) - seconds(kernel(sum, in_a_row));
  CHECK(alone > 0);
  CHECK(between < 0.3 * alone);
}

TEST_CASE("short rows from the second level hide behind the computing on them") {
  // Six rows by 64 columns of a product: 24 multiplications for every four lines of w.
  const Cost c = cost_of(R"(kernel k(a: f32[252, 256] in, w: f32[256, 256] in, y: f32[252, 256] out) {
  for i in 42 {
    for j in 4 {
      alloc s: f32[6, 64] register {
        for zu in 6 unroll {
          for zv in 4 unroll {
            for zl in 16 vector(16) {
              s[zu, zv*16 + zl] = 0:f32
            }
          }
        }
        for r in 256 {
          for u in 6 unroll {
            for v in 4 unroll {
              for l in 16 vector(16) {
                s[u, v*16 + l] += a[i*6 + u, r] * w[r, j*64 + v*16 + l]
              }
            }
          }
        }
        for wu in 6 unroll {
          for wv in 4 unroll {
            for wl in 16 vector(16) {
              y[i*6 + wu, j*64 + wv*16 + wl] = s[wu, wv*16 + wl]
            }
          }
        }
      }
    }
  }
})");
  const auto arithmetic =
      std::find_if(c.terms.begin(), c.terms.end(), [](const CostTerm& t) { return t.name == "arithmetic"; });
  REQUIRE(arithmetic != c.terms.end());
  CHECK(c.seconds > 1.05 * arithmetic->seconds);
  CHECK(c.seconds < 1.4 * arithmetic->seconds);
}

namespace {

/// y = a times w, by tiles of 8 rows and 48 columns; `hints` ask for the next tile of w.
std::string tiled_product(int64_t rows, int64_t depth, int64_t columns, const std::string& hints) {
  const std::string text =
      R"(kernel k(a: f32[ROWS, DEPTH] in, w: f32[DEPTH, COLUMNS] in, y: f32[ROWS, COLUMNS] out) {
  for j in TILES {
    for i in PASSES {
      alloc s: f32[8, 48] register {
        for zu in 8 unroll {
          for zv in 3 unroll {
            for zl in 16 vector(16) {
              s[zu, zv*16 + zl] = 0:f32
            }
          }
        }
        for r in DEPTH {HINTS
          for u in 8 unroll {
            for v in 3 unroll {
              for l in 16 vector(16) {
                s[u, v*16 + l] += a[i*8 + u, r] * w[r, j*48 + v*16 + l]
              }
            }
          }
        }
        for wu in 8 unroll {
          for wv in 3 unroll {
            for wl in 16 vector(16) {
              y[i*8 + wu, j*48 + wv*16 + wl] = s[wu, wv*16 + wl]
            }
          }
        }
      }
    }
  }
})";
  const auto number = [](int64_t n) { return std::to_string(n); };
  return replaced(
      replaced(replaced(replaced(replaced(replaced(text, "ROWS", number(rows)), "COLUMNS", number(columns)),
                                 "DEPTH", number(depth)),
                        "TILES", number(columns / 48)),
               "PASSES", number(rows / 8)),
      "HINTS", hints);
}

} // namespace

TEST_CASE("hints do not help where lines push each other out before they are read again") {
  const std::string hints = R"(
          for f in i < 3 {
            prefetch w[r, j*48 + (i % 3)*16 + 48]
          })";
  // Rows of w lie 12 KiB apart: 768 of them share so few sets that each pass through a tile reads it from
  // afar. Measured: 8.3 ms without hints, 8.1 with them, and 3.4 for the computing alone.
  const double without = seconds(tiled_product(128, 768, 3072, "")),
               with = seconds(tiled_product(128, 768, 3072, hints));
  CHECK(with > 0.7 * without);
  // An odd distance spreads them.
  const double spread = seconds(tiled_product(128, 768, 3120, hints));
  CHECK(spread < 0.75 * with);
}
