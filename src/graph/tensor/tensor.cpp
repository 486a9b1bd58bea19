// Tensor: representation, creation and reading values.
#include "lathe/tensor.hpp"

#include <cstring>
#include <set>

#include "graph/narrow.hpp"
#include "graph/realise.hpp"
#include "graph/tensor_impl.hpp"
#include "lathe/detail/access.hpp"

namespace lathe {
using namespace graph;

NodeRef Tensor::Impl::locked_node() const {
  if (!node_) node_ = node_of(packed(dtype, wrap(codes_)));
  return node_;
}

NodeRef Tensor::Impl::node() const {
  std::lock_guard lock(mutex_);
  return locked_node();
}

NodeRef Tensor::Impl::codes() const {
  std::lock_guard lock(mutex_);
  return codes_;
}

NodeRef Tensor::Impl::origin() const {
  std::lock_guard lock(mutex_);
  return origin_ ? origin_ : locked_node();
}

NodeRef Tensor::Impl::realise(std::string_view op) {
  std::lock_guard lock(mutex_);
  const NodeRef before = locked_node();
  NodeRef made = graph::realise(op, before);
  if (made == before) return made;
  origin_ = without_data({before}).outputs[0];
  node_ = std::move(made);
  if (codes_) codes_ = node_of(unpacked(dtype, wrap(node_), shape));
  return node_;
}

NodeRef graph::node_of(const Tensor& t) {
  if (is_narrow(t.dtype()))
    fail(ErrorKind::DType,
         "dtype {} is only stored, expected a cast to a dtype that is computed with, such as {}",
         to_string(t.dtype()), to_string(read_as(t.dtype())));
  return detail::impl(t)->node();
}

Tensor::Tensor() : Tensor(full({}, 0.0f)) {}

const Shape& Tensor::shape() const { return impl_->shape; }
int Tensor::rank() const { return static_cast<int>(impl_->shape.size()); }
DType Tensor::dtype() const { return impl_->dtype; }
Expr Tensor::size(Axis axis) const { return impl_->shape[resolve_axis("size", axis, rank())]; }

std::vector<std::string> Tensor::inputs() const {
  std::set<std::string> names;
  for (const NodeRef& node : topological_order({impl_->node()}))
    if (const auto* input = std::get_if<InputAttr>(&node->attr); input && !input->data)
      names.insert(input->name);
  return {names.begin(), names.end()};
}

// ---- creation ----

namespace {

/// The number of elements. Error(Shape) if the shape has variables, as data can't have such a shape.
int64_t element_count_of(const Shape& shape, DType dtype) {
  check_shape("from", shape, dtype);
  if (!is_static(shape))
    fail(ErrorKind::Shape, "from: shape {} has variables, expected a static one", to_string(shape));
  return num_elements(shape).value();
}

} // namespace

Tensor Tensor::from_memory(const void* values, size_t count, DType dtype, const Shape& shape) {
  const int64_t expected = element_count_of(shape, dtype);
  if (static_cast<int64_t>(count) != expected)
    fail(ErrorKind::Shape, "from: {} values for shape {}, expected {}", count, to_string(shape), expected);
  if (count > 0 && !values) fail(ErrorKind::Value, "from: null, expected the memory of {} values", count);
  const auto bytes = static_cast<size_t>(bytes_of(dtype, expected));
  StorageRef data = Storage::allocate(bytes);
  if (count > 0) std::memcpy(data->data(), values, bytes);
  return of_data(std::move(data), dtype, shape);
}

Tensor Tensor::from_shared(std::shared_ptr<const void> memory, DType dtype, const Shape& shape) {
  const auto bytes = static_cast<size_t>(bytes_of(dtype, element_count_of(shape, dtype)));
  if (bytes > 0 && !memory) fail(ErrorKind::Value, "from_shared: null, expected memory of {} bytes", bytes);
  return of_data(Storage::share(std::move(memory), bytes), dtype, shape);
}

Tensor Tensor::input(const std::string& name, const Shape& shape, DType dtype) {
  check_shape("input", shape, dtype);
  try {
    return of_held(graph::input(name, dtype, shape),
                   is_narrow(dtype) ? std::optional(Declared{dtype, shape}) : std::nullopt);
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::Name) throw;
    fail(ErrorKind::Name, "input: name '{}', expected an identifier of letters, digits and _", name);
  }
}

Tensor Tensor::full(const Shape& shape, Scalar value) {
  check_shape("full", shape, value.dtype());
  if (!is_narrow(value.dtype())) return wrap(constant(value, shape));
  uint8_t code = 0;
  value.to_memory(&code);
  return of_codes(value.dtype(), wrap(constant(Scalar::of_int(DType::U8, code), shape)));
}

Tensor Tensor::zeros(const Shape& shape, DType dtype) {
  check_shape("zeros", shape, dtype);
  return full(shape, Scalar::zero(dtype));
}

Tensor Tensor::ones(const Shape& shape, DType dtype) {
  check_shape("ones", shape, dtype);
  return full(shape, Scalar::of_int(dtype, 1));
}

