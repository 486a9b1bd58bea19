// Programs at other inputs: what calling a compiled program does to data, done to the graph.
//
//   Tensor x = Tensor::input("x", {3}), y = x * x;
//   Tensor z = substitute({y}, {{"x", a + b}})[0];   // (a + b) * (a + b)
#pragma once
#include <map>
#include <string>
#include <vector>

#include "lathe/tensor.hpp"

namespace lathe {

/// The values with each named input in the map replaced by its tensor. Names that no value depends on are left alone.
/// Error(Shape) or Error(DType) where a tensor is not what its input was declared as.
std::vector<Tensor> substitute(const std::vector<Tensor>& values, const std::map<std::string, Tensor>& inputs);

}  // namespace lathe
