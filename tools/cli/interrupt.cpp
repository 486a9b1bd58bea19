#include "cli/interrupt.hpp"

namespace lathe::cli {
namespace {
std::atomic<bool> pressed{false};
}

const std::atomic<bool>& interrupted() { return pressed; }

Interruptible::Interruptible() {
  struct sigaction action {};
  action.sa_handler = [](int) { pressed = true; };
  action.sa_flags = SA_RESETHAND;
  sigaction(SIGINT, &action, &before_);
}

Interruptible::~Interruptible() { sigaction(SIGINT, &before_, nullptr); }

} // namespace lathe::cli
