// Where each buffer of a plan lives while its kernels run, for running, exporting and ordering kernels.
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
    int first = 0, last = 0; // Arena: the first and the last launch that touch the buffer
    StorageRef data{};       // Data; null for a copy until lay_out_copies() has made it
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

  /// Places the intermediates. `bytes`: the size of each slot.
  lower::MemoryPlan plan_arena(const std::vector<size_t>& bytes) const;
  /// The same at the typical values of all sizes. Error(Limit) if a buffer may need 2^46 bytes or more.
  lower::MemoryPlan typical_plan() const;
};

constexpr int64_t kPlaceAlignment = 128; // bytes, of every buffer in an arena

/// Places the plan's buffers. `declared`: the inputs that the user declared; the program may use fewer. Slots
/// point to the plan's kernels.
PlacedProgram place(const search::Plan& plan, const std::vector<KernelParam>& declared = {});

/// Makes the copies of constants that kernels read. Copies that other programs hold already are shared.
void lay_out_copies(PlacedProgram& placed, const SavedObjects* saved = nullptr);

} // namespace lathe::pipeline
