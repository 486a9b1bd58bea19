// Recurrences: steps over the rows of a tensor, forward and backward.
#include "lathe/scan.hpp"
#include "net/program.hpp"
#include "net/rows.hpp"

namespace lathe::net {
namespace {

constexpr int64_t kMostRows = 70;

// ints: whether the last state is the result instead of all rows; whether the last row comes first.
bool is_last(const Step& s) { return s.ints[0] != 0; }
bool is_backward(const Step& s) { return s.ints[1] != 0; }

bool draw(Maker& m, Step& s) {
  const int rows =
      m.some([](const Array& a) { return !a.shape.empty() && is_float(a.dtype) && a.shape[0] <= kMostRows; });
  const Array& all = m.value(rows);
  if (all.shape.empty() || !is_float(all.dtype) || all.shape[0] > kMostRows) return false;
  const Sizes row(all.shape.begin() + 1, all.shape.end());
  const DType dtype = all.dtype;
  s.in = {rows, m.leaf(row, dtype), m.leaf(row, dtype)};
  s.ints = {static_cast<int64_t>(m.below(2)), static_cast<int64_t>(m.below(2))};
  return true;
}

/// The state is halved, and the row times a value that no step changes is added.
Tensor build(const Step& s, const Tensors& x) {
  const auto step = [&](const Tensors& state, const Tensors& row) -> ScanStep {
    const Tensor next = state[0] * 0.5 + row[0] * x[2];
    return {{next}, {next}};
  };
  const Scanned made = scan(step, {x[1]}, {x[0]}, {{}, is_backward(s)});
  return is_last(s) ? made.state[0] : made.stacked[0];
}

Array reference(const Step& s, const Arrays& x) {
  const Array& rows = *x[0];
  require(!rows.shape.empty() && is_float(rows.dtype), "a recurrence of floats");
  const Sizes shape(rows.shape.begin() + 1, rows.shape.end());
  require(x[1]->shape == shape && x[2]->shape == shape, "shapes of rows");
  require(x[1]->dtype == rows.dtype && x[2]->dtype == rows.dtype, "dtypes of rows");
  const auto width = static_cast<size_t>(count_of(shape));
  const auto steps = static_cast<size_t>(rows.shape[0]);
  Array state = *x[1], all = rows;
  for (size_t k = 0; k < steps; ++k) {
    const size_t row = is_backward(s) ? steps - 1 - k : k;
    for (size_t i = 0; i < width; ++i) {
      const DType d = rows.dtype;
      state.at[i] = add(d, mul(d, state.at[i], {0.5, 0}), mul(d, rows.at[row * width + i], x[2]->at[i]));
      all.at[row * width + i] = state.at[i];
    }
  }
  return is_last(s) ? state : all;
}

std::string text(const Step& s, const Texts& x) {
  return fmt::format(
      "scan([&](const auto& s, const auto& r) -> ScanStep {{ Tensor y = s[0] * 0.5 + r[0] * {}; "
      "return {{{{y}}, {{y}}}}; }}, {{{}}}, {{{}}}, {{{{}}, {}}}).{}[0]",
      x[2], x[1], x[0], bool_text(is_backward(s)), is_last(s) ? "state" : "stacked");
}

} // namespace

void add_recurrences(std::vector<Function>& rows) {
  rows.push_back({"scan", "recurrence", draw, build, reference, text, 2, true});
}

} // namespace lathe::net
