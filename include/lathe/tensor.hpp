// Tensor: a lazy value. Building an expression runs nothing; item(), to_vector(), operator<< and realise() run it on
// the default device, and the tensor then holds its data, so that nothing is computed twice.
//
// A Tensor is a handle: copies are cheap and share the same value. One that was moved from has no value: it may be assigned
// to and destroyed, all else is Error(Value), as for kernels, executables and models. Building graphs is thread-safe. Every function throws
// Error beginning with its own name and giving the shapes, when shapes, dtypes or axes don't fit. Axes may be negative.
// Elementwise functions broadcast as NumPy does and promote dtypes as promote() says. Functions of real numbers take integers
// as f32 (up to 16 bits) or f64, and compute f16 and bf16 in f32, rounding once. Sizes may be 0, as in NumPy, and may hold
// Vars wherever the result's shape can be said for all of their values.
//
//   Tensor a = Tensor::from({1.f, 2.f, 3.f});
//   Tensor y = (a * a).sum();
//   float s = y.item<float>();   // 14
#pragma once
#include <cstring>
#include <initializer_list>
#include <iosfwd>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lathe/arguments.hpp"
#include "lathe/detail/held.hpp"
#include "lathe/dtype.hpp"
#include "lathe/error.hpp"
#include "lathe/expr.hpp"

namespace lathe {

class Tensor;
namespace detail { struct Access; }

/// One part of an index: a position (drops the axis), a slice [start:stop:step] (any of them open, negative as in
/// Python), a new axis, or `...`.
struct Slice {
  std::optional<int64_t> start, stop;
  int64_t step = 1;
};
struct NewAxis {};   ///< in an index: a new axis of size 1
struct Ellipsis {};  ///< in an index: all axes that the other items leave
struct IndexItem {
  enum class Kind { Position, Slice, NewAxis, Ellipsis } kind;
  int64_t position = 0;
  Slice slice;
  template <WholeNumber T> IndexItem(T p) : kind(Kind::Position), position(Whole(p)) {}
  IndexItem(Slice s) : kind(Kind::Slice), slice(s) {}
  IndexItem(NewAxis) : kind(Kind::NewAxis) {}
  IndexItem(Ellipsis) : kind(Kind::Ellipsis) {}
};

/// Of convolutions and pooling, one number per spatial axis; a single number stands for all of them.
struct ConvOptions {
  std::vector<int64_t> stride{1}, padding{0}, dilation{1};
  int64_t groups = 1;
  std::vector<int64_t> output_padding{0};  // transposed convolution only
};
struct PoolOptions {
  std::vector<int64_t> stride{};           // empty: the kernel's size
  std::vector<int64_t> padding{0}, dilation{1};
  bool count_include_pad = true;           // average pooling only
  bool ceil_mode = false;
};

class [[nodiscard]] Tensor {
 public:
  Tensor();  // the f32 scalar 0

