// Labels for labels.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "lathe/array_functions.hpp"
#include "lathe/functions.hpp"
#include "onnx/ops/ml/scores.hpp"
#include "onnx/ops/tables.hpp"

namespace lathe::onnx {
namespace {

void refuse_strings(const Call& call) {
  for (const char* name : {"keys_strings", "values_strings"})
    if (call.has_attribute(name))
      call.fail(ErrorKind::DType, fmt::format("{}: there are no tensors of strings, expected numbers", name));
  call.ignore("default_string"); // has a default, which exporters write
}

/// The one of the attributes `keys_*` or `values_*` that is there, as a vector.
Tensor list_attribute(const Call& call, const std::string& what) {
  std::vector<Tensor> found;
  const std::string integers = what + "_int64s", floats = what + "_floats", tensor = what + "_tensor";
  if (call.has_attribute(integers)) found.push_back(Tensor::from(call.integers(integers)));
  if (call.has_attribute(floats)) found.push_back(vector_of(call.numbers(floats), DType::F32));
  if (call.has_attribute(tensor)) found.push_back(call.constant(tensor).tensor());
  if (found.size() != 1 || found[0].rank() != 1)
    call.fail(ErrorKind::Value, fmt::format("{} lists of {}, expected one", found.size(), what));
  return found[0];
}

/// What stands for a key that is not there.
Tensor default_value(const Call& call, DType dtype) {
  if (call.has_attribute("default_tensor")) {
    const Tensor given = call.constant("default_tensor").tensor();
    if (given.dtype() != dtype || given.element_count() != 1)
      call.fail(ErrorKind::Value,
                fmt::format("default_tensor of {} and shape {}, expected one {}", to_string(given.dtype()),
                            to_string(given.shape()), to_string(dtype)));
    for (const char* name : {"default_int64", "default_float"}) call.ignore(name);
    return given.reshape({});
  }
  if (is_float(dtype)) {
    call.ignore("default_int64");
    return Tensor::full({}, call.number("default_float", -0.0)).cast(dtype);
  }
  call.ignore("default_float");
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

std::vector<Value> label_encoder(Call& call) {
  const Tensor x = call.tensor(0);
  refuse_strings(call);
  const Tensor keys = list_attribute(call, "keys"), values = list_attribute(call, "values");
  const int64_t count = keys.element_count();
  if (values.element_count() != count)
    call.fail(ErrorKind::Value, fmt::format("{} values for {} keys", values.element_count(), count));
  if (x.dtype() != keys.dtype())
    call.fail(ErrorKind::DType,
              fmt::format("{} looked up in keys of {}", to_string(x.dtype()), to_string(keys.dtype())));
  const bool last_counts = call.opset() >= 4;
  const Tensor at =
      is_float(x.dtype())
          ? positions(x.cast(DType::F64), sorted_keys(keys.cast(DType::F64).to_vector<double>(), last_counts),
                      count)
          : positions(x.cast(DType::I64),
                      sorted_keys(keys.cast(DType::I64).to_vector<int64_t>(), last_counts), count);
  const Tensor otherwise = default_value(call, values.dtype());
  return {concat({values, otherwise.reshape({1})}, 0).take(at)};
}

// Version 1 maps strings alone.
const OpRow rows[] = {
    {"LabelEncoder", 2, label_encoder, kMlDomain},
    {"LabelEncoder", 4, label_encoder, kMlDomain},
};

} // namespace

OpTable ml_label_ops() { return rows; }

} // namespace lathe::onnx