Tensor Tensor::arange(Whole first, Whole end, Whole by, DType dtype) {
  const int64_t start = first, stop = end, step = by;
  if (step == 0) fail(ErrorKind::Value, "arange: step 0, expected another");
  if (dtype == DType::Bool) fail(ErrorKind::DType, "arange: dtype bool, expected a number");
  const __int128 distance = static_cast<__int128>(stop) - start;
  const __int128 count =
      std::max<__int128>(step > 0 ? (distance + step - 1) / step : (distance + step + 1) / step, 0);
  if (count > INT64_MAX)
    fail(ErrorKind::Limit, "arange: from {} to {} by {}, expected fewer than 2^63 values", start, stop, step);
  const Shape shape{Expr(static_cast<int64_t>(count))};
  check_shape("arange", shape, dtype);
  if (is_float(dtype))
    return (index_along(0, shape) * number(static_cast<double>(step), DType::F64) +
            number(static_cast<double>(start), DType::F64))
        .cast(dtype);
  if (count > 0)
    for (const int64_t value : {start, static_cast<int64_t>(start + (count - 1) * step)})
      check_holds("arange", value, dtype);
  return (index_along(0, shape) * full({}, step) + full({}, start)).cast(dtype);
}

Tensor Tensor::from_parts(const std::vector<Tensor>& parts) {
  if (parts.empty()) fail(ErrorKind::Shape, "from: no rows, expected at least one");
  for (const Tensor& part : parts)
    if (part.shape() != parts[0].shape())
      fail(ErrorKind::Shape, "from: rows of shapes {} and {}, expected equal ones",
           to_string(parts[0].shape()), to_string(part.shape()));
  Shape shape = parts[0].shape();
  shape.insert(shape.begin(), Expr(parts.size()));
  const DType dtype = parts[0].dtype();
  const size_t bytes = static_cast<size_t>(parts[0].element_count()) * size_of(dtype);
  std::vector<unsigned char> all(bytes * parts.size());
  for (size_t k = 0; k < parts.size(); ++k) parts[k].read(all.data() + k * bytes, dtype);
  return from_memory(all.data(), static_cast<size_t>(num_elements(shape).value()), dtype, shape);
}

Tensor Tensor::scalar(Expr value, DType dtype) {
  if (!is_integer(dtype))
    fail(ErrorKind::DType, "scalar: {} as {}, expected an integer dtype", to_string(value), to_string(dtype));
  return size_scalar(value, dtype);
}

Tensor Tensor::iota(const Shape& shape, Axis axis, DType dtype) {
  check_shape("iota", shape, dtype);
  if (dtype == DType::Bool) fail(ErrorKind::DType, "iota: dtype bool, expected a number");
  return index_along(resolve_axis("iota", axis, static_cast<int>(shape.size())), shape, dtype);
}

Tensor Tensor::linspace(double start, double stop, Whole count, DType dtype) {
  if (count < 0) fail(ErrorKind::Value, "linspace: {} values, expected no negative number", count);
  if (dtype == DType::Bool) fail(ErrorKind::DType, "linspace: dtype bool, expected a number");
  const Shape shape{Expr(count)};
  check_shape("linspace", shape, dtype);
  if (count == 1) return full(shape, Scalar::of_float(dtype, start));
  const Tensor i = index_along(0, shape, DType::F64);
  const double step = (stop - start) / static_cast<double>(count - 1);
  // The last value is `stop` itself, which the formula might miss by a rounding.
  return lathe::where(i == number(static_cast<double>(count - 1), DType::F64), number(stop, DType::F64),
                      i * number(step, DType::F64) + number(start, DType::F64))
      .cast(dtype);
}

Tensor Tensor::eye(int64_t rows, int64_t columns, DType dtype) {
  const Shape shape{Expr(rows), Expr(columns == -1 ? rows : columns)};
  check_shape("eye", shape, dtype);
  return (index_along(0, shape) == index_along(1, shape)).cast(dtype);
}

Tensor Tensor::tri(int64_t rows, int64_t columns, int64_t diagonal, DType dtype) {
  const Shape shape{Expr(rows), Expr(columns)};
  check_shape("tri", shape, dtype);
  return (index_along(1, shape) <= index_along(0, shape) + full({}, diagonal)).cast(dtype);
}

// ---- values ----

const Tensor& Tensor::realise() const {
  impl_->realise("realise");
  return *this;
}

int64_t Tensor::element_count() const {
  if (!is_static(shape()))
    fail(ErrorKind::Shape, "element_count: shape {} has variables, expected a static one",
         to_string(shape()));
  return num_elements(shape()).value();
}

Scalar Tensor::item_scalar() const {
  if (!num_elements(shape()).is_const(1))
    fail(ErrorKind::Shape, "item: shape {}, expected one element", to_string(shape()));
  const NodeRef node = impl_->realise("item");
  return Scalar::from_memory(dtype(), std::get<InputAttr>(node->attr).data->data());
}

void Tensor::read(void* out, DType as) const {
  if (is_narrow(dtype()) && as == read_as(dtype())) return cast(as).read(out, as);
  const void* from = values("read", as);
  if (const int64_t count = element_count()) std::memcpy(out, from, static_cast<size_t>(bytes_of(as, count)));
}

const void* Tensor::memory(DType as) const { return values("data", as); }

const void* Tensor::values(const char* function, DType as) const {
  if (as != dtype())
    fail(ErrorKind::DType, "{}: dtype {} as {}, expected {}", function, to_string(dtype()), to_string(as),
         to_string(dtype()));
  const NodeRef node = impl_->realise(function);
  return std::get<InputAttr>(node->attr).data->data();
}

} // namespace lathe
