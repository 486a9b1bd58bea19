// The whole pipeline: graph -> program -> plan -> kernels -> device programs -> executable.
#include "compile/front/front.hpp"
#include "compile/front/inputs.hpp"
#include "compile/front/state_uses.hpp"
#include "compile/front/target.hpp"
#include "compile/realise.hpp"
#include "compile/run/assemble.hpp"
#include "compile/schedule.hpp"
#include "compile/trace/trace.hpp"
#include "lathe/explain.hpp"
#include "runtime/device.hpp"
#include "view/expr_scope.hpp"

namespace lathe {
namespace {

/// Error(Device) if the device is absent, Error(Value) for a CPU or a number of threads that there can't be.
void check(const CompileOptions& options) {
  runtime::device(options.device);
  (void)pipeline::vector_bytes_of(options.cpu);
  (void)pipeline::thread_count(options);
}

} // namespace

Executable compile(const NamedTensors& outputs, const CompileOptions& options,
                   const std::vector<Update>& updates) {
  check(options); // before any work
  const auto trace = tracing::Trace::open(options);
  pipeline::StatefulOutputs given = pipeline::with_updates(outputs, updates);
  pipeline::Front front = pipeline::take_in(given.outputs, {.evaluate = pipeline::constants_of,
                                                            .folded_bytes = options.folded_bytes,
                                                            .trace = trace.get(),
                                                            .origins = options.origins});
  pipeline::check_donated(options.donated, given.outputs, front.inputs, given.states);
  const InExprScope inside(new_expr_scope()); // of the executable: see Program::expressions
  const auto program = front.lowered();
  pipeline::AssembleOptions how{options, std::move(front.inputs), false, std::move(front.moved)};
  how.folded_bytes = front.folded_bytes;
  how.trace = trace;
  how.states = std::move(given.states);
  how.donated = options.donated;
  search::Plan plan;
  if (program->stages.empty()) { // every output is a view of an input
    plan = search::initial_plan(program);
  } else {
    search::SearchResult found = pipeline::schedule(program, options, nullptr, trace.get());
    how.tuned = found.measured_seconds > 0;
    how.quick = found.quick;
    how.fusions = found.fusions;
    plan = std::move(found.plan);
  }
  Executable executable = pipeline::assemble(std::move(plan), how);
  if (trace) {
    {
      const tracing::TimedPass pass(trace.get(), "explain");
      trace->explained(explain(executable));
    }
    trace->flush();
  }
  return executable;
}

Executable tune(const NamedTensors& outputs, const TuneOptions& how, CompileOptions options,
                const std::vector<Update>& updates) {
  options.tune = how;
  return compile(outputs, options, updates);
}

} // namespace lathe
