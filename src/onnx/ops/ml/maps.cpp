// Maps to tensors, and a tensor to maps.
#include <fmt/format.h>

#include <set>

#include "lathe/array_functions.hpp"
#include "lathe/functions.hpp"
#include "onnx/ops/ml/scores.hpp"
#include "onnx/ops/tables.hpp"
#include "onnx/ops/values.hpp"
#include "onnx/strings/traced.hpp"

namespace lathe::onnx {
namespace {

std::vector<Value> zip_map(Call& call) {
  const Labels labels = class_labels(call, "classlabels_int64s");
  const Tensor given = call.tensor(0);
  if (given.dtype() != DType::F32)
    call.fail(ErrorKind::DType, fmt::format("values of {}, expected f32", to_string(given.dtype())));
  if (given.rank() != 1 && given.rank() != 2)
    call.fail(ErrorKind::Shape,
              fmt::format("values {}, expected [keys] or [rows, keys]", to_string(given.shape())));
  const Tensor rows = given.rank() == 1 ? given.unsqueeze(0) : given;
  if (fixed_size(call, rows, 1) != labels.size())
    call.fail(ErrorKind::Shape,
              fmt::format("{} keys for values {}", labels.size(), to_string(given.shape())));
  if (std::set<int64_t>(labels.numbers.begin(), labels.numbers.end()).size() != labels.numbers.size())
    call.fail(ErrorKind::Value, "a key twice, expected different ones");
  const Value keys = labels.strings ? Value::strings(call.texts("classlabels_strings"))
                                    : Value(Tensor::from(labels.numbers));
  return {Value::map_rows(keys, rows)};
}

Value map_input(const Call& call) {
  const Value map = call.value(0);
  if (!map.is_map()) call.fail(ErrorKind::DType, "input 0 is " + type_text(map) + ", expected a map");
  return map;
}

/// A map's values, strings by their ids.
Tensor value_numbers(const Call& call, const Value& map) {
  return map.values().is_strings() ? ids_of(call, map.values()) : map.values().tensor();
}

/// As strings, if the map's values are.
Value as_values(const Value& map, const Tensor& numbers) {
  return map.values().is_strings() ? Value::strings(numbers) : Value(numbers);
}

/// [1, vocabulary], as ONNX Runtime has it; 0 or "" where the map has no such key.
std::vector<Value> dict_vectorizer(Call& call) {
  const Value map = map_input(call);
  const Labels words = class_labels(call, "int64_vocabulary", "string_vocabulary");
  if (map.keys().is_strings() != words.strings)
    call.fail(ErrorKind::DType,
              fmt::format("a vocabulary of {} for {}", words.strings ? "strings" : "i64", type_text(map)));
  const Tensor values = value_numbers(call, map);
  if (map.keys().is_empty()) return {as_values(map, Tensor::zeros({1, Expr(words.size())}, values.dtype()))};
  const Tensor keys = words.strings ? ids_of(call, map.keys()) : map.keys().tensor();
  const Tensor is_key = Tensor::from(words.numbers).unsqueeze(1) == keys.unsqueeze(0);
  const Tensor found =
      where(is_key.any({1}), values.take(is_key.argmax(1)), Tensor::zeros({}, values.dtype()));
  return {as_values(map, found.unsqueeze(0))};
}

/// The elements of a tensor cast as CastMap's attribute cast_to says.
Value cast_values(Call& call, const Value& values) {
  const std::string to = call.text("cast_to", "TO_FLOAT");
  if (to != "TO_FLOAT" && to != "TO_INT64" && to != "TO_STRING")
    call.fail(ErrorKind::Value, fmt::format("cast_to \"{}\", expected TO_FLOAT, TO_INT64 or TO_STRING", to));
  if (to == "TO_STRING")
    return values.is_strings() ? values : on_host(call, {"text_of_numbers", {}, {1}}, {values})[0];
  const DType dtype = to == "TO_FLOAT" ? DType::F32 : DType::I64;
  if (values.is_strings()) return on_host(call, {"numbers_of_text", {to_string(dtype)}}, {values})[0];
  return values.tensor().cast(dtype);
}

/// The values at their keys in [1, length].
std::vector<Value> sparse(Call& call, const Tensor& keys, const Value& values) {
  const int64_t length = call.integer("max_map", 1);
  if (values.is_strings())
    call.fail(ErrorKind::Value,
              "map_form SPARSE of strings, for which ONNX says nothing of keys that are not there");
  std::vector<Value> kept{values};
  const Tensor fits = (keys >= 0) & (keys < weak(length, DType::I64));
  if (length < 0 || call.look(fits.all(), &kept).at(0) == 0)
    call.fail(ErrorKind::Value,
              fmt::format("a key is not in [0, {}), expected it to be with map_form SPARSE", length));
  const Tensor numbers = kept[0].tensor();
  return {Tensor::zeros({length}, numbers.dtype()).scatter(0, keys, numbers).unsqueeze(0)};
}

std::vector<Value> cast_map(Call& call) {
  const std::string form = call.text("map_form", "DENSE");
  if (form != "DENSE" && form != "SPARSE")
    call.fail(ErrorKind::Value, fmt::format("map_form \"{}\", expected DENSE or SPARSE", form));
  call.ignore("max_map"); // of SPARSE
  const Value values = cast_values(call, map_input(call).values());
  const Value map = map_input(call);
  if (map.keys().is_strings()) call.fail(ErrorKind::DType, "keys are strings, expected i64");
  const Tensor keys = map.keys().tensor();
  if (form == "SPARSE") return sparse(call, keys, values);
  const Tensor order = keys.argsort(0);
  if (values.is_strings()) return {Value::strings(ids_of(call, values).take(order).unsqueeze(0))};
  return {values.tensor().take(order).unsqueeze(0)};
}

const OpRow kMlMapOps[] = {
    {"ZipMap", 1, zip_map, kMlDomain},
    {"DictVectorizer", 1, dict_vectorizer, kMlDomain},
    {"CastMap", 1, cast_map, kMlDomain},
};

} // namespace

OpTable ml_map_ops() { return kMlMapOps; }

} // namespace lathe::onnx
