#include "lathe/error.hpp"

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

} // namespace lathe
