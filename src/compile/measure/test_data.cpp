#include "compile/measure/test_data.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "compile/measure/tolerance.hpp"
#include "core/hash.hpp"

namespace lathe::pipeline {
namespace {

template <class Next> std::vector<unsigned char> fill(DType dtype, size_t bytes, Next next) {
  std::vector<unsigned char> data(bytes);
  const auto width = static_cast<size_t>(size_of(dtype));
  for (size_t at = 0; at + width <= bytes; at += width) next(data.data() + at).to_memory(data.data() + at);
  return data;
}

/// Returns the number of terms that are combined into one element.
double terms_of(const ast::Store& store, const std::vector<const ast::For*>& loops,
                const ShapeValues& values) {
  double terms = 1;
  for (const ast::For* loop : loops) {
    const bool kept =
        std::any_of(store.index.begin(), store.index.end(), [&](Expr e) { return depends_on(e, loop->var); });
    if (!kept) terms *= static_cast<double>(values.evaluate(loop->extent));
  }
  return terms;
}

constexpr double kMostDigits = 8;   // binary digits of whole numbers; all float dtypes have as many
constexpr double kOfIntegers = 3;   // binary digits of test data of integers
constexpr double kOfIndices = 20;   // binary digits of an index, at most
constexpr double kLargestHalf = 15; // a power of two; values above 2^15 may be infinite in f16

/// The size of a value as a power of two, slope * x + offset, if inputs are whole numbers below 2^x.
struct Size {
  double slope = 0, offset = 0;
  double most(double limit) const { return slope > 0 ? (limit - offset) / slope : limit; }
};

/// The largest whole numbers with which all float sums of a kernel are exact. 0 if the kernel does more than
/// add, multiply and choose, or sums no floats.
class WholeNumbers {
public:
  WholeNumbers(const ast::Kernel& kernel, const ShapeValues& values) : values_(values) {
    ast::visit(kernel.body, [&](const ast::Stmt& stmt, const std::vector<const ast::For*>& loops) {
      if (const auto* store = std::get_if<ast::Store>(&stmt.node)) add(*store, loops);
    });
  }
  int64_t largest() const {
    if (!is_ring_ || !has_sums_ || half_ < 0) return 0;
    return int64_t{1} << static_cast<int>(std::clamp(std::floor(std::min(sums_, half_)), 0.0, kMostDigits));
  }

private:
  void add(const ast::Store& store, const std::vector<const ast::For*>& loops) {
    std::map<const ast::Value*, Size> sizes;
    ast::visit(store.value, [&](const ast::ValueRef& v) {
      sizes[v.get()] = size_of_value(*v, sizes);
      if (is_half(v->dtype)) half_ = std::min(half_, sizes[v.get()].most(kLargestHalf));
    });
    Size size = sizes.at(store.value.get());
    if (store.combine == Op::Add && is_float(store.buffer->dtype)) {
      has_sums_ = true;
      size.offset += std::log2(std::max(1.0, terms_of(store, loops, values_)));
      sums_ = std::min(sums_, size.most(digits(store.buffer->dtype)));
    }
    Size& known = of_buffer_[store.buffer.get()];
    known = {std::max(known.slope, size.slope), std::max(known.offset, size.offset)};
  }

