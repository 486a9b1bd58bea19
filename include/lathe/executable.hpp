// Executable: a compiled program, called again and again with named inputs. Kernel: one compiled loop nest of it.
//
// Both are cheap handles and may be used from several threads at once.
//
//   Executable f = compile({{"y", x.matmul(w)}}, {.device = "c"});
//   Tensor y = f({{"x", some_tensor}, {"w", weights}}).at("y");
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "lathe/state.hpp"
#include "lathe/tensor.hpp"

namespace lathe {

/// A parameter of a kernel, or an input or output of a program; `written`: whether it is a result.
struct KernelParam {
  std::string name;
  DType dtype;
  Shape shape;
  bool written;
};

/// What a launch binds, by name: host memory for every parameter and a value for every shape variable.
class Query {
 public:
  Query& bind(const std::string& param, void* data, size_t bytes);
  Query& bind(const std::string& param, const void* data, size_t bytes);  // read-only parameters
  Query& set(const std::string& shape_var, int64_t value);

  struct Binding { std::string name; void* data; size_t bytes; bool writable; };
  const std::vector<Binding>& buffers() const { return buffers_; }
  const std::vector<std::pair<std::string, int64_t>>& shape_values() const { return shape_values_; }

 private:
  std::vector<Binding> buffers_;
  std::vector<std::pair<std::string, int64_t>> shape_values_;
};

class Kernel {
 public:
  const std::string& name() const;
  const std::string& source() const;                  ///< C, OpenCL C, LLVM IR or the printed loop AST, by device
  const std::vector<KernelParam>& params() const;
  const std::vector<Expr>& shape_vars() const;
  std::string ast() const;                            ///< the scheduled loop AST, printed
  std::vector<std::string> moves() const;             ///< the schedule
  double predicted_seconds() const;                   ///< by the cost model
  /// Runs it. Error(Name) for a missing, unknown or doubled name, Error(Value) for a wrong size, a shape value out of bounds
  /// or memory of a written parameter that overlaps another's.
  void launch(const Query& query) const;

  struct Impl;

 private:
  friend struct detail::Access;
  explicit Kernel(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  detail::Held<const Impl, detail::Holder::Kernel> impl_;
};

struct TuneProgress {
  int round = 0;
  int64_t proposed = 0, measured = 0, rejected = 0;
  double best_seconds = 0, elapsed_seconds = 0, budget_seconds = 0;  ///< best: sum of the kernels' times, each by itself
  double tuned_seconds = 0, untuned_seconds = 0;  ///< at the end: of the whole program, run in turns; 0 if they are the same
  int64_t recalled = 0;                    ///< measured by an earlier search of the same program, and not again
  double scored_per_second = 0;            ///< plans made and ranked by the model
  std::map<std::string, int64_t> reasons{};  ///< of the rejected: "not legal", "wrong result", "too slow", "crashed" ...
  std::string not_stored{};                ///< at the end: why the database does not hold what was found; empty if it does
};

/// How tune() searches: for how long, how widely, and what it reports on the way.
struct TuneOptions {
  double budget_seconds = 30;
  int beam = 8;
  uint64_t seed = 1;
  bool measure = true;                     ///< off: rank by the model alone; deterministic
  std::string log{};                       ///< JSON lines are appended to this file; empty: none
  std::function<void(const TuneProgress&)> progress{};
  std::stop_token stop{};                  ///< once a stop is requested, the search ends with the best so far
};

/// How much compile() searches where nothing is tuned.
enum class Search {
  Full,   ///< forms of products and convolutions, orders of storage, kernels and loops, all together
  Quick,  ///< cheap ops join the kernels that read them, and each kernel's loops are searched. That takes about a tenth of the time;
          ///< the programs take 1 to 3 times as long to run. What a full search found is taken if the cache has it.
};

struct CompileOptions {
  std::string device = "cpu";              ///< see devices()
  int threads = 0;                         ///< 0: one per core
  std::string cpu = "native";              ///< or x86-64, x86-64-v2, x86-64-v3, x86-64-v4
  std::optional<TuneOptions> tune{};       ///< search with measurements; none: by the model, or what the database holds
  bool use_database = true;
  Search search = Search::Full;            ///< tune and moves take no notice of it
  std::stop_token stop{};                  ///< once a stop is requested, compile() soon throws Error(Stopped)
  /// Largest tile of Winograd's filtering that the search may choose for 3x3 convolutions of stride 1: 4, 2, or 0 for never.
  /// It rounds differently from direct sums: see src/graph/forms/winograd.hpp.
  int winograd = 4;
  /// Most levels of blocks, 1 or 2, in which the search may compute products of matrices by Strassen's algorithm, with 7/8 of the
  /// multiplications a level; 0 for never. Errors are then relative to the largest elements of both matrices, not to those of
  /// a result's own row and column, and an infinity or a NaN may reach the row beside: see src/graph/forms/strassen.hpp.
  int strassen = 0;
  std::vector<std::string> moves{};        ///< if not empty: apply exactly these, no search
  /// compile() computes ahead what depends on no input and takes many operations, instead of each run. Each such value takes
  /// about a second at most, and has at most this many bytes or no more than the realised tensors that it is made of. Long
  /// sequences of random numbers, for example, are drawn in each run.
  int64_t folded_bytes = 64 << 20;
  /// By the name of an output, the input that it is written over, of the same dtype and shape. A caller of run() may give both the
  /// same memory. On host devices no copy is then made if each element is proven to be read for the last time before it is written;
  /// Executable::print() says whether. The kernels then write only what changes: of update_slice_at, the part. If a caller gives
  /// the output other memory, the run first copies the input there.
  std::map<std::string, std::string> donated{};
  /// A file that compile() and the program's runs append their trace to, as JSON lines: see lathe/trace.hpp. Empty: none.
  std::string trace{};
  /// Values inside the program by the names that the trace shows for them, such as the nodes of a model's file.
  std::map<std::string, Tensor> origins{};
};

using NamedTensors = std::map<std::string, Tensor>;

class Executable {
 public:
  /// Error(Name) for a missing or unknown input, Error(Shape) or Error(DType) where one doesn't fit its declaration.
  /// An output that is only a view of an input, of constant size, shares that input's memory and is read lazily.
  /// `states`: those that this call uses in place of the program's own, by the names in the program. Error(Name) for an unknown
  /// one, Error(Shape) or Error(DType) where one doesn't fit, Error(Value) for one state by two names.
  NamedTensors operator()(const NamedTensors& inputs, const NamedStates& states = {}) const;
  /// As above, and empties `inputs`. An output that is written over an input (CompileOptions::donated) takes the memory of that
  /// argument if nothing else holds the tensor. Otherwise the output has memory of its own, and the tensor keeps its values.
  NamedTensors operator()(NamedTensors&& inputs, const NamedStates& states = {}) const;
  /// As above into memory of the caller's: row-major, of the outputs' sizes. On host devices nothing is
  /// allocated or copied, but for outputs that are only views of inputs: those are copied element by element.
  /// Inputs may share memory. An output may overlap inputs, wholly or in part, on every device: it is computed
  /// elsewhere and copied to its place at the end, unless it is written over that input (CompileOptions::donated).
  /// Error(Value) naming both if two outputs overlap.
  void run(const std::map<std::string, const void*>& inputs, const std::map<std::string, void*>& outputs,
           const std::map<std::string, int64_t>& shape_values = {}, const NamedStates& states = {}) const;

