// Cast and its like.
#include "onnx/graph.hpp"
#include "onnx/ops/broadcast.hpp"
#include "onnx/ops/tables.hpp"
#include "onnx/strings/traced.hpp"

namespace lathe::onnx {
namespace {

/// Of narrow floats.
NarrowCast narrow_cast(Call& call) {
  using Rounding = NarrowCast::Rounding;
  const std::string mode = call.text("round_mode", "up");
  if (mode != "up" && mode != "down" && mode != "nearest")
    call.fail(ErrorKind::Value, "round_mode '" + mode + "', expected up, down or nearest");
  return {call.integer("saturate", 1) != 0, mode == "up"     ? Rounding::Up
                                            : mode == "down" ? Rounding::Down
                                                             : Rounding::Nearest};
}

std::vector<Value> cast_to(Call& call, DType dtype) {
  const NarrowCast how = narrow_cast(call);
  const Value x = call.value(0);
  if (x.is_strings()) return on_host(call, {"numbers_of_text", {to_string(dtype)}}, {x});
  return {elementwise(call, {x}, [&](const std::vector<Tensor>& t) { return t[0].cast(dtype, how); })};
}

std::vector<Value> cast_to_strings(Call& call) {
  call.ignore("saturate");
  call.ignore("round_mode");
  const Value x = call.value(0);
  if (x.is_strings()) return {x};
  return on_host(call, {"text_of_numbers", {}, {0}}, {call.tensor(0)});
}

std::vector<Value> cast(Call& call) {
  if (call.integer("to") == kOnnxString) return cast_to_strings(call);
  return cast_to(call, call.dtype("to"));
}
std::vector<Value> cast_like(Call& call) {
  return call.value(1).is_strings() ? cast_to_strings(call) : cast_to(call, call.tensor(1).dtype());
}

/// The same bits read as another dtype of as many.
std::vector<Value> bit_cast(Call& call) {
  const Value x = call.value(0);
  const DType to = call.dtype("to");
  if (bits_of(x.dtype()) != bits_of(to))
    call.fail(ErrorKind::DType, std::string(to_string(x.dtype())) + " to " + to_string(to) +
                                    ", expected dtypes of as many bits");
  return {elementwise(call, {x}, [&](const std::vector<Tensor>& t) {
    const Tensor bits = t[0].dtype() == DType::Bool ? t[0].cast(DType::U8) : t[0];
    return to == DType::Bool ? bits.bitcast(DType::U8).cast(to) : bits.bitcast(to); // a bool is 0 or 1
  })};
}

const OpRow kCastOps[] = {
    {"Cast", 1, cast},
    {"CastLike", 15, cast_like},
    {"BitCast", 26, bit_cast},
};

} // namespace

OpTable cast_ops() { return kCastOps; }

} // namespace lathe::onnx