  Size size_of_value(const ast::Value& v, const std::map<const ast::Value*, Size>& sizes) {
    const auto source = [&](size_t k) { return sizes.at(v.sources[k].get()); };
    const auto larger = [](Size a, Size b, double more) {
      return Size{std::max(a.slope, b.slope), std::max(a.offset, b.offset) + more};
    };
    const auto product = [](Size a, Size b) { return Size{a.slope + b.slope, a.offset + b.offset}; };
    switch (v.op) {
    case Op::Const: {
      const double c = std::fabs(std::get<Scalar>(v.attr).as_float());
      return {0, c > 1 && std::isfinite(c) ? std::log2(c) : 0};
    }
    case Op::Index: return {0, kOfIndices};
    case Op::Load:
    case Op::Gather: {
      const ast::Buffer& buffer = *std::get<ast::LoadAttr>(v.attr).buffer;
      if (const auto known = of_buffer_.find(&buffer); known != of_buffer_.end()) return known->second;
      return is_float(buffer.dtype) ? Size{1, 0} : Size{0, kOfIntegers};
    }
    case Op::Neg:
    case Op::Cast: return source(0);
    case Op::Add:
    case Op::Sub: return larger(source(0), source(1), 1);
    case Op::Max: return larger(source(0), source(1), 0);
    case Op::Where: return larger(source(1), source(2), 0);
    case Op::Mul: return product(source(0), source(1));
    case Op::Fma: return larger(product(source(0), source(1)), source(2), 1);
    case Op::Div:
      if (v.sources[1]->op != Op::Const) is_ring_ = false;
      return source(0);
    default:
      // This includes integer ops: a hash of small integers is not small.
      if (is_float(v.dtype) || (v.op != Op::CmpLt && v.op != Op::CmpNe && v.dtype != DType::Bool))
        is_ring_ = false;
      return {};
    }
  }

  const ShapeValues& values_;
  std::map<const ast::Buffer*, Size> of_buffer_;
  bool is_ring_ = true, has_sums_ = false;
  double sums_ = kMostDigits, half_ = kMostDigits; // powers of two
};

} // namespace

std::vector<unsigned char> test_data(const ast::Buffer& buffer, size_t bytes, const TestRange& range) {
  uint64_t state = mix(hash_text("test data"), static_cast<uint64_t>(buffer.id));
  const auto random = [&] { return state = mix(state, 0x9E37u); };
  // More whole numbers are positive than negative, so that terms which a wrong kernel leaves out seldom add
  // up to 0.
  const auto whole = [&](uint64_t r) {
    const auto size = 1 + static_cast<int64_t>((r >> 8) % static_cast<uint64_t>(range.whole));
    return r & 3 ? size : -size;
  };
  const auto in_range = [&](auto unit) { return range.positive ? 1 - unit : 2 * unit - 1; }; // of [0, 1)
  if (buffer.dtype == DType::F32) { // by far the most common, and large
    std::vector<unsigned char> data(bytes);
    for (size_t at = 0; at + 4 <= bytes; at += 4) {
      const uint64_t r = random();
      const float value = range.whole > 0
                              ? static_cast<float>(whole(r))
                              : in_range(static_cast<float>(static_cast<int64_t>(r >> 40)) * 0x1p-24f);
      std::memcpy(data.data() + at, &value, 4);
    }
    return data;
  }
  return fill(buffer.dtype, bytes, [&](void*) {
    if (is_float(buffer.dtype) && range.whole > 0) return Scalar::of_int(buffer.dtype, whole(random()));
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
      magnifies |= v->op == Op::Log2 || v->op == Op::Sqrt ||
                   (v->op == Op::Div && v->sources[1]->op != Op::Const);
      if (v->op == Op::Gather) index_into(*std::get<ast::LoadAttr>(v->attr).buffer);
    });
  });
  range.positive = sums && magnifies;
  return range;
}

TestRange checking_range(const ast::Kernel& canonical, const ShapeValues& values) {
  TestRange range = test_range(canonical, values);
  range.whole = WholeNumbers(canonical, values).largest();
  return range;
}

double longest_reduction(const ast::Kernel& kernel, const ShapeValues& values) {
  double longest = 1;
  ast::visit(kernel.body, [&](const ast::Stmt& stmt, const std::vector<const ast::For*>& loops) {
    const auto* store = std::get_if<ast::Store>(&stmt.node);
    if (store && store->combine) longest = std::max(longest, terms_of(*store, loops, values));
  });
  return longest;
}

} // namespace lathe::pipeline
