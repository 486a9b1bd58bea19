// Bytes between the levels of the memory hierarchy, counted by hand.
#include <doctest/doctest.h>

#include "search/cost/features.hpp"
#include "search/cost/traffic.hpp"
#include "support/kernel_text.hpp"
#include "support/search_programs.hpp"

using namespace lathe;
using namespace lathe::search;
using test::replaced;

namespace {

/// What all accesses of a kernel move into the cache, of one kind of traffic.
double total(const std::string& text, const CacheShape& cache, double Traffic::*kind,
             const Target& t = test::target()) {
  const ast::Kernel kernel = ast::parse(text);
  Features f;
  read_features(kernel, t, f);
  std::vector<Traffic> accesses;
  traffic(f, cache, accesses);
  double sum = 0;
  for (const Traffic& access : accesses) sum += access.*kind;
  return sum;
}

} // namespace

TEST_CASE("a way of a first level is a page") {
  for (const auto& [kilobytes, ways] : {std::pair{32, 8}, {48, 12}, {64, 16}}) {
    const CacheShape shape = cache_shape(int64_t{kilobytes} << 10, true);
    CHECK(shape.sets == 64);
    CHECK(shape.ways == ways);
  }
}

TEST_CASE("traffic counts what does not stay in the cache") {
  // b is read again for every row of a: from a small cache it comes every time.
  const ast::Kernel k = ast::parse(R"(kernel k(a: f32[64] in, b: f32[4096] in, y: f32[64, 4096] out) {
  for i in 64 {
    for j in 4096 {
      y[i, j] = a[i] * b[j]
    }
  }
})");
  Features f;
  read_features(k, test::target(), f);
  std::vector<Traffic> accesses;
  const auto of = [&](const std::string& name) {
    for (size_t a = 0; a < f.accesses.size(); ++a)
      if (f.buffers[f.accesses[a].buffer].buffer->name == name) return accesses.at(a);
    return Traffic{};
  };
  traffic(f, cache_shape(8 << 10, false), accesses);
  CHECK(of("b").read == doctest::Approx(64 * 4096 * 4.0).epsilon(0.1));
  traffic(f, cache_shape(256 << 10, false), accesses);
  CHECK(of("b").read < 2 * 4096 * 4.0);
  CHECK(of("b").written == 0);
  CHECK(of("y").written == doctest::Approx(64 * 4096 * 4.0).epsilon(0.1));
  // A row of b and of y is half as much again as what stays: so half of b is gone when it is read again.
  CacheShape shared = cache_shape((32 << 10) * 8 / 9, false);
  traffic(f, shared, accesses);
  CHECK(of("b").read == doctest::Approx(64 * 4096 * 4.0).epsilon(0.1));
  shared.all_lost = 2;
  traffic(f, shared, accesses);
  CHECK(of("b").read == doctest::Approx(32 * 4096 * 4.0).epsilon(0.1));
  traffic(f, cache_shape(64 << 20, false), accesses);
  CHECK(of("b").read + of("y").written == 0);
}

TEST_CASE("loads of one body that begin at several places touch as much more") {
  const auto bytes_read = [](const std::string& buffer, const std::string& loads, int64_t cache = 64 << 10) {
    const ast::Kernel k = ast::parse(replaced(replaced(R"(kernel k(a: f32[BUFFER] in, y: f32[4096] out) {
  for i in 64 {
    for j in 64 {
      y[i*64 + j] = LOADS
    }
  }
})",
                                                       "BUFFER", buffer),
                                              "LOADS", loads));
    Features f;
    read_features(k, test::target(), f);
    std::vector<Traffic> accesses;
    traffic(f, cache_shape(cache, false), accesses);
    double sum = 0;
    for (const Traffic& t : accesses) sum += t.read;
    return sum;
  };
  const double once = bytes_read("65536", "a[i*64 + j]", 4 << 10);
  CHECK(once == doctest::Approx(4 * 4096.0).epsilon(0.01));
  // Far apart, as the points of a transform; between one another's rows; with a hint each.
  CHECK(bytes_read("65536", "a[i*64 + j] + a[i*64 + j + 8192] + a[i*64 + j + 32768]") ==
        doctest::Approx(3 * once).epsilon(0.01));
  CHECK(bytes_read("65536", "a[i*256 + j] + a[i*256 + j + 64] + a[i*256 + j + 192]") ==
        doctest::Approx(3 * once).epsilon(0.01));
  CHECK(bytes_read("65536", "a[i*64 + j; ahead: 64] + a[i*64 + j + 32768; ahead: 64]", 16 << 10) ==
        doctest::Approx(2 * once).epsilon(0.01));
  // A window: what one row reads first another has read already.
  CHECK(bytes_read("65536", "a[i*64 + j] + a[i*64 + j + 1] + a[i*64 + j + 64]", 4 << 10) < 1.3 * once);
}

