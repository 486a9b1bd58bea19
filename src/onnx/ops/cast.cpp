// Cast and its like.
#include "onnx/ops/broadcast.hpp"
#include "onnx/ops/tables.hpp"

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
  return {elementwise(call, {call.value(0)},
                      [&](const std::vector<Tensor>& t) { return t[0].cast(dtype, how); })};
}

std::vector<Value> cast(Call& call) { return cast_to(call, call.dtype("to")); }
std::vector<Value> cast_like(Call& call) { return cast_to(call, call.value(1).dtype()); }

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

const OpRow rows[] = {
    {"Cast", 1, cast},
    {"CastLike", 15, cast_like},
    {"BitCast", 26, bit_cast},
};

} // namespace

OpTable cast_ops() { return rows; }

} // namespace lathe::onnx
