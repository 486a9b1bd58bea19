// Ctrl-C ends a search and keeps its best so far; a second one ends the program.
#pragma once
#include <signal.h>

#include <stop_token>
#include <thread>

namespace lathe::cli {

class Interruptible {
public:
  Interruptible();
  ~Interruptible();
  Interruptible(const Interruptible&) = delete;
  Interruptible& operator=(const Interruptible&) = delete;

  /// Of a stop that is requested once Ctrl-C was pressed.
  std::stop_token token() const { return source_.get_token(); }

private:
  struct sigaction before_{};
  std::stop_source source_;
  std::jthread waits_; // a signal handler may not request a stop
};

} // namespace lathe::cli
