// Weights in ggml's blocks, beside plain loops over the bytes: numbers, products of a vector, quantising,
// errors.
#include <doctest/doctest.h>

#include <cmath>
#include <random>

#include "lathe/block_formats.hpp"
#include "lathe/lathe.hpp"

using namespace lathe;

namespace {

using Bytes = std::vector<uint8_t>;

Bytes random_blocks(BlockFormat format, int64_t rows, int64_t blocks, std::vector<int64_t> halves) {
  std::mt19937 random(7);
  Bytes bytes(static_cast<size_t>(rows * blocks * block_bytes(format)));
  for (uint8_t& b : bytes) b = static_cast<uint8_t>(random());
  for (size_t block = 0; block < bytes.size(); block += static_cast<size_t>(block_bytes(format)))
    for (const int64_t at : halves) { // finite, of either sign
      uint8_t& high = bytes[block + static_cast<size_t>(at) + 1];
      high = static_cast<uint8_t>((high & 0x83) | 0x30);
    }
  return bytes;
}

float half(const uint8_t* at) { return f16_to_f32(static_cast<uint16_t>(at[0] | at[1] << 8)); }

/// The numbers of one block, by a loop.
std::vector<float> by_loops(BlockFormat format, const uint8_t* b) {
  std::vector<float> out(static_cast<size_t>(block_elements(format)));
  for (size_t k = 0; k < out.size(); ++k) {
    const size_t pair = k / 64, upper = k / 32 % 2, l = k % 32, j = k / 32;
    if (format == BlockFormat::Q8_0) out[k] = half(b) * static_cast<int8_t>(b[2 + k]);
    if (format == BlockFormat::Q4_0)
      out[k] = half(b) * static_cast<float>((k < 16 ? b[2 + k] & 15 : b[2 + k - 16] >> 4) - 8);
    if (format == BlockFormat::Q5_0) {
      const int low = k < 16 ? b[6 + k] & 15 : b[6 + k - 16] >> 4, high = b[2 + k / 8] >> (k % 8) & 1;
      out[k] = half(b) * static_cast<float>((low | high << 4) - 16);
    }
    if (format == BlockFormat::Q4_K || format == BlockFormat::Q5_K) {
      const uint8_t* s = b + 4;
      const int scale = j < 4 ? s[j] & 63 : (s[j + 4] & 15) | (s[j - 4] >> 6) << 4;
      const int minimum = j < 4 ? s[j + 4] & 63 : s[j + 4] >> 4 | (s[j] >> 6) << 4;
      const uint8_t* q = b + (format == BlockFormat::Q4_K ? 16 : 48);
      int code = q[pair * 32 + l] >> (4 * upper) & 15;
      if (format == BlockFormat::Q5_K) code |= (b[16 + l] >> j & 1) << 4;
      out[k] = half(b) * static_cast<float>(scale) * static_cast<float>(code) -
               half(b + 2) * static_cast<float>(minimum);
    }
    if (format == BlockFormat::Q6_K) {
      const size_t side = k / 128, quarter = k / 32 % 4;
      const int low = b[side * 64 + quarter % 2 * 32 + l] >> (quarter / 2 * 4) & 15;
      const int high = b[128 + side * 32 + l] >> (2 * quarter) & 3;
      out[k] = half(b + 208) * static_cast<float>(static_cast<int8_t>(b[192 + k / 16])) *
               static_cast<float>((low | high << 4) - 32);
    }
  }
  return out;
}

struct Chosen {
  BlockFormat format;
  std::vector<int64_t> halves;
};
const std::vector<Chosen> kChosen{{BlockFormat::Q8_0, {0}},    {BlockFormat::Q4_0, {0}},
                                  {BlockFormat::Q5_0, {0}},    {BlockFormat::Q4_K, {0, 2}},
                                  {BlockFormat::Q5_K, {0, 2}}, {BlockFormat::Q6_K, {208}}};

/// Products of `vectors` with the matrix of these blocks, whose numbers are `weights`.
void check_products(BlockFormat format, const Bytes& bytes, int64_t rows, const std::vector<float>& weights,
                    int64_t vectors) {
  CAPTURE(vectors);
  const int64_t columns = static_cast<int64_t>(weights.size()) / rows;
  std::mt19937 random(3);
  std::vector<float> x(static_cast<size_t>(vectors * columns));
  for (float& v : x) v = static_cast<float>(static_cast<int>(random() % 2001) - 1000) / 1000.f;
  const Tensor matrix =
      dequantise(Tensor::from(bytes, {rows, static_cast<int64_t>(bytes.size()) / rows}), format);
  const Tensor y = Tensor::input("x", {vectors, columns}).matmul(matrix.transpose());
  const auto got =
      compile({{"y", y}})({{"x", Tensor::from(x, {vectors, columns})}}).at("y").to_vector<float>();
  for (int64_t at = 0; at < vectors * rows; ++at) {
    const int64_t m = at / rows, n = at % rows;
    double sum = 0, magnitude = 0;
    for (int64_t k = 0; k < columns; ++k) {
      const double term =
          double{x[static_cast<size_t>(m * columns + k)]} * weights[static_cast<size_t>(n * columns + k)];
      sum += term;
      magnitude += term * term;
    }
    CHECK(std::abs(got[static_cast<size_t>(at)] - sum) <= 1e-5 * std::sqrt(magnitude) + 1e-6);
  }
}

} // namespace

