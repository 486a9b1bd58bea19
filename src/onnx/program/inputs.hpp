// A model's inputs: values to trace it with, and values that a call feeds.
#pragma once
#include "onnx/program/run_segment.hpp"

namespace lathe::onnx {

/// The declared inputs as values to trace with: named "x0", "x1" ... (elements of sequences "x0_0" ...).
/// Sizes that the options leave open have those of `fed`, if it is given, as their typical values; by_name: with the
/// model's names. NeedsInputs for a port whose shape the model leaves open, and for sequences and maps.
std::vector<Value> declared_inputs(const Model::Impl& model, const ImportOptions& options,
                                   const std::vector<Value>* fed = nullptr, bool by_name = false);
/// As above for values that are fed: the same kinds, dtypes and shapes.
std::vector<Value> inputs_like(const std::vector<Value>& fed);

/// The fed values in the order of the model's inputs, checked, and their tensors by those names in the store.
/// Error naming the input that is missing, unknown or does not fit.
std::vector<Value> in_order(const Model::Impl& model, const NamedValues& inputs, Store& store);

} // namespace lathe::onnx
