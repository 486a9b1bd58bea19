// Outputs that are written over an input: a state's next values over those before the run.
#pragma once
#include <string>
#include <vector>

#include "search/moves/plan.hpp"

namespace lathe::pipeline {

/// An output that may take the memory of an input with as many elements of its dtype.
struct Overwrite {
  std::string input, output;
};

struct InPlace {
  search::Plan plan;
  std::vector<bool> done; // by overwrite
};

/// The plan in which outputs are written over their inputs, wherever that is proven right: each element of
/// the input is read for the last time before it is written, or by the statement that writes it. For that,
/// kernels may run in another order. A kernel no longer stores the elements that stay as they are. `done`
/// says which outputs these are. A run binds such an output and its input to the same memory.
InPlace in_place(search::Plan plan, const std::vector<Overwrite>& overwrites);

} // namespace lathe::pipeline
