// Errors for the forms of com.microsoft's ops that are not computed here.
#pragma once
#include "lathe/onnx/op.hpp"

namespace lathe::onnx {

/// Error(Value) unless the integer `name` is 0 or missing.
inline void refuse_attribute(const Call& call, const char* name) {
  if (call.integer(name, 0) != 0)
    call.fail(ErrorKind::Value,
              std::string(name) + " " + std::to_string(call.integer(name)) + ", expected 0");
}

/// Error(Value) where the input is given. `what` it is.
inline void refuse_input(const Call& call, size_t input, const std::string& what) {
  if (call.has(input))
    call.fail(ErrorKind::Value, "input " + std::to_string(input) + ", " + what + ", is given, expected none");
}

/// Error(Value) where somebody reads the output. `what` it is.
inline void refuse_output(const Call& call, size_t output, const std::string& what) {
  if (call.wants(output))
    call.fail(ErrorKind::Value,
              "output " + std::to_string(output) + ", " + what + ", is wanted, expected not");
}

} // namespace lathe::onnx
