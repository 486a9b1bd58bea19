// Counting values, and looking them up in order. What has a size that depends on values is computed on the
// host.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "core/float_format.hpp"
#include "graph/gradient.hpp"
#include "graph/tensor_impl.hpp"
#include "lathe/array_functions.hpp"

namespace lathe {
using namespace graph;
namespace {

constexpr int64_t kMostBins = int64_t{1} << 28; // of a histogram, whose edges the host computes

/// The bins' edges, as NumPy computes them: in f64, then rounded to the dtype. The host computes them, so
/// that they are the same on every device.
Tensor bin_edges(int64_t bins, double low, double high, DType dtype) {
  const double width = (high - low) / static_cast<double>(bins);
  std::vector<double> edges(static_cast<size_t>(bins) + 1, high);
  for (int64_t i = 0; i < bins; ++i) edges[i] = low + static_cast<double>(i) * width;
  return Tensor::from(edges).cast(dtype);
}

/// Whether bins_near() gives the bin that the edges say. It does if a value's distance from `low` says a bin
/// that is at most one off: rounding to the dtype has to move an edge, and that distance, by less than a
/// quarter of a bin each.
bool is_near_by_arithmetic(int64_t bins, double low, double high, DType dtype) {
  if (is_narrow(dtype)) return false;
  // Shorter ranges have edges among the subnormal numbers; shorter and longer ones overflow in f32.
  const double shortest = dtype == DType::F16 ? 1e-2 : 1e-30, longest = 1e30;
  const double range = high - low, most = std::max(std::fabs(low), std::fabs(high));
  return range >= shortest && range <= longest &&
         static_cast<double>(bins) * std::exp2(2 - digits(dtype)) * (most / range + 1) < 0.25;
}

/// The bin of each value by its distance from `low`, corrected by the edges of that bin; -1 for a value that
/// is in none.
Tensor bins_near(const Tensor& edges, const Tensor& values, int64_t bins, double low, double high) {
  const DType d = edges.dtype() == DType::F64 ? DType::F64 : DType::F32;
  const auto number = [&](double v) { return Tensor::full({}, Scalar::of_float(d, v)); };
  const auto index = [](int64_t i) { return Tensor::full({}, Scalar::of_int(DType::I32, i)); };
  const Tensor x = values.cast(d), at = edges.cast(d);
  const auto edge = [&](const Tensor& i) { return wrap(gather(node_of(at), node_of(i))); };
  const Tensor is_outside = (x < at.index({0})) | (at.index({bins}) < x) | (x != x);
  const Tensor distance =
      (x - number(low)) * number(static_cast<double>(bins) / (high - low)); // from 0 on, if it is inside
  const Tensor near = minimum(where(is_outside, number(0), distance).cast(DType::I32), index(bins - 1));
  const Tensor is_below = x < edge(near), is_in = x < edge(near + index(1));
  const Tensor above = (is_in | (near == index(bins - 1))).logical_not();
  return where(is_outside, index(-1), near - is_below.cast(DType::I32) + above.cast(DType::I32));
}

/// The bin of each value by a search among the edges; numbers that are no bin's for a value that is in none.
Tensor bins_by_search(const Tensor& edges, const Tensor& values, int64_t bins) {
  // Places are below `low` 0, in the first bin 1 ...; `high` and above it, and of NaN, more than there are
  // bins.
  const Tensor bin = searchsorted(edges, values, true) - 1;
  return where(values == edges.index({bins}), Tensor::full({}, bins - 1), bin);
}

// ---- on the host ----

template <class T> T value_of(T stored) { return stored; }
float value_of(Half stored) { return f16_to_f32(stored.bits); }
float value_of(BFloat16 stored) { return bf16_to_f32(stored.bits); }

template <class T> bool is_nan(T stored) {
  if constexpr (std::is_integral_v<T>)
    return false;
  else
    return std::isnan(value_of(stored));
}

/// f(values), where the values are a span of the type that stores x's dtype.
template <class F> auto with_values(std::string_view op, const Tensor& x, F&& f) {
  const NodeRef node = detail::impl(x)->realise(op);
  const void* memory = std::get<InputAttr>(node->attr).data->data();
  const auto as = [&]<class T>(T) {
    return f(std::span(static_cast<const T*>(memory), static_cast<size_t>(x.element_count())));
  };
  switch (x.dtype()) {
  case DType::Bool:
  case DType::U8: return as(uint8_t{});
  case DType::I8: return as(int8_t{});
  case DType::I16: return as(int16_t{});
  case DType::I32: return as(int32_t{});
  case DType::I64: return as(int64_t{});
  case DType::U16: return as(uint16_t{});
  case DType::U32: return as(uint32_t{});
  case DType::U64: return as(uint64_t{});
  case DType::F16: return as(Half{});
  case DType::BF16: return as(BFloat16{});
  case DType::F32: return as(float{});
  case DType::F64: return as(double{});
  default: break;
  }
  fail(ErrorKind::DType, "{}: dtype {}, which is only stored, expected a cast to another", op,
       to_string(x.dtype()));
}

template <class T> std::vector<int64_t> places_of_nonzeros(std::span<const T> values) {
  std::vector<int64_t> places;
  for (size_t i = 0; i < values.size(); ++i)
    if (value_of(values[i]) != 0) places.push_back(static_cast<int64_t>(i));
  return places;
}

template <class T> std::pair<Tensor, Tensor> count_distinct(std::span<const T> values, DType dtype) {
  std::vector<T> all(values.begin(), values.end());
  const auto nans = std::partition(all.begin(), all.end(), [](T v) { return !is_nan(v); });
  std::sort(all.begin(), nans, [](T a, T b) { return value_of(a) < value_of(b); });
  std::vector<T> distinct;
  std::vector<int64_t> counts;
  for (auto v = all.begin(); v != all.end(); ++v) {
    const bool is_new = v == all.begin() || v == nans;
    if (is_new || (v < nans && value_of(*v) != value_of(distinct.back()))) {
      distinct.push_back(*v);
      counts.push_back(0);
    }
    ++counts.back();
  }
  return {Tensor::from_memory(distinct.data(), distinct.size(), dtype, {Expr(distinct.size())}),
          Tensor::from(counts)};
}

} // namespace

Tensor histogram(const Tensor& x, Whole bins, double low, double high) {
  if (bins < 1) fail(ErrorKind::Value, "histogram: {} bins, expected at least one", bins);
  if (bins > kMostBins) fail(ErrorKind::Limit, "histogram: {} bins, expected at most 2^28", bins);
  check_shape("histogram", x.shape(), DType::I64);
  const DType d = is_float(x.dtype()) ? x.dtype() : DType::F64;
  const Scalar first = Scalar::of_float(d, low), last = Scalar::of_float(d, high);
  if (!(first.as_float() < last.as_float()) || !std::isfinite(last.as_float() - first.as_float()))
    fail(ErrorKind::Value, "histogram: from {} to {} in {}, expected finite bounds, the lower one first", low,
         high, to_string(d));
  const Tensor edges = bin_edges(bins, low, high, d), values = x.cast(d);
  return bincount(is_near_by_arithmetic(bins, low, high, d) ? bins_near(edges, values, bins, low, high)
                                                            : bins_by_search(edges, values, bins),
                  bins);
}

Tensor bincount(const Tensor& x, Whole length, const std::optional<Tensor>& weights) {
  if (is_float(x.dtype()))
    fail(ErrorKind::DType, "bincount: dtype {}, expected an integer or bool", to_string(x.dtype()));
  if (length < 0) fail(ErrorKind::Value, "bincount: length {}, expected no negative number", length);
  if (weights && weights->dtype() == DType::Bool)
    fail(ErrorKind::DType, "bincount: weights of dtype bool, expected numbers");
  if (weights && weights->shape() != x.shape())
    fail(ErrorKind::Shape, "bincount: weights {} for {}, expected equal shapes", to_string(weights->shape()),
         to_string(x.shape()));
  const Tensor amounts = weights ? *weights : Tensor::ones(x.shape(), DType::I64);
  const Expr count = static_cast<int64_t>(length);
  check_shape("bincount", {count}, amounts.dtype());
  return add_at(count, x.cast(DType::I64), amounts);
}

Tensor searchsorted(const Tensor& ascending, const Tensor& values, Flag right) {
  if (ascending.rank() != 1 || !is_static(ascending.shape()))
    fail(ErrorKind::Shape, "searchsorted: in shape {}, expected one axis of static size",
         to_string(ascending.shape()));
  check_shape("searchsorted", values.shape(), DType::I64);
  const DType d = promote(ascending.dtype(), values.dtype());
  const Tensor row = ascending.cast(d), x = values.cast(d);
  const auto goes_before = [&](const Tensor& element) {
    return right ? sorts_before(x, element).logical_not() : sorts_before(element, x);
  };
  const int64_t size = row.element_count();
  if (size == 0) return Tensor::zeros(values.shape(), DType::I64);
  const auto index = [narrow = size < std::numeric_limits<int32_t>::max()](int64_t i) {
    return Tensor::full({}, Scalar::of_int(narrow ? DType::I32 : DType::I64, i));
  };
  // A binary search, halving what is left in every element at once. The first step leaves one less than a
  // power of two, whichever side it takes: no later one leaves the row.
  auto step = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(size)));
  Tensor place = where(goes_before(row.index({step - 1})), index(size - step + 1), index(0));
  while (step /= 2) {
    const Tensor element = wrap(gather(node_of(row), node_of(place + index(step - 1))));
    place = where(goes_before(element), place + index(step), place);
  }
  return place.cast(DType::I64);
}

Tensor nonzero(const Tensor& x) {
  if (x.rank() == 0) fail(ErrorKind::Shape, "nonzero: of a scalar, expected at least one axis");
  const auto places = with_values("nonzero", x, [](auto values) { return places_of_nonzeros(values); });
  const std::vector<int64_t> sizes = static_sizes(x.shape());
  const size_t rank = sizes.size();
  std::vector<int64_t> indices(places.size() * rank);
  for (size_t i = 0; i < places.size(); ++i) {
    int64_t rest = places[i];
    for (size_t axis = rank; axis-- > 0; rest /= sizes[axis]) indices[i * rank + axis] = rest % sizes[axis];
  }
  return Tensor::from(indices, {Expr(places.size()), Expr(rank)});
}

std::pair<Tensor, Tensor> unique(const Tensor& x) {
  return with_values("unique", x, [&](auto values) { return count_distinct(values, x.dtype()); });
}

} // namespace lathe
