// Scatters whose lanes lie side by side, as the rows of a table do: every dtype, device and combine, rows
// that are in part or wholly out of range or come again, ends of vectors and of memory, and lanes that may
// meet.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstring>
#include <random>

#include "ast/verify.hpp"
#include "lathe/error.hpp"
#include "support/devices.hpp"
#include "support/guarded_memory.hpp"
#include "support/kernel_check.hpp"

using namespace lathe;

namespace {

/// Y[index] is combined with A[i, j], by the lanes j.
std::string scatter_kernel(const std::string& index, DType dtype, int extent, int width,
                           const std::string& combine) {
  return fmt::format(
      "kernel rows(A: {0}[9, {1}] in, I: i64[9] in, J: i32[9] in, B: {0}[29] in, Y: {0}[29] out) {{\n"
      "for k in 29 {{ Y[k] = B[k] }}\n"
      "for i in 9 {{ for j in {1} vector({2}) {{ Y[@{3}] {4} A[i, j] }} }}\n}}",
      to_string(dtype), extent, width, index, combine);
}

const char* const kScatteredRows[] = {
    "I[i] * 8:i64 + i64(j)",
    "I[i] * 8:i64 + i64(j) + -3:i64",
    "i64(j) + I[i]",
    "where(I[i] < 3:i64, I[i] * 4:i64 + i64(j), -1:i64)",
    "cast_i64(J[i]) + cast_i64(i32(j))",
};
const char* const kMeetingLanes[] = {
    "I[j]",          "I[i]", "where(i64(j) < I[i], i64(j), -1:i64)", "where(I[i] < 3:i64, i64(j), 2:i64)",
    "J[i] + i32(j)",
};

const DType kScattered[] = {DType::F32, DType::F64, DType::F16, DType::BF16,
                            DType::I8,  DType::U16, DType::I32, DType::I64};

} // namespace

TEST_CASE("scattered rows agree with the interpreter") {
  for (const std::string& name : present_devices()) {
    if (name == "interp") continue;
    runtime::Device& device = runtime::device(name);
    const bool is_quick = name == "cpu"; // the others compile for long
    for (const char* index : kScatteredRows)
      for (const DType dtype : kScattered)
        for (const char* combine : {"=", "+=", "max=", "*="}) {
          if (!is_quick && (dtype != DType::F32 || index != kScatteredRows[0])) continue;
          for (const auto& [extent, width] : {std::pair(8, 8), {5, 8}, {16, 16}, {4, 4}}) {
            if (!is_quick && extent != 5) continue;
            INFO(name, " ", index, " ", to_string(dtype), " ", combine, " ", extent, " of ", width);
            const ast::Kernel kernel = ast::parse(scatter_kernel(index, dtype, extent, width, combine));
            CHECK(test::compare(device, kernel) == "");
            CHECK(test::compare(device, kernel, {}, 0, true) == "");
          }
        }
  }
}

TEST_CASE("lanes that may meet at an element are no vector") {
  for (const char* index : kMeetingLanes) {
    INFO(index);
    const ast::Kernel kernel = ast::parse(scatter_kernel(index, DType::F32, 8, 8, "+="));
    CHECK_THROWS_WITH(ast::verify(kernel), doctest::Contains("may meet at a computed index of Y"));
  }
}

TEST_CASE("rows of a result that ends with the memory") {
  std::mt19937 random(7);
  for (const std::string& name : present_devices())
    for (const int64_t width : {1, 3, 7, 8, 9, 17, 64, 100}) {
      constexpr int64_t kTable = 6;
      const std::vector<int64_t> at{5, 0, -1, 3, -6, 6, -7, 5, 1, 5, 5, int64_t{1} << 40};
      const auto count = static_cast<int64_t>(at.size());
      std::vector<float> base(static_cast<size_t>(kTable * width)),
          source(static_cast<size_t>(count * width));
      for (std::vector<float>* values : {&base, &source})
        for (float& v : *values) v = static_cast<float>(random() % 1000) - 500;
      std::vector<float> sums = base, largest = base, last = base;
      for (int64_t r = 0; r < count; ++r) {
        const int64_t to =
            at[static_cast<size_t>(r)] < 0 ? at[static_cast<size_t>(r)] + kTable : at[static_cast<size_t>(r)];
        if (to < 0 || to >= kTable) continue;
        for (int64_t k = 0; k < width; ++k) {
          const float v = source[static_cast<size_t>(r * width + k)];
          const auto place = static_cast<size_t>(to * width + k);
          sums[place] += v, largest[place] = std::max(largest[place], v), last[place] = v;
        }
      }
      const Tensor x = Tensor::input("x", {kTable, width}), s = Tensor::input("s", {count, width}),
                   i = Tensor::input("i", {count}, DType::I64).unsqueeze(1).expand({count, width});
      const auto program = compile({{"sums", x.scatter_add(0, i, s)},
                                    {"largest", x.scatter_max(0, i, s)},
                                    {"last", x.scatter(0, i, s)}},
                                   on(name));
      const size_t bytes = base.size() * sizeof(float);
      const test::GuardedMemory added(bytes, true), kept(bytes, true), put(bytes, true);
      program.run({{"x", base.data()}, {"s", source.data()}, {"i", at.data()}},
                  {{"sums", added.data()}, {"largest", kept.data()}, {"last", put.data()}});
      INFO(name, ", rows of ", width);
      CHECK(std::memcmp(added.data(), sums.data(), bytes) == 0);
      CHECK(std::memcmp(kept.data(), largest.data(), bytes) == 0);
      CHECK(std::memcmp(put.data(), last.data(), bytes) == 0);
    }
}
