// The machine's profile: what is measured, how it is kept, and that the cost model goes by it.
#include <doctest/doctest.h>

#include <algorithm>

#include "search/cost/cost.hpp"
#include "search/machine/measure_machine.hpp"
#include "support/kernel_text.hpp"
#include "support/search_programs.hpp"

using namespace lathe;
using namespace lathe::search;
using test::replaced;

namespace {

double seconds(const std::string& text, const MachineProfile& machine) {
  return test::seconds_of(text, test::target(), machine);
}

/// COMBINE over 1024 numbers into one, in a register.
const std::string kOneByOne = R"(kernel k(a: f32[1024] in, y: f32[1] out) {
  alloc s: f32[1] register {
    s[0] = 0:f32
    for r in 1024 {
      s[0] COMBINE a[r]
    }
    y[0] = s[0]
  }
})";
std::string one_by_one(const char* combine) { return replaced(kOneByOne, "COMBINE", combine); }

/// Reads each line of a matrix, down its columns.
std::string down_columns(int row_floats) {
  return replaced(R"(kernel k(a: f32[4096, ROW] in, y: f32[1] out) {
  for i in 1 {
    y[i] = 0:f32
    for c in 16 {
      for r in 4096 {
        y[i] += a[r, c*16]
      }
    }
  }
})",
                  "ROW", std::to_string(row_floats));
}

} // namespace

TEST_CASE("a machine is measured as one that there could be") {
  const MachineProfile m = measure_machine();
  for (int i = 0; i < 3; ++i) {
    CHECK(m.flops_per_second[i] > 1e8);
    CHECK(m.mixed_per_cycle[i] > 0.5);
    CHECK(m.mixed_per_cycle[i] < 8);
    CHECK(m.division_cycles[i] > 0.5); // less would be an operation that was left out
    CHECK(m.division_cycles[i] < 100);
  }
  for (const MachineProfile::Level& level : m.levels) {
    CHECK(level.read_bytes_per_second > 1e8);
    CHECK(level.line_seconds > 1e-11);
    CHECK(level.line_of_page_seconds >= level.line_seconds);
    CHECK(level.line_of_column_seconds >= level.line_seconds);
    CHECK(level.hinted_bytes_per_second > 1e8);
    CHECK(level.hinted_bytes_per_second <= level.read_bytes_per_second);
  }
  CHECK((m.hint_streams == 1 || m.hint_streams == 4));
  CHECK(m.cycle_seconds > 1e-10);
  CHECK(m.cycle_seconds < 1e-8);
  CHECK(m.predicted_trips >= 8);
  CHECK(m.mispredict_cycles > 0);
  CHECK(m.mispredict_cycles < 200);
  CHECK(m.late_share > 0);
  CHECK(m.late_share <= 1);
  CHECK(m.levels.back().line_seconds > 64 / m.levels[0].read_bytes_per_second);
  for (const double cycles :
       {m.latency.add, m.latency.multiply_add, m.latency.maximum, m.latency.through_memory}) {
    CHECK(cycles >= 0.5);
    CHECK(cycles < 100);
  }
}

TEST_CASE("a stored profile is what was stored; one that says less, or nothing, counts as none") {
  MachineProfile m = default_machine_profile();
  m.mixed_per_cycle[1] = 2.5;
  m.division_cycles[1] = 4.5;
  m.latency = {2, 3, 5, 7};
  m.levels[1].line_seconds = 11e-9;
  m.levels[1].line_of_page_seconds = 13e-9;
  m.levels[1].line_of_column_seconds = 17e-9;
  m.cycle_seconds = 0.31e-9;
  m.predicted_trips = 19;
  m.mispredict_cycles = 23;
  m.late_share = 0.29;
  m.levels[2].hinted_bytes_per_second = 31e9;
  m.hint_streams = 3;
  {
    const test::CacheDir dir;
    store_machine_profile(m);
    const MachineProfile read = machine_profile();
    CHECK(read.mixed_per_cycle[1] == 2.5);
    CHECK(read.division_cycles[1] == 4.5);
    CHECK(read.latency.add == 2);
    CHECK(read.latency.multiply_add == 3);
    CHECK(read.latency.maximum == 5);
    CHECK(read.latency.through_memory == 7);
    CHECK(read.levels[1].line_seconds == 11e-9);
    CHECK(read.levels[1].line_of_page_seconds == 13e-9);
    CHECK(read.levels[1].line_of_column_seconds == 17e-9);
    CHECK(read.cycle_seconds == 0.31e-9);
    CHECK(read.predicted_trips == 19);
    CHECK(read.mispredict_cycles == 23);
    CHECK(read.late_share == 0.29);
    CHECK(read.levels[2].hinted_bytes_per_second == 31e9);
    CHECK(read.hint_streams == 3);
    CHECK(machine_profile_fault() == "");
  }
  {
    const test::CacheDir dir;
    store_machine_profile(m);
    test::write_file(machine_profile_path(),
                     replaced(test::bytes_of(machine_profile_path()), "latency_cycles", "forgotten"));
    CHECK(machine_profile().latency.add == Latency{}.add);
    CHECK(machine_profile().mixed_per_cycle[1] == MachineProfile{}.mixed_per_cycle[1]);
    CHECK(machine_profile_fault().find("latency_cycles") != std::string::npos);
  }
  {
    const test::CacheDir dir;
    test::write_file(machine_profile_path(), "{\"cores\": ");
    CHECK(machine_profile().latency.add == Latency{}.add);
    CHECK(machine_profile_fault().find("machine.json: damaged") != std::string::npos);
  }
  {
    const test::CacheDir dir;
    m.fingerprint = "another";
    store_machine_profile(m);
    CHECK(machine_profile().latency.add == Latency{}.add);
    CHECK(machine_profile_fault().find("of another machine") != std::string::npos);
  }
}

