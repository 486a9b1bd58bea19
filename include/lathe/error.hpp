// Typed errors. The library neither prints nor exits: whatever goes wrong is thrown as one of these two.
//
//   Error          the caller's mistake or surroundings; the message begins with the user's op or file and ends
//                  with what was expected: "matmul: inner sizes differ: [3, 4] x [5, 6], expected 4 == 5"
//   InternalError  a fault of lathe's own; please report it
#pragma once
#include <stdexcept>
#include <string>

namespace lathe {

enum class ErrorKind { Shape, DType, Axis, Name, Value, File, Device, Limit, Syntax, Schedule, Stopped };

const char* to_string(ErrorKind kind);

class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  ErrorKind kind() const { return kind_; }

 private:
  ErrorKind kind_;
};

class InternalError : public std::logic_error {
 public:
  explicit InternalError(const std::string& message)
      : std::logic_error("lathe internal error: " + message + " (please report it)") {}
};

}  // namespace lathe
