// Profile: what the launches of a program took, and its other instructions.
//
//   Profile profile;                  // records what this thread runs from here on
//   program(inputs);
//   for (const LaunchTime& launch : profile.launches()) std::cout << launch.kernel << " " << launch.seconds << "\n";
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace lathe {

struct LaunchTime {
  std::string kernel;
  double start = 0, seconds = 0;  ///< start: since the Profile began; each launch is waited for
  double flops = 0;               ///< arithmetic operations that the program asks for
  double bytes = 0;               ///< of its parameters, each once
  double limit_seconds = 0;       ///< what the machine needs at least for so many operations, or bytes from where they fit
};

/// An instruction that is no launch: alloc, copy, view and free of an Executable; look, jump, trace and return of an onnx::Program. What
/// a trace runs is recorded as well, and lies within its time.
struct InstructionTime {
  std::string instruction, operand;  ///< "copy", "y"
  double start = 0, seconds = 0;
};

/// Records every instruction that its thread makes while it lives. One at a time in a thread: the newest records.
class Profile {
 public:
  Profile();
  ~Profile();
  Profile(const Profile&) = delete;
  Profile& operator=(const Profile&) = delete;

  const std::vector<LaunchTime>& launches() const { return launches_; }
  /// For lathe's own floors: the profile of this thread, or null.
  static Profile* current();
  void record(LaunchTime launch) { launches_.push_back(std::move(launch)); }
  /// All but launches, in the order in which they ended.
  const std::vector<InstructionTime>& others() const { return others_; }
  void record(InstructionTime other) { others_.push_back(std::move(other)); }
  double now() const;  ///< seconds since it began

 private:
  std::vector<LaunchTime> launches_;
  std::vector<InstructionTime> others_;
  double began_;
  Profile* outer_;
};

/// For lathe's own floors: an instruction that runs as long as this lives. Costs next to nothing without a Profile.
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

}  // namespace lathe