TEST_CASE("chunks of a loop touch together what the loop touches") {
  // The 14 rows of a transform's points, and the same in chunks of 4, of which the last is half as long: the
  // points are as far apart as all rows are long.
  const auto bytes_read = [](const std::string& text) {
    return total(text, cache_shape(8 << 10, false), &Traffic::read);
  };
  const double whole = bytes_read(R"(kernel k(a: f32[3, 14, 64] in, y: f32[14, 64] out) {
  for i in 14 {
    for j in 64 {
      y[i, j] = a[0, i, j] + a[1, i, j] + a[2, i, j]
    }
  }
})");
  CHECK(whole == doctest::Approx(3 * 14 * 64 * 4.0).epsilon(0.01));
  CHECK(bytes_read(R"(kernel k(a: f32[3, 14, 64] in, y: f32[14, 64] out) {
  for o in 4 {
    for i in min(4, 14 - o*4) {
      for j in 64 {
        y[o*4 + i, j] = a[0, o*4 + i, j] + a[1, o*4 + i, j] + a[2, o*4 + i, j]
      }
    }
  }
})") == doctest::Approx(whole).epsilon(0.01));
}

TEST_CASE("chunks of chunks touch together what the loop touches, down columns too") {
  const std::string text = R"(kernel k(a: f32[512, 64, 128] in, y: f32[512, 64] out) {
  for i in 512 {
    for o in 2 {
      for r in 128 {
        for m in min(3, 4 - o*3) unroll {
          for l in 16 vector(16) {
            y[i, o*48 + m*16 + l] += a[i, o*48 + m*16 + l, r]
          }
        }
      }
    }
  }
})";
  CHECK(total(text, cache_shape(1 << 20, false), &Traffic::read) ==
        doctest::Approx(512 * 64 * 128 * 4.0).epsilon(0.02));
}

TEST_CASE("lines that are used a few numbers at a time, in turns with others, are columns") {
  const auto columns = [](const char* index) {
    const std::string text = R"(kernel k(a: f32[4096, 4096] in, y: f32[4096, 4096] out) {
  for o in 128 {
    for c in 4096 {
      for l in 32 {
        y[o*32 + l, c] = a[INDEX]
      }
    }
  }
})";
    return total(replaced(text, "INDEX", index), cache_shape(1 << 20, true), &Traffic::by_columns);
  };
  const double all = 4096.0 * 4096 * 4;
  CHECK(columns("o*32 + l, c") == doctest::Approx(2 * all).epsilon(0.01)); // those of y, too
  CHECK(columns("c, o*32 + l") == doctest::Approx(all).epsilon(0.01));
  // Each line once, and so many rows that all of their lines are gone before the next number is read.
  const std::string once = R"(kernel k(a: f32[4096, 4096] in, y: f32[4096] out) {
  for i in 4096 {
    y[i] = a[i, 0]
  }
})";
  CHECK(total(once, cache_shape(1 << 15, false), &Traffic::by_columns) == 0);
}

TEST_CASE("what is streamed waits for no prefetcher, and is missed where it would have stayed") {
  const auto streamed = [](const char* rows, int64_t cache, double Traffic::*kind) {
    const std::string text = R"(kernel k(a: f32[16] in, y: f32[ROWS, 128] out) {
  for c in 8 {
    for r in ROWS {
      for l in 16 vector(16) {
        stream y[r, c*16 + l] = a[l]
      }
    }
  }
})";
    return total(replaced(text, "ROWS", rows), cache_shape(cache, false), kind);
  };
  CHECK(streamed("4096", 1 << 20, &Traffic::streamed) == doctest::Approx(4096 * 512.0));
  CHECK(streamed("4096", 1 << 20, &Traffic::scattered) == 0);
  CHECK(streamed("4096", 1 << 20, &Traffic::read) == 0); // more than would have stayed
  CHECK(streamed("64", 1 << 20, &Traffic::read) == doctest::Approx(64 * 512.0));
}

