// Checks a candidate, then times it in turns with the fastest so far.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "ast/ast.hpp"
#include "compile/measure/output_check.hpp"
#include "runtime/device.hpp"

namespace lathe::pipeline {

/// The memory of a candidate's parameter.
struct Place {
  std::shared_ptr<runtime::DeviceBuffer> buffer;
  size_t bytes;
  size_t parameter; // position in the case's kernel; not used for copies of constants
  size_t copies;    // number of copies, one after the other in memory, which runs read in turns
};
constexpr size_t kAligned = 128; // bytes; each copy of a parameter begins at a multiple
/// Returns the distance between copies of `bytes` each.
size_t stride_of_copies(size_t bytes);

/// A candidate ready to be run beside others.
struct Contender {
  std::shared_ptr<runtime::Program> program;
  std::vector<Place> places;
  double seconds = 0;
};

/// One set of stages: the inputs on the device, and the check of the outputs. All schedules of these stages
/// share a case.
struct Case {
  std::vector<int64_t> vars;
  std::vector<std::shared_ptr<runtime::DeviceBuffer>> buffers; // one per parameter
  std::vector<size_t> bytes;
  std::vector<size_t> copies; // of each, so that a run finds its data where it does in the program
  std::vector<std::vector<unsigned char>> inputs; // their contents, for a device with memory of its own
  std::unique_ptr<OutputCheck> check;
  size_t turn = 0;
  Contender first, champion; // the one that all times refer to, and the fastest so far
};

/// Fills an output so that no right value is there by chance: floats with NaN, integers with a pattern.
void poison(DType dtype, runtime::DeviceBuffer& buffer, size_t bytes);
std::vector<unsigned char> download(runtime::DeviceBuffer& buffer, size_t bytes);

class CandidateTimer {
public:
  /// `say_running` is called before each step that may never end.
  CandidateTimer(runtime::Device& device, std::function<void()> say_running)
      : device_(device), say_running_(std::move(say_running)) {}

  /// Returns the candidate's seconds under the conditions in which the first candidate of the case was timed.
  /// The machine's speed drifts by more than candidates differ. So each is timed in turns with the fastest so
  /// far, and only the ratio counts. Throws Error(Value) for a wrong result, Error(Limit) for a candidate
  /// that takes more than `limit` seconds.
  double measure(const ast::Kernel& kernel, const std::shared_ptr<runtime::Program>& program, Case& c,
                 const std::vector<Place>& places, double limit);

private:
  double ratio_to(const Contender& known, const Contender& challenger, Case& c, int at_once, size_t pairs,
                  double enough);
  double time(const runtime::Program& program, const std::vector<Place>& places, Case& c, int times);

  runtime::Device& device_;
  std::function<void()> say_running_;
};

} // namespace lathe::pipeline
