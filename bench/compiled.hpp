// A compiled case with its memory: run it, verify it, time it.
#pragma once
#include "report.hpp"
#include "workloads.hpp"

namespace lathe::bench {

class Compiled {
public:
  Compiled(const Case& c, const CompileOptions& options);
  Compiled(const Case& c, Executable executable);

  void run() { executable_.run(inputs_, outputs_); }
  const Executable& executable() const { return executable_; }
  HostTensors& outputs() { return memory_; }
  /// Poisons the outputs, runs, and gives the largest error against the reference.
  double verify(const Reference& want);
  /// What that error may be: the case's, and more where Winograd's filtering was chosen, which rounds more.
  double tolerance() const { return tolerance_; }

private:
  Executable executable_;
  double tolerance_;
  HostTensors memory_;
  std::map<std::string, const void*> inputs_;
  std::map<std::string, void*> outputs_;
};

/// The largest max_error over all outputs.
double max_error(const HostTensors& got, const Reference& want);

/// What every command that times a case starts a row with.
Row start_row(const Case& c, const CompileOptions& options, const Executable& executable);

} // namespace lathe::bench