TEST_CASE("blocks have the numbers of loops over their bytes, and products their sums") {
  for (const Chosen& chosen : kChosen) {
    CAPTURE(to_string(chosen.format));
    for (const auto& [rows, blocks] : {std::pair<int64_t, int64_t>{37, 3}, {1, 1}, {64, 2}}) {
      const Bytes bytes = random_blocks(chosen.format, rows, blocks, chosen.halves);
      const int64_t row = blocks * block_bytes(chosen.format);
      const Tensor weights = dequantise(Tensor::from(bytes, {rows, row}), chosen.format);
      std::vector<float> want;
      for (size_t at = 0; at < bytes.size(); at += static_cast<size_t>(block_bytes(chosen.format)))
        for (const float number : by_loops(chosen.format, &bytes[at])) want.push_back(number);
      CHECK(weights.to_vector<float>() == want);

      for (const int64_t vectors : {1, 3, 8, 17}) check_products(chosen.format, bytes, rows, want, vectors);
    }
  }
}

TEST_CASE("products of vectors keep the sums of blocks in registers, whatever the format") {
  struct Case {
    int64_t rows, columns, vectors;
  };
  for (const BlockFormat format :
       {BlockFormat::Q4_0, BlockFormat::Q4_1, BlockFormat::Q5_0, BlockFormat::Q5_1, BlockFormat::Q8_0,
        BlockFormat::Q4_K, BlockFormat::Q5_K, BlockFormat::Q6_K})
    for (const auto& [rows, columns, vectors] : {Case{4096, 4096, 1}, {1024, 2560, 1}, {4096, 4096, 32}}) {
      CAPTURE(to_string(format));
      CAPTURE(rows);
      CAPTURE(vectors);
      const int64_t row = columns / block_elements(format) * block_bytes(format);
      const Tensor bytes = Tensor::from(Bytes(static_cast<size_t>(rows * row), 1), {rows, row});
      const Tensor y = Tensor::input("x", {vectors, columns}).matmul(dequantise(bytes, format).transpose());
      const Executable program = compile({{"y", y}}, {.use_database = false});
      // Another computes the sums of x; where many threads read x, one may lay it out. Up to three compute
      // x's bytes.
      const std::vector<std::string> moves = program.moves();
      const bool by_bytes = !moves.empty() && moves[0].starts_with("three_bytes(");
      CHECK(program.kernel_count() <= (vectors == 1 ? 2 : 3) + (by_bytes ? 4 : 0));
      // Under the loop over blocks a stage fills registers, and its codes are laid out for that.
      bool is_kept = false;
      for (const std::string& fused : moves) {
        const size_t comma = fused.find(',');
        if (!fused.starts_with("fuse_at(") || fused.find("register") == std::string::npos) continue;
        const std::string stage = fused.substr(8, comma - 8), packs = "prepack(" + stage + ",";
        for (const std::string& move : moves) is_kept |= move.starts_with(packs);
      }
      CHECK(is_kept);
    }
}

TEST_CASE("what is quantised is off by half a step at most") {
  std::vector<float> x(96);
  for (size_t k = 0; k < x.size(); ++k) x[k] = k < 32 ? 0 : std::sin(static_cast<float>(k));
  for (const BlockFormat format : {BlockFormat::Q8_0, BlockFormat::Q4_0}) {
    const Tensor bytes = quantise(Tensor::from(x), format);
    CHECK(bytes.element_count() == 3 * block_bytes(format));
    const std::vector<float> back = dequantise(bytes, format).to_vector<float>();
    const float step = format == BlockFormat::Q8_0 ? 1.f / 127 : 1.f / 8;
    for (size_t k = 0; k < x.size(); ++k) CHECK(std::abs(back[k] - x[k]) <= (k < 32 ? 0 : 1.01f * step));
  }
}

TEST_CASE("no rows, and mistakes") {
  CHECK(dequantise(Tensor::zeros({0, 34}, DType::U8), BlockFormat::Q8_0).element_count() == 0);
  CHECK(parse_block_format("q6_k") == BlockFormat::Q6_K);
  CHECK_THROWS_WITH_AS(dequantise(Tensor::zeros({2, 35}, DType::U8), BlockFormat::Q8_0),
                       "dequantise: u8[2, 35] as q8_0, expected a last axis of a multiple of 34", Error);
  CHECK_THROWS_AS(dequantise(Tensor::zeros({2, 34}), BlockFormat::Q8_0), Error);
  CHECK_THROWS_AS(quantise(Tensor::zeros({2, 256}), BlockFormat::Q4_K), Error);
  CHECK_THROWS_AS(parse_block_format("q9_9"), Error);
}
