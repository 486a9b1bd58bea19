// A program as data: a list of steps, each a function of the public API, the steps that it takes, and its
// parameters. One table says of every function how to draw it, how to call it, what it means and how to write
// it.
#pragma once
#include <deque>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "lathe/lathe.hpp"
#include "net/array.hpp"

namespace lathe::net {

struct Function;

struct Step {
  const Function* function = nullptr;
  std::vector<int> in;       // steps before this one
  std::vector<int64_t> ints; // axes, sizes, flags
  std::vector<int64_t> more; // a second list, where a function has two
  std::vector<double> reals;
  DType dtype = DType::F32;   // of leaves and casts
  std::string text;           // an equation
  std::vector<Cell> values{}; // of a leaf whose values the shrinker has fixed
};

struct Program {
  std::vector<Step> steps;
  std::vector<int> outputs;
};

using Arrays = std::vector<const Array*>;
using Tensors = std::vector<Tensor>;
using Texts = std::vector<std::string>;

class Maker;

struct Function {
  std::string name;
  std::string theme;                                          // for --only and --avoid
  std::function<bool(Maker&, Step&)> draw;                    // false: does not fit here
  std::function<Tensor(const Step&, const Tensors&)> build;   // with the public API
  std::function<Array(const Step&, const Arrays&)> reference; // the oracle
  std::function<std::string(const Step&, const Texts&)> text; // the call as C++
  int weight = 2;                                             // how often it is drawn
  bool smooth = false; // may stand between x and a derivative of floats
};

const std::vector<Function>& functions();
const Function& function_named(const std::string& name);

// Each adds the rows of one theme.
void add_creation(std::vector<Function>&);
void add_elementwise(std::vector<Function>&);
void add_binary(std::vector<Function>&);
void add_reductions(std::vector<Function>&);
void add_scans(std::vector<Function>&);
void add_recurrences(std::vector<Function>&);
void add_movement(std::vector<Function>&);
void add_indexing(std::vector<Function>&);
void add_products(std::vector<Function>&);
void add_windows(std::vector<Function>&);
void add_layers(std::vector<Function>&);

// ---- leaves: named inputs, and data that the program holds ----
inline constexpr int kKinds = 6; // of values: small whole, ordinary, quarters, wide, edges, special
Array leaf_values(const Step& leaf);
bool is_leaf(const Step& step); // one whose values are data
bool is_input(const Step& step);
Tensor data_tensor(const Array& values);

// ---- the oracle ----
/// The values of all steps. Throws Invalid.
std::vector<Array> evaluate_reference(const Program& program);

// ---- drawing ----
struct DrawOptions {
  std::vector<DType> dtypes;
  std::vector<std::string> avoid; // names of functions or themes
  std::vector<std::string> only;
  bool gradients = false; // floats and smooth functions alone
  bool empty = false;     // some sizes are 0
  int64_t symbol = 0;     // a size that is drawn often; see RunOptions
};

/// Draws one program, evaluating every step with the oracle as it goes: shapes are known, and what would only
/// be NaN or undecided is drawn again.
class Maker {
public:
  Maker(uint64_t seed, const DrawOptions& options);
  Program draw();

  uint64_t below(uint64_t n) {
    require(n > 0, "nothing to choose from");
    return random_() % n;
  }
  bool chance(int percent) { return below(100) < static_cast<uint64_t>(percent); }
  template <class T> const T& pick(const std::vector<T>& from) { return from[below(from.size())]; }
  int64_t size(); // of an axis
  Sizes shape(int least = 0, int most = 4);
  DType dtype();

  const Array& value(int step) const { return values_[static_cast<size_t>(step)]; }
  /// A value, mostly one of the last; nothing if none fits.
  std::optional<int> existing(const std::function<bool(const Array&)>& fits);
  /// A value of at least one axis and so on, or a new leaf if none fits.
  int some(const std::function<bool(const Array&)>& fits = {});
  int some_float();
  int leaf(const Sizes& shape, DType dtype, int kind = -1);
  int indices(const Sizes& shape, int64_t below); // a leaf of indices, some negative, seldom outside
  int axis(const Array& a);                       // possibly negative
  std::vector<int64_t> axes(const Array& a);      // a subset, possibly empty
  /// A value, or a new leaf, that broadcasts with the shape.
  int beside(const Sizes& shape, DType dtype);

private:
  bool allowed(const Function& f) const;
  bool push(Step step);
  std::mt19937_64 random_;
  DrawOptions options_;
  Program program_;
  std::deque<Array> values_; // references stay good while leaves are added
};

// ---- running ----
/// The program with kSymbol as another size.
Program resized(const Program& program, int64_t size);

struct RunOptions {
  std::string device = "cpu";
  uint64_t walk = 0;      // not 0: a seed of random legal moves instead of the search
  bool gradients = false; // compares derivatives of the last output as well
  int64_t symbol = 0;     // not 0: this size becomes a Var, and the program runs at it and at `other`
  int64_t other = 11;
  bool quick = false; // searches quickly
};
inline constexpr int64_t kSymbol = 29;
/// An output.
struct Result {
  DType dtype;
  Sizes shape;
  std::vector<unsigned char> bytes;
};

// ---- comparing ----
struct Difference {
  int output; // its position
  int64_t element;
  std::string text;
};
struct Counts {
  int64_t elements = 0, undecided = 0;
};
std::optional<Difference> compare(const Program& program, const std::vector<Array>& reference,
                                  const std::vector<Result>& got, Counts* counts = nullptr);

/// Derivatives of the last output's sum by every float input, against differences of the oracle.
std::optional<Difference> gradient_failure(const Program& program, const RunOptions& options);
/// All steps as tensors; inputs are named x0, x1, ... by their place.
Tensors tensors_of(const Program& program, const std::vector<Array>& reference, const RunOptions& options);
Executable compiled(const NamedTensors& outputs, const RunOptions& options);

/// What is wrong with the program, or nothing. Exceptions of lathe are differences too.
std::optional<Difference> failure_of(const Program& program, const RunOptions& options,
                                     Counts* counts = nullptr);

Program shrink(Program program, const RunOptions& options, double seconds);
/// Only what the outputs need.
Program pruned(const Program& program);
/// Programs side by side.
Program joined(const std::vector<Program>& programs);

std::string as_cpp(const Program& program, const RunOptions& options);
std::string as_lines(const Program& program);
std::string as_json(const Program& program, const std::vector<Array>& reference);
std::string shape_text(const Sizes& shape);

} // namespace lathe::net
