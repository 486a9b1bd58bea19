// Profile: lists for the instructions of one thread.
#include "lathe/profile.hpp"

#include <chrono>

namespace lathe {
namespace {

thread_local Profile* recording = nullptr;

double clock_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

} // namespace

Profile::Profile() : began_(clock_seconds()), outer_(recording) { recording = this; }
Profile::~Profile() { recording = outer_; }
Profile* Profile::current() { return recording; }
double Profile::now() const { return clock_seconds() - began_; }

InstructionTimer::InstructionTimer(std::string_view instruction, std::string_view operand)
    : profile_(recording) {
  if (profile_) timed_ = {std::string(instruction), std::string(operand), profile_->now(), 0};
}

InstructionTimer::~InstructionTimer() {
  if (!profile_) return;
  timed_.seconds = profile_->now() - timed_.start;
  profile_->record(std::move(timed_));
}

} // namespace lathe
