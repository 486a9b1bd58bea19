#include "compile/test_data.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include "core/hash.hpp"

namespace lathe::pipeline {
namespace {

template <class Next> std::vector<unsigned char> fill(DType dtype, size_t bytes, Next next) {
  std::vector<unsigned char> data(bytes);
  const auto width = static_cast<size_t>(size_of(dtype));
  for (size_t at = 0; at + width <= bytes; at += width) next(data.data() + at).to_memory(data.data() + at);
  return data;
}

double unit_roundoff(DType dtype) {
  switch (dtype) {
  case DType::F64: return 0x1p-53;
  case DType::F16: return 0x1p-11;
  case DType::BF16: return 0x1p-8;
  default: return 0x1p-24;
  }
}

} // namespace

std::vector<unsigned char> test_data(const ast::Buffer& buffer, size_t bytes, const TestRange& range) {
  uint64_t state = mix(hash_text("test data"), static_cast<uint64_t>(buffer.id));
  const auto random = [&] { return state = mix(state, 0x9E37u); };
  const auto in_range = [&](auto unit) { return range.positive ? 1 - unit : 2 * unit - 1; }; // of [0, 1)
  if (buffer.dtype == DType::F32) { // by far the most common, and large
    std::vector<unsigned char> data(bytes);
    for (size_t at = 0; at + 4 <= bytes; at += 4) {
      const float value = in_range(static_cast<float>(static_cast<int64_t>(random() >> 40)) * 0x1p-24f);
      std::memcpy(data.data() + at, &value, 4);
    }
    return data;
  }
  return fill(buffer.dtype, bytes, [&](void*) {
    if (is_float(buffer.dtype))
      return Scalar::of_float(buffer.dtype, in_range(static_cast<double>(random() >> 11) * 0x1p-53));
    if (buffer.dtype == DType::Bool) return Scalar::of_int(DType::Bool, static_cast<int64_t>(random() >> 63));
    return Scalar::of_int(
        buffer.dtype,
        static_cast<int64_t>((random() >> 1) % static_cast<uint64_t>(range.below > 0 ? range.below : 8)));
  });
}

TestRange test_range(const ast::Kernel& kernel, const ShapeValues& values) {
  TestRange range;
  const auto index_into = [&](const ast::Buffer& buffer) {
    range.below = std::max(range.below, values.bytes(buffer) / size_of(buffer.dtype));
  };
  bool sums = false, magnifies = false;
  ast::visit(kernel.body, [&](const ast::Stmt& stmt, const auto&) {
    const auto* store = std::get_if<ast::Store>(&stmt.node);
    if (!store) return;
    sums |= store->combine == Op::Add;
    if (store->scatter) index_into(*store->buffer);
    ast::visit(store->value, [&](const ast::ValueRef& v) {
      magnifies |= v->op == Op::Div || v->op == Op::Log2 || v->op == Op::Sqrt;
      if (v->op == Op::Gather) index_into(*std::get<ast::LoadAttr>(v->attr).buffer);
    });
  });
  range.positive = sums && magnifies;
  return range;
}

double longest_reduction(const ast::Kernel& kernel, const ShapeValues& values) {
  double longest = 1;
  ast::visit(kernel.body, [&](const ast::Stmt& stmt, const std::vector<const ast::For*>& loops) {
    const auto* store = std::get_if<ast::Store>(&stmt.node);
    if (!store || !store->combine) return;
    double terms = 1;
    for (const ast::For* loop : loops) {
      const bool kept = std::any_of(store->index.begin(), store->index.end(),
                                    [&](Expr e) { return depends_on(e, loop->var); });
      if (!kept) terms *= static_cast<double>(values.evaluate(loop->extent));
    }
    longest = std::max(longest, terms);
  });
  return longest;
}

std::string compare_values(DType dtype, const std::vector<unsigned char>& expected,
                           const std::vector<unsigned char>& got, double reduction_length) {
  const auto width = static_cast<size_t>(size_of(dtype));
  const size_t count = expected.size() / width;
  const auto differ = [&](size_t k) {
    return fmt::format("element {} is {}, expected {}", k,
                       to_string(Scalar::from_memory(dtype, got.data() + k * width)),
                       to_string(Scalar::from_memory(dtype, expected.data() + k * width)));
  };
  if (std::memcmp(expected.data(), got.data(), expected.size()) == 0) return {};
  if (!is_float(dtype)) {
    for (size_t k = 0; k < count; ++k)
      if (std::memcmp(expected.data() + k * width, got.data() + k * width, width) != 0) return differ(k);
    return {};
  }
  const auto at = [&](const std::vector<unsigned char>& from, size_t k) {
    if (dtype == DType::F32) {
      float value;
      std::memcpy(&value, from.data() + k * 4, 4);
      return static_cast<double>(value);
    }
    return Scalar::from_memory(dtype, from.data() + k * width).as_float();
  };
  double sum = 0;
  size_t finite = 0;
  for (size_t k = 0; k < count; ++k)
    if (const double v = at(expected, k); std::isfinite(v)) sum += std::fabs(v), ++finite;
  const double typical = finite ? sum / static_cast<double>(finite) : 0;
  // Half precision is rounded once more when it is stored; its sums are kept in f32.
  const double computed =
      unit_roundoff(dtype == DType::F64 ? DType::F64 : DType::F32) * (64 + 4 * reduction_length);
  const double tolerance = computed + 4 * unit_roundoff(dtype);
  for (size_t k = 0; k < count; ++k) {
    const double want = at(expected, k), have = at(got, k);
    if (want == have || (std::isnan(want) && std::isnan(have))) continue;
    const bool finite_both = std::isfinite(want) && std::isfinite(have);
    if (!finite_both || std::fabs(want - have) > tolerance * std::max(std::fabs(want), typical))
      return differ(k);
  }
  return {};
}

} // namespace lathe::pipeline
