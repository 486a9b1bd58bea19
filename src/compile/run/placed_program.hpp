// Where each buffer of a plan lives while its kernels run: what running, exporting and ordering share.
#pragma once
#include <vector>

#include "compile/run/saved_objects.hpp"
#include "core/storage.hpp"
#include "lathe/executable.hpp"
#include "search/moves/plan.hpp"

namespace lathe::pipeline {

struct PlacedProgram {
  enum class Home {
    Input,  // the caller's
    Output, // the caller's
    Data,   // a realised tensor's, or a copy of it in the order in which kernels read it
    Arena   // intermediates: those that are not alive at the same time may share memory
  };
  struct Slot {
    Home home;
    ast::BufferRef buffer;
    int first = 0, last = 0; // Arena: the launches that touch it first and last
    StorageRef data{};       // Data; of a copy once lay_out_copies() has made it
    /// Data that is a copy: the kernel that makes it from the data in slot `source`. Null: no copy.
    const ast::Kernel* fill = nullptr;
    size_t source = 0;
  };
  struct Input {
    KernelParam declared;
    int slot; // -1: the program does not use it
  };
  struct Output {
    KernelParam declared;
    size_t slot; // outputs of one slot have one value
  };
  std::vector<Slot> slots;
  std::vector<std::vector<size_t>> launches; // by kernel of the plan: the slots of its parameters
  std::vector<Input> inputs;                 // by name
  std::vector<Output> outputs;               // by name

  /// Places the intermediates; `bytes` of each slot.
  lower::MemoryPlan plan_arena(const std::vector<size_t>& bytes) const;
  /// The same at the upper bounds of their sizes. Error(Limit) where those are not known.
  lower::MemoryPlan plan_at_most() const;
};

constexpr int64_t kPlaceAlignment = 128; // bytes, of everything in an arena

/// `declared`: the inputs that the user declared; the program may use fewer. Slots point to the plan's
/// kernels.
PlacedProgram place(const search::Plan& plan, const std::vector<KernelParam>& declared = {});

/// Makes the copies of constants that kernels read; those that have been made before are shared.
void lay_out_copies(PlacedProgram& placed, const SavedObjects* saved = nullptr);

} // namespace lathe::pipeline
