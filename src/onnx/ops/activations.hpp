// Activations that a node's attributes name, with their parameters.
#pragma once
#include <functional>
#include <optional>
#include <string>

#include "lathe/onnx/op.hpp"

namespace lathe::onnx {

using Activation = std::function<Tensor(const Tensor&)>;

struct ActivationRow {
  const char* name;    // in lower case
  double alpha, beta;  // where the node has none
  bool has_alpha, has_beta;
  Tensor (*apply)(const Tensor& x, double alpha, double beta);

  Activation with(std::optional<double> a, std::optional<double> b) const {
    return [this, a, b](const Tensor& x) { return apply(x, a.value_or(alpha), b.value_or(beta)); };
  }
};

/// By name, in any case; Error(Value) naming the node if there is none.
const ActivationRow& find_activation(const Call& call, std::string name);

} // namespace lathe::onnx
