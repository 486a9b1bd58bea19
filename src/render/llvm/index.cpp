// Index expressions. A scalar is an i64; per lane, a vector of i32 if that is wide enough, else of i64.
#include <bit>

#include "lathe/error.hpp"
#include "render/llvm/emitter.hpp"

namespace lathe::render {
namespace {

using llvm::ConstantInt;
using llvm::Value;

constexpr uint32_t kTrunc = 0x1000, kSplat = 0x1001, kCompareLanes = 0x1002; // beside the ops' codes
constexpr uint32_t kSteps = 0x1004, kKinds = 0x1100;                         // kKinds + the kind of an Expr

bool fits_in_32_bits(Expr e) {
  if (e.lo() < INT32_MIN || e.hi() > INT32_MAX) return false;
  if (e.is_const() || e.is_var()) return true;
  return fits_in_32_bits(e.lhs()) && fits_in_32_bits(e.rhs());
}

void collect_terms(Expr e, std::vector<Expr>& terms) {
  if (e.kind() != ExprKind::Add) {
    terms.push_back(e);
    return;
  }
  collect_terms(e.lhs(), terms);
  collect_terms(e.rhs(), terms);
}

} // namespace

int FunctionEmitter::level_of(Expr e) const {
  std::vector<Expr> vars;
  collect_vars(e, vars);
  int level = 0;
  for (Expr var : vars)
    if (var.id() >= 0 && !(lanes_ && var == lane_)) {
      auto known = loop_vars_.find(var.id());
      if (known == loop_vars_.end())
        throw InternalError("llvm: " + to_string(e) + " uses a loop that is not open");
      level = std::max(level, known->second.level);
    }
  return level;
}

/// An Expr of one of the kinds with two operands, for scalars and for vectors.
Value* FunctionEmitter::combine_kinds(Expr e, Value* x, Value* y) {
  llvm::Type* type = x->getType();
  const Expr a = e.lhs(), d = e.rhs();
  const bool natural = a.lo() >= 0 && d.lo() >= 1;
  const bool shift = d.is_const() && d.value() > 0 && std::has_single_bit(static_cast<uint64_t>(d.value()));
  auto num = [&](int64_t v) { return ConstantInt::getSigned(type, v); };
  auto safe_divisor = [&] {
    return d.lo() >= 1 || d.hi() <= -1 ? y : b_.CreateSelect(b_.CreateICmpEQ(y, num(0)), num(1), y);
  };
  auto wrong_sign = [&](Value* remainder, Value* divisor) { // of C's remainder, unlike a floor division's
    return b_.CreateAnd(b_.CreateICmpNE(remainder, num(0)),
                        b_.CreateICmpSLT(b_.CreateXor(remainder, divisor), num(0)));
  };
  switch (e.kind()) {
  case ExprKind::Add: return b_.CreateNSWAdd(x, y);
  case ExprKind::Mul: return b_.CreateNSWMul(x, y);
  case ExprKind::FloorDiv: {
    if (shift) return b_.CreateAShr(x, num(std::countr_zero(static_cast<uint64_t>(d.value()))));
    if (natural) return b_.CreateUDiv(x, y);
    Value* divisor = safe_divisor();
    Value* wrong = wrong_sign(b_.CreateSRem(x, divisor), divisor);
    return b_.CreateSub(b_.CreateSDiv(x, divisor), b_.CreateZExt(wrong, type));
  }
  case ExprKind::Mod: {
    if (shift) return b_.CreateAnd(x, num(d.value() - 1));
    if (natural) return b_.CreateURem(x, y);
    Value* divisor = safe_divisor();
    Value* remainder = b_.CreateSRem(x, divisor);
    return b_.CreateAdd(remainder, b_.CreateSelect(wrong_sign(remainder, divisor), divisor, num(0)));
  }
  case ExprKind::Min: return b_.CreateSelect(b_.CreateICmpSLT(x, y), x, y);
  case ExprKind::Max: return b_.CreateSelect(b_.CreateICmpSGT(x, y), x, y);
  case ExprKind::Lt: return b_.CreateZExt(b_.CreateICmpSLT(x, y), type);
  case ExprKind::Le: return b_.CreateZExt(b_.CreateICmpSLE(x, y), type);
  case ExprKind::Eq: return b_.CreateZExt(b_.CreateICmpEQ(x, y), type);
  case ExprKind::And: return b_.CreateAnd(x, y);
  case ExprKind::Const:
  case ExprKind::Var: break;
  }
  throw InternalError("llvm: " + to_string(e) + " has no operands");
}

Value* FunctionEmitter::expr(Expr e) {
  if (e.is_const()) return b_.getInt64(e.value());
  const int level = level_of(e);
  if (e.is_var() && e.id() >= 0) return loop_vars_.at(e.id()).value;
  if (auto known = levels_[level].exprs.find({e.node(), 0}); known != levels_[level].exprs.end())
    return known->second;
  Value* out = nullptr;
  if (e.is_var()) {
    const auto& vars = state_.kernel.shape_vars;
    const auto place = std::find(vars.begin(), vars.end(), e);
    if (place == vars.end()) throw InternalError("llvm: shape variable " + e.name() + " is not the kernel's");
    out = at(level, [&] {
      Value* from =
          b_.CreateConstGEP1_64(b_.getInt64Ty(), function_->getArg(arguments_.vars), place - vars.begin());
      return b_.CreateAlignedLoad(b_.getInt64Ty(), from, llvm::Align(8));
    });
  } else if (e.kind() == ExprKind::Add) { // terms of outer loops first, so that inner loops add few
    std::vector<Expr> terms;
    collect_terms(e, terms);
    std::stable_sort(terms.begin(), terms.end(), [&](Expr a, Expr b) {
      return std::pair(level_of(a), a.is_const()) < std::pair(level_of(b), b.is_const());
    });
    int reached = 0;
    for (Expr term : terms) {
      Value* next = expr(term);
      reached = std::max(reached, level_of(term));
      Value* so_far = out;
      out = so_far ? once(reached, static_cast<uint32_t>(Op::Add), b_.getInt64Ty(), {so_far, next, nullptr},
                          [&] { return b_.CreateNSWAdd(so_far, next); })
                   : next;
    }
  } else {
    Value *x = expr(e.lhs()), *y = expr(e.rhs());
    out = at(level, [&] { return combine_kinds(e, x, y); });
  }
  levels_[level].exprs[{e.node(), 0}] = out;
  return out;
}

Value* FunctionEmitter::condition(Expr e) {
  const int level = level_of(e);
  if (auto known = levels_[level].exprs.find({e.node(), -1}); known != levels_[level].exprs.end())
    return known->second;
  Value* out = nullptr;
  if (e.kind() == ExprKind::And) {
    Value *x = condition(e.lhs()), *y = condition(e.rhs());
    out = at(level, [&] { return b_.CreateAnd(x, y); });
  } else if (e.kind() == ExprKind::Lt || e.kind() == ExprKind::Le || e.kind() == ExprKind::Eq) {
    Value *x = expr(e.lhs()), *y = expr(e.rhs());
    out = at(level, [&] {
      return b_.CreateICmp(e.kind() == ExprKind::Lt   ? llvm::CmpInst::ICMP_SLT
                           : e.kind() == ExprKind::Le ? llvm::CmpInst::ICMP_SLE
                                                      : llvm::CmpInst::ICMP_EQ,
                           x, y);
    });
  } else {
    Value* x = expr(e);
    out = at(level, [&] { return b_.CreateICmpNE(x, b_.getInt64(0)); });
  }
  levels_[level].exprs[{e.node(), -1}] = out;
  return out;
}

Value* FunctionEmitter::vector_expr(Expr e, int bits) {
  const int level = level_of(e);
  const std::pair key{e.node(), lanes_ * 64 + bits};
  if (auto known = levels_[level].exprs.find(key); known != levels_[level].exprs.end()) return known->second;
  llvm::Type* element = b_.getIntNTy(bits);
  auto spread = [&](Expr scalar) {
    Value* x = expr(scalar);
    const int where = level_of(scalar);
    if (bits < 64) x = once(where, kTrunc, element, {x}, [&] { return b_.CreateTrunc(x, element); });
    return once(where, kSplat, element, {x, b_.getInt32(lanes_)}, [&] { return splat(b_, x, lanes_); });
  };
  Value* out = nullptr;
  if (!depends_on(e, lane_)) {
    out = spread(e);
  } else if (auto stride = stride_of(e, lane_)) {
    Value* steps = lane_numbers(element, lanes_);
    Value *base = spread(substitute(e, {{lane_, Expr(0)}})), *step = spread(*stride);
    // The lane of another loop makes another Expr of the same numbers, so these are known by their operands.
    out = once(level, kSteps, element, {base, step, b_.getInt32(lanes_)},
               [&] { return b_.CreateAdd(base, stride->is_const(1) ? steps : b_.CreateMul(steps, step)); });
  } else {
    Value *x = vector_expr(e.lhs(), bits), *y = vector_expr(e.rhs(), bits);
    out = once(level, kKinds + static_cast<uint32_t>(e.kind()), x->getType(), {x, y},
               [&] { return combine_kinds(e, x, y); });
  }
  levels_[level].exprs[key] = out;
  return out;
}

/// The mask lane < bound (below), or lane >= bound.
Value* FunctionEmitter::compare_lanes(Expr bound, bool below) {
  const Expr clamped = max(Expr(0), min(Expr(lanes_), bound));
  Value* limit = expr(clamped);
  llvm::Type* element = lanes_ <= 16 ? b_.getInt32Ty() : b_.getInt8Ty();
  return once(level_of(clamped), kCompareLanes + below, element, {limit, b_.getInt32(lanes_)}, [&] {
    Value* steps = lane_numbers(element, lanes_);
    Value* limits = splat(b_, b_.CreateTrunc(limit, element), lanes_);
    return below ? b_.CreateICmpULT(steps, limits) : b_.CreateICmpUGE(steps, limits);
  });
}

Value* FunctionEmitter::vector_condition(Expr e) {
  if (e.kind() == ExprKind::And) {
    auto part = [&](Expr side) {
      return depends_on(side, lane_) ? vector_condition(side) : widened({condition(side), level_of(side)});
    };
    Value *x = part(e.lhs()), *y = part(e.rhs());
    return once(level_of(e), static_cast<uint32_t>(Op::And), x->getType(), {x, y},
                [&] { return b_.CreateAnd(x, y); });
  }
  if (e.kind() == ExprKind::Lt || e.kind() == ExprKind::Le) {
    const Expr difference = e.lhs() - e.rhs() - (e.kind() == ExprKind::Le ? 1 : 0); // e: difference < 0
    const auto stride = stride_of(difference, lane_);
    if (stride && stride->is_const() && stride->value() != 0) {
      const int64_t step = stride->value();
      const Expr first = substitute(difference, {{lane_, Expr(0)}});
      return step > 0 ? compare_lanes(ceildiv(-first, step), true)
                      : compare_lanes(floordiv(first, -step) + 1, false);
    }
  }
  Value* number = vector_expr(e, fits_in_32_bits(e) ? 32 : 64);
  return once(level_of(e), static_cast<uint32_t>(Op::CmpNe), number->getType(), {number},
              [&] { return b_.CreateICmpNE(number, llvm::Constant::getNullValue(number->getType())); });
}

Placed FunctionEmitter::index_number(Expr e, DType dtype) {
  const int level = level_of(e);
  const bool per_lane = lanes_ && depends_on(e, lane_);
  if (dtype == DType::Bool) return {per_lane ? vector_condition(e) : condition(e), level};
  DType from = DType::I64;
  Value* number = nullptr;
  if (per_lane) {
    // Integers wrap, so the code may compute an affine index in the width of the result.
    const bool wraps = is_integer(dtype) && size_of(dtype) <= 4 && stride_of(e, lane_);
    from = wraps || fits_in_32_bits(e) ? DType::I32 : DType::I64;
    number = vector_expr(e, from == DType::I32 ? 32 : 64);
  } else {
    number = expr(e);
  }
  const auto code = static_cast<uint32_t>(Op::Cast) | static_cast<uint32_t>(dtype) << 16;
  return {once(level, code, number->getType(), {number}, [&] { return op(Op::Cast, dtype, from, {number}); }),
          level};
}

} // namespace lathe::render
