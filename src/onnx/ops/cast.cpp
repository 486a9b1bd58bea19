// Cast and its like.
#include "onnx/ops/broadcast.hpp"
#include "onnx/ops/tables.hpp"

namespace lathe::onnx {
namespace {

std::vector<Value> cast_to(Call& call, DType dtype) {
  call.ignore("saturate");   // of 8-bit floats
  call.ignore("round_mode"); // of 8-bit floats
  return {elementwise(call, {call.value(0)}, [&](const std::vector<Tensor>& t) { return t[0].cast(dtype); })};
}

std::vector<Value> cast(Call& call) { return cast_to(call, call.dtype("to")); }
std::vector<Value> cast_like(Call& call) { return cast_to(call, call.value(1).dtype()); }

const OpRow rows[] = {
    {"Cast", 1, cast},
    {"CastLike", 15, cast_like},
};

} // namespace

OpTable cast_ops() { return rows; }

} // namespace lathe::onnx
