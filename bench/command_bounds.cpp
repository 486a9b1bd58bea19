// lathe-bench bounds: whether a kernel is bound by what explain() says, shown by measurements with a bound
// removed: once all its data lie in the first cache, and once only its data are moved.
#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "commands.hpp"
#include "compile/front/target.hpp"
#include "compile/run/program_cache.hpp"
#include "lathe/explain.hpp"
#include "lowered.hpp"
#include "timing.hpp"

namespace lathe::bench {

namespace {

struct Program {
  std::string name;
  NamedTensors outputs;
};

std::vector<Program> programs() {
  const auto of = [](const char* workload, const Sizes& shape) {
    const Case c = make_case(find_workload(workload), shape, DType::F32);
    return Program{fmt::format("{} {}", workload, to_string(shape)), c.program};
  };
  const Tensor x = Tensor::input("x", {512, 512}), w = Tensor::input("w", {512, 512});
  return {of("softmax", {4096, 1024}),
          {"matmul, gelu 512x512x512", {{"y", x.matmul(w).gelu()}}},
          of("attention", {12, 128, 64}),
          of("depthwise-conv2d", {32, 112, 112, 3, 3, 1}),
          of("reduce", {16777216})};
}

/// The kernel with each address moved to where its loops begin: a loop's variable times a size that is 0 when
/// the kernel runs. What it computes is nonsense, but its instructions are the same, and its data are a few
/// lines of the first cache. Vector and unrolled loops stay: they are the kernel's instructions.
ast::Kernel in_first_cache(const ast::Kernel& kernel) {
  const Expr none = Var("none", 0, 1);
  Substitution moved;
  ast::visit(kernel.body, [&](const ast::Stmt& stmt, const auto&) {
    const auto* loop = std::get_if<ast::For>(&stmt.node);
    if (loop && (loop->kind == ast::LoopKind::Serial || loop->kind == ast::LoopKind::Parallel))
      moved.emplace_back(loop->var, loop->var * none);
  });
  const auto at = [&](std::vector<Expr> index) {
    for (Expr& place : index) place = substitute(place, moved);
    return index;
  };
  ast::Rewriter rewriter;
  rewriter.on_value = [&](const ast::ValueRef& value) {
    const auto* load = std::get_if<ast::LoadAttr>(&value->attr);
    if (!load || value->op != Op::Load || load->buffer->scope != ast::Scope::Global) return value;
    return ast::load(load->buffer, at(load->index), load->guards, load->ahead, load->lanes);
  };
  rewriter.on_stmt = [&](ast::Stmt stmt) {
    if (std::holds_alternative<ast::Prefetch>(stmt.node)) return ast::Block{};
    if (auto* store = std::get_if<ast::Store>(&stmt.node);
        store && store->buffer->scope == ast::Scope::Global) {
      store->index = at(store->index);
      store->streaming = false; // it would go past the cache
    }
    return ast::Block{std::move(stmt)};
  };
  ast::Kernel out = kernel;
  out.body = ast::rewrite(kernel.body, rewriter);
  out.shape_vars.push_back(none);
  return out;
}

int64_t elements_of(const ast::Buffer& buffer) {
  int64_t elements = 1;
  for (const Expr size : buffer.shape) elements *= size.value();
  return elements;
}

/// A compiled kernel with memory of its own.
class Run {
public:
  Run(const ast::Kernel& kernel, const CompileOptions& with) {
    runtime::Device& device = runtime::device(with.device);
    program_ = pipeline::compile_cached(device, kernel, {pipeline::thread_count(with), with.cpu, false});
    // Inside of a larger piece: lanes that a mask leaves out before an unmapped page cost hundreds of cycles.
    // And each at another place of its page: else a load waits for a store that looks like one to its own
    // place.
    for (const ast::Param& param : kernel.params) {
      const ast::Buffer& buffer = *param.buffer;
      const int64_t around = kAround / size_of(buffer.dtype);
      tensors_.push_back(uniform(buffer.dtype, {elements_of(buffer) + 2 * around}, tensors_.size() + 1));
      const size_t bytes = tensors_.back().bytes() - static_cast<size_t>(2 * kAround);
      char* const begin = static_cast<char*>(tensors_.back().data()) + kAround -
                          kApart * static_cast<int64_t>(tensors_.size());
      buffers_.push_back(device.wrap(begin, bytes));
      slices_.push_back({buffers_.back().get(), 0, bytes});
    }
    values_.resize(kernel.shape_vars.size(), 0);
  }
  void operator()() const { program_->launch(slices_, values_); }

private:
  static constexpr int64_t kAround = 16384; // bytes before and after a buffer
  static constexpr int64_t kApart = 1152;   // bytes by which buffers differ; a multiple of the alignment

