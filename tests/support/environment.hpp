// Variables of this process's environment.
#pragma once
#include <cstdlib>
#include <optional>
#include <string>

namespace lathe::test {

/// Set to `value`, or unset, while it lives; then as it was.
class Variable {
public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    set(value);
  }
  ~Variable() { set(before_ ? before_->c_str() : nullptr); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

private:
  void set(const char* value) const { value ? ::setenv(name_, value, 1) : ::unsetenv(name_); }

  const char* name_;
  std::optional<std::string> before_;
};

} // namespace lathe::test
