// Runs a recurrence: the launches of its body once for each step, over rows and states that move.
#pragma once
#include "compile/run/steady_steps.hpp"

namespace lathe::pipeline {

class RecurrenceProgram final : public runtime::Program {
public:
  /// `kernel` runs `recurrence`, whose body is compiled as `body`.
  RecurrenceProgram(const lower::Recurrence& recurrence, const search::KernelPlan& kernel,
                    std::shared_ptr<const Executable::Impl> body);

  /// `buffers` are the sources and the results that the outer program reads, as the kernel's parameters.
  void launch(std::span<const runtime::BufferSlice> buffers,
              std::span<const int64_t> shape_values) const override;
  size_t bytes() const override;
  /// As launch(); returns how many steps ran.
  int64_t run(std::span<const runtime::BufferSlice> buffers, std::span<const int64_t> shape_values) const;

  const Executable::Impl& body() const { return *body_; }
  /// "n times", or what else the graph says of the steps.
  const std::string& times() const { return times_; }

private:
  class Steps;
  /// What says whether a step runs: a state, or the rows of a source. Both -1: all run.
  struct When {
    int state = -1;
    int source = -1; // position among the kernel's parameters
    bool backward = false;
  };
  /// An input of the body: a state, a row of a scanned source, or a value.
  struct Input {
    size_t slot, source; // source: position among the kernel's parameters
  };
  /// A result of the body that is kept: the slot in the body and the kernel's parameter, -1 for a state whose
  /// last value nothing reads.
  struct Result {
    size_t slot;
    int parameter;
    bool backward, cleared; // of a stacked result; cleared: rows of steps that do not run become 0
  };

  std::shared_ptr<const Executable::Impl> body_;
  Expr steps_;
  std::string times_;
  When when_;
  std::vector<Expr> outer_vars_;
  std::vector<int> var_of_; // by shape variable of the body: its position in outer_vars_
  std::vector<Moving> moving_;
  std::vector<size_t> state_sources_;       // by state: the kernel's parameter
  std::vector<int> state_slots_;            // by state: the body's slot that reads it; -1: nothing does
  std::vector<Input> rows_, values_;
  std::vector<bool> rows_backward_;
  std::vector<Result> states_, stacked_;
  bool has_equal_rows_ = false; // two stacked results are one value
};

/// The recurrence that the kernel runs; null if it runs none.
const RecurrenceProgram* recurrence_of(const Kernel& kernel);

} // namespace lathe::pipeline