  // ---- creation ----
  template <class T> static Tensor from(std::initializer_list<T> values) { return from(std::vector<T>(values)); }
  template <class T> static Tensor from(const std::vector<T>& values) {
    return from(values, {Expr(static_cast<int64_t>(values.size()))});
  }
  /// Copies values in row-major order. Error(Shape) unless their number fits the (static) shape.
  template <class T> static Tensor from(const std::vector<T>& values, const Shape& shape) {
    if constexpr (std::is_same_v<T, bool>) {
      std::vector<unsigned char> bytes(values.begin(), values.end());
      return from_memory(bytes.data(), bytes.size(), DType::Bool, shape);
    } else {
      return from_memory(values.data(), values.size(), dtype_of<T>(), shape);
    }
  }
  template <class T> static Tensor from(std::span<T> values) { return from(values, {Expr(values.size())}); }
  template <class T> static Tensor from(std::span<T> values, const Shape& shape) {
    return from_memory(values.data(), values.size(), dtype_of<std::remove_const_t<T>>(), shape);
  }
  /// Rows, and planes of rows: `from({{1.f, 2.f}, {3.f, 4.f}})`. Error(Shape) unless all have one length.
  template <class T> static Tensor from(std::initializer_list<std::initializer_list<T>> rows);
  template <class T> static Tensor from(std::initializer_list<std::initializer_list<std::initializer_list<T>>> planes);
  /// As from(); the elements of narrow dtypes are packed, as dtype.hpp says.
  static Tensor from_memory(const void* values, size_t count, DType dtype, const Shape& shape);
  /// The values that `memory` points to, in place: it is kept while anything needs it, and may not change. Copied where it does
  /// not begin at a multiple of 128 bytes. Bools have to be 0 or 1. Error(Shape) unless the shape is static.
  static Tensor from_shared(std::shared_ptr<const void> memory, DType dtype, const Shape& shape);
  /// A program's input, bound by name at each call of the Executable. Error(Name) unless the name is an identifier.
  static Tensor input(const std::string& name, const Shape& shape, DType dtype = DType::F32);
  template <class T> static Tensor full(const Shape& shape, T value) { return full(shape, scalar_of(value)); }
  static Tensor full(const Shape& shape, Scalar value);
  static Tensor zeros(const Shape& shape, DType dtype = DType::F32);
  static Tensor ones(const Shape& shape, DType dtype = DType::F32);
  template <class T> requires(!std::is_convertible_v<T, Expr> || std::is_arithmetic_v<T>) static Tensor scalar(T value) {
    return full({}, value);
  }
  /// What an integer of shape variables is at each call: `x.sum(0) / Tensor::scalar(n)`. Error(DType) unless an integer dtype.
  static Tensor scalar(Expr value, DType dtype = DType::I64);
  /// start, start + step, ... before stop; no elements if stop does not come after start. Error(Value) for values that the dtype
  /// does not hold.
  static Tensor arange(Whole start, Whole stop, Whole step = 1, DType dtype = DType::I64);
  static Tensor arange(Whole stop) { return arange(0, stop); }
  /// Each element's own index along an axis. Along the only axis of {n} it is arange of a symbolic n. Error(DType) for bool.
  static Tensor iota(const Shape& shape, Axis axis, DType dtype = DType::I64);
  /// `count` values from start to stop, both included.
  static Tensor linspace(double start, double stop, Whole count, DType dtype = DType::F32);
  /// 1 where row == column; tri: 1 where column <= row + diagonal. Else 0.
  static Tensor eye(int64_t rows, int64_t columns = -1, DType dtype = DType::F32);
  static Tensor tri(int64_t rows, int64_t columns, int64_t diagonal = 0, DType dtype = DType::F32);
  /// Uniform in [0, 1) and standard normal, from a counter-based generator: element k depends on the function, seed and k
  /// alone, so the same seed gives the same numbers on every device. rand, randn and randint of one seed are independent;
  /// one function's numbers of different dtypes are made of the same bits.
  static Tensor rand(const Shape& shape, uint64_t seed, DType dtype = DType::F32);
  static Tensor randn(const Shape& shape, uint64_t seed, DType dtype = DType::F32);
  /// Uniform in [low, high), of at most 2^32 different values, all of them the dtype's; a value's chance is off by less than one
  /// part in 2^32.
  static Tensor randint(Whole low, Whole high, const Shape& shape, uint64_t seed, DType dtype = DType::I64);
  /// As above with the seed's value at run time, so that a compiled program draws fresh numbers. Error(Shape) unless the seed has
  /// one element, Error(DType) unless an integer.
  static Tensor rand(const Shape& shape, const Tensor& seed, DType dtype = DType::F32);
  static Tensor randn(const Shape& shape, const Tensor& seed, DType dtype = DType::F32);
  static Tensor randint(Whole low, Whole high, const Shape& shape, const Tensor& seed, DType dtype = DType::I64);

  // ---- description ----
  const Shape& shape() const;
  Expr size(Axis axis) const;
  int rank() const;
  DType dtype() const;
  /// Names of the inputs that the value depends on, sorted; with none, it can be realised.
  std::vector<std::string> inputs() const;

