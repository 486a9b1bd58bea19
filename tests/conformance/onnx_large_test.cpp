// A model of more than 5 GB, which protobuf could not hold: its weights are in a file beside it. That file is
// sparse, and so costs no disk, and it is read where it is mapped, so that the model costs hardly any memory.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <random>

#include "support/devices.hpp"
#include "support/files.hpp"
#include "support/onnx_builder.hpp"

using namespace lathe;
using namespace lathe::test;
namespace fs = std::filesystem;

namespace {

/// What this process has of memory, without the pages of files that it maps.
int64_t anonymous_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;)
    if (word == "RssAnon:") {
      int64_t kib = 0;
      status >> kib;
      return kib * 1024;
    }
  FAIL("no RssAnon in /proc/self/status");
  return 0;
}

lathe_onnx::TensorProto external(DType dtype, const std::vector<int64_t>& dims, int64_t offset) {
  lathe_onnx::TensorProto proto;
  proto.set_data_type(onnx_dtype(dtype));
  for (const int64_t size : dims) proto.add_dims(size);
  proto.set_data_location(lathe_onnx::TensorProto::EXTERNAL);
  for (const auto& [key, value] :
       {std::pair<std::string, std::string>{"location", "weights"}, {"offset", std::to_string(offset)}}) {
    auto& entry = *proto.add_external_data();
    entry.set_key(key);
    entry.set_value(value);
  }
  return proto;
}

template <class T> std::vector<T> drawn(size_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<T> values(count);
  for (T& value : values) value = static_cast<T>(static_cast<int>(random() % 15) - 7);
  return values;
}

template <class T> void write_at(std::fstream& file, int64_t offset, const std::vector<T>& values) {
  file.seekp(offset);
  file.write(reinterpret_cast<const char*>(values.data()),
             static_cast<std::streamsize>(values.size() * sizeof(T)));
}

} // namespace

TEST_CASE("weights of more than 5 GB in one file, one of them of more than 2^31 elements") {
  constexpr int64_t kWidth = 1024, kRows = 600'001, kSmallRows = (int64_t{1} << 21) + 1'000'003, kOut = 32;
  constexpr int64_t kSmallAt = (kRows * kWidth * 4 + 4095) / 4096 * 4096;
  constexpr int64_t kMatrixAt = kSmallAt + (kSmallRows * kWidth + 4095) / 4096 * 4096;
  constexpr int64_t kEnd = kMatrixAt + kWidth * kOut * 4;
  static_assert(kRows * kWidth * 4 > int64_t{1} << 31 && kSmallRows * kWidth > int64_t{1} << 31);

  const test::TemporaryDir folder;
  const std::vector<int64_t> rows{kRows - 1, 0, 524'288 + 77}, small_rows{5, kSmallRows - 1, (1 << 21) + 3};
  const auto matrix = drawn<float>(kWidth * kOut, 1);
  std::vector<std::vector<float>> row_values;
  std::vector<std::vector<int8_t>> small_values;
  {
    const std::string path = (folder.path / "weights").string();
    std::ofstream(path, std::ios::binary).close();
    fs::resize_file(path, kEnd);
    std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
    for (size_t k = 0; k < 3; ++k) {
      row_values.push_back(drawn<float>(kWidth, 10 + k));
      small_values.push_back(drawn<int8_t>(kWidth, 20 + k));
      write_at(file, rows[k] * kWidth * 4, row_values[k]);
      write_at(file, kSmallAt + small_rows[k] * kWidth, small_values[k]);
    }
    write_at(file, kMatrixAt, matrix);
    REQUIRE(file.good());
  }
  Graph g;
  g.input("rows", DType::I64, {3}).input("small_rows", DType::I64, {3});
  g.initialiser("table", external(DType::F32, {kRows, kWidth}, 0));
  g.initialiser("small", external(DType::I8, {kSmallRows, kWidth}, kSmallAt));
  g.initialiser("matrix", external(DType::F32, {kWidth, kOut}, kMatrixAt));
  g.node("Gather", {"table", "rows"}, {"a"}).node("Gather", {"small", "small_rows"}, {"b"});
  g.node("Cast", {"b"}, {"wide"}, {attribute("to", onnx_dtype(DType::F32))});
  g.node("Add", {"a", "wide"}, {"sum"}).node("MatMul", {"sum", "matrix"}, {"y"}).output("y");
  const std::string path = (folder.path / "model.onnx").string();
  std::ofstream(path, std::ios::binary) << model(g);

  std::vector<double> expected;
  for (size_t r = 0; r < 3; ++r)
    for (int64_t c = 0; c < kOut; ++c) {
      double sum = 0;
      for (int64_t k = 0; k < kWidth; ++k)
        sum += (row_values[r][k] + small_values[r][k]) * matrix[k * kOut + c];
      expected.push_back(sum);
    }
  for (const std::string& device : {std::string("interp"), std::string("c"), std::string("cpu")}) {
    if (!has_device(device)) continue;
    CAPTURE(device);
    set_default_device(device);
    const int64_t before = anonymous_bytes();
    const onnx::Model large = onnx::load(path);
    CHECK(large.parameter_count() == kRows * kWidth + kSmallRows * kWidth + kWidth * kOut);
    const onnx::Program program = large.compile({.compile = on(device)});
    const std::vector<float> got =
        program({{"rows", Tensor::from(rows)}, {"small_rows", Tensor::from(small_rows)}})
            .at("y")
            .tensor()
            .to_vector<float>();
    REQUIRE(got.size() == expected.size());
    for (size_t k = 0; k < got.size(); ++k)
      CHECK(got[k] == expected[k]); // small integers: exact in any order
    CHECK(anonymous_bytes() - before < int64_t{256} << 20);
  }
}
