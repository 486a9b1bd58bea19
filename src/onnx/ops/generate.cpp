// Ops that make tensors from little: constants, ranges, shapes and random numbers.
#include <bit>

#include "onnx/integers.hpp"
#include "onnx/ops/broadcast.hpp"
#include "onnx/ops/tables.hpp"
#include "onnx/ops/values.hpp"

namespace lathe::onnx {
namespace {

/// Longer ranges are data, not sizes or axes.
constexpr int64_t kKnownElements = 64;

std::vector<Expr> exprs(const std::vector<int64_t>& values) { return {values.begin(), values.end()}; }
Shape of_size(size_t size) { return {Expr(static_cast<int64_t>(size))}; }

std::vector<Value> constant(Call& call) {
  if (call.has_attribute("value")) return {call.constant("value")};
  if (call.has_attribute("sparse_value")) return {call.constant("sparse_value")};
  if (call.has_attribute("value_int")) return {known_integer(call.integer("value_int"))};
  if (call.has_attribute("value_float"))
    return {Tensor::scalar(static_cast<float>(call.number("value_float")))};
  if (call.has_attribute("value_ints")) {
    const std::vector<int64_t> values = call.integers("value_ints");
    return {known_integers(exprs(values), of_size(values.size()))};
  }
  if (call.has_attribute("value_floats")) {
    const std::vector<double> values = call.numbers("value_floats");
    return {Tensor::from(values).cast(DType::F32)};
  }
  if (call.has_attribute("value_string")) return {Value::strings({call.text("value_string")}, Shape{})};
  if (call.has_attribute("value_strings")) return {Value::strings(call.texts("value_strings"))};
  call.fail(ErrorKind::Value, "no value, expected a tensor, numbers or strings");
}

std::vector<Value> constant_of_shape(Call& call) {
  const Value fill = call.has_attribute("value") ? call.constant("value") : Value(Tensor::scalar(0.f));
  if (!num_elements(fill.shape()).is_const(1))
    call.fail(ErrorKind::Shape, "value of shape " + to_string(fill.shape()) + ", expected one element");
  const Shape shape = call.value(0).is_empty() ? Shape{} : call.sizes(0);
  return {fill.tensor().reshape({}).expand(shape)};
}

/// How many numbers there are from start to limit, as an i64 scalar.
Tensor range_count(const Tensor& start, const Tensor& limit, const Tensor& delta) {
  if (is_float(start.dtype()))
    return ((limit.cast(DType::F64) - start.cast(DType::F64)) / delta.cast(DType::F64))
        .ceil()
        .cast(DType::I64);
  const Tensor distance = limit.cast(DType::I64) - start.cast(DType::I64);
  return floor_divide(distance, delta.cast(DType::I64).neg()).neg();
}

/// Of a range from start by delta, where all three are known and the steps are whole.
std::optional<Value> known_range(const Value& start, const Value& limit, const Value& delta) {
  const auto known = [](const Value& value) -> std::optional<Expr> {
    if (value.integers()) return value.integers()->front();
    const std::optional<int64_t> whole = whole_number(value);
    return whole ? std::optional<Expr>(*whole) : std::nullopt;
  };
  const std::optional<Expr> from = known(start), to = known(limit), by = known(delta);
  if (!from || !to || !by) return {};
  const Expr first = *from, last = *to, step = *by;
  if (!step.is_const() || step.is_const(0)) return {};
  const Expr count = step.value() > 0 ? ceildiv(last - first, step) : ceildiv(first - last, -step);
  if (count.hi() <= 0) return Tensor::zeros({0}, start.dtype());
  if (count.lo() < 1) return {};
  if (count.is_const() && count.value() <= kKnownElements) {
    std::vector<Expr> values;
    for (int64_t i = 0; i < count.value(); ++i) values.push_back(first + step * i);
    return known_integers(values, {count}, start.dtype());
  }
  return Value(start.tensor().reshape({}) +
               Tensor::iota({count}, 0).cast(start.dtype()) * delta.tensor().reshape({}));
}

std::vector<Value> range(Call& call) {
  if (call.integer("stash_type", 1) != 1) // since opset 27
    call.fail(ErrorKind::Value, "stash_type " + std::to_string(call.integer("stash_type")) +
                                    ", expected 1: halves are computed in f32");
  const DType dtype = call.value(0).dtype();
  const Value delta = call.has(2) ? call.value(2) : known_integer(1, dtype); // only com.microsoft lacks it
  if (auto known = known_range(call.value(0), call.value(1), delta)) return {*known};
  if (delta.integers() && delta.integers()->front().is_const(0))
    call.fail(ErrorKind::Value, "delta 0, expected a step");
  const auto scalar = [&](size_t input) { return call.tensor(input).reshape({}); };
  const Tensor step = delta.tensor().reshape({});
  const Expr count = call.look_at_sizes(range_count(scalar(0), scalar(1), step)).front();
  const DType wide = at_least_single(dtype);
  if (count.hi() < 1) return {Tensor::zeros({0}, dtype)};
  return {(scalar(0).cast(wide) + Tensor::iota({count}, 0).cast(wide) * step.cast(wide)).cast(dtype)};
}

std::vector<Value> eye_like(Call& call) {
  const Value like = call.value(0);
  const DType dtype = call.dtype("dtype", like.dtype());
  const int64_t diagonal = call.integer("k", 0);
  if (like.rank() != 2)
    call.fail(ErrorKind::Shape, "shape " + to_string(like.shape()) + ", expected a matrix");
  return {(Tensor::iota(like.shape(), 1) == Tensor::iota(like.shape(), 0) + diagonal).cast(dtype)};
}

std::vector<Value> shape(Call& call) {
  const Shape sizes = call.value(0).shape();
  const int64_t rank = static_cast<int64_t>(sizes.size());
  const auto position = [&](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + rank : at, 0, rank); };
  const int64_t start = position(call.integer("start", 0)), end = position(call.integer("end", rank));
  const Shape part(sizes.begin() + start, sizes.begin() + std::max(start, end));
  return {known_integers(part, of_size(part.size()))};
}

std::vector<Value> size(Call& call) { return {known_integer(num_elements(call.value(0).shape()))}; }

/// ONNX leaves the numbers of a node without a seed open. They come from its name, so that two nodes differ
/// and a model always gives the same.
uint64_t seed_of(const Call& call) {
  if (call.has_attribute("seed")) return std::bit_cast<uint64_t>(call.number("seed"));
  uint64_t seed = 0;
  for (const char c : call.node()) seed = seed * 31 + static_cast<unsigned char>(c);
  return seed;
}

Shape shape_attribute(const Call& call) {
  const std::vector<int64_t> sizes = call.integers("shape");
  return {sizes.begin(), sizes.end()};
}

/// `draw` makes standard numbers, which are scaled before the one rounding to a half-precision dtype.
std::vector<Value> random(const Call& call, const Shape& shape, DType dtype,
                          Tensor (*draw)(const Shape&, uint64_t, DType), double scale, double shift) {
  if (!is_float(dtype)) call.fail(ErrorKind::DType, std::string(to_string(dtype)) + ", expected a float");
  const uint64_t seed = seed_of(call);
  const DType wide = dtype == DType::F64 ? DType::F64 : DType::F32;
  return {(draw(shape, seed, wide) * scale + shift).cast(dtype)};
}

std::vector<Value> normal(const Call& call, const Shape& shape, DType dtype) {
  return random(call, shape, dtype, &Tensor::randn, call.number("scale", 1), call.number("mean", 0));
}
std::vector<Value> uniform(const Call& call, const Shape& shape, DType dtype) {
  const double low = call.number("low", 0), high = call.number("high", 1);
  return random(call, shape, dtype, &Tensor::rand, high - low, low);
}

std::vector<Value> random_normal(Call& call) {
  return normal(call, shape_attribute(call), call.dtype("dtype", DType::F32));
}
std::vector<Value> random_normal_like(Call& call) {
  const Value like = call.value(0);
  return normal(call, like.shape(), call.dtype("dtype", like.dtype()));
}
std::vector<Value> random_uniform(Call& call) {
  return uniform(call, shape_attribute(call), call.dtype("dtype", DType::F32));
}
std::vector<Value> random_uniform_like(Call& call) {
  const Value like = call.value(0);
  return uniform(call, like.shape(), call.dtype("dtype", like.dtype()));
}

std::vector<Value> bernoulli(Call& call) {
  const Tensor chance = call.tensor(0);
  const DType dtype = call.dtype("dtype", chance.dtype());
  const DType wide = chance.dtype() == DType::F64 ? DType::F64 : DType::F32;
  return {(Tensor::rand(chance.shape(), seed_of(call), wide) < chance.cast(wide)).cast(dtype)};
}

std::vector<Value> multinomial(Call& call) {
  const Tensor scores = call.tensor(0);
  const int64_t samples = call.integer("sample_size", 1);
  const DType dtype = call.dtype("dtype", DType::I32);
  if (scores.rank() != 2)
    call.fail(ErrorKind::Shape, "shape " + to_string(scores.shape()) + ", expected [batch, classes]");
  // A class is drawn as the number of classes whose cumulative chance lies below a uniform number. Rounding
  // may leave the last chance below 1, which must not count.
  const DType wide = scores.dtype() == DType::F64 ? DType::F64 : DType::F32;
  const Tensor cumulative = scores.cast(wide).softmax(1).cumsum(1).unsqueeze(1);
  const Tensor drawn = Tensor::rand({scores.size(0), samples, 1}, seed_of(call), wide);
  const Tensor below = (cumulative <= drawn).sum(2);
  const Tensor last = Tensor::iota(scores.shape(), 1).max();
  return {minimum(below, last).cast(dtype)};
}

const OpRow kGenerateOps[] = {
    {"Constant", 1, constant},
    {"ConstantOfShape", 9, constant_of_shape},
    {"Range", 11, range},
    {"Range", 1, range, "com.microsoft", 3},
    {"EyeLike", 9, eye_like},
    {"Shape", 1, shape},
    {"Size", 1, size},
    {"RandomNormal", 1, random_normal},
    {"RandomNormalLike", 1, random_normal_like},
    {"RandomUniform", 1, random_uniform},
    {"RandomUniformLike", 1, random_uniform_like},
    {"Bernoulli", 15, bernoulli},
    {"Multinomial", 7, multinomial},
};

} // namespace

OpTable generate_ops() { return kGenerateOps; }

} // namespace lathe::onnx