  std::shared_ptr<const runtime::Program> program_;
  std::vector<HostTensor> tensors_;
  std::vector<std::unique_ptr<runtime::DeviceBuffer>> buffers_;
  std::vector<runtime::BufferSlice> slices_;
  std::vector<int64_t> values_;
};

/// Reads each of the kernel's inputs once and writes each of its outputs once, and computes next to nothing.
Executable moves_only(const ast::Kernel& kernel, const CompileOptions& with) {
  NamedTensors outputs;
  for (const ast::Param& param : kernel.params) {
    const ast::Buffer& buffer = *param.buffer;
    const int64_t elements = elements_of(buffer);
    const std::string number = std::to_string(outputs.size());
    const Tensor fill = Tensor::input("fill", {1}).cast(buffer.dtype);
    if (param.written)
      outputs.emplace("written_" + number, elements > 1 ? fill.expand({elements}).contiguous() : fill + fill);
    else
      outputs.emplace("sum_" + number, Tensor::input("read_" + number, {elements}, buffer.dtype).sum());
  }
  return compile(outputs, with);
}

/// A program with memory of its own.
class RunProgram {
public:
  explicit RunProgram(Executable program) : program_(std::move(program)) {
    for (const auto& [params, to] : {std::pair(program_.inputs(), &inputs_), {program_.outputs(), &outputs_}})
      for (const KernelParam& param : params) {
        Sizes sizes;
        for (const Expr size : param.shape) sizes.push_back(size.value());
        to->emplace(param.name, uniform(param.dtype, sizes, 1));
      }
    for (const auto& [name, tensor] : inputs_) given_[name] = tensor.data();
    for (auto& [name, tensor] : outputs_) into_[name] = tensor.data();
  }
  void operator()() const { program_.run(given_, into_); }

private:
  Executable program_;
  HostTensors inputs_, outputs_;
  std::map<std::string, const void*> given_;
  std::map<std::string, void*> into_;
};

/// What was measured of a program's longest kernel.
struct Bound {
  std::string kernel, named, largest; // `named`: by explain(); `largest`: its largest term
  double seconds = 0, in_first_cache = 0, moves_only = 0;
  /// The bound whose removal saves more.
  std::string measured() const { return in_first_cache < moves_only ? "bandwidth" : "compute"; }
  bool holds() const { return measured() == named; }
};

Bound bound_of(const Program& program, const Options& options) {
  CompileOptions with = compile_options(options);
  with.use_database = false;
  const Executable executable = compile(program.outputs, with);
  std::vector<search::Move> moves;
  for (const std::string& text : executable.moves()) moves.push_back(search::parse_move(text));
  const auto stages = lowered(program.outputs);
  const search::Plan plan = search::replay(stages, moves, pipeline::target_for(with, *stages));
  std::vector<Run> runs;
  std::vector<std::function<void()>> calls;
  for (const search::KernelPlanRef& kernel : plan.kernels) runs.emplace_back(kernel->kernel, with);
  for (const Run& run : runs) calls.push_back([&run] { run(); });
  const std::vector<double> times = median_seconds(calls);
  const auto longest = static_cast<size_t>(std::max_element(times.begin(), times.end()) - times.begin());
  const ast::Kernel& kernel = plan.kernels[longest]->kernel;
  const std::vector<KernelExplanation> all = explain(executable).kernels;
  const KernelExplanation& why = *std::find_if(
      all.begin(), all.end(), [&](const KernelExplanation& k) { return k.name == kernel.name; });
  const Run cached(in_first_cache(kernel), with);
  const RunProgram moving(moves_only(kernel, with));
  const std::vector<double> both =
      median_seconds({[&] { runs[longest](); }, [&] { cached(); }, [&] { moving(); }});
  const auto largest = std::max_element(why.terms.begin(), why.terms.end(),
                                        [](const auto& a, const auto& b) { return a.second < b.second; });
  return {kernel.name, why.bound, largest->first, both[0], both[1], both[2]};
}

} // namespace

int bounds_command(const Options& options) {
  Json json = Json::array();
  bool all_hold = true;
  if (!options.json)
    fmt::print("{:<34} {:<8} {:<10} {:<14} {:>10} {:>15} {:>11} {:<10}\n", "program", "kernel", "bound",
               "largest term", "as it is", "in first cache", "moves only", "measured");
  for (const Program& program : programs()) {
    const Bound bound = bound_of(program, options);
    all_hold = all_hold && bound.holds();
    json.push_back({{"program", program.name},
                    {"kernel", bound.kernel},
                    {"bound", bound.named},
                    {"largest_term", bound.largest},
                    {"ms", bound.seconds * 1e3},
                    {"in_first_cache_ms", bound.in_first_cache * 1e3},
                    {"moves_only_ms", bound.moves_only * 1e3},
                    {"measured_bound", bound.measured()}});
    if (options.json) continue;
    fmt::print("{:<34} {:<8} {:<10} {:<14} {:>10} {:>15} {:>11} {:<10}{}\n", program.name, bound.kernel,
               bound.named, bound.largest, duration(bound.seconds), duration(bound.in_first_cache),
               duration(bound.moves_only), bound.measured(), bound.holds() ? "" : "  NOT AS NAMED");
    std::fflush(stdout);
  }
  if (options.json)
    fmt::print("{}\n", json.dump(2));
  else
    fmt::print(
        "(of each program's longest kernel: its time with all data in the first cache, and the time to read\n"
        "its inputs and write its outputs alone; the bound is the one without which it is faster)\n");
  return all_hold ? 0 : 1;
}

} // namespace lathe::bench
