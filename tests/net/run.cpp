// Runs a program: the oracle's values of it, and lathe's.
#include <cstring>
#include <set>

#include "compile/front/target.hpp"
#include "compile/realise.hpp"
#include "compile/run/assemble.hpp"
#include "lathe/executable.hpp"
#include "lower/program.hpp"
#include "net/program.hpp"
#include "net/rows.hpp"
#include "search/machine/target.hpp"
#include "search/moves/plan.hpp"
#include "support/walk.hpp"

namespace lathe::net {
namespace {

constexpr int kAttempts = 40; // random moves tried on a plan

std::vector<unsigned char> memory_of(const Array& a) {
  const auto size = static_cast<size_t>(size_of(a.dtype));
  std::vector<unsigned char> bytes(a.at.size() * size);
  for (size_t k = 0; k < a.at.size(); ++k) {
    const Real v = a.at[k].v;
    const Scalar s = is_float(a.dtype) ? Scalar::of_float(a.dtype, static_cast<double>(v))
                     : a.dtype == DType::U64
                         ? Scalar::of_int(a.dtype, static_cast<int64_t>(static_cast<uint64_t>(v)))
                         : Scalar::of_int(a.dtype, static_cast<int64_t>(v));
    s.to_memory(&bytes[k * size]);
  }
  return bytes;
}

std::string name_of(const char* prefix, size_t k) { return fmt::format("{}{}", prefix, k); }

} // namespace

Executable compiled(const NamedTensors& outputs, const RunOptions& options) {
  CompileOptions how;
  how.device = options.device;
  how.threads = 2;
  how.use_database = false;
  how.winograd = 0; // rounds by its own rules
  if (options.quick) how.search = Search::Quick;
  if (!options.walk) return compile(outputs, how);
  const std::shared_ptr<const lower::Program> program = pipeline::lowered(outputs);
  if (program->stages.empty()) return compile(outputs, how); // there are constants and views only
  const search::Target target = pipeline::target_for(how, *program);
  test::Walker walker(options.walk, target);
  return pipeline::build(walker.walk(search::initial_plan(program), kAttempts), how);
}

Tensor data_tensor(const Array& a) {
  const auto bytes = memory_of(a);
  return Tensor::from_memory(bytes.data(), a.at.size(), a.dtype, shape_of(a.shape));
}

std::vector<Array> evaluate_reference(const Program& program) {
  std::vector<Array> values;
  values.reserve(program.steps.size());
  for (const Step& s : program.steps) {
    Arrays operands;
    for (int k : s.in) operands.push_back(&values[static_cast<size_t>(k)]);
    values.push_back(s.function->reference(s, operands));
    require(values.back().at.size() < 100000, "too large");
  }
  return values;
}

Tensors tensors_of(const Program& program, const std::vector<Array>& reference, const RunOptions& options) {
  set_default_device(options.device); // of steps that are realised
  symbol() = {options.symbol, std::min<int64_t>(options.other, 2)};
  Tensors values;
  for (size_t k = 0; k < program.steps.size(); ++k) {
    const Step& s = program.steps[k];
    if (is_input(s)) {
      values.push_back(Tensor::input(name_of("x", k), shape_of(s.ints), s.dtype));
      continue;
    }
    Tensors operands;
    for (int i : s.in) operands.push_back(values[static_cast<size_t>(i)]);
    values.push_back(s.function->build(s, operands));
    const Array& want = reference[k];
    if (!options.symbol &&
        (values.back().dtype() != want.dtype || values.back().shape() != shape_of(want.shape)))
      throw std::runtime_error(fmt::format("{} gives {}{}, expected {}{}", s.function->name,
                                           to_string(values.back().dtype()), to_string(values.back().shape()),
                                           to_string(want.dtype), shape_text(want.shape)));
  }
  symbol() = {};
  return values;
}

namespace {

/// Calls the program with the values of its inputs in `reference`.
std::vector<Result> called(const Executable& run, const Program& program, const std::vector<Array>& reference,
                           const RunOptions& options) {
  std::map<std::string, std::vector<unsigned char>> memory;
  std::map<std::string, const void*> in;
  std::map<std::string, void*> out;
  std::map<std::string, int64_t> sizes;
  NamedTensors feeds;
  std::set<std::string> asked, given;
  for (const KernelParam& p : run.inputs()) asked.insert(p.name);
  for (const KernelParam& p : run.outputs()) given.insert(p.name);
  const bool pointers = options.walk || (program.steps.size() % 2 && !options.symbol);
  for (size_t k = 0; k < program.steps.size(); ++k) {
    const std::string name = name_of("x", k);
    if (!is_input(program.steps[k]) || !asked.count(name)) continue;
    memory[name] = memory_of(reference[k]);
    in[name] = memory[name].data();
    if (!pointers) feeds.emplace(name, data_tensor(reference[k]));
  }
  std::vector<Result> results(program.outputs.size());
  for (size_t k = 0; k < results.size(); ++k) {
    const Array& want = reference[static_cast<size_t>(program.outputs[k])];
    results[k] = {want.dtype, want.shape, {}};
    if (!given.count(name_of("o", k))) continue; // a plan of random moves leaves out what needs no kernel
    results[k].bytes.assign(want.at.size() * static_cast<size_t>(size_of(want.dtype)), 0xA5);
    out[name_of("o", k)] = results[k].bytes.data();
  }
  if (pointers) {
    run.run(in, out, sizes);
    return results;
  }
  const NamedTensors got = run(feeds);
  for (size_t k = 0; k < results.size(); ++k)
    if (given.count(name_of("o", k))) {
      const Tensor& t = got.at(name_of("o", k));
      if (t.element_count() * size_of(t.dtype()) != static_cast<int64_t>(results[k].bytes.size()))
        throw std::runtime_error(fmt::format("output {} has shape {}, expected {}", k, to_string(t.shape()),
                                             shape_text(results[k].shape)));
      t.read(results[k].bytes.data(), results[k].dtype);
    }
  return results;
}

NamedTensors outputs_of(const Program& program, const Tensors& values) {
  NamedTensors outputs;
  for (size_t k = 0; k < program.outputs.size(); ++k)
    outputs.emplace(name_of("o", k), values[static_cast<size_t>(program.outputs[k])]);
  return outputs;
}

/// With a Var for kSymbol, at both sizes. What lathe says it can't do for every size is no finding.
std::optional<Difference> symbolic_failure(const Program& program, const std::vector<Array>& reference,
                                           const RunOptions& options, Counts* counts) {
  std::optional<Executable> run;
  try {
    run = compiled(outputs_of(program, tensors_of(program, reference, options)), options);
  } catch (const Error&) {
    symbol() = {};
    return {};
  }
  // A size that no input has would have to be given by the caller.
  bool bound = false;
  for (const KernelParam& p : run->inputs())
    for (Expr size : p.shape) bound |= size.is_var();
  if (!bound) return {};
  const auto at_own_size = [&] {
    return compare(program, reference, called(*run, program, reference, options), counts);
  };
  const Program other = resized(program, options.other);
  std::vector<Array> values;
  try {
    values = evaluate_reference(other);
  } catch (const Invalid&) {
    return at_own_size();
  }
  auto failure = compare(other, values, called(*run, other, values, options), counts);
  if (!failure) return at_own_size();
  failure->text += fmt::format(" (with n = {})", options.other);
  return failure;
}

} // namespace

Program resized(const Program& program, int64_t size) {
  Program out = program;
  for (Step& s : out.steps) {
    const std::string& f = s.function->name;
    if (is_leaf(s) || f == "reshape" || f == "expand" || f == "shrink" || f == "full" || f == "iota" ||
        f == "rand" || f == "randn")
      for (int64_t& n : s.ints)
        if (n == kSymbol) n = size;
  }
  return out;
}

std::optional<Difference> failure_of(const Program& program, const RunOptions& options, Counts* counts) {
  const std::vector<Array> reference = evaluate_reference(program);
  try {
    if (options.symbol) return symbolic_failure(program, reference, options, counts);
    const Executable run = compiled(outputs_of(program, tensors_of(program, reference, options)), options);
    auto failure = compare(program, reference, called(run, program, reference, options), counts);
    if (!failure && options.gradients) failure = gradient_failure(program, options);
    return failure;
  } catch (const Invalid&) {
    throw;
  } catch (const std::exception& error) {
    return Difference{-1, 0, error.what()};
  }
}

Program pruned(const Program& program) {
  std::vector<bool> needed(program.steps.size());
  for (int k : program.outputs) needed[static_cast<size_t>(k)] = true;
  for (size_t k = program.steps.size(); k-- > 0;)
    if (needed[k])
      for (int i : program.steps[k].in) needed[static_cast<size_t>(i)] = true;
  Program out;
  std::vector<int> place(program.steps.size(), -1);
  for (size_t k = 0; k < program.steps.size(); ++k) {
    if (!needed[k]) continue;
    place[k] = static_cast<int>(out.steps.size());
    out.steps.push_back(program.steps[k]);
    for (int& i : out.steps.back().in) i = place[static_cast<size_t>(i)];
  }
  for (int k : program.outputs) out.outputs.push_back(place[static_cast<size_t>(k)]);
  return out;
}

Program joined(const std::vector<Program>& programs) {
  Program all;
  for (const Program& p : programs) {
    const int base = static_cast<int>(all.steps.size());
    for (Step s : p.steps) {
      for (int& i : s.in) i += base;
      all.steps.push_back(std::move(s));
    }
    for (int k : p.outputs) all.outputs.push_back(k + base);
  }
  return all;
}

} // namespace lathe::net
