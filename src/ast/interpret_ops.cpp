// Typed instructions of the interpreter. An op without a fast function here runs core's evaluate(). Both must
// agree bit for bit (a test compares them on every op and dtype).
#include "ast/interpret_ops.hpp"

#include <bit>
#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include "ast/canonical.hpp"
#include "lathe/error.hpp"

namespace lathe::ast::interpreter {
namespace {

template <DType D> struct Native;
template <> struct Native<DType::Bool> { using type = uint8_t; };
template <> struct Native<DType::I8> { using type = int8_t; };
template <> struct Native<DType::I16> { using type = int16_t; };
template <> struct Native<DType::I32> { using type = int32_t; };
template <> struct Native<DType::I64> { using type = int64_t; };
template <> struct Native<DType::U8> { using type = uint8_t; };
template <> struct Native<DType::U16> { using type = uint16_t; };
template <> struct Native<DType::U32> { using type = uint32_t; };
template <> struct Native<DType::U64> { using type = uint64_t; };
template <> struct Native<DType::F16> { using type = float; };
template <> struct Native<DType::BF16> { using type = float; };
template <> struct Native<DType::F32> { using type = float; };
template <> struct Native<DType::F64> { using type = double; };
template <DType D> using native = typename Native<D>::type;

template <DType D> native<D> get(const Slot& slot) {
  if constexpr (D == DType::F64)
    return slot.f;
  else if constexpr (is_float(D))
    return slot.s;
  else
    return static_cast<native<D>>(slot.i);
}
template <DType D> void set(Slot& slot, native<D> value) {
  if constexpr (D == DType::F64)
    slot.f = value;
  else if constexpr (D == DType::F16)
    slot.s = f16_to_f32(f32_to_f16(value));
  else if constexpr (D == DType::BF16)
    slot.s = bf16_to_f32(f32_to_bf16(value));
  else if constexpr (is_float(D))
    slot.s = value;
  else
    slot.i = static_cast<int64_t>(value);
}

template <DType D> Slot read(const uint8_t* p) {
  Slot slot{};
  if constexpr (is_half(D)) {
    uint16_t bits;
    std::memcpy(&bits, p, 2);
    slot.s = D == DType::F16 ? f16_to_f32(bits) : bf16_to_f32(bits);
  } else {
    native<D> value;
    std::memcpy(&value, p, sizeof value);
    if constexpr (D == DType::Bool) value = value != 0;
    set<D>(slot, value);
  }
  return slot;
}
template <DType D> void write(uint8_t* p, const Slot& slot) {
  if constexpr (is_half(D)) {
    const uint16_t bits = D == DType::F16 ? f32_to_f16(slot.s) : f32_to_bf16(slot.s);
    std::memcpy(p, &bits, 2);
  } else {
    const native<D> value = get<D>(slot);
    std::memcpy(p, &value, sizeof value);
  }
}

Scalar scalar_of(DType dtype, const Slot& slot) {
  if (dtype == DType::F64) return Scalar::of_float(dtype, slot.f);
  return is_float(dtype) ? Scalar::of_float(dtype, slot.s) : Scalar::of_int(dtype, slot.i);
}

/// Runs any op on any dtype by its definition, evaluate().
void run_evaluate(const Operation& in, Frame& frame) {
  const auto& slots = frame.slots;
  const DType last = in.from;
  const Scalar args[] = {scalar_of(in.op == Op::Where ? DType::Bool : last, slots[in.a]),
                         scalar_of(last, slots[in.b]), scalar_of(last, slots[in.c])};
  frame.slots[in.target] =
      slot_of(evaluate(in.op, in.dtype, std::span(args, static_cast<size_t>(info(in.op).arity))));
}

void run_where(const Operation& in, Frame& frame) {
  frame.slots[in.target] = frame.slots[in.a].i ? frame.slots[in.b] : frame.slots[in.c];
}
template <DType To, DType From> void run_convert(const Operation& in, Frame& frame) {
  set<To>(frame.slots[in.target], static_cast<native<To>>(get<From>(frame.slots[in.a])));
}
template <DType To, DType From> void run_bitcast(const Operation& in, Frame& frame) {
  set<To>(frame.slots[in.target], std::bit_cast<native<To>>(get<From>(frame.slots[in.a])));
}

template <DType D, Op O> void run_float(const Operation& in, Frame& frame) {
  using T = native<D>;
  auto& slots = frame.slots;
  const T a = get<D>(slots[in.a]), b = get<D>(slots[in.b]);
  Slot& out = slots[in.target];
  if constexpr (O == Op::Neg)
    set<D>(out, -a);
  else if constexpr (O == Op::Sqrt)
    set<D>(out, std::sqrt(a));
  else if constexpr (O == Op::Trunc)
    set<D>(out, std::trunc(a));
  else if constexpr (O == Op::Add)
    set<D>(out, a + b);
  else if constexpr (O == Op::Sub)
    set<D>(out, a - b);
  else if constexpr (O == Op::Mul)
    set<D>(out, a * b);
  else if constexpr (O == Op::Div)
    set<D>(out, a / b);
  else if constexpr (O == Op::Max)
    set<D>(out, std::isnan(a) ? a : std::isnan(b) || b > a ? b : a);
  else if constexpr (O == Op::Fma)
    set<D>(out, std::fma(a, b, get<D>(slots[in.c])));
  else if constexpr (O == Op::CmpLt)
    out.i = a < b;
  else
    out.i = a != b;
}
// clang-format off
template <DType D> Run float_op(Op op) {
  switch (op) {
#define LATHE_CASE(name) case Op::name: return run_float<D, Op::name>;
    LATHE_CASE(Neg) LATHE_CASE(Sqrt) LATHE_CASE(Trunc) LATHE_CASE(Add) LATHE_CASE(Sub)
    LATHE_CASE(Mul) LATHE_CASE(Div) LATHE_CASE(Max) LATHE_CASE(Fma) LATHE_CASE(CmpLt) LATHE_CASE(CmpNe)
#undef LATHE_CASE
  default: return run_evaluate;
  }
}
// clang-format on

template <DType D, Op O> void run_integer(const Operation& in, Frame& frame) {
  using T = native<D>;
  auto& slots = frame.slots;
  const T a = get<D>(slots[in.a]), b = get<D>(slots[in.b]);
  const auto ua = static_cast<uint64_t>(a), ub = static_cast<uint64_t>(b);
  Slot& out = slots[in.target];
  if constexpr (O == Op::Neg)
    set<D>(out, static_cast<T>(-ua));
  else if constexpr (O == Op::Add)
    set<D>(out, static_cast<T>(ua + ub));
  else if constexpr (O == Op::Sub)
    set<D>(out, static_cast<T>(ua - ub));
  else if constexpr (O == Op::Mul)
    set<D>(out, static_cast<T>(ua * ub));
  else if constexpr (O == Op::Max)
    set<D>(out, a > b ? a : b);
  else if constexpr (O == Op::And)
    set<D>(out, static_cast<T>(ua & ub));
  else if constexpr (O == Op::Or)
    set<D>(out, static_cast<T>(ua | ub));
  else if constexpr (O == Op::Xor)
    set<D>(out, static_cast<T>(ua ^ ub));
  else if constexpr (O == Op::Shl)
    set<D>(out, ub >= 8 * sizeof(T) ? T{0} : static_cast<T>(ua << ub));
  else if constexpr (O == Op::CmpLt)
    out.i = a < b;
  else
    out.i = a != b;
}
// clang-format off
template <DType D> Run integer_op(Op op) {
  switch (op) {
#define LATHE_CASE(name) case Op::name: return run_integer<D, Op::name>;
    LATHE_CASE(Neg) LATHE_CASE(Add) LATHE_CASE(Sub) LATHE_CASE(Mul) LATHE_CASE(Max) LATHE_CASE(And)
    LATHE_CASE(Or) LATHE_CASE(Xor) LATHE_CASE(Shl) LATHE_CASE(CmpLt) LATHE_CASE(CmpNe)
#undef LATHE_CASE
  default: return run_evaluate;
  }
}
Run bool_op(Op op) {
  switch (op) {
#define LATHE_CASE(name) case Op::name: return run_integer<DType::Bool, Op::name>;
    LATHE_CASE(Max) LATHE_CASE(And) LATHE_CASE(Or) LATHE_CASE(Xor) LATHE_CASE(CmpLt) LATHE_CASE(CmpNe)
#undef LATHE_CASE
  default: return run_evaluate;
  }
}

/// Calls f<D>() for the dtype.
template <class F> auto with_dtype(DType dtype, F&& f) {
  switch (dtype) {
#define LATHE_CASE(name) case DType::name: return f.template operator()<DType::name>();
    LATHE_CASE(Bool) LATHE_CASE(I8) LATHE_CASE(I16) LATHE_CASE(I32) LATHE_CASE(I64) LATHE_CASE(U8) LATHE_CASE(U16)
    LATHE_CASE(U32) LATHE_CASE(U64) LATHE_CASE(F16) LATHE_CASE(BF16) LATHE_CASE(F32) LATHE_CASE(F64)
#undef LATHE_CASE
  default: break; // no kernel has values of the narrow dtypes
  }
  throw InternalError("unknown dtype");
}
// clang-format on

Run conversion(DType to, DType from) {
  using enum DType;
  if (is_integer(to) && !is_float(from))
    return with_dtype(to, []<DType D>() -> Run {
      if constexpr (is_integer(D))
        return run_convert<D, I64>;
      else
        return run_evaluate;
    });
  const bool small = !is_float(from) && size_of(from) <= 4;
  if (to == F32 && small) return run_convert<F32, I64>;
  if (to == F64 && small) return run_convert<F64, I64>;
  if (to == F64 && is_float(from) && from != F64) return run_convert<F64, F32>;
  if (to == F32 && is_float(from)) return from == F64 ? run_convert<F32, F64> : run_convert<F32, F32>;
  return run_evaluate;
}

[[noreturn, gnu::cold]] void out_of_bounds(const Access& access, const Frame& frame, size_t dim) {
  const BufferState& state = frame.buffers[access.buffer];
  throw InternalError(fmt::format("interpret: index {} of dimension {} of {} is outside [0, {}), in: {}",
                                  frame.registers[access.index[dim]], dim, state.buffer->name,
                                  frame.registers[state.shape[dim]], print_line(*access.statement)));
}

bool guarded_off(const Access& access, const Frame& frame) {
  for (int guard : access.guards)
    if (!frame.registers[guard]) return true;
  return false;
}
int64_t position(const Access& access, const Frame& frame) {
  const BufferState& state = frame.buffers[access.buffer];
  int64_t flat = 0;
  for (size_t d = 0; d < access.index.size(); ++d) {
    const int64_t i = frame.registers[access.index[d]], extent = frame.registers[state.shape[d]];
    if (static_cast<uint64_t>(i) >= static_cast<uint64_t>(extent)) out_of_bounds(access, frame, d);
    flat = flat * extent + i;
  }
  return flat;
}
/// The computed index, or -1 if it lies outside the buffer.
int64_t computed_position(const Access& access, const Frame& frame, const Slot& index) {
  return static_cast<uint64_t>(index.i) < static_cast<uint64_t>(frame.buffers[access.buffer].elements)
             ? index.i
             : -1;
}

template <DType D> void run_load(const Operation& in, Frame& frame) {
  Slot& out = frame.slots[in.target];
  if (guarded_off(*in.access, frame))
    set<D>(out, 0);
  else
    out = read<D>(frame.buffers[in.access->buffer].data + position(*in.access, frame) * size_of(D));
}
template <DType D> void run_gather(const Operation& in, Frame& frame) {
  Slot& out = frame.slots[in.target];
  const int64_t at =
      guarded_off(*in.access, frame) ? -1 : computed_position(*in.access, frame, frame.slots[in.a]);
  if (at < 0)
    set<D>(out, 0);
  else
    out = read<D>(frame.buffers[in.access->buffer].data + at * size_of(D));
}

/// Stores slot a at element `at`. A combining store uses slot c as its scratch.
template <DType D> void store_at(const Operation& in, Frame& frame, int64_t at, bool combines) {
  uint8_t* element = frame.buffers[in.access->buffer].data + at * size_of(D);
  if (!combines) return write<D>(element, frame.slots[in.a]);
  frame.slots[in.c] = read<D>(element);
  const Operation fold{nullptr, in.c, in.c, in.a, in.a, nullptr, in.op, D, D};
  if constexpr (D == DType::F32) {
    if (in.op == Op::Add) {
      run_float<D, Op::Add>(fold, frame);
      return write<D>(element, frame.slots[in.c]);
    }
  }
  elementwise(in.op, D, D)(fold, frame);
  write<D>(element, frame.slots[in.c]);
}
template <DType D, bool Combines> void run_store(const Operation& in, Frame& frame) {
  store_at<D>(in, frame, position(*in.access, frame), Combines);
}
template <DType D, bool Combines> void run_scatter(const Operation& in, Frame& frame) {
  const int64_t at = computed_position(*in.access, frame, frame.slots[in.b]);
  if (at >= 0) store_at<D>(in, frame, at, Combines);
}
template <DType D> void run_from_register(const Operation& in, Frame& frame) {
  const int64_t value = frame.registers[in.a];
  if constexpr (D == DType::Bool)
    frame.slots[in.target].i = value != 0;
  else if constexpr (is_float(D))
    frame.slots[in.target] = slot_of(Scalar::of_int(D, value));
  else
    set<D>(frame.slots[in.target], static_cast<native<D>>(value));
}

} // namespace

Slot slot_of(const Scalar& value) {
  Slot slot{};
  if (value.dtype() == DType::F64)
    slot.f = value.as_float();
  else if (is_float(value.dtype()))
    slot.s = static_cast<float>(value.as_float());
  else
    slot.i = static_cast<int64_t>(value.bits());
  return slot;
}

Run elementwise(Op op, DType dtype, DType from) {
  if (op == Op::Where) return run_where;
  if (op == Op::Cast) return conversion(dtype, from);
  if (op == Op::Bitcast && dtype == DType::I32 && from == DType::F32)
    return run_bitcast<DType::I32, DType::F32>;
  if (op == Op::Bitcast && dtype == DType::F32 && from == DType::I32)
    return run_bitcast<DType::F32, DType::I32>;
  if (op == Op::Bitcast) return run_evaluate;
  return with_dtype(from, [op]<DType D>() -> Run {
    if constexpr (D == DType::Bool)
      return bool_op(op);
    else if constexpr (is_float(D))
      return float_op<D>(op);
    else
      return integer_op<D>(op);
  });
}
Run from_register(DType dtype) {
  return with_dtype(dtype, []<DType D>() -> Run { return run_from_register<D>; });
}
Run load_element(DType dtype) {
  return with_dtype(dtype, []<DType D>() -> Run { return run_load<D>; });
}
Run gather_element(DType dtype) {
  return with_dtype(dtype, []<DType D>() -> Run { return run_gather<D>; });
}
Run store_element(DType dtype, bool combines) {
  return with_dtype(
      dtype, [combines]<DType D>() -> Run { return combines ? run_store<D, true> : run_store<D, false>; });
}
Run scatter_element(DType dtype, bool combines) {
  return with_dtype(dtype, [combines]<DType D>() -> Run {
    return combines ? run_scatter<D, true> : run_scatter<D, false>;
  });
}

} // namespace lathe::ast::interpreter
