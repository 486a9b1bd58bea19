// Kernels that apply every elementwise op to a dtype, once in a serial loop and once in a vector loop.
#pragma once
#include <string>
#include <vector>

#include "ast/ast.hpp"

namespace lathe::test {

class OpKernel {
public:
  /// `width` 0: a serial loop over `size` elements; else vector loops of that width.
  OpKernel(std::string name, int size, int width) : size_(size) {
    kernel_.name = std::move(name);
    if (width == 0) {
      inner_ = loop_var(0, "i", size);
      at_ = inner_;
      loop_ = {inner_, size, ast::LoopKind::Serial, 0, {}};
    } else {
      outer_ = loop_var(1, "i", size / width);
      inner_ = loop_var(0, "l", width);
      at_ = outer_ * width + inner_;
      loop_ = {inner_, width, ast::LoopKind::Vector, width, {}};
    }
    width_ = width;
  }
  ast::ValueRef input(DType dtype) { return ast::load(add(dtype, false), {at_}); }
  /// Into the nest of all outputs, or into one of its own: what has no vector form would make a scalar loop
  /// of the others'.
  void output(const ast::ValueRef& value, bool apart = false) {
    ast::Store store;
    store.buffer = add(value->dtype, true);
    store.index = {at_};
    store.value = value;
    if (!apart) return void(together_.push_back({store}));
    const Expr inner = loop_var(next_loop_++, "m", width_ ? width_ : size_);
    const Expr outer = width_ ? loop_var(next_loop_++, "j", size_ / width_) : Expr(0);
    const Substitution vars{{inner_, inner}, {outer_, outer}};
    kernel_.body.push_back(nest(ast::substitute(ast::Block{{store}}, vars), outer, inner));
  }
  ast::Kernel kernel() const {
    ast::Kernel k = kernel_;
    k.body.push_back(nest(together_, outer_, inner_));
    return k;
  }

private:
  ast::Stmt nest(ast::Block body, Expr outer_var, Expr inner_var) const {
    ast::For loop = loop_;
    loop.var = inner_var;
    loop.body = std::move(body);
    if (width_ == 0) return {loop};
    ast::For outer{outer_var, size_ / width_, ast::LoopKind::Serial, 0, {}};
    outer.body.push_back({loop});
    return {outer};
  }
  ast::BufferRef add(DType dtype, bool written) {
    const int id = static_cast<int>(kernel_.params.size());
    auto buffer = std::make_shared<const ast::Buffer>(ast::Buffer{
        id, (written ? "out" : "in") + std::to_string(id), dtype, {Expr(size_)}, ast::Scope::Global});
    kernel_.params.push_back({buffer, written});
    return buffer;
  }
  ast::Kernel kernel_;
  ast::Block together_;
  int size_, width_ = 0, next_loop_ = 2;
  Expr outer_, inner_, at_;
  ast::For loop_;
};

inline bool is_approximate(Op op) {
  return op == Op::Exp2 || op == Op::Log2 || op == Op::Sin || op == Op::Cos;
}

/// All exact ops that take `dtype`, but for casts.
inline ast::Kernel arithmetic_kernel(DType dtype, int width) {
  OpKernel k("ops", 128, width);
  const ast::ValueRef a = k.input(dtype), b = k.input(dtype), c = k.input(dtype),
                      condition = k.input(DType::Bool);
  for (int i = 0; i < op_count(); ++i) {
    const Op op = static_cast<Op>(i);
    if (!is_elementwise(op) || op == Op::Cast || op == Op::Bitcast || is_approximate(op) ||
        !accepts(info(op).dtypes, dtype))
      continue;
    const DType result = result_dtype(op, dtype);
    if (op == Op::Where)
      k.output(ast::make(op, result, {condition, a, b}));
    else if (info(op).arity == 1)
      k.output(ast::make(op, result, a));
    else if (info(op).arity == 2)
      k.output(ast::make(op, result, {a, b}), op == Op::IDiv || op == Op::Mod);
    else
      k.output(ast::make(op, result, {a, b, c}));
  }
  const ast::ValueRef less =
      ast::make(Op::CmpLt, DType::Bool, {a, b}); // what renderers may write as a maximum or minimum
  k.output(ast::make(Op::Where, dtype, {less, a, b}));
  k.output(ast::make(Op::Where, dtype, {less, b, a}));
  if (is_float(dtype)) k.output(ast::make(Op::Max, dtype, {a, ast::constant(Scalar::of_int(dtype, 1))}));
  if (is_integer(dtype))
    for (int64_t count : {0, 1, 3, 7, 31, 64})
      for (Op op : {Op::Shl, Op::Shr})
        k.output(ast::make(op, dtype, {a, ast::constant(Scalar::of_int(dtype, count))}));
  return k.kernel();
}

inline ast::Kernel cast_kernel(DType from, int width) {
  OpKernel k("casts", 128, width);
  const ast::ValueRef a = k.input(from);
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto to = static_cast<DType>(i);
    const bool apart = to == DType::F16 || to == DType::BF16;
    k.output(ast::make(Op::Cast, to, a), apart);
    if (size_of(to) == size_of(from)) k.output(ast::make(Op::Bitcast, to, a), apart);
  }
  return k.kernel();
}

} // namespace lathe::test
