// Symbolic sizes of programs, as lathe's own libraries handle them. Not for users: it may change in any
// version.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "lathe/tensor.hpp"

namespace lathe {
class Executable;
}

namespace lathe::detail {

/// Returns the shape variables that are the number of steps of a recurrence which the tensors depend on, but
/// for those of axes that are padded, as convolutions along the steps pad them.
std::vector<Expr> step_counts(const std::vector<Tensor>& tensors);

/// Returns whether the tensor's shape or what computes it has a shape variable.
bool depends_on_sizes(const Tensor& tensor);

/// Calls the program as its operator() does. `sizes`: values of shape variables by name, which the inputs'
/// shapes need not give. A name that is none of the program's variables is passed over. Errors are those of
/// operator(), and Error(Value) for a value out of its variable's bounds.
std::map<std::string, Tensor> call_at(const Executable& program, const std::map<std::string, Tensor>& inputs,
                                      const std::map<std::string, int64_t>& sizes);

} // namespace lathe::detail
