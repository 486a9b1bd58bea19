#include "render/llvm/ops.hpp"

#include <cmath>
#include <numeric>

#include <fmt/core.h>
#include <llvm/IR/IntrinsicsX86.h>
#include <llvm/IR/Module.h>

#include "lathe/error.hpp"

namespace lathe::render {
namespace {

using llvm::IRBuilderBase;
using llvm::Type;
using llvm::Value;

Type* scalar_type(llvm::LLVMContext& c, DType dtype) {
  switch (dtype) {
  case DType::Bool: return Type::getInt1Ty(c);
  case DType::F32: return Type::getFloatTy(c);
  case DType::F64: return Type::getDoubleTy(c);
  default: return Type::getIntNTy(c, 8 * size_of(dtype));
  }
}

/// The type of `like`, but with `element` as the type of its lanes.
Type* shaped(Type* element, Value* like) {
  auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(like->getType());
  return vector ? llvm::FixedVectorType::get(element, vector->getNumElements()) : element;
}

struct Emit {
  IRBuilderBase& b;
  bool has_f16c;

  Type* i32(Value* like) { return shaped(b.getInt32Ty(), like); }
  Type* f32(Value* like) { return shaped(b.getFloatTy(), like); }
  Value* num(Value* like, uint64_t v) { return llvm::ConstantInt::get(like->getType(), v); }

  Value* f32_from_f16(Value* h) {
    if (has_f16c) return b.CreateFPExt(b.CreateBitCast(h, shaped(b.getHalfTy(), h)), f32(h));
    Value* w = b.CreateZExt(h, i32(h));
    Value* sign = b.CreateShl(b.CreateAnd(w, num(w, 0x8000)), num(w, 16));
    Value* magnitude = b.CreateAnd(w, num(w, 0x7FFF));
    Value* normal = b.CreateAdd(b.CreateShl(magnitude, num(w, 13)), num(w, 112u << 23));
    Value* special = b.CreateAdd(normal, num(w, 112u << 23)); // infinities and NaNs keep the highest exponent
    Value* tiny = b.CreateFMul(b.CreateUIToFP(magnitude, f32(h)), llvm::ConstantFP::get(f32(h), 0x1p-24));
    Value* bits = b.CreateSelect(b.CreateICmpUGE(magnitude, num(w, 0x7C00)), special, normal);
    bits = b.CreateSelect(b.CreateICmpULT(magnitude, num(w, 0x400)), b.CreateBitCast(tiny, i32(h)), bits);
    return b.CreateBitCast(b.CreateOr(bits, sign), f32(h));
  }

  Value* f16_from_f32(Value* v) {
    Type* i16 = shaped(b.getInt16Ty(), v);
    if (has_f16c) return b.CreateBitCast(b.CreateFPTrunc(v, shaped(b.getHalfTy(), v)), i16);
    Value* bits = b.CreateBitCast(v, i32(v));
    Value* sign = b.CreateAnd(b.CreateLShr(bits, num(bits, 16)), num(bits, 0x8000));
    Value* magnitude = b.CreateAnd(bits, num(bits, 0x7FFFFFFF));
    Value* odd = b.CreateAnd(b.CreateLShr(magnitude, num(bits, 13)), num(bits, 1));
    Value* normal = b.CreateAdd(b.CreateAdd(magnitude, num(bits, 0xFFF)), odd);
    normal = b.CreateLShr(b.CreateSub(normal, num(bits, 112u << 23)), num(bits, 13));
    // Adding 0.5 makes the hardware round a number below 2^-14 to a multiple of 2^-24.
    Value* half = llvm::ConstantFP::get(v->getType(), 0.5);
    Value* tiny = b.CreateFAdd(b.CreateBitCast(magnitude, v->getType()), half);
    tiny = b.CreateSub(b.CreateBitCast(tiny, i32(v)), num(bits, 0x3F000000));
    Value* out = b.CreateSelect(b.CreateICmpULT(magnitude, num(bits, 0x38800000)), tiny, normal);
    out = b.CreateSelect(b.CreateICmpUGE(magnitude, num(bits, 0x477FF000)), num(bits, 0x7C00), out);
    Value* quiet =
        b.CreateOr(b.CreateAnd(b.CreateLShr(magnitude, num(bits, 13)), num(bits, 0x3FF)), num(bits, 0x7E00));
    out = b.CreateSelect(b.CreateICmpUGT(magnitude, num(bits, 0x7F800000)), quiet, out);
    return b.CreateTrunc(b.CreateOr(out, sign), i16);
  }

