// Profile: what the launches of a program took, and its other instructions.
//
//   Profile profile;                  // records what this thread runs from here on
//   program(inputs);
//   for (const LaunchTime& launch : profile.launches()) std::cout << launch.kernel << " " << launch.seconds << "\n";
#pragma once
#include <string>
#include <vector>

namespace lathe {

namespace detail {
struct Recorder;
}

struct LaunchTime {
  std::string kernel;
  double start = 0, seconds = 0;  ///< start: since the Profile began; each launch is waited for
  double flops = 0;               ///< arithmetic operations that the program asks for
  double bytes = 0;               ///< of its parameters, each once
  double limit_seconds = 0;       ///< what the machine needs at least for so many operations, or bytes from where they fit
};

/// An instruction that is no launch: alloc, copy, view and free of an Executable; look, host, jump, trace and return of an onnx::Program. What
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
  /// All but launches, in the order in which they ended.
  const std::vector<InstructionTime>& others() const { return others_; }
  double now() const;  ///< seconds since it began

 private:
  friend struct detail::Recorder;
  std::vector<LaunchTime> launches_;
  std::vector<InstructionTime> others_;
  double began_;
  Profile* outer_;
};

}  // namespace lathe
