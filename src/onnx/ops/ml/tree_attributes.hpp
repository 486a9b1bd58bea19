// Forests from the attributes of nodes.
#pragma once
#include "onnx/ops/ml/forest.hpp"

namespace lathe::onnx {

/// Of TreeEnsembleRegressor ("target") and TreeEnsembleClassifier ("class"). `x`: what it is asked about.
Forest forest_of_votes(const Call& call, const std::string& votes, int64_t targets, const Tensor& x);
/// Of TreeEnsemble.
Forest forest_of_leaves(const Call& call, const Tensor& x);
/// The attribute `name`, or the tensor `name`_as_tensor.
std::vector<double> numbers_or_tensor(const Call& call, const std::string& name);

} // namespace lathe::onnx
