#include "onnx/strings/traced.hpp"

#include "onnx/call.hpp"
#include "onnx/ops/values.hpp"

namespace lathe::onnx {
namespace {

/// The value, or each element of a sequence, through `change`.
Value each(const Value& value, const std::function<Value(const Value&)>& change) {
  if (!value.is_sequence()) return change(value);
  std::vector<Value> elements;
  for (const Value& element : value.elements()) elements.push_back(each(element, change));
  return Value::sequence(value.dtype(), std::move(elements));
}

std::vector<int64_t> added(StringTable& table, const std::vector<std::string>& texts) {
  std::vector<int64_t> ids;
  for (const std::string& text : texts) ids.push_back(table.add(text));
  return ids;
}

Tensor ids_in(StringTable& table, const Value& strings) {
  if (strings.ids()) return *strings.ids();
  return tensor_of_ids(added(table, strings.texts()), strings.shape());
}

StringTable& table_of(const Call& call) { return Call::Impl::of(call).tracer.strings(); }

} // namespace

Value as_ids(StringTable& table, const Value& value) {
  return each(value, [&](const Value& v) { return v.is_strings() ? Value(ids_in(table, v)) : v; });
}

Value as_strings(const Value& ids) {
  return each(ids, [](const Value& v) { return v.is_tensor() ? Value::strings(v.tensor()) : v; });
}

Tensor ids_of(const Call& call, const Value& strings) { return ids_in(table_of(call), strings); }

Value strings_input(const Call& call, size_t input) {
  const Value value = call.value(input);
  if (!value.is_strings())
    call.fail(ErrorKind::DType,
              "input " + std::to_string(input) + " is " + type_text(value) + ", expected strings");
  return value;
}

Tensor string_ids(const Call& call, size_t input) { return ids_of(call, strings_input(call, input)); }

std::vector<int64_t> ids_of(const Call& call, const std::vector<std::string>& texts) {
  return added(table_of(call), texts);
}

std::vector<Value> on_host(Call& call, const HostOp& op, const std::vector<Value>& inputs) {
  const Call::Impl& impl = Call::Impl::of(call);
  return impl.tracer.on_host(impl.frame, op, inputs);
}

Value maps_of_rows(const Value& map_rows) {
  const Tensor& rows = map_rows.values().tensor();
  if (!rows.size(0).is_const())
    throw Error(ErrorKind::Shape, to_string(rows.size(0)) + " maps, expected a fixed number of them");
  const int64_t count = rows.size(0).value();
  const bool is_known = is_constant(rows) && rows.element_count() > 0;
  const size_t width = is_known ? static_cast<size_t>(rows.element_count() / count) : 0;
  std::vector<char> bytes;
  if (is_known) {
    bytes.resize(static_cast<size_t>(count) * width * static_cast<size_t>(size_of(rows.dtype())));
    rows.read(bytes.data(), rows.dtype());
  }
  std::vector<Value> maps;
  for (int64_t row = 0; row < count; ++row) {
    const char* begin =
        bytes.data() + static_cast<size_t>(row) * width * static_cast<size_t>(size_of(rows.dtype()));
    const Tensor values =
        is_known ? Tensor::from_memory(begin, width, rows.dtype(), {rows.size(1)}) : slice_at(rows, 0, row);
    maps.push_back(Value::map(map_rows.keys(), values));
  }
  return Value::sequence(rows.dtype(), std::move(maps));
}

} // namespace lathe::onnx
