// Recurrences: steps over the rows of a tensor, forward and backward, and steps that end by their data.
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

// ---- while_loop ----
// reals: the limit; ints: the most steps.

constexpr int64_t kMostSteps = 9;

bool draw_loop(Maker& m, Step& s) {
  const int start = m.some([](const Array& a) { return is_float(a.dtype); });
  if (!is_float(m.value(start).dtype)) return false;
  s.in = {start, m.leaf(m.value(start).shape, m.value(start).dtype)};
  s.ints = {static_cast<int64_t>(m.below(kMostSteps + 1))};
  s.reals = {0.5 + static_cast<double>(m.below(6))};
  return true;
}

/// The state moves by half of its distance to a value that no step changes. A second state counts the steps,
/// so that rounding does not decide how many run.
Tensor build_loop(const Step& s, const Tensors& x) {
  const auto goes_on = [&](const Tensors& state) { return state[1] < s.reals[0]; };
  const auto next = [&](const Tensors& state) -> Tensors {
    return {state[0] * 0.5 + x[1] * 0.5, state[1] + 1.0f};
  };
  return while_loop(goes_on, next, {x[0], Tensor::zeros({})}, s.ints[0])[0];
}

Array loop_reference(const Step& s, const Arrays& x) {
  require(is_float(x[0]->dtype) && x[0]->dtype == x[1]->dtype && x[0]->shape == x[1]->shape, "equal floats");
  Array state = *x[0];
  const DType d = state.dtype;
  for (int64_t k = 0; k < s.ints[0] && static_cast<double>(k) < s.reals[0]; ++k)
    for (size_t i = 0; i < state.at.size(); ++i)
      state.at[i] = add(d, mul(d, state.at[i], {0.5, 0}), mul(d, x[1]->at[i], {0.5, 0}));
  return state;
}

std::string loop_text(const Step& s, const Texts& x) {
  return fmt::format(
      "while_loop([](const auto& s) {{ return s[1] < {}; }}, [&](const auto& s) {{ return "
      "std::vector<Tensor>{{s[0] * 0.5 + {} * 0.5, s[1] + 1.0f}}; }}, {{{}, Tensor::zeros({{}})}}, {})[0]",
      real_text(s.reals[0]), x[1], x[0], s.ints[0]);
}

} // namespace

void add_recurrences(std::vector<Function>& rows) {
  rows.push_back({"scan", "recurrence", draw, build, reference, text, 2, true});
  rows.push_back({"while_loop", "recurrence", draw_loop, build_loop, loop_reference, loop_text, 1, true});
}

} // namespace lathe::net