  // ---- values (run on the default device; shapes must be static and no named input may be left) ----
  const Tensor& realise() const;
  /// Row-major. Error(DType) unless T is the dtype's type: of narrow integers int8_t or uint8_t, of narrow floats float.
  template <class T> std::vector<T> to_vector() const {
    static_assert(!std::is_same_v<T, bool>, "read bool tensors as uint8_t");
    std::vector<T> out(element_count());
    read(out.data(), std::is_same_v<T, uint8_t> && dtype() == DType::Bool ? DType::Bool : dtype_of<T>());
    return out;
  }
  template <class T> T item() const {  // Error(Shape) unless there is one element; converts to T
    if constexpr (std::is_floating_point_v<T>) return static_cast<T>(item_scalar().as_float());
    else return static_cast<T>(item_scalar().as_int());
  }
  /// The values in place, row-major, after realising them: valid while a copy of the tensor lives. Error(DType) as to_vector,
  /// and for narrow dtypes, which have no C++ type.
  template <class T> std::span<const T> data() const& {
    return {static_cast<const T*>(memory(std::is_same_v<T, uint8_t> && dtype() == DType::Bool ? DType::Bool : dtype_of<T>())),
            static_cast<size_t>(element_count())};
  }
  template <class T> std::span<const T> data() && = delete;
  Scalar item_scalar() const;
  int64_t element_count() const;
  /// Copies the values as `as`, which is dtype() or, of a narrow dtype, what to_vector takes. As dtype() these are packed.
  void read(void* out, DType as) const;

  // ---- elementwise ----
  // docs/numbers.md states the errors and the derivatives. exp and what is made of it have, where a schedule stores what exp is
  // taken of, a relative error up to |x| * 6e-8 in f32 (1.1e-16 in f64).
  // erf: absolute error 1e-7 (1e-15 in f64). round: half to even. abs of -0 is 0.
  Tensor neg() const; Tensor abs() const; Tensor sign() const; Tensor square() const; Tensor sqrt() const; Tensor rsqrt() const;
  Tensor reciprocal() const; Tensor exp() const; Tensor exp2() const; Tensor log() const; Tensor log2() const;
  Tensor log10() const; Tensor log1p() const; Tensor expm1() const;
  Tensor sin() const; Tensor cos() const; Tensor tan() const; Tensor sinh() const; Tensor cosh() const; Tensor tanh() const;
  Tensor asin() const; Tensor acos() const; Tensor atan() const; Tensor asinh() const; Tensor acosh() const; Tensor atanh() const;
  Tensor erf() const; Tensor floor() const; Tensor ceil() const; Tensor trunc() const; Tensor round() const;  // half to even
  Tensor relu() const; Tensor leaky_relu(double slope = 0.01) const; Tensor elu(double alpha = 1.0) const;
  Tensor sigmoid() const; Tensor silu() const; Tensor softplus() const; Tensor hardswish() const;
  Tensor gelu(Flag tanh_approximation = false) const;
  Tensor isnan() const; Tensor isinf() const; Tensor isfinite() const; Tensor logical_not() const; Tensor bitwise_not() const;
  /// Error(Value) for a NaN bound, none at all, or low > high.
  Tensor clamp(std::optional<double> low, std::optional<double> high) const;
  Tensor cast(DType dtype) const; Tensor bitcast(DType dtype) const; Tensor contiguous() const;
  /// As cast; `how` is of narrow floats alone. Narrow integers take the low bits of what I32 gives of a number, as ONNX does.
  Tensor cast(DType dtype, NarrowCast how) const;

