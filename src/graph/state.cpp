#include <cstring>
#include <mutex>

#include "graph/narrow.hpp"
#include "graph/state_buffer.hpp"

namespace lathe {
using namespace graph;

StateBuffer::StateBuffer(std::string state_name, DType of, Shape static_shape)
    : name(std::move(state_name)), dtype(of), shape(std::move(static_shape)),
      bytes(static_cast<size_t>(bytes_of(dtype, num_elements(shape).value()))) {}

State::Impl::Impl(std::shared_ptr<StateBuffer> of)
    : buffer(std::move(of)),
      value(of_held(state_input(buffer), is_narrow(buffer->dtype)
                                             ? std::optional(Declared{buffer->dtype, buffer->shape})
                                             : std::nullopt)) {}

namespace {

/// A state with memory that holds nothing yet.
std::shared_ptr<const State::Impl> made(const std::string& name, const Shape& shape, DType dtype) {
  check_shape("State", shape, dtype);
  if (!is_static(shape))
    fail(ErrorKind::Shape, "State: \"{}\" of shape {}, expected a static one", name, to_string(shape));
  auto impl = std::make_shared<const State::Impl>(std::make_shared<StateBuffer>(name, dtype, shape));
  impl->buffer->values = Storage::allocate(impl->buffer->bytes);
  return impl;
}

/// The bytes of a tensor's values.
const void* bytes_of_values(const char* function, const Tensor& values) {
  return std::get<InputAttr>(detail::impl(values)->realise(function)->attr).data->data();
}

} // namespace

State::State(const std::string& name, const Shape& shape, DType dtype) : impl_(made(name, shape, dtype)) {
  std::memset(impl_->buffer->values->data(), 0, impl_->buffer->bytes);
}

State::State(const std::string& name, const Tensor& values)
    : impl_(made(name, values.shape(), values.dtype())) {
  std::memcpy(impl_->buffer->values->data(), bytes_of_values("State", values), impl_->buffer->bytes);
}

const std::string& State::name() const { return impl_->buffer->name; }
const Shape& State::shape() const { return impl_->buffer->shape; }
DType State::dtype() const { return impl_->buffer->dtype; }
const Tensor& State::value() const { return impl_->value; }

Update State::assign(const Tensor& next) const {
  if (next.dtype() != dtype())
    fail(ErrorKind::DType, "assign: {} to state \"{}\" of {}, expected the same dtype", text(next), name(),
         to_string(dtype()));
  if (next.shape() == shape()) return {*this, next};
  if (is_narrow(dtype()) || broadcast_shape("assign", {shape(), next.shape()}) != shape())
    fail(ErrorKind::Shape, "assign: {} to state \"{}\" of {}, expected its shape", text(next), name(),
         to_string(shape()));
  return {*this, broadcast_to(next, shape())};
}

Update State::assign_at(const std::vector<Start>& start, const Tensor& part) const {
  return assign(update_slice_at(value(), start, part));
}

Tensor State::read() const {
  const StateBuffer& buffer = *impl_->buffer;
  const StorageRef copy = Storage::allocate(buffer.bytes);
  const std::shared_lock lock(impl_->buffer->in_use);
  std::memcpy(copy->data(), buffer.values->data(), buffer.bytes);
  return of_data(copy, buffer.dtype, buffer.shape);
}

void State::write(const Tensor& values) const {
  if (values.dtype() != dtype() || values.shape() != shape())
    fail(values.dtype() != dtype() ? ErrorKind::DType : ErrorKind::Shape,
         "write: {} to state \"{}\", expected {}{}", text(values), name(), to_string(dtype()),
         to_string(shape()));
  const void* from = bytes_of_values("write", values);
  const std::lock_guard lock(impl_->buffer->in_use);
  std::memcpy(impl_->buffer->values->data(), from, impl_->buffer->bytes);
}

} // namespace lathe
