// Running the launches of an Executable: frames, sizes, copies to and from devices with memory of their own.
#include <algorithm>
#include <cstring>
#include <mutex>
#include <optional>
#include <thread>

#include "compile/front/moved.hpp"
#include "compile/run/debug_output.hpp"
#include "compile/run/executable_impl.hpp"
#include "core/debug.hpp"
#include "lathe/detail/access.hpp"
#include "lathe/detail/instruction_timer.hpp"
#include "runtime/thread_pool.hpp"
#include "view/copy_view.hpp"

namespace lathe {

void HostView::upload(size_t offset, const void* from, size_t bytes) {
  std::memcpy(static_cast<char*>(data_) + offset, from, bytes);
}
void HostView::download(size_t offset, void* to, size_t bytes) {
  std::memcpy(to, static_cast<char*>(data_) + offset, bytes);
}

using Impl = Executable::Impl;
using runtime::BufferSlice;

Impl::Impl() = default;
Impl::~Impl() = default;

std::unique_ptr<Impl::Frame> Impl::make_frame() const {
  auto frame = std::make_unique<Frame>();
  const std::vector<pipeline::PlacedProgram::Slot>& slots = placed.slots;
  frame->inputs.resize(placed.inputs.size());
  frame->outputs.resize(outputs.size());
  frame->views.resize(slots.size());
  frame->owned.resize(slots.size());
  frame->bytes.resize(slots.size());
  frame->calls.resize(kernels.size());
  if (is_static) {
    const pipeline::ShapeValues none(program->shape_vars);
    for (size_t s = 0; s < slots.size(); ++s)
      frame->bytes[s] = static_cast<size_t>(none.bytes(*slots[s].buffer));
    bind_memory(*frame);
  }
  return frame;
}

/// An input that nothing reads has 0 bytes.
void Impl::measure_callers_memory(Frame& frame) const {
  const auto bytes_of = [](const KernelParam& moved) {
    return static_cast<size_t>(lathe::bytes_of(moved.dtype, num_elements(moved.shape).value()));
  };
  const std::vector<pipeline::PlacedProgram::Input>& inputs = placed.inputs;
  frame.input_bytes.assign(inputs.size(), 0);
  frame.output_bytes.assign(outputs.size(), 0);
  for (size_t k = 0; k < inputs.size(); ++k)
    if (inputs[k].slot >= 0) frame.input_bytes[k] = frame.bytes[static_cast<size_t>(inputs[k].slot)];
  for (size_t k = 0; k < outputs.size(); ++k) {
    const Output& output = outputs[k];
    frame.output_bytes[k] = output.moved ? bytes_of(output.declared) : frame.bytes[output.slot];
    if (output.over_input >= 0)
      frame.input_bytes[static_cast<size_t>(output.over_input)] = frame.output_bytes[k];
    if (!output.moved || output.moved_input < 0) continue;
    const auto from = static_cast<size_t>(output.moved_input);
    frame.input_bytes[from] = bytes_of(inputs[from].declared);
  }
}

void Impl::bind_memory(Frame& frame) const {
  measure_callers_memory(frame);
  const lower::MemoryPlan plan = placed.plan_arena(frame.bytes);
  // A buffer without elements has a byte, too: devices have no buffers of none.
  const auto room = [this](std::unique_ptr<runtime::DeviceBuffer>& buffer, size_t bytes) {
    if (!buffer || buffer->bytes() < bytes) {
      buffer.reset();
      buffer = device->allocate(std::max<size_t>(bytes, 1));
    }
    return buffer.get();
  };
  const bool has_arena = std::any_of(placed.slots.begin(), placed.slots.end(),
                                     [](const auto& slot) { return slot.home == Home::Arena; });
  if (has_arena) room(frame.arena, static_cast<size_t>(plan.peak));
  for (size_t k = 0; k < kernels.size(); ++k) {
    Frame::Call& call = frame.calls[k];
    call.slices.clear();
    call.vars.clear();
    for (const size_t s : placed.launches[k]) {
      const pipeline::PlacedProgram::Slot& slot = placed.slots[s];
      const size_t bytes = frame.bytes[s];
      if (is_body && (slot.home == Home::Input || slot.home == Home::Output)) {
        call.slices.push_back({nullptr, 0, bytes}); // bound in each step
      } else if (slot.home == Home::Arena) {
        call.slices.push_back({frame.arena.get(), static_cast<size_t>(plan.offsets[s]), bytes});
      } else if (slot.home == Home::Data && !device->is_host()) {
        call.slices.push_back({uploaded[s].get(), 0, bytes});
      } else if (device->is_host()) {
        if (slot.home == Home::Data) frame.views[s].point_to(slot.data->data(), bytes);
        call.slices.push_back({&frame.views[s], 0, bytes});
      } else {
        call.slices.push_back({room(frame.owned[s], bytes), 0, bytes});
      }
    }
    for (const size_t v : vars[k]) call.vars.push_back(frame.values[v]);
  }
}

void Impl::set_sizes(Frame& frame, const std::vector<int64_t>& values) const {
  if (is_static || frame.values == values) return;
  pipeline::ShapeValues all(program->shape_vars);
  for (size_t v = 0; v < values.size(); ++v) all.bind(program->shape_vars[v], values[v], "call");
  frame.values.clear(); // invalid until all sizes are set
  for (size_t s = 0; s < placed.slots.size(); ++s)
    frame.bytes[s] = static_cast<size_t>(all.bytes(*placed.slots[s].buffer));
  frame.values = values;
  try {
    bind_memory(frame);
  } catch (...) {
    frame.values.clear();
    throw;
  }
}

namespace {

/// Locks a mutex that is held for some nanoseconds at a time. If a thread held it at a fork, it stays locked
/// in the child, which has no such thread. Hence the limit on tries: without a lock, the caller does without
/// what the mutex guards.
std::unique_lock<std::mutex> lock_briefly(std::mutex& mutex) {
  constexpr int kMostTries = 10'000;
  for (int tries = 0; tries < kMostTries; ++tries) {
    if (std::unique_lock lock(mutex, std::try_to_lock); lock) return lock;
    std::this_thread::yield();
  }
  return {};
}

} // namespace

std::unique_ptr<Impl::Frame> Impl::take_frame() const {
  {
    const auto lock = lock_briefly(mutex_);
    if (lock && !idle_.empty()) {
      auto frame = std::move(idle_.back());
      idle_.pop_back();
      return frame;
    }
  }
  return make_frame();
}

void Impl::put_back(std::unique_ptr<Frame> frame) const {
  if (const auto lock = lock_briefly(mutex_)) idle_.push_back(std::move(frame));
}

void Impl::run(Frame& frame) const {
  const bool on_host = device->is_host();
  for (size_t k = 0; k < placed.inputs.size(); ++k) {
    if (placed.inputs[k].slot < 0) continue;
    const auto s = static_cast<size_t>(placed.inputs[k].slot);
    if (on_host)
      frame.views[s].point_to(const_cast<void*>(frame.inputs[k]), frame.bytes[s]);
    else if (frame.owned[s])
      frame.owned[s]->upload(0, frame.inputs[k], frame.bytes[s]);
  }
  if (on_host)
    for (size_t k = 0; k < outputs.size(); ++k) {
      const Output& output = outputs[k];
      if (output.copy_of >= 0 || output.moved) continue;
      frame.views[output.slot].point_to(frame.outputs[k], frame.bytes[output.slot]);
      if (output.over_input < 0) continue;
      const void* const from = frame.inputs[static_cast<size_t>(output.over_input)];
      if (from == frame.outputs[k]) continue;
      const detail::InstructionTimer timer("copy", output.declared.name);
      std::memcpy(frame.outputs[k], from, frame.bytes[output.slot]);
    }

  Profile* const profile = detail::Recorder::current();
  tracing::Trace* const traced = trace && trace->begins_run() ? trace.get() : nullptr;
  const double run_start = traced ? traced->now() : 0;
  const bool timed = profile || traced || debug_level() > 0;
  for (size_t k = 0; k < kernels.size(); ++k) {
    const Frame::Call& call = frame.calls[k];
    const Kernel::Impl& kernel = *detail::impl(kernels[k]);
    if (!timed) {
      kernel.program->launch(call.slices, call.vars);
      continue;
    }
    const double start = traced ? traced->now() : 0;
    std::optional<runtime::ThreadPool::Watch> watch;
    if (traced) watch.emplace();
    LaunchTime launch = pipeline::timed_launch(kernel, *program, *device, call.slices, call.vars);
    if (debug_level() > 0) pipeline::report_launch(launch);
    if (traced) traced->launch(k, start, launch);
    if (traced)
      for (const runtime::ThreadPool::Part& part : watch->parts())
        traced->part(k, part.start, part.end, part.thread);
    if (profile) detail::Recorder::record(*profile, std::move(launch));
  }

  if (!on_host) device->finish();
  for (size_t k = 0; k < outputs.size(); ++k) {
    const Output& output = outputs[k];
    if (output.moved) {
      // operator() returns a view of the input instead, or states exchange their memory; the output's pointer
      // is then null.
      const void* from = output.moved_input < 0
                             ? std::get<graph::InputAttr>(output.moved->input->attr).data->data()
                             : frame.inputs[static_cast<size_t>(output.moved_input)];
      if (!frame.outputs[k]) continue;
      const detail::InstructionTimer timer("copy", output.declared.name);
      copy_view(output.moved->view, static_cast<size_t>(size_of(output.moved->input->dtype)), from,
                frame.outputs[k]);
      continue;
    }
    const size_t bytes = frame.bytes[output.slot];
    if (output.copy_of >= 0) {
      const detail::InstructionTimer timer("copy", output.declared.name);
      std::memcpy(frame.outputs[k], frame.outputs[static_cast<size_t>(output.copy_of)], bytes);
    } else if (!on_host) {
      frame.owned[output.slot]->download(0, frame.outputs[k], bytes);
    }
  }
  if (!traced) return;
  traced->ends_run(run_start);
  traced->flush();
}

} // namespace lathe