  // ---- reductions; no axes: all of them. Of no elements: sum 0, prod 1, max -infinity, min infinity, mean NaN, any false, all true;
  // max and min of integers, argmax and argmin are Error(Value) ----
  Tensor sum(const Axes& axes = {}, Flag keepdim = false) const;   // bool and small integers sum in i64, unsigned in u64
  Tensor prod(const Axes& axes = {}, Flag keepdim = false) const;
  Tensor max(const Axes& axes = {}, Flag keepdim = false) const;
  Tensor min(const Axes& axes = {}, Flag keepdim = false) const;
  Tensor mean(const Axes& axes = {}, Flag keepdim = false) const;  // integers give f64
  Tensor var(const Axes& axes = {}, Whole correction = 0, Flag keepdim = false) const;
  Tensor std(const Axes& axes = {}, Whole correction = 0, Flag keepdim = false) const;
  Tensor any(const Axes& axes = {}, Flag keepdim = false) const;
  Tensor all(const Axes& axes = {}, Flag keepdim = false) const;
  /// The bits that any element has, or all have, of integers and bool: of no elements no bits, or all.
  Tensor any_bits(const Axes& axes = {}, Flag keepdim = false) const;
  Tensor all_bits(const Axes& axes = {}, Flag keepdim = false) const;
  Tensor argmax(std::optional<Axis> axis = {}, Flag keepdim = false) const;  // i64; the lowest index on ties; NaN wins
  Tensor argmin(std::optional<Axis> axis = {}, Flag keepdim = false) const;
  /// Along one axis (or all, of logsumexp), subtracting the maximum first. cumsum: dtype as sum.
  Tensor logsumexp(const Axes& axes, Flag keepdim = false) const;
  Tensor softmax(Axis axis) const;
  Tensor log_softmax(Axis axis) const;
  Tensor cumsum(Axis axis) const;
  /// dtype as prod. Factors are multiplied in blocks: a block's product may overflow where factor by factor would not.
  Tensor cumprod(Axis axis) const;
  /// NaN stays, from the first one on. Equal extremes share the derivative, not always evenly.
  Tensor cummax(Axis axis) const;
  Tensor cummin(Axis axis) const;
  /// Stable; NaN counts as the largest. n^2 comparisons along the axis up to 1,024 elements and where its size is a symbol, else by
  /// digits: a pass over the axis for each two bits. topk: largest (or smallest) first; ties by index.
  Tensor sort(Axis axis = -1, Flag descending = false) const;
  Tensor argsort(Axis axis = -1, Flag descending = false) const;
  std::pair<Tensor, Tensor> topk(Whole k, Axis axis = -1, Flag largest = true) const;  // values, i64 indices

  // ---- movement ----
  Tensor reshape(const Shape& shape) const;   // one size may be -1
  Tensor flatten(Axis start = 0, Axis end = -1) const;
  Tensor permute(const Axes& axes) const;
  Tensor transpose(Axis a = -2, Axis b = -1) const;
  Tensor expand(const Shape& shape) const;    // -1 keeps a size; new axes in front
  Tensor squeeze(std::optional<Axis> axis = {}) const;
  Tensor unsqueeze(Axis axis) const;
  Tensor pad(const std::vector<std::pair<int64_t, int64_t>>& before_after, double value = 0) const;
  /// The part from begin up to end of each axis; with variables, one that is there for all of their values.
  Tensor shrink(const std::vector<std::pair<Expr, Expr>>& begin_end) const;
  Tensor flip(const Axes& axes) const;
  Tensor roll(Whole shift, Axis axis) const;
  Tensor repeat(const std::vector<int64_t>& counts) const;   // tiles the whole, as NumPy's tile
  Tensor index(const std::vector<IndexItem>& items) const;   // x.index({0, Slice{1, {}, 2}, Ellipsis{}})
  Tensor operator[](IndexItem item) const { return index({item}); }
  template <class... Items> Tensor operator()(const Items&... items) const { return index({IndexItem(items)...}); }
  /// out[..., w, ..., k] = in[..., w * step + k * dilation, ...].
  Tensor window(Axis axis, int64_t size, int64_t step = 1, int64_t dilation = 1) const;  // windows in a new last axis
  /// Parts of the sizes of a list, or parts of one size, the last of which may be smaller.
  std::vector<Tensor> split(const std::vector<int64_t>& sizes, Axis axis = 0) const;
  template <WholeNumber T> std::vector<Tensor> split(T size, Axis axis = 0) const { return split_evenly(Whole(size), axis); }
  // Indices are integers; negative ones count from the end; what they miss reads as 0 and is not written.
  Tensor gather(Axis axis, const Tensor& index) const;        // as torch.gather
  Tensor take(const Tensor& index, Axis axis = 0) const;      // as numpy.take: rows at indices
  /// A copy with source put at index (of equal shapes) along the axis, as torch.scatter, of doubled places the last in row-major
  /// order; or combined with what is there: added, multiplied, the larger or smaller kept. Error(DType) for bool and narrow dtypes
  /// that would be combined.
  Tensor scatter_add(Axis axis, const Tensor& index, const Tensor& source) const;
  Tensor scatter_mul(Axis axis, const Tensor& index, const Tensor& source) const;
  Tensor scatter_max(Axis axis, const Tensor& index, const Tensor& source) const;
  Tensor scatter_min(Axis axis, const Tensor& index, const Tensor& source) const;
  Tensor scatter(Axis axis, const Tensor& index, const Tensor& source) const;

