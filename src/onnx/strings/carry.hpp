// Ops that move elements without looking at them: on strings they move ids.
#pragma once
#include <string>
#include <vector>

#include "lathe/onnx/op.hpp"

namespace lathe::onnx {

/// Of an op whose importer also serves ids, which inputs may be strings.
struct CarriedStrings {
  unsigned inputs; // a bit for each
  bool results;    // whether the outputs are strings then
};

/// Nothing for an op that does not carry strings, or looks at them itself.
const CarriedStrings* carried_strings(const std::string& domain, const std::string& op);
/// Whether the node's inputs have strings that are carried; Error(DType) where only some of those that have
/// to be strings together are, and where others are.
bool carries_strings(const Call& call, const CarriedStrings& carried);

} // namespace lathe::onnx