  std::vector<Kernel> kernels() const;
  size_t kernel_count() const;
  std::vector<KernelParam> inputs() const;
  std::vector<KernelParam> outputs() const;
  NamedStates states() const;              ///< those that the program was compiled with; of a loaded program, its own
  std::vector<std::string> moves() const;  ///< all of the plan; CompileOptions::moves replays them
  double predicted_seconds() const;
  int64_t arena_bytes() const;             ///< peak of intermediates as planned, at the typical values of shape variables
  int64_t naive_bytes() const;             ///< their sum without reuse
  int64_t folded_bytes() const;            ///< of what compile() computed ahead (CompileOptions::folded_bytes); 0 if loaded
  bool tuned() const;                      ///< the schedule came from measurements
  bool quick() const;                      ///< the schedule came from a quick search; a full one may find a better
  std::string print() const;               ///< the instructions, one a line, and how states and donated inputs are written

  struct Impl;

 private:
  friend struct detail::Access;
  explicit Executable(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  detail::Held<const Impl, detail::Holder::Executable> impl_;
};

/// `updates`: what each run does to states; see lathe/state.hpp. Error(Name) for two updates of one state, and for a state with
/// the name of another or of an input. Of CompileOptions::donated: Error(Name) for a name that is no output or input
/// of the program, Error(DType) or Error(Shape) for an input that does not fit its output, Error(Value) for an input donated twice.
Executable compile(const NamedTensors& outputs, const CompileOptions& options = {}, const std::vector<Update>& updates = {});
/// compile() with the best schedule that measuring finds within the budget, which the database keeps unless use_database is
/// off: compile() then takes it without searching. Error(Value) for a beam or a budget that is not positive. Ignores options.tune.
Executable tune(const NamedTensors& outputs, const TuneOptions& how = {}, CompileOptions options = {},
                const std::vector<Update>& updates = {});

struct DeviceInfo {
  std::string name;
  bool available;
  std::string detail;  // what it is, or why it is absent
};
std::vector<DeviceInfo> devices();
/// Where item(), to_vector() and operator<< run; "cpu" if available, else "c", else "interp". Error(Device) if absent.
void set_default_device(const std::string& name);
std::string default_device();

/// Empties the caches in memory that make a second compilation of an equal program quick: compiled kernels (64 MiB at most), plans
/// (4 MiB) and programs of realised tensors (16 MiB). Programs in use stay valid, files of the cache on disk stay. Thread-safe.
void clear_caches();

struct EmitOptions {
  std::string target = "c";   ///< c, opencl, cuda, llvm, asm, ast, graph, dot or moves
  CompileOptions compile{};
  bool simplify_graph = true;
};
/// Source of a whole program as one file. C: `void lathe_program(const T* in..., T* out..., int64_t var...)`, self-contained C11.
std::string emit(const NamedTensors& outputs, const EmitOptions& options = {});
std::string emit(const Tensor& output, const EmitOptions& options = {});

}  // namespace lathe
