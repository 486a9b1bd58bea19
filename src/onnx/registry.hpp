// The ops that can be imported. Each family of ops is a file in ops/ with a table of rows; registry.cpp lists
// the tables.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lathe/onnx/op.hpp"

namespace lathe::onnx {

using OpFunction = std::vector<Value> (*)(Call&);

/// `since`: the opset that brought this form of the op. A form serves until the next row of the same op.
struct OpRow {
  const char* name;
  int since;
  OpFunction import;
  const char* domain = "";
};
using OpTable = std::span<const OpRow>;

/// The importer for a model that asks for version `opset` of the domain; null if there is none.
std::shared_ptr<const OpImporter> find_op(const std::string& domain, const std::string& op, int opset);

struct RegisteredOp {
  std::string domain, name;
  std::vector<int> since; // the opsets that brought a form of it
};
/// By domain and name.
std::vector<RegisteredOp> registered_ops();

} // namespace lathe::onnx
