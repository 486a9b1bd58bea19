#include "lathe/onnx/value.hpp"

#include <algorithm>

namespace lathe::onnx {

Value::Value(lathe::Tensor tensor)
    : kind_(Kind::Tensor), dtype_(tensor.dtype()), shape_(tensor.shape()), tensor_(std::move(tensor)) {}

Value Value::sequence(DType dtype, std::vector<Value> elements) {
  Value value;
  value.kind_ = Kind::Sequence;
  value.dtype_ = dtype;
  value.elements_ = std::make_shared<const std::vector<Value>>(std::move(elements));
  return value;
}

bool Value::is_empty() const {
  return kind_ == Kind::Tensor &&
         std::any_of(shape_.begin(), shape_.end(), [](Expr size) { return size.is_const(0); });
}

const lathe::Tensor& Value::tensor() const {
  if (tensor_) return *tensor_;
  const char* what = kind_ == Kind::None ? "nothing" : "a sequence";
  throw Error(ErrorKind::Shape, std::string("value: ") + what + ", expected a tensor");
}

const std::vector<Value>& Value::elements() const {
  if (elements_) return *elements_;
  throw Error(ErrorKind::Value, "value: expected a sequence");
}

Value Value::with_integers(std::vector<Expr> integers) const {
  Value value = *this;
  value.integers_ = std::move(integers);
  return value;
}

} // namespace lathe::onnx
