#include "compile/run/traced.hpp"

#include <algorithm>

#include "compile/run/debug_output.hpp"
#include "compile/run/finalise.hpp"
#include "compile/run/kernel_limit.hpp"
#include "compile/run/recurrence.hpp"
#include "lathe/detail/access.hpp"
#include "lathe/error.hpp"
#include "runtime/llvm_backend.hpp"
#include "search/machine/profile.hpp"

namespace lathe::pipeline {
namespace {

const char* name_of(PlacedProgram::Home home) {
  switch (home) {
  case PlacedProgram::Home::Input: return "input";
  case PlacedProgram::Home::Output: return "output";
  case PlacedProgram::Home::Data: return "data";
  case PlacedProgram::Home::Arena: return "arena";
  }
  throw InternalError("a buffer has no home");
}

using Sources = std::vector<std::pair<std::string, std::string>>; // by language

Sources sources_of(const Kernel::Impl& kernel);

/// Of a recurrence: the loops and sources of the kernels that it launches in each step.
Sources sources_of_body(const Executable::Impl& body) {
  Sources all{{"body", {}}};
  const auto add = [&](const std::string& language, const std::string& text) {
    auto at = std::ranges::find(all, language, &Sources::value_type::first);
    if (at == all.end()) at = all.insert(at, {language, {}});
    at->second += (at->second.empty() ? "" : "\n") + text;
  };
  for (const Kernel& kernel : body.kernels) {
    add("body", kernel.ast());
    for (const auto& [language, text] : sources_of(*detail::impl(kernel))) add(language, text);
  }
  return all;
}

/// The device's own source, and for a CPU also C and assembly, as far as this build has them.
Sources sources_of(const Kernel::Impl& kernel) {
  if (const auto* recurrence = dynamic_cast<const RecurrenceProgram*>(kernel.program.get()))
    return sources_of_body(recurrence->body());
  const std::string& device = kernel.device->name();
  Sources sources{{device == "cpu" ? "llvm" : device == "interp" ? "ast" : device, kernel.source()}};
  if (device != "cpu") return sources;
  const InExprScope inside(kernel.expressions);
  const InExprScope text_only(new_expr_scope());
  const ast::Kernel finalised = finalise(kernel.plan->kernel);
  try {
    sources.emplace_back("asm", runtime::llvm_backend().assembly(finalised, kernel.flags));
    sources.emplace_back("c", runtime::device("c").source(finalised, kernel.flags));
  } catch (const Error&) { // a program needs none of these to run
  }
  return sources;
}

tracing::KernelText text_of(const Kernel::Impl& kernel, const lower::Program& program) {
  tracing::KernelText text{
      .name = kernel.name, .plan = kernel.plan.get(), .predicted_seconds = kernel.predicted_seconds};
  text.sources = sources_of(kernel);
  if (const std::optional<KernelLimit> least =
          limit_of(kernel, program)) // else its launches say what they computed
    text.flops = least->flops, text.bytes = least->bytes, text.limit_seconds = least->limit.seconds;
  return text;
}

} // namespace

void record(const Executable::Impl& program, const lower::MemoryPlan& memory, tracing::Trace& trace) {
  const tracing::TimedPass pass(&trace, "sources");
  for (const Kernel& kernel : program.kernels) trace.kernel(text_of(*detail::impl(kernel), *program.program));
  std::vector<tracing::PlacedBuffer> buffers;
  for (size_t s = 0; s < program.placed.slots.size(); ++s) {
    const PlacedProgram::Slot& slot = program.placed.slots[s];
    buffers.push_back({slot.buffer->name, name_of(slot.home), largest_bytes(*slot.buffer),
                       slot.home == PlacedProgram::Home::Arena ? memory.offsets[s] : 0, slot.first,
                       slot.last});
  }
  trace.memory(buffers, memory.peak, memory.naive);
  const search::MachineProfile machine = search::machine_profile();
  const int threads = program.kernels.empty() ? 1 : detail::impl(program.kernels[0])->flags.threads;
  const int cores = std::min(threads, std::max(machine.cores, 1));
  trace.machine(*std::ranges::max_element(machine.flops_per_second) * cores,
                machine.levels.back().read_bytes_per_second * cores, threads);
}

} // namespace lathe::pipeline
