#include "cli/progress.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "cli/duration.hpp"

namespace lathe::cli {

namespace {
constexpr double kRedrawSeconds = 0.05, kLineSeconds = 2;

std::string bar(double share, int width) {
  int full = static_cast<int>(std::clamp(share, 0.0, 1.0) * width);
  return fmt::format("[{:=<{}}{:<{}}]", "", full, "", width - full);
}
} // namespace

Progress::Progress(std::string title) : title_(std::move(title)), terminal_(isatty(STDERR_FILENO)) {}

Progress::~Progress() {
  if (drawn_ && drawn_at_ != last_.elapsed_seconds) draw();
  if (drawn_ && terminal_) std::fputc('\n', stderr);
  if (!last_.not_stored.empty()) fmt::print(stderr, "not stored: {}\n", last_.not_stored);
}

void Progress::show(const TuneProgress& progress) {
  last_ = progress;
  double since = progress.elapsed_seconds - drawn_at_;
  if (since >= (terminal_ ? kRedrawSeconds : kLineSeconds)) draw();
}

void Progress::draw() {
  std::string text = title_;
  if (terminal_) text += ' ' + bar(last_.elapsed_seconds / std::max(last_.budget_seconds, 1e-9), 24);
  text +=
      fmt::format(" {:.1f}/{:.0f} s, round {}: {} proposed, {} measured, {} rejected", last_.elapsed_seconds,
                  last_.budget_seconds, last_.round, last_.proposed, last_.measured, last_.rejected);
  if (last_.best_seconds > 0) text += ", best " + duration(last_.best_seconds);
  if (terminal_)
    fmt::print(stderr, "\r\x1b[2K{}", text);
  else
    fmt::print(stderr, "{}\n", text);
  std::fflush(stderr);
  drawn_ = true;
  drawn_at_ = last_.elapsed_seconds;
}

} // namespace lathe::cli
