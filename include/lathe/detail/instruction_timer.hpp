// How lathe's own libraries write into a Profile. Not for users: it may change in any version.
#pragma once
#include <string_view>

#include "lathe/profile.hpp"

namespace lathe::detail {

struct Recorder {
  /// The newest of this thread, or null.
  static Profile* current();
  static void record(Profile& profile, LaunchTime launch);
  static void record(Profile& profile, InstructionTime other);
};

/// An instruction that runs as long as this lives. Costs next to nothing without a Profile.
class InstructionTimer {
public:
  InstructionTimer(std::string_view instruction, std::string_view operand);
  ~InstructionTimer();
  InstructionTimer(const InstructionTimer&) = delete;
  InstructionTimer& operator=(const InstructionTimer&) = delete;

private:
  Profile* profile_;
  InstructionTime timed_{};
};

} // namespace lathe::detail