  Value* widen(Value* v, DType from) { // f16 and bf16 to f32
    if (from == DType::F16) return f32_from_f16(v);
    Value* w = b.CreateZExt(v, i32(v));
    return b.CreateBitCast(b.CreateShl(w, num(w, 16)), f32(v));
  }

  Value* narrow(Value* v, DType to) { // f32 to f16 and bf16, to nearest even
    if (to == DType::F16) return f16_from_f32(v);
    Value* bits = b.CreateBitCast(v, i32(v));
    Value* high = b.CreateLShr(bits, num(bits, 16));
    Value* rounded = b.CreateAdd(b.CreateAdd(bits, num(bits, 0x7FFF)), b.CreateAnd(high, num(bits, 1)));
    Value* quiet = b.CreateOr(high, num(bits, 0x40));
    Value* out = b.CreateSelect(b.CreateFCmpUNO(v, v), quiet, b.CreateLShr(rounded, num(bits, 16)));
    return b.CreateTrunc(out, shaped(b.getInt16Ty(), v));
  }

  /// An f64 as the float that equals it, else as the odd one of its two neighbours.
  Value* f32_to_odd(Value* v) {
    Value* near = b.CreateFPTrunc(v, f32(v));
    Value* back = b.CreateFPExt(near, v->getType());
    Value* bits = b.CreateBitCast(near, i32(v));
    Value *below = b.CreateFCmpOLT(back, v), *inexact = b.CreateFCmpONE(back, v);
    Value* away = b.CreateICmpEQ(below, b.CreateICmpSGE(bits, num(bits, 0)));
    Value* next = b.CreateSelect(away, b.CreateAdd(bits, num(bits, 1)), b.CreateSub(bits, num(bits, 1)));
    Value* even = b.CreateICmpEQ(b.CreateAnd(bits, num(bits, 1)), num(bits, 0));
    return b.CreateBitCast(b.CreateSelect(b.CreateAnd(inexact, even), next, bits), f32(v));
  }

  /// An integer rounded to odd, if it has more than the `digits` of the float to come: the bit above the
  /// lowest `low` bits replaces them if they are not 0.
  Value* integer_to_odd(Value* v, int digits, int low, bool is_signed) {
    Value* size = is_signed ? b.CreateXor(v, b.CreateAShr(v, v->getType()->getScalarSizeInBits() - 1)) : v;
    Value* large = b.CreateICmpNE(b.CreateLShr(size, digits), num(v, 0));
    const uint64_t mask = (uint64_t{1} << low) - 1;
    Value* rest = b.CreateICmpNE(b.CreateAnd(v, num(v, mask)), num(v, 0));
    Value* odd = b.CreateOr(b.CreateAnd(v, b.CreateNot(num(v, mask))), num(v, mask + 1));
    return b.CreateSelect(b.CreateAnd(large, rest), odd, v);
  }

  /// A float that rounds to the same `half` as the value itself. Two ordinary roundings could go wrong: the
  /// first could make a tie, which the second rounds.
  Value* to_odd(Value* v, DType half, DType from) {
    if (from == DType::F64) return f32_to_odd(v);
    // A float holds integers below 2^24 exactly, and larger integers are infinite in f16.
    if (is_float(from) || size_of(from) < 4 || half == DType::F16) return cast(v, DType::F32, from);
    if (size_of(from) == 4) return cast(integer_to_odd(v, 24, 8, is_signed(from)), DType::F32, from);
    return f32_to_odd(cast(integer_to_odd(v, 53, 11, is_signed(from)), DType::F64, from));
  }

  // Floats as integers, saturated; NaN is 0. LLVM's own conversions take the lanes one by one.

  /// Of 8 or 16 bits.
  Value* small_integer(Value* v, DType to, Type* type) {
    const int bits = 8 * size_of(to) - (is_signed(to) ? 1 : 0);
    Value* largest = llvm::ConstantFP::get(v->getType(), (1 << bits) - 1);
    Value* least = llvm::ConstantFP::get(v->getType(), is_signed(to) ? -(1 << bits) : 0);
    Value* near = b.CreateSelect(b.CreateFCmpOLT(v, largest), v, largest);
    near = b.CreateSelect(b.CreateFCmpOGT(near, least), near, least);
    near = b.CreateSelect(b.CreateFCmpUNO(v, v), llvm::ConstantFP::get(v->getType(), 0), near);
    return b.CreateTrunc(b.CreateFPToSI(near, shaped(b.getInt32Ty(), v)), type);
  }

