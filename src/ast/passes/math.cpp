// Exp2, Log2, Sin and Cos of f32 as sequences of table ops, so that every renderer vectorises them and gives
// the same bits. f16 and bf16 go by way of f32. f64 is left to the C library, but for what e^x would lose in
// two steps. docs/numbers.md states the errors, which tests/conformance/functions_test.cpp measures.
//
// The table has few functions, and graphs make others from them: e^x is 2^(x log2 e). Two steps lose digits:
// the result's relative error is that of the product times x. So this file recognises the ops that make
// another function, as a * b + c is recognised for Fma, and computes that function in one step:
//   Exp2(x * log2 e)   e^x               Log2(x) * ln 2         log x
//   Sin(x) / Cos(x)    tan x             Log2(x) * log10(2)     log10 x
//   0 < x ? x : 0 - x  |x|
#include "ast/passes/math.hpp"
#include "ast/passes/prepare.hpp"

#include <cmath>
#include <numbers>
#include <optional>

namespace lathe::ast {
namespace {

using math::V;

/// 1 if v is the constant `magnitude` as f32, -1 if v is -magnitude; else 0.
int sign_if(const ValueRef& v, double magnitude) {
  if (v->op != Op::Const || v->dtype != DType::F32) return 0;
  const double value = std::get<Scalar>(v->attr).as_float(), wanted = static_cast<float>(magnitude);
  return value == wanted ? 1 : value == -wanted ? -1 : 0;
}

/// f if v is f times the constant `magnitude` in v's dtype, f32 or f64, and f is plus or minus a power of
/// two; else 0. Rules fold such an f into a constant, since that rounds nothing.
double scaled(const ValueRef& v, double magnitude) {
  if (v->op != Op::Const) return 0;
  const double unit = v->dtype == DType::F32 ? static_cast<double>(static_cast<float>(magnitude)) : magnitude;
  const double factor = std::get<Scalar>(v->attr).as_float() / unit;
  int exponent = 0;
  return std::abs(std::frexp(factor, &exponent)) == 0.5 ? factor : 0;
}

/// log(x) or log10(x), with its sign, if product * constant is Log2(x) * ln 2 or Log2(x) * log10(2); else
/// nothing.
std::optional<V> other_logarithm(const ValueRef& product, const ValueRef& constant) {
  const bool negated = product->op == Op::Neg;
  const ValueRef& log2 = negated ? product->sources[0] : product;
  if (log2->op != Op::Log2) return {};
  const V x{log2->sources[0]};
  const int natural = sign_if(constant, std::numbers::ln2);
  const int decimal = sign_if(constant, std::numbers::ln2 / std::numbers::ln10);
  if (natural == 0 && decimal == 0) return {};
  const V y = natural != 0 ? math::log(x) : math::log10(x);
  return (natural + decimal < 0) == negated ? y : -y;
}

/// Whether v is |x| as Tensor::abs writes it: 0 < x ? x : 0 - x.
bool is_absolute(const Value& v) {
  if (v.op != Op::Where || v.sources[0]->op != Op::CmpLt) return false;
  const ValueRef &zero = v.sources[0]->sources[0], &x = v.sources[1];
  return zero == math::f32(0).v && v.sources[0]->sources[1] == x &&
         v.sources[2] == make(Op::Sub, DType::F32, {zero, x});
}

/// `v`, or the function that `v` computes together with the ops under it.
ValueRef recognise(const ValueRef& v) {
  if (v->op == Op::Exp2 && v->dtype == DType::F64 && v->sources[0]->op == Op::Mul) {
    const ValueRef& product = v->sources[0];
    const double factor = scaled(product->sources[1], std::numbers::log2e);
    return factor == 0 ? v : math::exp_f64({product->sources[0]}, factor).v;
  }
  if (v->dtype != DType::F32) return v;
  if (is_absolute(*v)) return math::abs({v->sources[1]}).v;
  if (v->op == Op::Mul) {
    const auto y = other_logarithm(v->sources[0], v->sources[1]);
    return y ? y->v : v;
  }
  if (v->op == Op::Fma) {
    const auto y = other_logarithm(v->sources[0], v->sources[1]);
    return y ? (*y + V{v->sources[2]}).v : v;
  }
  const ValueRef argument = v->sources.empty() ? v : v->sources[0];
  if (v->op == Op::Div && argument->op == Op::Sin && v->sources[1]->op == Op::Cos)
    return v->sources[1]->sources[0] == argument->sources[0] ? math::tan({argument->sources[0]}).v : v;
  if (v->op == Op::Exp2 && argument->op == Op::Mul)
    if (const double factor = scaled(argument->sources[1], std::numbers::log2e); factor != 0) {
      const V x{argument->sources[0]};
      return math::exp(factor == 1 ? x : factor == -1 ? -x : x * math::f32(factor)).v;
    }
  return v;
}

ValueRef expand(const ValueRef& v) {
  if (v->op != Op::Exp2 && v->op != Op::Log2 && v->op != Op::Sin && v->op != Op::Cos) return v;
  if (v->dtype == DType::F64) return v;
  const V x = math::cast({v->sources[0]}, DType::F32);
  const V y = v->op == Op::Exp2   ? math::exp2(x)
              : v->op == Op::Log2 ? math::log2(x)
              : v->op == Op::Sin  ? math::sin(x)
                                  : math::cos(x);
  return math::cast(y, v->dtype).v;
}

} // namespace

Kernel expand_math(const Kernel& kernel) {
  Kernel out = kernel;
  for (const auto& step : {&recognise, &expand}) {
    Rewriter rewriter;
    rewriter.on_value = step;
    out.body = rewrite(out.body, rewriter);
  }
  return out;
}

} // namespace lathe::ast