  // ---- linear algebra and layers ----
  /// Batched and broadcast as NumPy's matmul; vectors as there. Half precision accumulates in f32.
  Tensor matmul(const Tensor& other) const;
  Tensor dot(const Tensor& other) const { return matmul(other); }
  /// weight and bias have the shape of the axes (of batch_norm, group_norm: of axis 1).
  Tensor layer_norm(const Axes& axes, const std::optional<Tensor>& weight = {}, const std::optional<Tensor>& bias = {}, double eps = 1e-5) const;
  Tensor rms_norm(const Axes& axes, const std::optional<Tensor>& weight = {}, double eps = 1e-5) const;
  Tensor batch_norm(const Tensor& mean, const Tensor& var, const std::optional<Tensor>& weight = {}, const std::optional<Tensor>& bias = {}, double eps = 1e-5) const;  // axis 1
  Tensor group_norm(int64_t groups, const std::optional<Tensor>& weight = {}, const std::optional<Tensor>& bias = {}, double eps = 1e-5) const;
  /// [N, C, spatial...] with weight [O, C / groups, kernel...] and bias [O], cross-correlated as PyTorch's; conv_transpose2d has
  /// weight [C, O / groups, kernel...]. Error(Shape) where a kernel doesn't fit.
  Tensor conv1d(const Tensor& weight, const std::optional<Tensor>& bias = {}, const ConvOptions& options = {}) const;
  Tensor conv2d(const Tensor& weight, const std::optional<Tensor>& bias = {}, const ConvOptions& options = {}) const;
  Tensor conv3d(const Tensor& weight, const std::optional<Tensor>& bias = {}, const ConvOptions& options = {}) const;
  Tensor conv_transpose2d(const Tensor& weight, const std::optional<Tensor>& bias = {}, const ConvOptions& options = {}) const;
  /// [C, H, W] or [N, C, H, W]. Max pooling pads with -infinity (integers: the lowest).
  Tensor max_pool2d(const std::vector<int64_t>& kernel, const PoolOptions& options = {}) const;
  Tensor avg_pool2d(const std::vector<int64_t>& kernel, const PoolOptions& options = {}) const;

  template <class T> static Scalar scalar_of(T v) {
    if constexpr (std::is_floating_point_v<T>) return Scalar::of_float(dtype_of<T>(), v);
    else return Scalar::of_int(dtype_of<T>(), static_cast<int64_t>(v));
  }

  struct Impl;

