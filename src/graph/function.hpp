// Functions that have derivatives of their own, whatever primitives they are composed of.
//
// A smooth function composed of pieces (tanh: one polynomial near 0, an exponential elsewhere, joined by Where)
// must not have its derivative taken through the joints. So its value is marked by a Function node: source 0
// is the composed value, the other sources are the function's arguments, and the attribute names a row of the
// table in function.cpp. gradients() asks the row. simplify() replaces the node by source 0, so nothing below
// the graph ever sees the mark.
//
//   Tensor y = with_derivative("tanh", composed, {x});
#pragma once
#include "graph/gradient.hpp"
#include "graph/tensor_impl.hpp"

namespace lathe::graph {

/// A function's derivatives. `part`: the contribution of a cotangent to argument k (from 0), where
/// `step.source(1 + k)` is that argument and `step.value()` the function's value; null where it is 0.
struct FunctionRule {
  std::string_view name;
  size_t arguments;
  Part (*part)(const BackwardStep& step, size_t k);
};

std::span<const FunctionRule> function_rules();
/// The row of that name, or null.
const FunctionRule* function_rule(std::string_view name);

/// `value`, whose derivatives by `arguments` (of its dtype) are those of the named function with the
/// given parameter. A constant stays as it is.
Tensor with_derivative(std::string_view name, const Tensor& value, const std::vector<Tensor>& arguments,
                       double parameter = 0);
/// f(x) in f32 for half precision, with the derivative of the function named `name`.
template <class F> Tensor marked(std::string_view name, const Tensor& x, F&& f, double parameter = 0) {
  return in_wide(x, [&](const Tensor& v) { return with_derivative(name, f(v), {v}, parameter); });
}
/// `value` as a constant: no derivative passes.
Tensor without_derivative(const Tensor& value);

/// The contribution of a Function node's cotangent to source k.
Part function_part(const BackwardStep& step, size_t k);

} // namespace lathe::graph