  /// Of 32 or 64 bits. What is not in range is converted as 0 and replaced.
  Value* large_integer(Value* v, DType to, Type* type) {
    const bool has_sign = is_signed(to);
    const auto bits = static_cast<unsigned>(8 * size_of(to));
    Value* end =
        llvm::ConstantFP::get(v->getType(), std::ldexp(1.0, static_cast<int>(bits) - (has_sign ? 1 : 0)));
    Value* begin = has_sign ? b.CreateFNeg(end) : llvm::ConstantFP::get(v->getType(), 0);
    Value* is_below_end = b.CreateFCmpOLT(v, end);
    Value* is_within = b.CreateAnd(is_below_end, b.CreateFCmpOGE(v, begin));
    Value* within = b.CreateSelect(is_within, v, llvm::ConstantFP::get(v->getType(), 0));
    Value* whole = has_sign ? b.CreateFPToSI(within, type) : b.CreateFPToUI(within, type);
    const llvm::APInt most = has_sign ? llvm::APInt::getSignedMaxValue(bits) : llvm::APInt::getMaxValue(bits);
    whole = b.CreateSelect(b.CreateFCmpOGE(v, end), llvm::ConstantInt::get(type, most), whole);
    if (!has_sign) return whole;
    Value* least = llvm::ConstantInt::get(type, llvm::APInt::getSignedMinValue(bits));
    return b.CreateSelect(b.CreateFCmpOLT(v, begin), least, whole);
  }

  Value* cast(Value* v, DType to, DType from) {
    if (to == from) return v;
    if (is_half(from)) return cast(widen(v, from), to, DType::F32);
    if (is_half(to)) return narrow(to_odd(v, to, from), to);
    Type* type = shaped(scalar_type(b.getContext(), to), v);
    if (to == DType::Bool) {
      if (is_float(from)) return b.CreateFCmpUNE(v, llvm::ConstantFP::get(v->getType(), 0));
      return b.CreateICmpNE(v, num(v, 0));
    }
    if (is_float(from)) {
      if (is_float(to)) return b.CreateFPCast(v, type);
      return size_of(to) <= 2 ? small_integer(v, to, type) : large_integer(v, to, type);
    }
    if (is_float(to)) return is_signed(from) ? b.CreateSIToFP(v, type) : b.CreateUIToFP(v, type);
    return b.CreateIntCast(v, type, is_signed(from));
  }

  Value* bitcast(Value* v, DType to, DType from) {
    if (to == DType::Bool) return b.CreateICmpNE(v, num(v, 0));
    Type* type = shaped(scalar_type(b.getContext(), to), v);
    return from == DType::Bool ? b.CreateZExt(v, type) : b.CreateBitCast(v, type);
  }

  static bool is_known_number(Value* v) {
    auto* constant = llvm::dyn_cast<llvm::Constant>(v);
    if (constant && constant->getType()->isVectorTy()) constant = constant->getSplatValue();
    auto* fp = llvm::dyn_cast_or_null<llvm::ConstantFP>(constant);
    return fp && !fp->isNaN();
  }

  /// The larger of x and y; NaN if either is. If c is a number, `c > x ? c : x` is one maxps, which gives x
  /// if x is NaN.
  Value* float_max(Value* x, Value* y) {
    if (is_known_number(x)) std::swap(x, y);
    Value* larger = b.CreateSelect(b.CreateFCmpOGT(y, x), y, x);
    if (is_known_number(y)) return larger;
    return b.CreateSelect(b.CreateFCmpUNO(y, y), y, larger);
  }

  Value* divide(Value* x, Value* y, bool remainder, bool is_signed) {
    // A lane past a loop's end may be undefined. The freeze makes the comparison and the division see one
    // value.
    if (!llvm::isa<llvm::Constant>(y)) y = b.CreateFreeze(y);
    Value *zero = num(y, 0), *one = num(y, 1);
    Value* bad = b.CreateICmpEQ(y, zero);
    Value* unsafe = bad; // x / -1 overflows for the lowest x, so the code uses -x
    Value* minus = nullptr;
    if (is_signed) {
      minus = b.CreateICmpEQ(y, llvm::Constant::getAllOnesValue(y->getType()));
      unsafe = b.CreateOr(bad, minus);
    }
    auto* known = llvm::dyn_cast<llvm::Constant>(unsafe);
    Value* divisor = known && known->isNullValue() ? y : b.CreateSelect(unsafe, one, y);
    Value* out = remainder ? (is_signed ? b.CreateSRem(x, divisor) : b.CreateURem(x, divisor))
                           : (is_signed ? b.CreateSDiv(x, divisor) : b.CreateUDiv(x, divisor));
    if (known && known->isNullValue()) return out;
    if (is_signed && !remainder) out = b.CreateSelect(minus, b.CreateNeg(x), out);
    return b.CreateSelect(bad, zero, out);
  }

