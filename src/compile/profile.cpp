// Profile: a list for the launches of one thread.
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

} // namespace lathe
