// Profile: records the times of one thread's instructions.
#include "lathe/detail/instruction_timer.hpp"

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
double Profile::now() const { return clock_seconds() - began_; }

namespace detail {

Profile* Recorder::current() { return recording; }
void Recorder::record(Profile& profile, LaunchTime launch) { profile.launches_.push_back(std::move(launch)); }
void Recorder::record(Profile& profile, InstructionTime other) {
  profile.others_.push_back(std::move(other));
}

InstructionTimer::InstructionTimer(std::string_view instruction, std::string_view operand)
    : profile_(recording) {
  if (profile_) timed_ = {std::string(instruction), std::string(operand), profile_->now(), 0};
}

InstructionTimer::~InstructionTimer() {
  if (!profile_) return;
  timed_.seconds = profile_->now() - timed_.start;
  Recorder::record(*profile_, std::move(timed_));
}

} // namespace detail
} // namespace lathe