TEST_CASE("what threads share comes into the caches of each, what they divide into one") {
  const ast::Kernel k = ast::parse(R"(kernel k(a: f32[64] in, b: f32[4096] in, y: f32[64, 4096] out) {
  for i in 64 parallel {
    for j in 4096 {
      y[i, j] = a[i] * b[j]
    }
  }
})");
  Features f;
  read_features(k, test::target(2), f);
  const auto read_of_b = [&](int64_t bytes, double threads) {
    CacheShape cache = cache_shape(bytes, false);
    cache.threads = threads;
    std::vector<Traffic> accesses;
    traffic(f, cache, accesses);
    for (size_t a = 0; a < f.accesses.size(); ++a)
      if (f.buffers[f.accesses[a].buffer].buffer->name == "b") return accesses.at(a).read;
    return 0.0;
  };
  // One that keeps b for all rows, and one that reads it again for each.
  CHECK(read_of_b(64 << 10, 2) == doctest::Approx(2 * read_of_b(64 << 10, 1)).epsilon(0.01));
  CHECK(read_of_b(8 << 10, 2) == doctest::Approx(read_of_b(8 << 10, 1)).epsilon(0.01));
}

TEST_CASE("of what fits, values that another thread may have made are read again in part") {
  const auto read = [](double lost) {
    CacheShape cache = cache_shape(64 << 10, false);
    cache.threads = 2;
    cache.loses_values = lost;
    return total(R"(kernel k(b: f32[4096] in, y: f32[4096] out) {
  for i in 4096 parallel {
    y[i] = b[i]
  }
})",
                 cache, &Traffic::read, test::target(2));
  };
  CHECK(read(0) == 0);
  CHECK(read(0.25) == doctest::Approx(0.25 * 4096 * 4).epsilon(0.01)); // not y, which is written
}

TEST_CASE("a share of where results go to has left the cache, and results in scratch have not") {
  const std::string reversed = R"(kernel k(a: f32[4096] in, y: f32[4096] out) {
  alloc s: f32[4096] packed {
    for i in 4096 {
      s[i] = a[i]
    }
    for j in 4096 {
      y[j] = s[4095 - j]
    }
  }
})";
  CacheShape cache = cache_shape(1 << 20, false);
  for (const double share : {0.0, 0.5, 1.0}) {
    cache.loses_places = share;
    CHECK(total(reversed, cache, &Traffic::written) == doctest::Approx(share * 4096 * 4));
  }
}

TEST_CASE("stores that jump far wait for each line, stores in a row or in small steps do not") {
  const auto stray = [](const std::string& index, int64_t row) {
    return total(replaced("kernel k(a: f32[4096] in, y: f32[1024, ROW] out) {\n  for i in 256 {\n"
                          "    for j in 256 {\n      y[" +
                              index + "] = a[j]\n    }\n  }\n}",
                          "ROW", std::to_string(row)),
                 cache_shape(16 << 10, false), &Traffic::stray);
  };
  CHECK(stray("i, j", 1024) == 0);
  CHECK(stray("j, i", 1024) > 256 * 256 * 4.0);
  CHECK(stray("j, i", 512) == 0); // the prefetcher follows steps of 2 KiB
}

TEST_CASE("of a hinted operand one tile more is to fit, not all of it twice") {
  // Eight blocks of 16 tiles of 16 KiB, each with all of `a`, 512 KiB.
  const std::string blocks = R"(kernel k(w: f32[8, 16, 4096] in, a: f32[16, 8192] in, y: f32[8, 16] out) {
  for b in 8 {
    for t in 16 {
      for r in 4096 {
        prefetch w[b, t + AHEAD, r]
        y[b, t] += w[b, t, r] * a[t, r*2]
      }
    }
  }
})";
  const CacheShape cache = cache_shape(1200 << 10, false); // holds a block, `a` and a little
  const double of_w = 8 * 16 * 4096 * 4, of_a = 16 * 8192 * 4;
  const double others = 2 * 64 * 8;
  CHECK(total(replaced(blocks, "t + AHEAD", "t + 1"), cache, &Traffic::read) <= of_w + of_a + others);
  CHECK(total(replaced(blocks, "b, t + AHEAD", "b + 1, t"), cache, &Traffic::read) > of_w + 4 * of_a);
}

