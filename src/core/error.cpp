#include "lathe/error.hpp"

#include <string>

#include "lathe/detail/held.hpp"

namespace lathe {

const char* to_string(ErrorKind kind) {
  switch (kind) {
  case ErrorKind::Shape: return "shape";
  case ErrorKind::DType: return "dtype";
  case ErrorKind::Axis: return "axis";
  case ErrorKind::Name: return "name";
  case ErrorKind::Value: return "value";
  case ErrorKind::File: return "file";
  case ErrorKind::Device: return "device";
  case ErrorKind::Limit: return "limit";
  case ErrorKind::Syntax: return "syntax";
  case ErrorKind::Schedule: return "schedule";
  case ErrorKind::Stopped: return "stopped";
  }
  return "unknown";
}

namespace detail {

void refuse_moved_from(Holder holder) {
  constexpr const char* kNames[] = {"Tensor", "Kernel", "Executable", "onnx::Model", "onnx::Program"};
  throw Error(ErrorKind::Value, std::string(kNames[static_cast<size_t>(holder)]) +
                                    ": it was moved from, expected one that was not");
}

} // namespace detail
} // namespace lathe
