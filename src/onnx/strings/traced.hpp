// Strings while a model is traced: constants with their texts, or tensors of ids that kernels move and
// compare.
#pragma once
#include "lathe/onnx/op.hpp"
#include "onnx/strings/host_op.hpp"
#include "onnx/strings/table.hpp"

namespace lathe::onnx {

/// Strings as their ids, those in sequences too; other values as they are.
Value as_ids(StringTable& table, const Value& value);
/// The way back: i64 tensors, those in sequences too, as strings of these ids.
Value as_strings(const Value& ids);

/// A tensor of strings; Error(DType) naming the input if it is something else.
Value strings_input(const Call& call, size_t input);
/// The same as ids.
Tensor string_ids(const Call& call, size_t input);
Tensor ids_of(const Call& call, const Value& strings);
std::vector<int64_t> ids_of(const Call& call, const std::vector<std::string>& texts);
/// What an op of the host makes: now, if its inputs are constants, and else when the program comes there.
std::vector<Value> on_host(Call& call, const HostOp& op, const std::vector<Value>& inputs);

/// A sequence of maps instead of a matrix with keys; Error(Shape) if the number of rows is not fixed.
Value maps_of_rows(const Value& map_rows);

} // namespace lathe::onnx
