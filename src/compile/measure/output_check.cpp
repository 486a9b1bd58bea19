#include "compile/measure/output_check.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <random>
#include <set>

#include <fmt/format.h>

#include "compile/front/shape_values.hpp"
#include "compile/measure/test_data.hpp"
#include "compile/measure/tolerance.hpp"
#include "lathe/error.hpp"

namespace lathe::pipeline {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kAll = 4096;      // elements of the largest sample; smaller outputs are sampled whole
constexpr size_t kFew = 16;         // elements of an output that are computed even if the time is over
constexpr double kFewSeconds = 0.5; // upper limit of the additional time for these
constexpr int64_t kSteps = int64_t{1} << 26; // iterations for one element; a second or two
constexpr size_t kJudged = 64; // elements outside of the sample that are computed for one candidate
constexpr double kBoth = 2;    // times an error: two results are compared, each with its own error

double value_at(DType dtype, const std::vector<unsigned char>& data, size_t k) {
  if (dtype == DType::F32) { // by far the most common
    float v;
    std::memcpy(&v, data.data() + 4 * k, 4);
    return v;
  }
  const auto width = static_cast<size_t>(size_of(dtype));
  return Scalar::from_memory(dtype, data.data() + k * width).as_float();
}

std::string text(DType dtype, const std::vector<unsigned char>& data, size_t k) {
  return to_string(Scalar::from_memory(dtype, data.data() + k * static_cast<size_t>(size_of(dtype))));
}
std::string text(DType dtype, const Bounded& want) {
  if (!is_float(dtype)) return to_string(Scalar::of_int(dtype, want.whole));
  return want.is_exact() ? fmt::format("{:.17g}", want.number)
                         : fmt::format("{:.17g} within {:.3g}", want.number, want.error);
}

} // namespace

OutputCheck::OutputCheck(ast::Kernel canonical, const std::vector<const void*>& inputs,
                         const std::vector<int64_t>& shape_values)
    : canonical_(std::move(canonical)), bounds_(canonical_, inputs, shape_values) {
  ShapeValues values(canonical_.shape_vars);
  for (size_t k = 0; k < shape_values.size(); ++k)
    values.bind(canonical_.shape_vars[k], shape_values[k], "check");
  longest_ = longest_reduction(canonical_, values);
  for (size_t k = 0; k < canonical_.params.size(); ++k) {
    const ast::Param& param = canonical_.params[k];
    if (!param.written) continue;
    Output& output = outputs_.emplace_back();
    output.parameter = k;
    output.dtype = param.buffer->dtype;
    output.shape = values.sizes(param.buffer->shape);
    output.elements = bounds_.elements(k);
  }
}

OutputCheck::Output& OutputCheck::output_of(size_t parameter) {
  for (Output& output : outputs_)
    if (output.parameter == parameter) return output;
  throw InternalError("check: the parameter is not written");
}

int64_t OutputCheck::sampled(size_t parameter) const {
  for (const Output& output : outputs_)
    if (output.parameter == parameter) return static_cast<int64_t>(output.sample.size());
  return 0;
}

/// Returns the elements of a sample, in the order in which they are computed. Large outputs give the first
/// and the last element, then random ones. Many of these are near the ends or where vectors may begin,
/// because such elements are often wrong alone.
std::vector<int64_t> OutputCheck::places(const Output& output) const {
  std::mt19937_64 random(output.parameter + 1);
  std::vector<int64_t> places;
  if (output.elements <= kAll) {
    for (int64_t k = 0; k < output.elements; ++k) places.push_back(k);
    std::shuffle(places.begin(), places.end(), random);
    return places;
  }
  std::set<int64_t> known;
  const auto add = [&](int64_t at) {
    if (known.insert(at).second) places.push_back(at);
  };
  add(0);
  add(output.elements - 1);
  const auto below = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint64_t>(n)); };
  for (int64_t tries = 0; tries < 2 * kAll && static_cast<int64_t>(places.size()) < kAll; ++tries) {
    int64_t flat = 0;
    for (const int64_t size : output.shape) {
      int64_t at = below(size);
      if (below(3) == 0) {
        const int64_t ends[] = {0, 1, size - 1, size - 2, at / 16 * 16, at / 16 * 16 + 15};
        at = std::clamp<int64_t>(ends[below(6)], 0, size - 1);
      }
      flat = flat * size + at;
    }
    add(flat);
  }
  return places;
}

