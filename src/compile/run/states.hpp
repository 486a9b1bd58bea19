// The states that a program reads and updates, and those that a call uses.
#pragma once
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <vector>

#include "compile/front/state_uses.hpp"
#include "lathe/executable.hpp"

namespace lathe::pipeline {

/// Where an Executable finds a state, and how it updates it.
struct PlacedState {
  std::shared_ptr<graph::StateBuffer> buffer;
  int input = -1;  // position in placed.inputs; -1: not declared
  int output = -1; // position in Executable::Impl::outputs; -1: not updated
  bool in_place = false;
  int taken_from = -1; // position in Executable::Impl::states: gets the memory of that one's old values
};

/// The states of one call, locked from its construction to its destruction.
class StatesOfCall {
public:
  /// `handed`: in place of the program's own. Errors begin with `function`.
  StatesOfCall(const Executable::Impl& impl, const NamedStates& handed, const char* function);
  /// Points the inputs and outputs of the frame to the states.
  void bind(std::vector<const void*>& inputs, std::vector<void*>& outputs);
  /// Makes the next values the states' own, after the run.
  void update();

private:
  void hand_over(const NamedStates& handed, const char* function);
  void lock();
  const std::vector<PlacedState>& placed_;
  std::vector<graph::StateBuffer*> buffers_; // by placed state
  std::vector<std::unique_lock<std::shared_mutex>> alone_;
  std::vector<std::shared_lock<std::shared_mutex>> shared_;
};

} // namespace lathe::pipeline
