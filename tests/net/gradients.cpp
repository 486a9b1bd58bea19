// Derivatives against differences of the oracle, which computes in real numbers as far as 64 bits go.
#include <algorithm>
#include <cmath>

#include "net/program.hpp"
#include "net/rows.hpp"

namespace lathe::net {
namespace {

constexpr size_t kElements = 6; // of each input

/// The sum of the output's elements, with one element of a leaf moved; NaN where it is not known.
Real sum_with(const Program& program, const std::vector<Array>& values, size_t leaf, size_t element, Real by,
              int output) {
  Program p = program;
  p.steps[leaf].values = values[leaf].at;
  p.steps[leaf].values[element].v += by;
  const std::vector<Array> moved = evaluate_reference(p);
  Real total = 0;
  for (Cell c : moved[static_cast<size_t>(output)].at) total += c.decided() ? c.v : std::nanl("");
  return total;
}

struct Slope {
  Real left, right; // the same where the function is smooth
};

/// Nothing where differences of two widths do not agree.
std::optional<Slope> slope_of(const Program& program, const std::vector<Array>& values, size_t leaf,
                              size_t element, int output) {
  const Real x = values[leaf].at[element].v, h = std::ldexp(std::max(Real{1}, std::fabs(x)), -12);
  const Real middle = sum_with(program, values, leaf, element, 0, output);
  Real f[2][2]; // by width, by side
  for (int w = 0; w < 2; ++w)
    for (int side = 0; side < 2; ++side)
      f[w][side] = sum_with(program, values, leaf, element, (side ? h : -h) / (w ? 2 : 1), output);

  const Real central = (f[1][1] - f[1][0]) / h, wide = (f[0][1] - f[0][0]) / (2 * h);
  const Real right = 2 * (f[1][1] - middle) * 2 / h - (f[0][1] - middle) / h,
             left = 2 * (middle - f[1][0]) * 2 / h - (middle - f[0][0]) / h;
  if (!std::isfinite(central + wide + left + right)) return {};
  const Real size = 1e-3L * (std::fabs(central) + 1e-3L);
  if (std::fabs(left - right) > size) { // a joint; both sides must be straight up to it
    const Real near_right = (f[1][1] - middle) * 2 / h, near_left = (middle - f[1][0]) * 2 / h;
    if (std::fabs(near_right - right) > size || std::fabs(near_left - left) > size) return {};
    return Slope{left, right};
  }
  const Real best = (4 * central - wide) / 3;
  if (std::fabs(best - central) > size) return {};
  return Slope{best, best};
}

/// Functions whose choice among equal elements may lie anywhere between.
bool chooses(const Program& p) {
  return std::any_of(p.steps.begin(), p.steps.end(), [](const Step& s) {
    const std::string& n = s.function->name;
    return n == "max" || n == "min" || n == "max_pool2d" || n == "maximum" || n == "minimum" || n == "clamp";
  });
}

bool is_finite(const Array& a) {
  return std::all_of(a.at.begin(), a.at.end(), [](Cell c) { return c.decided() && std::isfinite(c.v); });
}

/// Whether known numbers become infinite or unknown on the way, as 1 / 0 does. A cotangent of 0 times the
/// slope there is NaN, and so is the derivative, even where the output leaves the element out.
bool meets_pole(const Program& p, const std::vector<Array>& values) {
  for (size_t k = 0; k < p.steps.size(); ++k) {
    const std::vector<int>& from = p.steps[k].in;
    if (!is_finite(values[k]) && !from.empty() && std::all_of(from.begin(), from.end(), [&](int a) {
          return is_finite(values[static_cast<size_t>(a)]);
        }))
      return true;
  }
  return false;
}

} // namespace

std::optional<Difference> gradient_failure(const Program& program, const RunOptions& options) {
  const std::vector<Array> values = evaluate_reference(program);
  const int output = program.outputs.back();
  const Array& y = values[static_cast<size_t>(output)];
  if (!is_float(y.dtype) || is_half(y.dtype)) return {};
  for (Cell c : y.at)
    if (!c.decided() || !std::isfinite(c.v)) return {};
  if (meets_pole(program, values)) return {};
  const Tensors tensors = tensors_of(program, values, options);
  std::vector<size_t> leaves;
  Tensors xs;
  bool single = y.dtype == DType::F32;
  for (size_t k = 0; k < program.steps.size(); ++k) {
    if (!is_input(program.steps[k]) || !is_float(values[k].dtype)) continue;
    leaves.push_back(k);
    xs.push_back(tensors[k]);
    single |= values[k].dtype == DType::F32;
  }
  if (leaves.empty()) return {};
  const Tensors slopes = gradients(tensors[static_cast<size_t>(output)], xs);
  NamedTensors outputs, feeds;
  for (size_t k = 0; k < leaves.size(); ++k) outputs.emplace(fmt::format("g{}", k), slopes[k]);
  RunOptions plain = options;
  plain.walk = 0;
  const Executable run = compiled(outputs, plain);
  for (const KernelParam& p : run.inputs()) {
    const auto k = static_cast<size_t>(std::stoul(p.name.substr(1)));
    feeds.emplace(p.name, data_tensor(values[k]));
  }
  const NamedTensors got = run(feeds);
  for (size_t k = 0; k < leaves.size(); ++k) {
    const size_t count = values[leaves[k]].at.size();
    const std::vector<double> g = got.at(fmt::format("g{}", k)).cast(DType::F64).to_vector<double>();
    std::vector<std::optional<Slope>> want;
    Real scale = 1e-3L;
    for (size_t i = 0; i < std::min(count, kElements); ++i) {
      want.push_back(
          slope_of(program, values, leaves[k], count <= kElements ? i : (i * 7919 + 3) % count, output));
      if (want.back()) scale = std::max({scale, std::fabs(want.back()->left), std::fabs(want.back()->right)});
    }
    for (size_t i = 0; i < want.size(); ++i) {
      if (!want[i]) continue;
      const size_t at = count <= kElements ? i : (i * 7919 + 3) % count;
      const bool joint = want[i]->left != want[i]->right;
      if (joint && chooses(program) && program.steps.size() > 4) continue;
      const Real slack = (single ? 5e-3L : 1e-5L) * scale;
      const Real low = std::min(want[i]->left, want[i]->right) - slack,
                 high = std::max(want[i]->left, want[i]->right) + slack;
      if (g[at] >= low && g[at] <= high) continue;
      return Difference{static_cast<int>(program.outputs.size()) - 1, static_cast<int64_t>(at),
                        fmt::format("the derivative by x{}, element {}, is {}, expected {} to {}", leaves[k],
                                    at, g[at], static_cast<double>(low), static_cast<double>(high))};
    }
  }
  return {};
}

} // namespace lathe::net
