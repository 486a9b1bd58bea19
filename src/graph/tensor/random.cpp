// Random numbers as a function of seed and position: the counter-based generator "Squares" (B. Widynski,
// "Squares: A Fast Counter-Based RNG", arXiv:2004.06278), five rounds, 64 bits a draw. The graph computes
// them on the device, in integers up to the last step, so every device draws the same.
#include <numbers>
#include <variant>

#include "core/float_format.hpp"
#include "graph/tensor_impl.hpp"

namespace lathe {
using namespace graph;
namespace {

Tensor u64(uint64_t value) {
  return Tensor::full({}, Scalar::of_int(DType::U64, static_cast<int64_t>(value)));
}

// The functions that draw. Each has a stream of its own, so that its numbers do not follow from those of
// another.
enum class Stream : uint64_t { Uniform, Normal, Integers };

// Spreads bits over 64 (the step of SplitMix64).
uint64_t spread(uint64_t z) {
  z += 0x9E3779B97F4A7C15ull;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

// The key of a stream: the generator wants it odd and without pattern. The seed is spread before the stream
// is added, so that no simple difference of seeds makes two streams the same.
uint64_t key_of(uint64_t seed, Stream stream) {
  return spread(spread(seed) + static_cast<uint64_t>(stream)) | 1;
}

// The same of a seed that only a run knows.
Tensor spread(const Tensor& seed) {
  Tensor z = seed + u64(0x9E3779B97F4A7C15ull);
  z = (z ^ (z >> u64(30))) * u64(0xBF58476D1CE4E5B9ull);
  z = (z ^ (z >> u64(27))) * u64(0x94D049BB133111EBull);
  return z ^ (z >> u64(31));
}

using Seed = std::variant<uint64_t, Tensor>;

Tensor key_of(std::string_view op, const Seed& seed, Stream stream) {
  if (const auto* number = std::get_if<uint64_t>(&seed)) return u64(key_of(*number, stream));
  const Tensor& t = std::get<Tensor>(seed);
  if (!is_integer(t.dtype()))
    fail(ErrorKind::DType, "{}: seed of dtype {}, expected an integer", op, to_string(t.dtype()));
  if (!num_elements(t.shape()).is_const(1))
    fail(ErrorKind::Shape, "{}: seed of shape {}, expected one element", op, to_string(t.shape()));
  const Tensor scalar = t.reshape({}).cast(DType::U64);
  // Stored, so that it is computed once and not for each element.
  return (spread(spread(scalar) + u64(static_cast<uint64_t>(stream))) | u64(1)).contiguous();
}

// 64 random bits for each element.
Tensor draw(std::string_view op, const Shape& shape, const Seed& seed, Stream stream) {
  const Shape flat{num_elements(shape)};
  const Tensor key = key_of(op, seed, stream);
  const auto swap_halves = [](const Tensor& x) { return (x >> u64(32)) | (x << u64(32)); };
  const Tensor y = index_along(0, flat).cast(DType::U64) * key;
  const Tensor z = y + key;
  Tensor x = swap_halves(y * y + y);
  x = swap_halves(x * x + z);
  x = swap_halves(x * x + y);
  const Tensor t = x * x + z;
  x = swap_halves(t);
  return view_op(t ^ ((x * x + y) >> u64(32)), View::contiguous(shape));
}

// A number in [0, 1) from the leading bits: as many as the dtype's significand holds, so that rounding never
// gives 1.
Tensor uniform(const Tensor& bits, DType dtype) {
  const int kept = digits(dtype);
  const DType d = wide(dtype);
  return ((bits >> u64(64 - kept)).cast(d) * number(1.0 / static_cast<double>(uint64_t{1} << kept), d))
      .cast(dtype);
}

void check_float(std::string_view op, DType dtype) {
  if (!is_float(dtype)) fail(ErrorKind::DType, "{}: dtype {}, expected a float", op, to_string(dtype));
}

Tensor uniform_numbers(const Shape& shape, const Seed& seed, DType dtype) {
  check_float("rand", dtype);
  check_shape("rand", shape, DType::U64);
  return uniform(draw("rand", shape, seed, Stream::Uniform), dtype);
}

Tensor normal_numbers(const Shape& shape, const Seed& seed, DType dtype) {
  check_float("randn", dtype);
  check_shape("randn", shape, DType::U64);
  // Box and Muller: a radius from the high half of the bits, an angle from the low one.
  const DType d = wide(dtype);
  const Tensor bits = draw("randn", shape, seed, Stream::Normal), one = number(1, d);
  const Tensor u = uniform(bits, d), v = uniform(bits << u64(32), d);
  const Tensor radius = ((one - u).log() * number(-2, d)).sqrt();
  return (radius * (v * number(2 * std::numbers::pi, d)).cos()).cast(dtype);
}

Tensor whole_numbers(int64_t low, int64_t high, const Shape& shape, const Seed& seed, DType dtype) {
  if (!is_integer(dtype)) fail(ErrorKind::DType, "randint: dtype {}, expected an integer", to_string(dtype));
  check_shape("randint", shape, DType::U64);
  const uint64_t range = static_cast<uint64_t>(high) - static_cast<uint64_t>(low);
  if (low >= high || range > (uint64_t{1} << 32))
    fail(ErrorKind::Value, "randint: from {} to {}, expected 1 to 2^32 different values", low, high);
  for (const int64_t value : {low, high - 1}) check_holds("randint", value, dtype);
  // The upper half of a product of 128 bits scales 64 random bits to the range. A value's chance is off by at
  // most range / 2^64 of itself.
  const Tensor bits = draw("randint", shape, seed, Stream::Integers), times = u64(range);
  const Tensor carried = ((bits & u64(0xFFFFFFFF)) * times) >> u64(32);
  const Tensor scaled = ((bits >> u64(32)) * times + carried) >> u64(32);
  return (scaled.cast(DType::I64) + Tensor::full({}, low)).cast(dtype);
}

} // namespace

Tensor Tensor::rand(const Shape& shape, uint64_t seed, DType dtype) {
  return uniform_numbers(shape, seed, dtype);
}
Tensor Tensor::rand(const Shape& shape, const Tensor& seed, DType dtype) {
  return uniform_numbers(shape, seed, dtype);
}
Tensor Tensor::randn(const Shape& shape, uint64_t seed, DType dtype) {
  return normal_numbers(shape, seed, dtype);
}
Tensor Tensor::randn(const Shape& shape, const Tensor& seed, DType dtype) {
  return normal_numbers(shape, seed, dtype);
}
Tensor Tensor::randint(Whole low, Whole high, const Shape& shape, uint64_t seed, DType dtype) {
  return whole_numbers(low, high, shape, seed, dtype);
}
Tensor Tensor::randint(Whole low, Whole high, const Shape& shape, const Tensor& seed, DType dtype) {
  return whole_numbers(low, high, shape, seed, dtype);
}

} // namespace lathe
