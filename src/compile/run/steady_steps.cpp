#include "compile/run/steady_steps.hpp"

#include <algorithm>

#include "lathe/detail/access.hpp"

namespace lathe::pipeline {
namespace {

const runtime::Program& program_of(const Kernel& kernel) { return *detail::impl(kernel)->program; }

std::uintptr_t address_of(const runtime::BufferSlice& slice) {
  return reinterpret_cast<std::uintptr_t>(slice.host());
}

} // namespace

bool SteadySteps::can_run(const Executable::Impl& body) {
  return std::all_of(body.kernels.begin(), body.kernels.end(),
                     [](const Kernel& kernel) { return program_of(kernel).takes_addresses(); });
}

SteadySteps::SteadySteps(const Executable::Impl& body, const Executable::Impl::Frame& frame,
                         const std::vector<Moving>& moving) {
  for (size_t k = 0; k < body.kernels.size(); ++k) {
    Call call{&program_of(body.kernels[k]), {}, frame.calls[k].vars.data()};
    for (const runtime::BufferSlice& slice : frame.calls[k].slices) call.addresses.push_back(slice.host());
    calls_.push_back(std::move(call));
  }
  for (const Moving& m : moving) operands_.push_back({&calls_[m.launch].addresses[m.parameter]});
}

void SteadySteps::Path::see(int seen, std::uintptr_t address) {
  if (seen < 2)
    at[seen] = address;
  else
    distance[seen - 2] = address - at[seen - 2];
}

void SteadySteps::see(int seen, size_t k, const runtime::BufferSlice& at) {
  operands_[k].path.see(seen, address_of(at));
}

void SteadySteps::see_condition(int seen, const runtime::BufferSlice& at) {
  has_condition_ = true;
  condition_.see(seen, address_of(at));
}

int64_t SteadySteps::run(int64_t most) {
  for (int64_t step = 0; step < most; ++step) {
    const auto turn = static_cast<size_t>(step % 2);
    if (has_condition_ && *reinterpret_cast<const unsigned char*>(condition_.take(turn)) == 0) return step;
    for (Operand& operand : operands_) *operand.place = reinterpret_cast<void*>(operand.path.take(turn));
    for (const Call& call : calls_) call.program->launch_at(call.addresses.data(), call.vars);
  }
  return most;
}

} // namespace lathe::pipeline