  Value* shift(Value* x, Value* y, bool left, bool is_signed) {
    const unsigned width = x->getType()->getScalarSizeInBits();
    Value* in_range = b.CreateICmpULT(y, num(y, width));
    if (!left && is_signed) return b.CreateAShr(x, b.CreateSelect(in_range, y, num(y, width - 1)));
    Value* amount = b.CreateSelect(in_range, y, num(y, 0));
    return b.CreateSelect(in_range, left ? b.CreateShl(x, amount) : b.CreateLShr(x, amount), num(x, 0));
  }

  /// LLVM 19 takes 0 / 0 for zero in lanes where it knows both (SimplifyDemandedVectorElts), and then drops a
  /// selection of zero for them. Lanes that a mask leaves out are such. A fence, which is no instruction,
  /// hides what is known of the divisor.
  Value* divisor(Value* y) {
    if (!y->getType()->isVectorTy() || llvm::isa<llvm::Constant>(y)) return y;
    return b.CreateArithmeticFence(y, y->getType());
  }

  Value* on_floats(Op op, llvm::ArrayRef<Value*> a) {
    Type* type = a[0]->getType();
    switch (op) {
    case Op::Neg: return b.CreateFNeg(a[0]);
    case Op::Sqrt: return b.CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, a[0]);
    case Op::Exp2: return b.CreateUnaryIntrinsic(llvm::Intrinsic::exp2, a[0]);
    case Op::Log2: return b.CreateUnaryIntrinsic(llvm::Intrinsic::log2, a[0]);
    case Op::Sin: return b.CreateUnaryIntrinsic(llvm::Intrinsic::sin, a[0]);
    case Op::Cos: return b.CreateUnaryIntrinsic(llvm::Intrinsic::cos, a[0]);
    case Op::Trunc: return b.CreateUnaryIntrinsic(llvm::Intrinsic::trunc, a[0]);
    case Op::Add: return b.CreateFAdd(a[0], a[1]);
    case Op::Sub: return b.CreateFSub(a[0], a[1]);
    case Op::Mul: return b.CreateFMul(a[0], a[1]);
    case Op::Div: return b.CreateFDiv(a[0], divisor(a[1]));
    case Op::Mod: return b.CreateFRem(a[0], divisor(a[1])); // a call of fmod, lane by lane
    case Op::Max: return float_max(a[0], a[1]);
    case Op::CmpLt: return b.CreateFCmpOLT(a[0], a[1]);
    case Op::CmpNe: return b.CreateFCmpUNE(a[0], a[1]);
    case Op::Fma: return b.CreateIntrinsic(llvm::Intrinsic::fma, {type}, {a[0], a[1], a[2]});
    default: throw InternalError(fmt::format("llvm: {} on floats", to_string(op)));
    }
  }

  Value* on_integers(Op op, llvm::ArrayRef<Value*> a, bool is_signed) {
    switch (op) {
    case Op::Neg: return b.CreateNeg(a[0]);
    case Op::Add: return b.CreateAdd(a[0], a[1]);
    case Op::Sub: return b.CreateSub(a[0], a[1]);
    case Op::Mul: return b.CreateMul(a[0], a[1]);
    case Op::Max:
      return b.CreateSelect(is_signed ? b.CreateICmpSGT(a[0], a[1]) : b.CreateICmpUGT(a[0], a[1]), a[0],
                            a[1]);
    case Op::IDiv: return divide(a[0], a[1], false, is_signed);
    case Op::Mod: return divide(a[0], a[1], true, is_signed);
    case Op::CmpLt: return is_signed ? b.CreateICmpSLT(a[0], a[1]) : b.CreateICmpULT(a[0], a[1]);
    case Op::CmpNe: return b.CreateICmpNE(a[0], a[1]);
    case Op::And: return b.CreateAnd(a[0], a[1]);
    case Op::Or: return b.CreateOr(a[0], a[1]);
    case Op::Xor: return b.CreateXor(a[0], a[1]);
    case Op::Shl: return shift(a[0], a[1], true, is_signed);
    case Op::Shr: return shift(a[0], a[1], false, is_signed);
    default: throw InternalError(fmt::format("llvm: {} on integers", to_string(op)));
    }
  }
};

} // namespace

