// The ops that can be imported. Each family of ops is a file in ops/ with a table of rows; registry.cpp lists
// the tables.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lathe/onnx/op.hpp"
#include "onnx/op_versions.hpp"

namespace lathe::onnx {

using OpFunction = std::vector<Value> (*)(Call&);

/// `since`: the opset that brought this form of the op. A form serves until the next row of the same op.
struct OpRow {
  const char* name;
  int since;
  OpFunction import;
  const char* domain = "";
  int most_inputs = kMany; // of ONNX's own ops op_versions says it
};
using OpTable = std::span<const OpRow>;

struct FoundOp {
  std::shared_ptr<const OpImporter> import; // null if there is none
  int most_inputs;                          // that a node of this version may have
  std::string refusal;                      // why there is none
};

/// What imports an op of a model that asks for version `opset` of the domain. An op of the library's own is
/// refused at opsets newer than those whose rules it follows; one of a user's is not.
FoundOp find_op(const std::string& domain, const std::string& op, int opset);

struct RegisteredOp {
  std::string domain, name;
  std::vector<int> since; // the opsets that brought a version of it which is imported
};
/// By domain and name.
std::vector<RegisteredOp> registered_ops();

} // namespace lathe::onnx
