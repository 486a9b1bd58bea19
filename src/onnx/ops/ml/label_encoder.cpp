// Labels for labels: strings are looked up by their ids, as numbers are.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "lathe/array_functions.hpp"
#include "lathe/functions.hpp"
#include "onnx/ops/ml/scores.hpp"
#include "onnx/ops/tables.hpp"
#include "onnx/strings/traced.hpp"

namespace lathe::onnx {
namespace {

/// Numbers, or strings by their ids.
struct Coded {
  Tensor numbers;
  bool strings;
};

Coded coded(const Call& call, const Value& value) {
  if (value.is_strings()) return {ids_of(call, value), true};
  return {value.tensor(), false};
}

/// Strings where the ids are some's.
Value decoded(const Tensor& numbers, bool strings) {
  return strings ? Value::strings(numbers) : Value(numbers);
}

const char* type_name(const Coded& list) {
  return list.strings ? "strings" : to_string(list.numbers.dtype());
}

/// The one of the attributes `keys_*` or `values_*` that is there, as a vector.
Coded list_attribute(const Call& call, const std::string& what) {
  std::vector<Value> found;
  const std::string integers = what + "_int64s", floats = what + "_floats", strings = what + "_strings",
                    tensor = what + "_tensor";
  if (call.has_attribute(integers)) found.push_back(Tensor::from(call.integers(integers)));
  if (call.has_attribute(floats)) found.push_back(vector_of(call.numbers(floats), DType::F32));
  if (call.has_attribute(strings)) found.push_back(Value::strings(call.texts(strings)));
  if (call.has_attribute(tensor)) found.push_back(call.constant(tensor));
  if (found.size() != 1 || found[0].rank() != 1)
    call.fail(ErrorKind::Value, fmt::format("{} lists of {}, expected one", found.size(), what));
  return coded(call, found[0]);
}

/// What stands for a key that is not there, of the values' type.
Tensor default_value(const Call& call, const Coded& values) {
  for (const char* name : {"default_int64", "default_float", "default_string"})
    call.ignore(name); // one of them counts
  const DType dtype = values.numbers.dtype();
  if (call.has_attribute("default_tensor")) {
    const Value value = call.constant("default_tensor");
    const Coded given = coded(call, value);
    if (given.strings != values.strings || given.numbers.dtype() != dtype ||
        given.numbers.element_count() != 1)
      call.fail(ErrorKind::Value, fmt::format("default_tensor {}, expected one element of {}",
                                              type_text(value), type_name(values)));
    return given.numbers.reshape({});
  }
  if (values.strings) return Tensor::scalar(ids_of(call, {call.text("default_string", "_Unused")})[0]);
  if (is_float(dtype)) return Tensor::full({}, call.number("default_float", -0.0)).cast(dtype);
  return Tensor::full({}, call.integer("default_int64", -1)).cast(dtype);
}

/// Where keys are, ascending without repetitions, and where NaN is.
template <class T> struct Sorted {
  std::vector<T> keys;
  std::vector<int64_t> positions;
  std::optional<int64_t> missing;
};

/// Of a repeated key the last counts from version 4 on, and the first before, as ONNX Runtime has it.
template <class T> Sorted<T> sorted_keys(const std::vector<T>& keys, bool last_counts) {
  std::map<T, int64_t> places;
  Sorted<T> sorted;
  for (size_t k = 0; k < keys.size(); ++k) {
    const auto position = static_cast<int64_t>(k);
    if (keys[k] != keys[k]) {
      if (!sorted.missing || last_counts) sorted.missing = position;
    } else if (last_counts) {
      places[keys[k]] = position;
    } else {
      places.emplace(keys[k], position);
    }
  }
  for (const auto& [key, position] : places) {
    sorted.keys.push_back(key);
    sorted.positions.push_back(position);
  }
  return sorted;
}

/// For each element of x the position of the key that it equals, or `none`.
template <class T> Tensor positions(const Tensor& x, const Sorted<T>& sorted, int64_t none) {
  Tensor at = Tensor::full({}, none).expand(x.shape());
  if (!sorted.keys.empty()) {
    const Tensor keys = Tensor::from(sorted.keys);
    const Tensor near = searchsorted(keys, x);
    at = where(keys.take(near) == x, Tensor::from(sorted.positions).take(near), at);
    // Past the last key both read as 0.
    at = where(near < static_cast<int64_t>(sorted.keys.size()), at, Tensor::full({}, none));
  }
  if (sorted.missing) at = where(x.isnan(), Tensor::full({}, *sorted.missing), at);
  return at;
}

/// The value for each element of x, `otherwise` where no key equals it.
std::vector<Value> looked_up(const Call& call, const Coded& x, const Coded& keys, const Coded& values,
                             const Tensor& otherwise, bool last_counts) {
  const int64_t count = keys.numbers.element_count();
  if (values.numbers.element_count() != count)
    call.fail(ErrorKind::Value, fmt::format("{} values for {} keys", values.numbers.element_count(), count));
  if (x.strings != keys.strings || x.numbers.dtype() != keys.numbers.dtype())
    call.fail(ErrorKind::DType, fmt::format("{} looked up in keys of {}", type_name(x), type_name(keys)));
  const Tensor at =
      is_float(x.numbers.dtype())
          ? positions(x.numbers.cast(DType::F64),
                      sorted_keys(keys.numbers.cast(DType::F64).to_vector<double>(), last_counts), count)
          : positions(x.numbers.cast(DType::I64),
                      sorted_keys(keys.numbers.cast(DType::I64).to_vector<int64_t>(), last_counts), count);
  return {decoded(concat({values.numbers, otherwise.reshape({1})}, 0).take(at), values.strings)};
}

std::vector<Value> label_encoder(Call& call) {
  const Coded x = coded(call, call.value(0)), keys = list_attribute(call, "keys"),
              values = list_attribute(call, "values");
  return looked_up(call, x, keys, values, default_value(call, values), call.opset() >= 4);
}

/// Between strings and numbers, whichever way the input asks for. As ONNX Runtime has it, the last of
/// repeated keys counts.
std::vector<Value> between(Call& call, const Coded& strings, const Coded& numbers) {
  const Coded x = coded(call, call.value(0));
  const Coded& values = x.strings ? numbers : strings;
  return looked_up(call, x, x.strings ? strings : numbers, values, default_value(call, values), true);
}

std::vector<Value> category_mapper(Call& call) {
  return between(call, coded(call, Value::strings(call.texts("cats_strings"))),
                 {Tensor::from(call.integers("cats_int64s", {})), false});
}

std::vector<Value> label_encoder_of_positions(Call& call) {
  const Coded classes = coded(call, Value::strings(call.texts("classes_strings")));
  return between(call, classes, {Tensor::iota({classes.numbers.size(0)}, 0), false});
}

const OpRow kMlLabelOps[] = {
    {"LabelEncoder", 1, label_encoder_of_positions, kMlDomain},
    {"LabelEncoder", 2, label_encoder, kMlDomain},
    {"LabelEncoder", 4, label_encoder, kMlDomain},
    {"CategoryMapper", 1, category_mapper, kMlDomain},
};

} // namespace

OpTable ml_label_ops() { return kMlLabelOps; }

} // namespace lathe::onnx