TEST_CASE("a reduction waits as long as the machine takes for its operation") {
  const MachineProfile slow = test::machine();
  MachineProfile fast = slow;
  fast.latency.add = slow.latency.add / 2;
  CHECK(seconds(one_by_one("+="), fast) < 0.6 * seconds(one_by_one("+="), slow));
  CHECK(seconds(one_by_one("max="), fast) == seconds(one_by_one("max="), slow));
  fast = slow;
  fast.latency.maximum = slow.latency.maximum / 2;
  CHECK(seconds(one_by_one("max="), fast) < 0.6 * seconds(one_by_one("max="), slow));
  CHECK(seconds(one_by_one("+="), fast) == seconds(one_by_one("+="), slow));

  // Products are added with the multiplication; what stays in memory is stored and loaded in between.
  const std::string product = replaced(one_by_one("+="), "a[r]\n", "(a[r]*a[r])\n");
  fast = slow;
  fast.latency.multiply_add = slow.latency.multiply_add / 2;
  CHECK(seconds(product, fast) < 0.6 * seconds(product, slow));
  const std::string in_memory = R"(kernel k(a: f32[4, 256] in, y: f32[4] out) {
  alloc s: f32[4] register {
    for i in 4 {
      s[i] = 0:f32
      for r in 256 {
        s[i] += a[i, r]
      }
      y[i] = s[i]
    }
  }
})";
  fast = slow;
  fast.latency.through_memory = 1;
  CHECK(seconds(one_by_one("+="), fast) == seconds(one_by_one("+="), slow));
  CHECK(seconds(in_memory, fast) < 0.8 * seconds(in_memory, slow));
}

TEST_CASE("divisions take as long as the machine needs for vectors of their width") {
  const auto quotients = [](const char* lanes) {
    return replaced(R"(kernel k(a: f32[4096] in, y: f32[4096] out) {
  for i in 4096//LANES {
    for l in LANES vector(LANES) {
      y[i*LANES + l] = 1:f32 / a[i*LANES + l]
    }
  }
})",
                    "LANES", lanes);
  };
  MachineProfile slow = test::machine();
  for (double& cycles : slow.division_cycles) cycles = 20;
  MachineProfile fast = slow;
  fast.division_cycles[2] = 5;
  CHECK(seconds(quotients("16"), fast) < 0.5 * seconds(quotients("16"), slow));
  CHECK(seconds(quotients("4"), fast) == seconds(quotients("4"), slow));
  fast = slow;
  fast.division_cycles[0] = 5;
  CHECK(seconds(quotients("4"), fast) < 0.5 * seconds(quotients("4"), slow));
  CHECK(seconds(quotients("16"), fast) == seconds(quotients("16"), slow));
}

TEST_CASE("mixed instructions go as fast as the machine has ports, multiplications as it has multipliers") {
  const auto looped = [](const char* value) {
    return replaced(R"(kernel k(a: f32[4096] in, y: f32[4096] out) {
  for i in 256 {
    for l in 16 vector(16) {
      y[i*16 + l] = VALUE
    }
  }
})",
                    "VALUE", value);
  };
  const std::string a = "a[i*16 + l]";
  const std::string mixed = looped(("exp2(" + a + ")").c_str());
  const std::string products =
      looped(("((" + a + "*" + a + ")*(" + a + "*" + a + "))*((" + a + "*" + a + ")*" + a + ")").c_str());
  const MachineProfile two = test::machine();
  MachineProfile four = two;
  for (double& ports : four.mixed_per_cycle) ports = 4;
  CHECK(seconds(mixed, four) < 0.6 * seconds(mixed, two));
  CHECK(seconds(products, four) == seconds(products, two));
}

