// Bad calls: what they throw.
#pragma once
#include <doctest/doctest.h>

#include <functional>
#include <string>

#include "lathe/error.hpp"

namespace lathe::test {

/// The call throws an Error of this kind. Its message begins with the function's name and says what was expected.
inline void check_error(ErrorKind kind, const std::string& function, const std::function<void()>& call) {
  CAPTURE(function);
  try {
    call();
    FAIL_CHECK("no error");
  } catch (const Error& e) {
    INFO(e.what());
    CHECK(e.kind() == kind);
    CHECK(std::string(e.what()).starts_with(function + ":"));
    CHECK(std::string(e.what()).find("expected") != std::string::npos);
  }
}
/// check_error() for calls that throw errors of one kind.
inline auto errors_of(ErrorKind kind) {
  return [kind](const std::string& function, const std::function<void()>& call) {
    check_error(kind, function, call);
  };
}

} // namespace lathe::test
