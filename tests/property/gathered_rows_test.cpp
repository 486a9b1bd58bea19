// Gathers whose lanes lie side by side, as the rows of a table do: every dtype and device, rows that are in
// part or wholly out of range, ends of vectors and of memory, and indices that only seem to be rows.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <random>

#include "ast/computed_index.hpp"
#include "support/devices.hpp"
#include "support/guarded_memory.hpp"
#include "support/kernel_check.hpp"

using namespace lathe;

namespace {

/// Y[i, j] = A[index], by the lanes j.
std::string kernel_of(const std::string& index, DType dtype, int extent, int width, int elements) {
  return fmt::format("kernel rows(A: {0}[{1}] in, I: i64[9] in, J: i32[9] in, Y: {0}[9, {2}] out) {{\n"
                     "for i in 9 {{ for j in {2} vector({3}) {{ Y[i, j] = A[@{4}] }} }}\n}}",
                     to_string(dtype), elements, extent, width, index);
}

struct Index {
  const char* text;
  std::optional<int64_t> step;
};
const Index kIndices[] = {
    {"I[i] * 8:i64 + i64(j)", 1},
    {"I[i] * 8:i64 + i64(j) + -3:i64", 1},
    {"i64(j) + I[i]", 1},
    {"where(I[i] < 3:i64, I[i] * 4:i64 + i64(j), -1:i64)", 1},
    {"where(i64(j) < I[i], i64(j), -1:i64)", {}},
    {"where(I[i] < 3:i64, i64(j), 2:i64)", {}},
    {"I[i] + i64(j) * 3:i64", 3},
    {"I[i] + i64(j) * -1:i64", -1},
    {"J[i] + i32(j)", {}}, // sums of 32 bits may wrap
    {"cast_i64(J[i]) + cast_i64(i32(j))", 1},
    {"I[i]", 0},
};

const DType kDTypes[] = {DType::F32, DType::F64, DType::F16, DType::BF16, DType::I8,
                         DType::U16, DType::I32, DType::I64, DType::Bool};

std::optional<int64_t> step_in(const ast::Kernel& kernel) {
  std::optional<int64_t> step;
  ast::visit(kernel.body, [&](const ast::Stmt& stmt, const std::vector<const ast::For*>& loops) {
    if (const auto* store = std::get_if<ast::Store>(&stmt.node))
      step = ast::computed_step(*store->value->sources[0], loops.back()->var);
  });
  return step;
}

} // namespace

TEST_CASE("the step of a gather's index is known where no data decide it") {
  for (const Index& index : kIndices) {
    INFO(index.text);
    CHECK(step_in(ast::parse(kernel_of(index.text, DType::F32, 8, 8, 29))) == index.step);
  }
}

TEST_CASE("gathered rows agree with the interpreter") {
  for (const std::string& name : present_devices()) {
    if (name == "interp") continue;
    runtime::Device& device = runtime::device(name);
    const bool is_quick = name == "cpu"; // the others compile for long
    for (const Index& index : kIndices)
      for (const DType dtype : kDTypes) {
        if (!is_quick && (dtype != DType::F32 || index.step != 1)) continue;
        for (const auto& [extent, width] : {std::pair(8, 8), {5, 8}, {16, 16}, {4, 4}}) {
          if (!is_quick && extent != 5) continue;
          INFO(name, " ", index.text, " ", to_string(dtype), " ", extent, " of ", width);
          const ast::Kernel kernel = ast::parse(kernel_of(index.text, dtype, extent, width, 29));
          CHECK(test::compare(device, kernel) == "");
          CHECK(test::compare(device, kernel, {}, 0, true) == "");
        }
      }
  }
}

TEST_CASE("rows of tables that end with the memory") {
  std::mt19937 random(7);
  for (const std::string& name : present_devices())
    for (const int64_t width : {1, 3, 7, 8, 9, 17, 64, 100}) {
      constexpr int64_t kRows = 6;
      test::GuardedMemory table(static_cast<size_t>(kRows * width) * sizeof(float), true);
      auto* elements = reinterpret_cast<float*>(table.data());
      for (int64_t k = 0; k < kRows * width; ++k) elements[k] = static_cast<float>(random() % 1000) - 500;
      const std::vector<int64_t> at{5, 0, -1, 3, -6, 6, -7, 5, 1, int64_t{1} << 40};
      const auto count = static_cast<int64_t>(at.size());
      const Tensor x = Tensor::input("x", {kRows, width}), i = Tensor::input("i", {count}, DType::I64);
      std::vector<float> fed(static_cast<size_t>(count * width), 7), known(static_cast<size_t>(3 * width), 7);
      compile({{"fed", x.take(i, 0) * 2}, {"known", x.take(Tensor::from(std::vector<int64_t>{5, 0, 5}), 0)}},
              on(name))
          .run({{"x", elements}, {"i", at.data()}}, {{"fed", fed.data()}, {"known", known.data()}});
      const auto row = [&](int64_t r, int64_t k) {
        const int64_t from = r < 0 ? r + kRows : r;
        return from < 0 || from >= kRows ? 0.f : elements[from * width + k];
      };
      int wrong = 0;
      for (int64_t k = 0; k < width; ++k) {
        for (int64_t r = 0; r < count; ++r) wrong += fed[r * width + k] != 2 * row(at[r], k);
        for (int64_t r = 0; r < 3; ++r) wrong += known[r * width + k] != row(r == 1 ? 0 : 5, k);
      }
      CHECK_MESSAGE(wrong == 0, name, ", rows of ", width);
    }
}
