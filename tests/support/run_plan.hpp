// Runs a plan kernel by kernel on any device, below Executable: fresh random inputs, poisoned outputs and
// intermediates.
#pragma once
#include <cmath>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "ast/machine/machine_form.hpp"
#include "ast/passes/prepare.hpp"
#include "compile/measure/tolerance.hpp"
#include "lathe/executable.hpp"
#include "runtime/device.hpp"
#include "search/moves/plan.hpp"

namespace lathe::test {

using Memory = std::map<std::string, std::vector<unsigned char>>; // by buffer name

inline size_t bytes_of(const ast::Buffer& buffer) {
  int64_t n = size_of(buffer.dtype);
  for (Expr e : buffer.shape) n *= e.value();
  return static_cast<size_t>(n);
}

/// Realised tensors have their own values. `whole`: numbers of which sums and products are exact.
inline Memory random_inputs(const lower::Program& program, uint64_t seed, bool whole = false) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> real(-1, 1);
  Memory memory;
  for (const auto& input : program.inputs) {
    auto& bytes = memory[input.buffer->name];
    bytes.resize(bytes_of(*input.buffer));
    const DType dtype = input.buffer->dtype;
    if (const auto& data = std::get<graph::InputAttr>(input.node->attr).data) {
      std::memcpy(bytes.data(), data->data(), bytes.size());
      continue;
    }
    for (size_t i = 0; i < bytes.size(); i += size_of(dtype)) {
      const Scalar value = whole             ? Scalar::of_int(dtype, static_cast<int64_t>(1 + random() % 3))
                           : is_float(dtype) ? Scalar::of_float(dtype, real(random))
                                             : Scalar::of_int(dtype, static_cast<int64_t>(random() % 6));
      value.to_memory(&bytes[i]);
    }
  }
  return memory;
}

/// As a device takes it; with `forms`, in the machine form of a target that has them.
inline ast::Kernel finalised(const ast::Kernel& kernel, const ast::VectorForms* forms = nullptr) {
  ast::Kernel k = ast::prepare(kernel);
  if (forms) k = ast::machine_form(k, *forms);
  ast::verify(k);
  return k;
}

/// Compiled kernels that no move has changed, by structural hash: the plans of a test share them.
using Programs = std::map<uint64_t, std::shared_ptr<runtime::Program>>;

/// The programs of the plan's kernels, in their order. Those of kernels that no move has changed are taken
/// from `shared`, or put there.
inline std::vector<std::shared_ptr<runtime::Program>> compiled(const search::Plan& plan,
                                                               runtime::Device& device, Programs* shared,
                                                               const ast::VectorForms* forms,
                                                               const runtime::CompileFlags& flags) {
  std::vector<std::shared_ptr<runtime::Program>> programs;
  std::vector<size_t> missing;
  for (size_t k = 0; k < plan.kernels.size(); ++k) {
    const search::KernelPlan& kernel = *plan.kernels[k];
    programs.push_back(shared && kernel.moves.empty() ? (*shared)[kernel.hash] : nullptr);
    if (!programs.back()) missing.push_back(k);
  }
  std::vector<ast::Kernel> kernels;
  for (const size_t k : missing) kernels.push_back(finalised(plan.kernels[k]->kernel, forms));
  auto made = device.compile_all(kernels, flags);
  for (size_t i = 0; i < missing.size(); ++i) {
    const search::KernelPlan& kernel = *plan.kernels[missing[i]];
    programs[missing[i]] = std::move(made[i]);
    if (shared && kernel.moves.empty()) (*shared)[kernel.hash] = programs[missing[i]];
  }
  return programs;
}

/// Runs all kernels; device null: interprets the kernels as they stand, before any pass. `forms` as of
/// finalised().
inline void run_plan(const search::Plan& plan, Memory& memory, runtime::Device* device,
                     Programs* shared = nullptr, const ast::VectorForms* forms = nullptr,
                     const runtime::CompileFlags& flags = {.threads = 2}) {
  std::vector<std::shared_ptr<runtime::Program>> programs;
  if (device) programs = compiled(plan, *device, shared, forms, flags);
  for (size_t k = 0; k < plan.kernels.size(); ++k) {
    const search::KernelPlanRef& kernel_plan = plan.kernels[k];
    const ast::Kernel& kernel = kernel_plan->kernel;
    for (const ast::Kernel& fill : kernel_plan->constants) {
      auto &source = memory.at(fill.params[0].buffer->name), &copy = memory[fill.params[1].buffer->name];
      copy.assign(bytes_of(*fill.params[1].buffer), 0xA5);
      ast::verify(fill);
      ast::interpret(fill, {{source.data(), source.size()}, {copy.data(), copy.size()}}, {});
    }
    for (const ast::Param& param : kernel.params)
      if (param.written) memory[param.buffer->name].assign(bytes_of(*param.buffer), 0xA5);
    if (!device) {
      std::vector<ast::Bytes> buffers;
      for (const ast::Param& p : kernel.params)
        buffers.push_back({memory.at(p.buffer->name).data(), memory.at(p.buffer->name).size()});
      ast::interpret(kernel, buffers, {});
      continue;
    }
    std::vector<std::unique_ptr<runtime::DeviceBuffer>> owned;
    std::vector<runtime::BufferSlice> slices;
    for (const ast::Param& p : kernel.params) {
      auto& bytes = memory.at(p.buffer->name);
      owned.push_back(device->allocate(bytes.size()));
      owned.back()->upload(0, bytes.data(), bytes.size());
      slices.push_back({owned.back().get(), 0, bytes.size()});
    }
    programs[k]->launch(slices, {});
    device->finish();
    for (size_t i = 0; i < kernel.params.size(); ++i) {
      auto& bytes = memory.at(kernel.params[i].buffer->name);
      if (kernel.params[i].written) owned[i]->download(0, bytes.data(), bytes.size());
    }
  }
}

