// Functions that move elements, and add zeros, against plain arrays of numbered elements.
#pragma once
#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "support/plain_array.hpp"
#include "support/tensor_values.hpp"

namespace lathe::test {

using Sizes = std::vector<int64_t>;
using Move = std::function<Tensor(const Tensor&)>;

inline Shape shape_of(const Sizes& sizes) { return Shape(sizes.begin(), sizes.end()); }

inline Tensor tensor_of(const PlainArray& x) {
  return Tensor::from(x.values, shape_of(x.shape)).cast(x.dtype);
}

/// 1, 2, 3, ...: each element's own place, and never the 0 of what is added.
inline PlainArray numbered(const Sizes& shape) {
  int64_t next = 0;
  return made(DType::I64, shape, [&](const Place&) { return ++next; });
}

inline void check_equal(const Tensor& got, const PlainArray& want) {
  REQUIRE(to_string(got.shape()) == to_string(shape_of(want.shape)));
  REQUIRE(got.dtype() == want.dtype);
  CHECK(got.cast(DType::I64).to_vector<int64_t>() == want.values);
}

inline std::vector<unsigned char> bytes_of(const Tensor& t) {
  std::vector<unsigned char> out(static_cast<size_t>(t.element_count()) * size_of(t.dtype()));
  t.read(out.data(), t.dtype());
  return out;
}

/// A function that moves elements, and adds zeros, moves those of every dtype as it moves numbers.
inline void check_every_dtype(const Move& move, const Sizes& shape) {
  const PlainArray places = numbered(shape);
  const std::vector<int64_t> from = move(tensor_of(places)).to_vector<int64_t>();
  const std::vector<double> special{-0.0, kNan, kInf, 1, -1.5, -kInf, 3, 1e-3};
  std::vector<double> values;
  for (size_t k = 0; k < places.values.size(); ++k)
    values.push_back(k % 3 ? special[k % special.size()] : static_cast<double>(k % 100));
  for (int d = 0; d < kDTypeCount; ++d) {
    const auto dtype = static_cast<DType>(d);
    CAPTURE(to_string(dtype));
    const Tensor x = Tensor::from(values, shape_of(shape)).cast(dtype).realise(), y = move(x);
    REQUIRE(y.dtype() == dtype);
    const auto in = bytes_of(x), out = bytes_of(y);
    const auto width = static_cast<size_t>(size_of(dtype));
    REQUIRE(out.size() == from.size() * width);
    const std::vector<unsigned char> zero(width);
    for (size_t i = 0; i < from.size(); ++i) {
      const auto* want = from[i] == 0 ? zero.data() : in.data() + static_cast<size_t>(from[i] - 1) * width;
      CHECK_MESSAGE(std::equal(want, want + width, out.data() + i * width), i);
    }
  }
}

/// What a program of one input "x", with a size n, gives for these values.
Tensor run_at(const Tensor& program, const Tensor& x, int64_t n);

} // namespace lathe::test
