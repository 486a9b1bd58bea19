// What an Executable handle points to: launches over buffers whose places are known, and frames to run them
// in.
#pragma once
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "compile/front/moved.hpp"
#include "compile/front/shape_values.hpp"
#include "compile/run/kernel_impl.hpp"
#include "compile/run/placed_program.hpp"
#include "compile/run/states.hpp"
#include "compile/trace/trace.hpp"
#include "lathe/executable.hpp"
#include "lower/program.hpp"
#include "runtime/device.hpp"
#include "search/beam/fusions.hpp"
#include "search/moves/plan.hpp"

namespace lathe {

struct Executable::Impl {
  using Home = pipeline::PlacedProgram::Home;
  struct Output {
    KernelParam declared;
    size_t slot;
    int copy_of; // an earlier output with the same value; -1: computed in place
    std::optional<pipeline::MovedOutput> moved; // a view of an input, in no slot
    int moved_input = -1;                       // position in placed.inputs; -1: a realised tensor
    bool of_state = false; // moved from a state: copied, because the next run may change it
    int over_input = -1;   // position in placed.inputs of the input that kernels write this output over; -1: none
  };
  /// The memory of one call, kept for the next call.
  struct Frame;

  std::shared_ptr<const lower::Program> program;
  CompileOptions options;
  std::vector<search::Move> moves;
  runtime::Device* device = nullptr;
  pipeline::PlacedProgram placed;
  std::vector<std::shared_ptr<runtime::DeviceBuffer>> uploaded; // by slot: Data, on a device with memory of its own
  std::vector<Kernel> kernels;           // one per launch
  std::vector<std::vector<size_t>> vars; // by launch, positions in the program's shape variables
  std::vector<Output> outputs;           // by name
  std::vector<pipeline::PlacedState> states; // by name
  /// Positions of the inputs and outputs that a call gives memory for: those that are no states.
  std::vector<size_t> given_inputs, given_outputs;
  bool is_static = true;
  double predicted_seconds = 0;
  int64_t arena_bytes = 0, naive_bytes = 0, folded_bytes = 0;
  bool tuned = false, quick = false;
  /// What the search that found the plan tried to fuse; null: no search in this process says.
  std::shared_ptr<const std::vector<search::TriedFusion>> fusions;
  /// Whether it is the body of a recurrence, which binds inputs and outputs to slices of device memory.
  bool is_body = false;
  std::shared_ptr<tracing::Trace> trace; // null: runs are not recorded

  Impl();
  ~Impl();
  std::unique_ptr<Frame> take_frame() const;
  void put_back(std::unique_ptr<Frame> frame) const;
  /// Gives the frame memory for these values of the program's shape variables.
  void set_sizes(Frame& frame, const std::vector<int64_t>& values) const;
  /// Runs all launches. The caller has set the frame's sizes, inputs and outputs.
  void run(Frame& frame) const;

private:
  std::unique_ptr<Frame> make_frame() const;
  void bind_memory(Frame& frame) const;
  void measure_callers_memory(Frame& frame) const;
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<Frame>> idle_;
};

/// A device buffer over host memory that each call chooses anew.
class HostView final : public runtime::DeviceBuffer {
public:
  void point_to(void* data, size_t bytes) { data_ = data, bytes_ = bytes; }
  size_t bytes() const override { return bytes_; }
  void* host() override { return data_; }
  void upload(size_t offset, const void* from, size_t bytes) override;
  void download(size_t offset, void* to, size_t bytes) override;

private:
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

struct Executable::Impl::Frame {
  std::vector<const void*> inputs;               // one per input of the placed program
  std::vector<void*> outputs;                    // one per Impl::outputs
  std::vector<int64_t> values;                   // of the program's shape variables
  std::vector<size_t> bytes;                     // one per slot, at these values
  std::vector<size_t> input_bytes, output_bytes; // of the caller's memory that a run reads and writes
  std::vector<HostView> views;                   // one per slot
  std::vector<std::unique_ptr<runtime::DeviceBuffer>>
      owned; // one per slot, on a device with memory of its own
  std::unique_ptr<runtime::DeviceBuffer> arena;
  struct Call {
    std::vector<runtime::BufferSlice> slices;
    std::vector<int64_t> vars;
  };
  std::vector<Call> calls; // one per launch
  /// Of a body: two per output, which hold a state in turns.
  std::vector<std::unique_ptr<runtime::DeviceBuffer>> states;
};

} // namespace lathe