TEST_CASE("what is read comes too late where nobody asked for it, what is written does not") {
  // A little of a large input is read between results that go to memory.
  const std::string text = R"(kernel k(a: f32[4096, 512] in, y: f32[4096, 8192] out) {
  for i in 4096 {
    for j in 512 {
      for l in 16 vector(16) {
        y[i, j*16 + l] = exp2((a[i, j] + 1:f32))
      }
    }
  }
})";
  const Cost c = cost(test::plan_of(text), test::target(), test::machine());
  const auto hidden = std::find_if(c.terms.begin(), c.terms.end(),
                                   [](const CostTerm& t) { return t.name == "not overlapped"; });
  REQUIRE((hidden != c.terms.end()));
  CHECK(hidden->seconds < 0.25 * c.seconds);
}

TEST_CASE("lines a page apart take the time that they take on the machine, others do not") {
  const MachineProfile plain = test::machine();
  MachineProfile paged = plain;
  for (MachineProfile::Level& level : paged.levels) level.line_of_page_seconds = 5 * level.line_seconds;
  CHECK(seconds(down_columns(1024), paged) > 3 * seconds(down_columns(1024), plain));
  CHECK(seconds(down_columns(1040), paged) < 1.2 * seconds(down_columns(1040), plain));
}

TEST_CASE("columns take the time of their lines on the machine, and computing does not hide it") {
  const auto summed = [](const char* index) {
    return replaced(R"(kernel k(a: f32[8192, 4096] in, y: f32[8192] out) {
  for o in 256 {
    for c in 4096 {
      for l in 32 {
        y[o*32 + l] += exp2(a[INDEX])
      }
    }
  }
})",
                    "INDEX", index);
  };
  const MachineProfile plain = test::machine();
  MachineProfile slow = plain;
  for (MachineProfile::Level& level : slow.levels) level.line_of_column_seconds += 10e-9;
  const std::string columns = summed("o*32 + l, c"), rows = summed("c*2, o*32 + l");
  const double lines = 8192.0 * 4096 * 4 / 64;
  CHECK(seconds(columns, slow) - seconds(columns, plain) == doctest::Approx(lines * 10e-9).epsilon(0.05));
  CHECK(seconds(rows, slow) == seconds(rows, plain));
}

TEST_CASE("what hints bring comes as fast as on the machine") {
  const std::string text = R"(kernel k(a: f32[4096] in, w: f32[256, 4096, 16] in, y: f32[256, 16] out) {
  for i in 256 {
    for r in 4096 {
      prefetch w[i + 1, r, 0]
      for l in 16 vector(16) {
        y[i, l] += a[r] * w[i, r, l]
      }
    }
  }
})";
  MachineProfile fast = test::machine(), slow = fast;
  fast.levels.back().hinted_bytes_per_second = 12e9;
  slow.levels.back().hinted_bytes_per_second = 6e9;
  const double bytes = 4.0 * (1 << 24);
  CHECK(seconds(text, slow) - seconds(text, fast) == doctest::Approx(bytes / 12e9).epsilon(0.1));
  const std::string plain = replaced(text, "      prefetch w[i + 1, r, 0]\n", "");
  CHECK(seconds(plain, slow) == seconds(plain, fast));
}

TEST_CASE("the end of a loop costs as much as the machine takes where it is not foreseen") {
  const std::string text = R"(kernel k(a: f32[100] in, y: f32[1000, 100] out) {
  for i in 1000 {
    for j in 100 {
      y[i, j] = a[j]
    }
  }
})";
  MachineProfile few = test::machine(), many = few;
  few.predicted_trips = 50;
  few.mispredict_cycles = 40;
  many.predicted_trips = 200;
  CHECK(seconds(text, few) - seconds(text, many) ==
        doctest::Approx(1000 * 40 * few.cycle_seconds).epsilon(0.1));
}

TEST_CASE("reading shows beside long computing as much as it does on the machine") {
  const std::string text = R"(kernel k(a: f32[33554432] in, y: f32[1] out) {
  for i in 2097152 {
    for l in 16 {
      y[0] += exp2(sin(a[i*16 + l]))
    }
  }
})";
  MachineProfile early = test::machine(), late = early;
  early.late_share = 0.1;
  late.late_share = 0.7;
  const double reading = 33554432 * 4.0 / late.levels.back().read_bytes_per_second;
  const double more = seconds(text, late) - seconds(text, early);
  CHECK(more > 0.4 * reading);
  CHECK(more < 0.7 * reading);
}
