// What errors say.
#pragma once
#include <string>

#include <doctest/doctest.h>

#include "lathe/error.hpp"

namespace lathe::test {

/// The message of the Error that `run` throws; empty if it throws none.
template <class F> std::string message_of(F&& run) {
  try {
    run();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

inline bool mentions(const std::string& message, const std::string& part) {
  INFO("message: " << message);
  const bool found = message.find(part) != std::string::npos;
  CHECK_MESSAGE(found, "'" << message << "' should mention '" << part << "'");
  return found;
}

} // namespace lathe::test