 private:
  friend struct detail::Access;
  const void* memory(DType as) const;
  const void* values(const char* function, DType as) const;
  static Tensor from_parts(const std::vector<Tensor>& parts);  // of equal shapes, along a new first axis
  explicit Tensor(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
  std::vector<Tensor> split_evenly(int64_t size, Axis axis) const;

  detail::Held<Impl, detail::Holder::Tensor> impl_;
};

template <class T> Tensor Tensor::from(std::initializer_list<std::initializer_list<T>> rows) {
  std::vector<Tensor> all;
  for (const auto& row : rows) all.push_back(from(row));
  return from_parts(all);
}
template <class T> Tensor Tensor::from(std::initializer_list<std::initializer_list<std::initializer_list<T>>> planes) {
  std::vector<Tensor> all;
  for (const auto& rows : planes) all.push_back(from(rows));
  return from_parts(all);
}

Tensor operator+(const Tensor&, const Tensor&);
Tensor operator-(const Tensor&, const Tensor&);
Tensor operator*(const Tensor&, const Tensor&);
Tensor operator/(const Tensor&, const Tensor&);   // true division: integers give f64 (f32 if their common dtype has at most 16 bits)
Tensor operator%(const Tensor&, const Tensor&);   // floor modulo, as NumPy; of floats exact but for one sum
Tensor operator-(const Tensor&);
Tensor operator<(const Tensor&, const Tensor&);
Tensor operator<=(const Tensor&, const Tensor&);
Tensor operator>(const Tensor&, const Tensor&);
Tensor operator>=(const Tensor&, const Tensor&);
Tensor operator==(const Tensor&, const Tensor&);  // elementwise, a bool tensor
Tensor operator!=(const Tensor&, const Tensor&);
Tensor operator&(const Tensor&, const Tensor&);
Tensor operator|(const Tensor&, const Tensor&);
Tensor operator^(const Tensor&, const Tensor&);
Tensor operator<<(const Tensor&, const Tensor&);
Tensor operator>>(const Tensor&, const Tensor&);
/// A C++ number beside a tensor takes the tensor's dtype if that can hold its kind (NumPy 2's weak scalars): f32 * 2.0 is f32,
/// i32 + 1 is i32, i32 * 0.5 is f64, bool & true is bool. Error(Value) for an integer that an integer dtype does not hold
/// (u8 + 300), where `op` names the function.
Tensor weak(Number value, DType beside, std::string_view op = "number");
/// Compares with the number itself, whether or not an integer dtype holds it: u8 < 300 is true, i64 == 0.5 is false. Beside
/// floats it is rounded to their dtype.
enum class Comparison { Less, LessEqual, Greater, GreaterEqual, Equal, NotEqual };
Tensor compare(const Tensor& a, Comparison how, Number b);
#define LATHE_WITH_NUMBER(op)                                                                              \
  template <class T> requires std::is_arithmetic_v<T> Tensor operator op(const Tensor& a, T b) {           \
    return a op weak(b, a.dtype(), "operator" #op);                                                        \
  }                                                                                                        \
  template <class T> requires std::is_arithmetic_v<T> Tensor operator op(T a, const Tensor& b) {           \
    return weak(a, b.dtype(), "operator" #op) op b;                                                        \
  }
LATHE_WITH_NUMBER(+) LATHE_WITH_NUMBER(-) LATHE_WITH_NUMBER(*) LATHE_WITH_NUMBER(/) LATHE_WITH_NUMBER(%)
LATHE_WITH_NUMBER(&) LATHE_WITH_NUMBER(|) LATHE_WITH_NUMBER(^) LATHE_WITH_NUMBER(<<) LATHE_WITH_NUMBER(>>)
#undef LATHE_WITH_NUMBER
#define LATHE_COMPARE_NUMBER(op, how, mirrored)                                                            \
  template <class T> requires std::is_arithmetic_v<T> Tensor operator op(const Tensor& a, T b) {           \
    return compare(a, Comparison::how, b);                                                                 \
  }                                                                                                        \
  template <class T> requires std::is_arithmetic_v<T> Tensor operator op(T a, const Tensor& b) {           \
    return compare(b, Comparison::mirrored, a);                                                            \
  }
LATHE_COMPARE_NUMBER(<, Less, Greater) LATHE_COMPARE_NUMBER(<=, LessEqual, GreaterEqual)
LATHE_COMPARE_NUMBER(>, Greater, Less) LATHE_COMPARE_NUMBER(>=, GreaterEqual, LessEqual)
LATHE_COMPARE_NUMBER(==, Equal, Equal) LATHE_COMPARE_NUMBER(!=, NotEqual, NotEqual)
#undef LATHE_COMPARE_NUMBER

Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b);
Tensor maximum(const Tensor& a, const Tensor& b);
Tensor minimum(const Tensor& a, const Tensor& b);
/// As C's pow, with its values at zeros, infinities and NaN. Floats: constant whole exponents from -16 to 16 multiply, 0.5 is a
/// square root; docs/numbers.md states the errors. Integers wrap; a negative exponent gives the inverse rounded towards zero.
Tensor pow(const Tensor& a, const Tensor& b);
/// The largest whole number below a / b, of floats as NumPy's floor_divide: by 0 it is a / b. No derivative passes.
Tensor floor_divide(const Tensor& a, const Tensor& b);
Tensor logical_and(const Tensor& a, const Tensor& b);
Tensor logical_or(const Tensor& a, const Tensor& b);
Tensor concat(const std::vector<Tensor>& tensors, Axis axis = 0);
Tensor stack(const std::vector<Tensor>& tensors, Axis axis = 0);
/// NumPy's einsum, with or without "->", repeated labels (diagonals) and "...". Contracts from left to right.
Tensor einsum(const std::string& equation, const std::vector<Tensor>& operands);
/// softmax(q k^T * scale + mask) v over [..., tokens, features]; scale defaults to 1/sqrt(features); causal masks the future.
Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v, const std::optional<Tensor>& mask = {},
                                    Flag causal = false, std::optional<double> scale = {});

/// Realises and prints the values: one row a line, a blank line between matrices. Of more than 1,000 elements, the first and last
/// three along each axis.
std::ostream& operator<<(std::ostream&, const Tensor&);

}  // namespace lathe
