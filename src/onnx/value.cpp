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

Value Value::strings(std::vector<std::string> texts, const Shape& shape) {
  if (!num_elements(shape).is_const(static_cast<int64_t>(texts.size())))
    throw Error(ErrorKind::Shape, "value: " + std::to_string(texts.size()) +
                                      " strings, expected as many as shape " + to_string(shape) +
                                      " has elements");
  Value value;
  value.kind_ = Kind::Strings;
  value.shape_ = shape;
  value.texts_ = std::make_shared<const std::vector<std::string>>(std::move(texts));
  return value;
}

Value Value::strings(std::vector<std::string> texts) {
  const Shape shape{Expr(static_cast<int64_t>(texts.size()))};
  return strings(std::move(texts), shape);
}

Value Value::strings(lathe::Tensor ids) {
  if (ids.dtype() != DType::I64)
    throw Error(ErrorKind::DType, std::string("value: ids of ") + to_string(ids.dtype()) + ", expected i64");
  Value value;
  value.kind_ = Kind::Strings;
  value.shape_ = ids.shape();
  value.tensor_ = std::move(ids);
  return value;
}

namespace {

/// Error unless the keys are a vector of strings or i64, as many as `count` says.
void check_keys(const Value& keys, const Expr& count) {
  if (!keys.is_strings() && !(keys.is_tensor() && keys.dtype() == DType::I64))
    throw Error(ErrorKind::DType, "map: keys " + type_text(keys) + ", expected strings or i64");
  if (keys.rank() != 1 || keys.shape()[0] != count)
    throw Error(ErrorKind::Shape, "map: keys " + type_text(keys) + ", expected one for each of " +
                                      to_string(count) + " values");
}

} // namespace

Value Value::map(Value keys, Value values) {
  if (!values.has_shape() || values.rank() != 1)
    throw Error(ErrorKind::Shape, "map: values " + type_text(values) + ", expected one axis");
  check_keys(keys, values.shape()[0]);
  Value value;
  value.kind_ = Kind::Map;
  value.dtype_ = values.dtype();
  value.elements_ =
      std::make_shared<const std::vector<Value>>(std::vector{std::move(keys), std::move(values)});
  return value;
}

Value Value::map_rows(Value keys, lathe::Tensor rows) {
  if (rows.rank() != 2)
    throw Error(ErrorKind::Shape, "map: " + type_text(rows) + ", expected rows of values");
  check_keys(keys, rows.size(1));
  Value value;
  value.kind_ = Kind::MapRows;
  value.dtype_ = rows.dtype();
  value.elements_ =
      std::make_shared<const std::vector<Value>>(std::vector{std::move(keys), Value(std::move(rows))});
  return value;
}

bool Value::is_empty() const {
  return has_shape() && std::any_of(shape_.begin(), shape_.end(), [](Expr size) { return size.is_const(0); });
}

const lathe::Tensor& Value::tensor() const {
  if (kind_ == Kind::Tensor) return *tensor_;
  throw Error(ErrorKind::Shape, "value: " + type_text(*this) + ", expected a tensor of numbers");
}

const std::vector<std::string>& Value::texts() const {
  if (texts_) return *texts_;
  throw Error(ErrorKind::Value, is_strings() ? "value: strings that are computed when the program runs, "
                                               "expected constant ones"
                                             : "value: " + type_text(*this) + ", expected strings");
}

const std::vector<Value>& Value::map_parts() const {
  if (is_map() || is_map_rows()) return *elements_;
  throw Error(ErrorKind::Value, "value: " + type_text(*this) + ", expected a map");
}
const Value& Value::keys() const { return map_parts()[0]; }
const Value& Value::values() const { return map_parts()[1]; }

const std::vector<Value>& Value::elements() const {
  if (is_sequence()) return *elements_;
  throw Error(ErrorKind::Value, "value: " + type_text(*this) + ", expected a sequence");
}

Value Value::with_integers(std::vector<Expr> integers) const {
  Value value = *this;
  value.integers_ = std::move(integers);
  return value;
}

std::string type_text(const Value& value) {
  const auto plain = [](const Value& v) {
    return std::string(v.is_strings() ? "str" : to_string(v.dtype()));
  };
  switch (value.kind()) {
  case Value::Kind::None: return "nothing";
  case Value::Kind::Tensor:
  case Value::Kind::Strings: return plain(value) + to_string(value.shape());
  case Value::Kind::Sequence: {
    if (value.elements().empty()) return "seq()";
    const Value& first = value.elements()[0];
    return "seq(" + (first.has_shape() ? plain(first) : type_text(first)) + ")";
  }
  case Value::Kind::Map: return "map(" + plain(value.keys()) + ", " + plain(value.values()) + ")";
  case Value::Kind::MapRows: return "seq(map(" + plain(value.keys()) + ", " + plain(value.values()) + "))";
  }
  return {};
}

} // namespace lathe::onnx
