// Profile: what the launches of a program took.
//
//   Profile profile;                  // records what this thread runs from here on
//   program(inputs);
//   for (const LaunchTime& launch : profile.launches()) std::cout << launch.kernel << " " << launch.seconds << "\n";
#pragma once
#include <string>
#include <vector>

namespace lathe {

struct LaunchTime {
  std::string kernel;
  double start = 0, seconds = 0;  ///< start: since the Profile began; each launch is waited for
  double flops = 0;               ///< arithmetic operations that the program asks for
  double bytes = 0;               ///< of its parameters, each once
  double limit_seconds = 0;       ///< what the machine needs at least for so many operations, or bytes from where they fit
};

/// Records every launch that its thread makes while it lives. One at a time in a thread: the newest records.
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
  double now() const;  ///< seconds since it began

 private:
  std::vector<LaunchTime> launches_;
  double began_;
  Profile* outer_;
};

}  // namespace lathe
