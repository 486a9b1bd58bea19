// Which states a program reads and updates.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "graph/state_buffer.hpp"
#include "lathe/executable.hpp"
#include "lower/program.hpp"

namespace lathe::pipeline {

struct StateUse {
  std::shared_ptr<graph::StateBuffer> buffer;
  std::string output; // of the program: the next values; empty if it only reads the state
};

struct StatefulOutputs {
  std::vector<lower::NamedOutput> outputs; // the user's, and the next values of states
  std::vector<StateUse> states;            // by name
};

/// Error(Name) for two updates of one state, and for two states of one name.
StatefulOutputs with_updates(const NamedTensors& outputs, const std::vector<Update>& updates);

} // namespace lathe::pipeline
