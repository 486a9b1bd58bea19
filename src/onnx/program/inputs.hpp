// A model's inputs: values to trace it with, and values that a call feeds.
#pragma once
#include <iterator>

#include "onnx/program/run_segment.hpp"

namespace lathe::onnx {

/// Bounds of the sizes that a model names, from the widest on. The more named sizes a tensor has, the
/// narrower they have to be, so that its bytes can be counted. A call with a larger size is traced with the
/// sizes that it feeds.
inline constexpr int64_t kSizeBounds[] = {kLargestNamedSize, 4096, 1024, 512, 256};

/// Calls make(bound) with bounds of sizes from `widest` on, until one does not throw Error(Limit).
template <class Make> void in_widest_bounds(int64_t widest, Make&& make) {
  for (const int64_t bound : kSizeBounds) {
    if (bound > widest) continue;
    try {
      return make(bound);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::Limit || bound == *std::rbegin(kSizeBounds)) throw;
    }
  }
}

/// Calls visit(size) for each size that the ports name.
template <class Visit> void for_each_named_size(const std::vector<Port>& ports, Visit&& visit) {
  for (const Port& port : ports)
    for (size_t axis = 0; port.shape && axis < port.shape->size(); ++axis)
      if (const Expr size = (*port.shape)[axis]; size.is_var()) visit(size);
}

/// How a model's inputs are declared.
struct Declared {
  int64_t largest = kLargestNamedSize; ///< bound of sizes that the model names
  const Sizes* typical = nullptr;      ///< of sizes that the model names; null: 256
  bool by_name = false;                ///< with the model's names
  Sizes smallest{};                    ///< sizes that are at least as large, where the model says less
  Sizes steps{};                       ///< sizes that are multiples of these
  Sizes pinned{};                      ///< sizes that are numbers
};

/// What the tree for all sizes is declared with, but for its bound and the typical sizes.
Declared declared_for_all_sizes(const Program::Impl& program);

/// The variable for a size that the model names: the size itself, or divided by its step if it has one.
Var variable_of_size(Expr size, const Declared& declared);
/// The name of the variable for a size divided by `step`.
std::string name_of_multiple(const std::string& size, int64_t step);

/// The declared inputs as values to trace with: named "x0", "x1" ... (elements of sequences "x0_0" ...).
/// NeedsInputs for a port whose shape the model leaves open, and for sequences and maps.
std::vector<Value> declared_inputs(const Model::Impl& model, const ImportOptions& options,
                                   const Declared& declared = {});
/// As above for values that are fed: the same kinds, dtypes and shapes.
std::vector<Value> inputs_like(const std::vector<Value>& fed);

/// The fed values in the order of the model's inputs, checked, and their tensors by those names in the store.
/// Error naming the input that is missing, unknown or does not fit.
std::vector<Value> in_order(const Model::Impl& model, const NamedValues& inputs, Store& store);

} // namespace lathe::onnx