Type* value_type(llvm::LLVMContext& context, DType dtype, int lanes) {
  Type* element = scalar_type(context, dtype);
  return lanes ? llvm::FixedVectorType::get(element, lanes) : element;
}

Type* memory_type(llvm::LLVMContext& context, DType dtype, int lanes) {
  Type* element = Type::getInt8Ty(context);
  if (dtype != DType::Bool) element = scalar_type(context, dtype);
  return lanes ? llvm::FixedVectorType::get(element, lanes) : element;
}

Value* to_memory(IRBuilderBase& b, Value* value, DType dtype) {
  return dtype == DType::Bool ? b.CreateZExt(value, shaped(b.getInt8Ty(), value)) : value;
}

Value* from_memory(IRBuilderBase& b, Value* value, DType dtype) {
  return dtype == DType::Bool ? b.CreateICmpNE(value, llvm::ConstantInt::get(value->getType(), 0)) : value;
}

llvm::Constant* scalar_constant(llvm::LLVMContext& context, const Scalar& value) {
  Type* type = scalar_type(context, value.dtype());
  switch (value.dtype()) {
  case DType::F64:
  case DType::F32: {
    llvm::APFloat number(value.as_float());
    bool inexact;
    if (value.dtype() == DType::F32)
      number.convert(llvm::APFloat::IEEEsingle(), llvm::APFloat::rmNearestTiesToEven, &inexact);
    return llvm::ConstantFP::get(context, number);
  }
  case DType::F16:
  case DType::BF16: {
    uint16_t bits;
    value.to_memory(&bits);
    return llvm::ConstantInt::get(type, bits);
  }
  default:
    return llvm::ConstantInt::get(context, llvm::APInt(64, value.bits()).trunc(type->getIntegerBitWidth()));
  }
}

Value* splat(IRBuilderBase& b, Value* scalar, int lanes) {
  if (auto* constant = llvm::dyn_cast<llvm::Constant>(scalar))
    return llvm::ConstantVector::getSplat(llvm::ElementCount::getFixed(lanes), constant);
  return b.CreateVectorSplat(lanes, scalar);
}

llvm::Constant* lane_numbers(Type* element, int lanes) {
  std::vector<llvm::Constant*> numbers;
  for (int i = 0; i < lanes; i++) numbers.push_back(llvm::ConstantInt::get(element, i));
  return llvm::ConstantVector::get(numbers);
}

Value* emit_op(IRBuilderBase& b, Op op, DType result, DType operand, llvm::ArrayRef<Value*> args,
               bool has_f16c) {
  Emit emit{b, has_f16c};
  switch (op) {
  case Op::Cast: return emit.cast(args[0], result, operand);
  case Op::Bitcast: return emit.bitcast(args[0], result, operand);
  case Op::Where: return b.CreateSelect(args[0], args[1], args[2]);
  default: break;
  }
  if (is_half(operand)) {
    std::vector<Value*> wide;
    for (Value* arg : args) wide.push_back(emit.widen(arg, operand));
    Value* out = emit.on_floats(op, wide);
    return is_half(result) ? emit.narrow(out, result) : out;
  }
  return is_float(operand) ? emit.on_floats(op, args) : emit.on_integers(op, args, is_signed(operand));
}

Value* look_up(IRBuilderBase& b, Value* numbers, Value* codes) {
  return b.CreateIntrinsic(llvm::Intrinsic::x86_avx512_permvar_sf_512, {}, {numbers, codes});
}

bool can_scale(int lanes) { return lanes == 4 || lanes == 8 || lanes == 16; }

Value* scale(IRBuilderBase& b, Value* y, Value* n) {
  const unsigned lanes = llvm::cast<llvm::FixedVectorType>(y->getType())->getNumElements();
  if (lanes == 16) {
    constexpr int kCurrentRounding = 4;
    return b.CreateIntrinsic(llvm::Intrinsic::x86_avx512_mask_scalef_ps_512, {},
                             {y, n, y, b.getInt16(0xFFFF), b.getInt32(kCurrentRounding)});
  }
  return b.CreateIntrinsic(lanes == 8 ? llvm::Intrinsic::x86_avx512_mask_scalef_ps_256
                                      : llvm::Intrinsic::x86_avx512_mask_scalef_ps_128,
                           {}, {y, n, y, b.getInt8(0xFF)});
}

} // namespace lathe::render
