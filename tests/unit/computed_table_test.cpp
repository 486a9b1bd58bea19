// Gathers from large tables that are computed element by element: the elements that are gathered are computed
// alone, with the same values.
#include <doctest/doctest.h>

#include <random>

#include "graph/tensor_impl.hpp"
#include "lathe/lathe.hpp"
#include "support/devices.hpp"

using namespace lathe;

namespace {

constexpr int64_t kRows = 700, kColumns = 101; // 70,700 elements

std::vector<int8_t> codes() {
  std::mt19937 random(3);
  std::vector<int8_t> bytes(kRows * kColumns);
  for (int8_t& b : bytes) b = static_cast<int8_t>(random());
  return bytes;
}

/// Scales and offsets along rows or columns.
std::vector<float> numbers(int64_t count) {
  std::vector<float> made;
  for (int64_t k = 0; k < count; ++k) made.push_back(static_cast<float>(k % 13 + 1) / 16);
  return made;
}

/// (codes - offset of the column) * scale of the row.
Tensor table(const std::vector<int8_t>& bytes) {
  const Tensor scale = Tensor::from(numbers(kRows), {kRows, 1}), offset = Tensor::from(numbers(kColumns));
  return (Tensor::from(bytes, {kRows, kColumns}).cast(DType::F32) - offset) * scale;
}

/// Whether no value as large as the table is computed.
bool is_computed_for_few(const Tensor& y) {
  for (const graph::NodeRef& node : graph::topological_order(graph::simplify({graph::node_of(y)})))
    if (is_elementwise(node->op) && num_elements(node->shape).hi() >= kRows * kColumns) return false;
  return true;
}

} // namespace

TEST_CASE("rows, elements and positions out of range, on each device") {
  const std::vector<int8_t> bytes = codes();
  const std::vector<float> scale = numbers(kRows), offset = numbers(kColumns);
  const auto at = [&](int64_t place) {
    if (place < 0 || place >= kRows * kColumns) return 0.f;
    const auto row = static_cast<size_t>(place / kColumns), column = static_cast<size_t>(place % kColumns);
    return (static_cast<float>(bytes[static_cast<size_t>(place)]) - offset[column]) * scale[row];
  };
  const std::vector<int64_t> rows{0, 699, 13, 13, 512},
      places{0, 1, 70'699, 70'700, -1, -70'700, -70'701, 35'000, 1LL << 40};
  const Tensor row = Tensor::input("rows", {5}, DType::I64), place = Tensor::input("places", {9}, DType::I64);
  const NamedTensors outputs{{"rows", table(bytes).take(row)},
                             {"elements", table(bytes).reshape({kRows * kColumns}).take(place)},
                             {"more", (table(bytes) + 3.0).reshape({kRows * kColumns}).take(place)}};
  for (const auto& [name, y] : outputs) CHECK(is_computed_for_few(y));
  for (const std::string& device : present_devices()) {
    CAPTURE(device);
    const NamedTensors y =
        compile(outputs, on(device))({{"rows", Tensor::from(rows)}, {"places", Tensor::from(places)}});
    const std::vector<float> taken = y.at("rows").to_vector<float>(),
                             elements = y.at("elements").to_vector<float>();
    for (size_t r = 0; r < rows.size(); ++r)
      for (int64_t c = 0; c < kColumns; ++c)
        CHECK(taken[r * kColumns + static_cast<size_t>(c)] == at(rows[r] * kColumns + c));
    const std::vector<float> more = y.at("more").to_vector<float>();
    for (size_t k = 0; k < places.size(); ++k) {
      const int64_t from_start = places[k] < 0 ? places[k] + kRows * kColumns : places[k];
      const bool is_there = from_start >= 0 && from_start < kRows * kColumns;
      CHECK(elements[k] == at(from_start));
      CHECK(more[k] == (is_there ? at(from_start) + 3 : 0));
    }
  }
}

TEST_CASE("tables that stay as they are") {
  const std::vector<int8_t> bytes = codes();
  const Tensor few = Tensor::input("few", {3}, DType::I64);
  CHECK(is_computed_for_few(table(bytes).take(few)));
  // As many are gathered as there are.
  CHECK(!is_computed_for_few(table(bytes).take(Tensor::input("many", {kRows}, DType::I64))));
  // The table is padded, or sums of its rows.
  CHECK(!is_computed_for_few(((table(bytes) + 1.0).pad({{1, 0}, {0, 0}}) * 2.0).take(few)));
  CHECK(!is_computed_for_few((table(bytes) - table(bytes).mean(Axes{0})).take(few)));
}
