#include "cli/interrupt.hpp"

#include <atomic>
#include <chrono>

namespace lathe::cli {
namespace {
constexpr std::chrono::milliseconds kLooksEvery{20};
std::atomic<bool> pressed{false};
} // namespace

Interruptible::Interruptible() {
  struct sigaction action{};
  action.sa_handler = [](int) { pressed = true; };
  action.sa_flags = SA_RESETHAND;
  sigaction(SIGINT, &action, &before_);
  waits_ = std::jthread([source = source_](const std::stop_token& done) mutable {
    while (!done.stop_requested() && !pressed) std::this_thread::sleep_for(kLooksEvery);
    if (pressed) source.request_stop();
  });
}

Interruptible::~Interruptible() { sigaction(SIGINT, &before_, nullptr); }

} // namespace lathe::cli
