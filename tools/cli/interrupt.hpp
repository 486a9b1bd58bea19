// Ctrl-C ends a search and keeps its best so far; a second one ends the program.
#pragma once
#include <signal.h>

#include <atomic>

namespace lathe::cli {

/// True once Ctrl-C was pressed while an Interruptible lived.
const std::atomic<bool>& interrupted();

class Interruptible {
public:
  Interruptible();
  ~Interruptible();
  Interruptible(const Interruptible&) = delete;
  Interruptible& operator=(const Interruptible&) = delete;

private:
  struct sigaction before_ {};
};

} // namespace lathe::cli
