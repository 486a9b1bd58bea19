// Identifiers of emitted source: valid in C, OpenCL C and CUDA C, unique, and as close as possible to the
// kernel's own names.
#pragma once
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "ast/ast.hpp"

namespace lathe::render {

/// `name` with each character replaced that is no letter, digit or '_', and changed if it has a meaning in
/// the source (keywords, library functions, and our own v0, v1, ... and lathe_*).
std::string identifier(std::string_view name);

class Names {
public:
  const std::string& buffer(const ast::Buffer& buffer);
  const std::string& variable(Expr var); // loop and shape variables
  std::string fresh(std::string_view name);
  std::string fresh_value(); // v0, v1, ...

private:
  std::set<std::string> taken_;
  std::map<int, std::string> buffers_, loops_;
  std::map<std::string, std::string> shape_vars_;
  int values_ = 0;
};

} // namespace lathe::render