TEST_CASE("lines that are a power of two apart share few sets, along however many loops") {
  // All of `a` is read for each of 128 columns, whose lines are 512 bytes apart: an eighth of the sets.
  const auto read = [](int rows) {
    const std::string text = replaced(R"(kernel k(a: f32[ROWS, 64, 128] in, y: f32[128] out) {
  for i in 128 {
    for j in ROWS {
      for l in 64 {
        y[i] += a[j, l, i]
      }
    }
  }
})",
                                      "ROWS", std::to_string(rows));
    return total(text, cache_shape(2 << 20, true), &Traffic::read);
  };
  const double lines_of_row = 64 * 64;           // bytes, of one column
  CHECK(read(60) < 128 * 60 * lines_of_row / 4); // 3840 lines in 256 sets of 16: they stay for 16 columns
  CHECK(read(68) < 128 * 68 * lines_of_row / 4); // a few too many displace a few others
  CHECK(read(120) > 128 * 120 * lines_of_row / 2);
}

TEST_CASE("a loop that division cuts into runs touches each run once") {
  // Channels in blocks of 16 under one loop, 14 pixels at a time; and the first
  // 56 pixels of all rows under one.
  const double channels = total(R"(kernel k(x: f32[4, 3136, 16] in, y: f32[224, 14] out) {
  for p in 224 {
    for r in 64 {
      for i in 14 unroll {
        y[p, i] += x[r // 16, p*14 + i, r % 16]
      }
    }
  }
})",
                                cache_shape(48 << 10, true), &Traffic::read);
  CHECK(channels == doctest::Approx(4 * (64 * 3136 + 3136)).epsilon(0.02));
  const double cut = total(R"(kernel k(x: f32[56, 224, 4] in, y: f32[3136] out) {
  for p in 3136 {
    for c in 4 {
      y[p] += x[p // 56, p % 56, c]
    }
  }
})",
                           cache_shape(48 << 10, true), &Traffic::read);
  CHECK(cut == doctest::Approx(4 * (56 * 56 * 4 + 3136)).epsilon(0.05));
}

TEST_CASE("lines that push each other out of their sets leave others where they are") {
  // A column of w fills a few sets far beyond what they hold, and is read once; x is read again for each, and
  // all of one pass fits.
  const ast::Kernel k = ast::parse(R"(kernel k(w: f32[768, 4096] in, x: f32[768] in, y: f32[256, 768] out) {
  for j in 256 {
    for i in 768 {
      y[j, i] = w[i, j*16] * x[i]
    }
  }
})");
  Features f;
  read_features(k, test::target(), f);
  std::vector<Traffic> accesses;
  traffic(f, cache_shape(2 << 20, true), accesses);
  const auto read = [&](const std::string& name) {
    double sum = 0;
    for (size_t a = 0; a < f.accesses.size(); ++a)
      if (f.buffers[f.accesses[a].buffer].buffer->name == name) sum += accesses[a].read;
    return sum;
  };
  CHECK(read("w") == doctest::Approx(256 * 768 * 64.0).epsilon(0.01));
  CHECK(read("x") == doctest::Approx(768 * 4.0).epsilon(0.1));
  // Where each column is read four times it comes from afar each time, and x still does not.
  const ast::Kernel again =
      ast::parse(R"(kernel k(w: f32[768, 4096] in, x: f32[768] in, y: f32[4, 256, 768] out) {
  for j in 256 {
    for n in 4 {
      for i in 768 {
        y[n, j, i] = w[i, j*16] * x[i]
      }
    }
  }
})");
  read_features(again, test::target(), f);
  traffic(f, cache_shape(2 << 20, true), accesses);
  CHECK(read("w") == doctest::Approx(4 * 256 * 768 * 64.0).epsilon(0.01));
  CHECK(read("x") == doctest::Approx(768 * 4.0).epsilon(0.1));
}
