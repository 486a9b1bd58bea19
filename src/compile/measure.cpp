#include "compile/measure.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <map>

#include <fmt/format.h>

#include "compile/assemble.hpp"
#include "compile/constants.hpp"
#include "compile/shape_values.hpp"
#include "compile/target.hpp"
#include "compile/test_data.hpp"
#include "lathe/error.hpp"

namespace lathe::pipeline {
namespace {

using search::KernelPlan;
using search::KernelPlanRef;
using search::Measurement;
using Buffer = std::unique_ptr<runtime::DeviceBuffer>;

/// One set of stages: inputs on the device, and what its outputs must be. All schedules of it share them.
struct Case {
  std::map<int, Buffer> buffers;                      // by id: inputs filled, outputs to be written
  std::map<uint64_t, Buffer> copies;                  // of constants, by the hash of what makes them
  std::map<int, std::vector<unsigned char>> expected; // outputs
  double reduction_length = 1;
  double best_seconds = 1e30;
};

class Measurer {
public:
  Measurer(std::shared_ptr<const lower::Program> program, const CompileOptions& options)
      : program_(std::move(program)), device_(runtime::device(options.device)),
        target_(target_for(options)), flags_{thread_count(options), options.cpu, true},
        values_(program_->shape_vars) {
    for (const Expr var : program_->shape_vars)
      values_.bind(var, std::clamp<int64_t>(256, var.lo(), var.hi()), "measure");
  }

  Measurement operator()(const KernelPlanRef& kernel, double time_limit_seconds) {
    try {
      return measure(*kernel, time_limit_seconds);
    } catch (const std::exception& e) { // a candidate that can't be compiled or run is no candidate
      return {false, 0, e.what()};
    }
  }

private:
  static constexpr size_t kMaxCases = 32;

  Measurement measure(const KernelPlan& kernel, double limit) {
    Case& c = case_of(kernel);
    const auto program = device_.compile(finalise(kernel.kernel), flags_);
    const Bound bound = bind(kernel.kernel, c, copies_of_constants(kernel, c));
    poison(kernel.kernel, c);
    const double first = time(*program, bound);
    for (const ast::Param& param : kernel.kernel.params) {
      if (!param.written) continue;
      const std::string wrong = compare_values(param.buffer->dtype, c.expected.at(param.buffer->id),
                                               download(param, c), c.reduction_length);
      if (!wrong.empty()) return {false, 0, fmt::format("wrong result in {}: {}", param.buffer->name, wrong)};
    }
    if (first > limit)
      return {false, 0, fmt::format("too slow: {:.3g} s, the limit is {:.3g} s", first, limit)};
    double best = first, total = first;
    for (int runs = 1; runs < 1000 && (runs < 3 || total < 0.01) && total < limit; ++runs) {
      if (best > 2 * c.best_seconds) break; // one more run can't make up for this
      const double seconds = time(*program, bound);
      best = std::min(best, seconds);
      total += seconds;
    }
    c.best_seconds = std::min(c.best_seconds, best);
    return {true, best, {}};
  }

  struct Bound {
    std::vector<runtime::BufferSlice> slices;
    std::vector<int64_t> vars;
  };
  using Copies = std::map<int, runtime::DeviceBuffer*>; // by id of the copy
  Bound bind(const ast::Kernel& kernel, const Case& c, const Copies& copies = {}) const {
    Bound bound;
    for (const ast::Param& param : kernel.params) {
      const auto copy = copies.find(param.buffer->id);
      runtime::DeviceBuffer* buffer =
          copy != copies.end() ? copy->second : c.buffers.at(param.buffer->id).get();
      bound.slices.push_back({buffer, 0, bytes(*param.buffer)});
    }
    for (const Expr var : kernel.shape_vars) bound.vars.push_back(values_.evaluate(var));
    return bound;
  }
  Copies copies_of_constants(const KernelPlan& kernel, Case& c) {
    Copies copies;
    for (const ast::Kernel& fill : kernel.constants) {
      Buffer& made = c.copies[ast::structural_hash(fill)];
      if (!made) {
        std::vector<unsigned char> source(bytes(*fill.params[0].buffer)), copy(bytes(*fill.params[1].buffer));
        c.buffers.at(fill.params[0].buffer->id)->download(0, source.data(), source.size());
        lay_out_constant(fill, source, copy);
        made = device_.allocate(copy.size());
        made->upload(0, copy.data(), copy.size());
      }
      copies[fill.params[1].buffer->id] = made.get();
    }
    return copies;
  }
  double time(const runtime::Program& program, const Bound& bound) {
    const auto start = std::chrono::steady_clock::now();
    program.launch(bound.slices, bound.vars);
    device_.finish();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  size_t bytes(const ast::Buffer& buffer) const { return static_cast<size_t>(values_.bytes(buffer)); }

  /// No value of a right result can be there by chance: floats are NaN, integers a pattern.
  void poison(const ast::Kernel& kernel, const Case& c) {
    for (const ast::Param& param : kernel.params) {
      if (!param.written) continue;
      const std::vector<unsigned char> junk(bytes(*param.buffer),
                                            is_float(param.buffer->dtype) ? 0xFF : 0xA5);
      c.buffers.at(param.buffer->id)->upload(0, junk.data(), junk.size());
    }
  }
  std::vector<unsigned char> download(const ast::Param& param, const Case& c) {
    std::vector<unsigned char> out(bytes(*param.buffer));
    c.buffers.at(param.buffer->id)->download(0, out.data(), out.size());
    return out;
  }

  Case& case_of(const KernelPlan& kernel) {
    std::string key;
    for (const int stage : kernel.stages) key += fmt::format("{} ", stage);
    key += "| ";
    for (const int stage : kernel.inlined) key += fmt::format("{} ", stage);
    key += "| ";
    for (const ast::Param& param : kernel.kernel.params)
      key += fmt::format("{}{} ", param.buffer->id, param.written ? "w" : "");
    if (const auto known = cases_.find(key); known != cases_.end()) return known->second;
    if (cases_.size() >= kMaxCases) cases_.clear();

    const KernelPlanRef reference = search::reference_kernel(*program_, kernel, target_);
    Case made;
    made.reduction_length = longest_reduction(reference->kernel, values_);
    for (const ast::Param& param : reference->kernel.params) {
      const size_t size = bytes(*param.buffer);
      Buffer& buffer = made.buffers[param.buffer->id] = device_.allocate(size);
      if (param.written) continue;
      const auto data = test_data(*param.buffer, size, largest_gathered(reference->kernel, values_));
      buffer->upload(0, data.data(), data.size());
    }
    poison(reference->kernel, made);
    device_.compile(finalise(reference->kernel), flags_)
        ->launch(bind(reference->kernel, made).slices, bind(reference->kernel, made).vars);
    device_.finish();
    for (const ast::Param& param : reference->kernel.params)
      if (param.written) made.expected[param.buffer->id] = download(param, made);
    return cases_.emplace(key, std::move(made)).first->second;
  }

  std::shared_ptr<const lower::Program> program_;
  runtime::Device& device_;
  search::Target target_;
  runtime::CompileFlags flags_;
  ShapeValues values_;
  std::map<std::string, Case> cases_;
};

} // namespace

search::Measure make_measure(std::shared_ptr<const lower::Program> program, const CompileOptions& options) {
  auto measurer = std::make_shared<Measurer>(std::move(program), options);
  return [measurer](const KernelPlanRef& kernel, double limit) { return (*measurer)(kernel, limit); };
}

} // namespace lathe::pipeline