void OutputCheck::sample(double seconds) {
  const auto began = Clock::now();
  const auto spent = [&] { return std::chrono::duration<double>(Clock::now() - began).count(); };
  const double share = seconds / static_cast<double>(std::max<size_t>(1, outputs_.size()));
  for (size_t n = 0; n < outputs_.size() && !gave_up_; ++n) {
    Output& output = outputs_[n];
    const double end = share * static_cast<double>(n + 1);
    std::set<int64_t> known;
    for (const auto& [at, value] : output.sample) known.insert(at);
    size_t computed = 0;
    for (const int64_t at : places(output)) {
      if (known.contains(at)) continue;
      if (computed > 0 && spent() > (computed < kFew ? end + kFewSeconds : end)) break;
      try {
        output.sample.emplace_back(at, bounds_.element(output.parameter, at, kSteps));
      } catch (const TooMuchWork&) {
        gave_up_ = true;
        break;
      }
      ++computed;
    }
    std::vector<double> errors;
    for (const auto& [at, value] : output.sample)
      if (is_float(output.dtype) && value.is_decided()) errors.push_back(value.error);
    if (errors.empty()) continue;
    std::sort(errors.begin(), errors.end());
    output.typical_error = errors[errors.size() / 2];
    output.largest_error = errors.back();
  }
}

std::string OutputCheck::trust(size_t parameter, std::vector<unsigned char> made) {
  Output& output = output_of(parameter);
  output.trusted.clear();
  std::string why = wrong(parameter, made);
  if (why.empty()) output.trusted = std::move(made);
  return why;
}

std::string OutputCheck::wrong(size_t parameter, const std::vector<unsigned char>& got) {
  Output& output = output_of(parameter);
  const auto width = static_cast<size_t>(size_of(output.dtype));
  for (const auto& [at, want] : output.sample)
    if (!holds(output.dtype, want, got.data() + static_cast<size_t>(at) * width))
      return fmt::format("element {} is {}, expected {}", at,
                         text(output.dtype, got, static_cast<size_t>(at)), text(output.dtype, want));
  if (output.trusted.empty() || static_cast<int64_t>(output.sample.size()) == output.elements) return {};
  return wrong_outside(output, got);
}

/// Compares all elements with the trusted result. An element that differs by more than the typical error is
/// computed, and judged by its own bounds.
std::string OutputCheck::wrong_outside(Output& output, const std::vector<unsigned char>& got) {
  const DType dtype = output.dtype;
  const auto width = static_cast<size_t>(size_of(dtype)), count = static_cast<size_t>(output.elements);
  if (std::memcmp(output.trusted.data(), got.data(), count * width) == 0) return {};
  size_t judged = 0;
  for (size_t k = 0; k < count; ++k) {
    const unsigned char *want = output.trusted.data() + k * width, *have = got.data() + k * width;
    if (is_float(dtype)) {
      const double w = value_at(dtype, output.trusted, k), h = value_at(dtype, got, k);
      if (w == h || std::fabs(w - h) <= kBoth * output.typical_error || (std::isnan(w) && std::isnan(h)))
        continue;
    } else if (std::memcmp(want, have, width) == 0) {
      continue;
    }
    if (gave_up_ || ++judged > kJudged) return differs_much(output, got, k);
    try {
      const Bounded right = bounds_.element(output.parameter, static_cast<int64_t>(k), kSteps);
      if (!holds(dtype, right, have))
        return fmt::format("element {} is {}, expected {}", k, text(dtype, got, k), text(dtype, right));
      if (is_float(dtype) && right.is_decided())
        output.largest_error = std::max(output.largest_error, right.error);
    } catch (const TooMuchWork&) {
      gave_up_ = true;
      return differs_much(output, got, k);
    }
  }
  return {};
}

/// Compares without the elements' own bounds: by the largest error of any known element, and by that of a sum
/// whose terms are together as large as the element, or, if none is known, as a typical one.
std::string OutputCheck::differs_much(const Output& output, const std::vector<unsigned char>& got,
                                      size_t from) const {
  const DType dtype = output.dtype;
  const auto count = static_cast<size_t>(output.elements), width = static_cast<size_t>(size_of(dtype));
  double sizes = 0, finite = 0;
  for (size_t k = 0; k < count && is_float(dtype); ++k)
    if (const double v = value_at(dtype, output.trusted, k); std::isfinite(v))
      sizes += std::fabs(v), ++finite;
  const double typical = finite > 0 ? sizes / finite : 0;
  const DType kept = is_half(dtype) ? DType::F32 : dtype; // dtype in which sums are kept
  const double unit = is_half(dtype) ? kSumUlps * unit_roundoff(dtype) : 0;
  for (size_t k = from; k < count; ++k) {
    bool same = std::memcmp(output.trusted.data() + k * width, got.data() + k * width, width) == 0;
    if (!same && is_float(dtype)) {
      const double w = value_at(dtype, output.trusted, k), h = value_at(dtype, got, k);
      const double size = output.sample.empty() ? std::max(std::fabs(w), typical) : std::fabs(w);
      const double error = std::max(sum_error(kept, longest_, size) + unit * size, output.largest_error);
      same = w == h || std::fabs(w - h) <= kBoth * error || (std::isnan(w) && std::isnan(h));
    }
    if (!same)
      return fmt::format("element {} is {}, expected {}", k, text(dtype, got, k),
                         text(dtype, output.trusted, k));
  }
  return {};
}

} // namespace lathe::pipeline
