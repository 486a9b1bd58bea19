// Model: an ONNX file, read and checked. Program: a model made into kernels.
//
// Every op becomes a few primitive tensor ops, so that fusion and search see the whole model. Opsets up to 28 of ONNX's own domain;
// docs/onnx.md lists the ops. Handles are cheap to copy; a Program may be called from several threads.
//
//   onnx::Model model = onnx::load("resnet50.onnx");
//   onnx::Program program = model.compile();
//   onnx::NamedValues out = program({{"data", image}});
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "lathe/executable.hpp"
#include "lathe/onnx/op.hpp"
#include "lathe/onnx/value.hpp"

namespace lathe::onnx {

/// An input or output as the model declares it.
struct Port {
  std::string name;
  Value::Kind kind = Value::Kind::Tensor;
  bool optional = false;
  DType dtype = DType::F32;           ///< of the tensor, of the sequence's tensors, or of the map's values
  std::optional<Shape> shape{};       ///< of a tensor; sizes that the model names are Vars; nothing if it does not say
  std::string text;                   ///< "f32[1, 3, n, 224]", "str[n]", "seq(f32)", "seq(map(str, f32))"
  Value::Kind element = Value::Kind::Tensor;           ///< of a sequence's elements
  bool string_keys = false, string_values = false;     ///< of a map, or of a sequence's maps; else they are i64, and numbers of `dtype`
};

/// A node, or part of one, that can't be imported.
struct Problem {
  std::string node, op, domain;
  int opset = 0;
  std::string message;
};

/// A value at a node, with its type where that follows from the model's inputs.
struct Operand {
  std::string name;
  std::optional<DType> dtype{};
  std::optional<Shape> shape{};
};

/// A node as it stands in the model. Nodes of bodies follow the node that has them, one deeper.
struct Layer {
  std::string node, op;
  int depth = 0;
  std::vector<Operand> inputs{}, outputs{};
  double flops = 0;   ///< additions and multiplications; elementwise ops count one an element, movement nothing; 0 where sizes aren't known
  double bytes = 0;   ///< of inputs and outputs, each once
};

using NamedValues = std::map<std::string, Value>;

struct ImportOptions {
  CompileOptions compile{};
  std::map<std::string, int64_t> sizes{};  ///< fixes sizes that the model names
  /// Most versions of a program for sizes that the model names and `sizes` does not fix, beside the one for all sizes. A version is
  /// compiled in the first call, for its sizes; later for sizes that two calls in a row have. Other calls take the one for all
  /// sizes, compiled when it is first needed. 0, a search (CompileOptions::tune) or moves: there are no versions, and compile()
  /// makes the program for all sizes.
  int versions = 4;
  /// Start at once: what is compiled comes from a quick search (lathe::Search), and a thread of low priority compiles it again with
  /// a full one. Later calls use that program as soon as it is there, so that from then on results may differ in their last
  /// digits. Takes no effect with a trace, a search with measurements, or moves.
  bool quick_first = false;
};

class Program;

class Model {
 public:
  const std::vector<Port>& inputs() const;       ///< those without an initialiser, in order
  const std::vector<Port>& outputs() const;
  /// Initialisers that the model lists as inputs, too: they are what these inputs are where nothing is fed.
  std::vector<Port> defaults() const;
  /// The model with these of defaults() as inputs, which then have to be fed, in the file's order among the others. Error(Name) for
  /// a name that is none of them.
  Model without_defaults(const std::vector<std::string>& names) const;
  const std::map<std::string, std::string>& metadata() const;  ///< producer, versions and the model's own properties
  const std::map<std::string, int>& opsets() const;
  size_t node_count() const;                     ///< of the graph and all bodies in it
  int64_t parameter_count() const;               ///< elements of all initialisers
  /// Every node whose op is not there, all at once. Attributes that are not supported show when the model is compiled.
  std::vector<Problem> problems() const;
  /// All nodes, with the shapes that follow from the inputs'.
  std::vector<Layer> layers(const ImportOptions& options = {}) const;
  /// The outputs as tensors of inputs that bear the model's names (what is no identifier in them as `_`; names that this makes one end in _2, _3 ...): to go on with, to emit, to export.
  /// Error(Value) for a model whose shapes depend on what it is fed, or whose inputs or outputs are not all tensors of numbers.
  /// `values`, if not null, is filled with the values that nodes make, by the nodes' names: for CompileOptions::origins.
  NamedTensors tensors(const ImportOptions& options = {}, NamedTensors* values = nullptr) const;
  /// Error naming node, op, opset and domain for what can't be imported.
  Program compile(const ImportOptions& options = {}) const;

  struct Impl;

 private:
  friend struct lathe::detail::Access;
  explicit Model(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  lathe::detail::Held<const Impl, lathe::detail::Holder::Model> impl_;
};

/// One node a line: %conv1_1[1, 96, 54, 54] = Conv(%data_0[1, 3, 224, 224], %conv1_w_0[96, 3, 11, 11], %conv1_b_0[96])
std::string listing(const std::vector<Layer>& layers);

/// Error(File) that begins with the path and says what is wrong with the file. Weights in files of their own are read in place where
/// they begin at a multiple of 128 bytes: such a file may be replaced, but not written to, while the model or a program of it lives.
Model load(const std::string& path);
/// The same from memory; weights in files of their own are looked for in `folder`, and nowhere outside it.
Model load(const void* bytes, size_t size, const std::string& folder = "");
/// One tensor (or sequence, or optional) from a file or memory as ONNX's test data has them.
Value load_value(const std::string& path, const Port& port);

/// Where all shapes follow from the model, it is one Executable. Where the model names sizes that are known at run time, there are
/// versions of it: see ImportOptions::versions. Where a value decides a shape or a way to go (a target shape fed at run
/// time, the condition of an If, how many elements are not zero), the program is a tree: run a segment, look at the value, go on with the
/// segment made for what was seen. Segments are made when they are first needed and kept. A size that differs from an earlier call's
/// gets a segment for all such sizes, where there can be one.
class Program {
 public:
  /// By name. Error(Name) for a missing or unknown input, Error(Shape) or Error(DType) where one does not fit.
  NamedValues operator()(const NamedValues& inputs) const;
  const std::vector<Port>& inputs() const;       ///< the model's, in its order
  const std::vector<Port>& outputs() const;
  /// The segments there are so far, the first of each way first. None before the first call where sizes are known at run time.
  std::vector<Executable> segments() const;
  /// Waits until every segment there is so far has its best kernels: see ImportOptions::quick_first. Throws what compiling them threw;
  /// the quickly made ones then stay. Returns at once for other programs.
  void wait_for_best() const;
  /// The instructions, one a line and numbered: those of every segment, and between segments `look` at a value, `jump` where it was seen
  /// before or is like what was, `trace` where it was not, and `return`.
  std::string print() const;

  struct Impl;

 private:
  friend struct lathe::detail::Access;
  explicit Program(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
  lathe::detail::Held<Impl, lathe::detail::Holder::Program> impl_;
};

/// A file that is complete in itself, with the segments there are so far: see program_file.hpp. Where further ones may be needed it holds
/// the model as well; weights that model and segments share are there once. Waits for the best kernels (Program::wait_for_best). Error(File) if it can't be written.
void save(const Program& program, const std::string& path);
/// Error(File) naming the file if it is absent, damaged or holds no program of a model. Ops that a user registered have to be registered
/// again before a segment is made that needs them.
Program load_program(const std::string& path);

}  // namespace lathe::onnx