/// How far a program's float outputs may be off whose inputs lie in [-1, 1): the terms of a sum are together
/// about the square root of their number times as large as the largest of the sums, and a few ops more round.
inline double tolerance_of(DType dtype, int64_t reduction_length, double largest) {
  constexpr double kRoundings = 16;
  const DType kept = is_half(dtype) ? DType::F32 : dtype; // of sums
  const auto n = static_cast<double>(reduction_length);
  return pipeline::sum_error(kept, n, std::sqrt(n) * largest) +
         kRoundings * pipeline::unit_roundoff(dtype) * largest;
}

/// Empty if every output agrees: integers exactly, floats within tolerance_of().
inline std::string difference(const lower::Program& program, const Memory& got, const Memory& want,
                              int64_t reduction_length) {
  for (const auto& output : program.outputs) {
    const ast::Buffer& buffer = *program.stages[output.stage].buffer;
    const auto &g = got.at(buffer.name), &w = want.at(buffer.name);
    double largest = 1;
    for (size_t i = 0; i < w.size(); i += size_of(buffer.dtype))
      if (is_float(buffer.dtype))
        if (const double v = Scalar::from_memory(buffer.dtype, &w[i]).as_float(); std::isfinite(v))
          largest = std::max(largest, std::abs(v));
    const double tolerance = tolerance_of(buffer.dtype, reduction_length, largest);
    for (size_t i = 0; i < w.size(); i += size_of(buffer.dtype)) {
      const Scalar a = Scalar::from_memory(buffer.dtype, &g[i]), b = Scalar::from_memory(buffer.dtype, &w[i]);
      const double x = a.as_float(), y = b.as_float();
      const bool same = a == b || (is_float(buffer.dtype) &&
                                   ((std::isnan(x) && std::isnan(y)) || std::abs(x - y) <= tolerance));
      if (!same)
        return output.name + "[" + std::to_string(i / size_of(buffer.dtype)) + "] is " + to_string(a) +
               ", expected " + to_string(b);
    }
  }
  return {};
}

/// As above, bit by bit.
inline std::string exact_difference(const lower::Program& program, const Memory& got, const Memory& want) {
  for (const auto& output : program.outputs) {
    const ast::Buffer& buffer = *program.stages[output.stage].buffer;
    const auto &g = got.at(buffer.name), &w = want.at(buffer.name);
    const size_t size = size_of(buffer.dtype);
    for (size_t i = 0; i < w.size(); i += size)
      if (std::memcmp(&g[i], &w[i], size) != 0)
        return output.name + "[" + std::to_string(i / size) + "] is " +
               to_string(Scalar::from_memory(buffer.dtype, &g[i])) + ", expected " +
               to_string(Scalar::from_memory(buffer.dtype, &w[i]));
  }
  return {};
}

/// `memory` of a program, by the names that another one has for the same inputs and outputs: a move that
/// rewrites the graph numbers stages anew, and may bring realised tensors of its own.
inline Memory renamed(const Memory& memory, const lower::Program& from, const lower::Program& to) {
  Memory out;
  for (const auto& input : to.inputs) {
    auto& bytes = out[input.buffer->name];
    if (const auto& data = std::get<graph::InputAttr>(input.node->attr).data) {
      const auto* start = static_cast<const unsigned char*>(data->data());
      bytes.assign(start, start + bytes_of(*input.buffer));
      continue;
    }
    for (const auto& same : from.inputs)
      if (same.node == input.node) bytes = memory.at(same.buffer->name);
  }
  for (size_t k = 0; k < to.outputs.size(); ++k) {
    const auto known = memory.find(from.stages[from.outputs[k].stage].buffer->name);
    if (known != memory.end()) out[to.stages[to.outputs[k].stage].buffer->name] = known->second;
  }
  return out;
}

/// How the outputs of the plan, interpreted and compiled, differ from those of the plan without moves; empty
/// if they don't.
inline std::string difference_from_unscheduled(const search::Plan& plan, int64_t reduction_length) {
  Memory got = random_inputs(*plan.program, 7), want = got, compiled = got;
  run_plan(plan, got, nullptr);
  run_plan(search::initial_plan(plan.program), want, nullptr);
  const std::string interpreted = difference(*plan.program, got, want, reduction_length);
  if (!interpreted.empty()) return "interpreted: " + interpreted;
  run_plan(plan, compiled, &runtime::device(default_device()));
  return difference(*plan.program, compiled, want, reduction_length);
}

} // namespace lathe::test
