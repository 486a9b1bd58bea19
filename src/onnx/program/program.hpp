// What a Program handle points to: a tree of segments. A path from the root to a leaf is one way through the
// model.
#pragma once
#include <atomic>
#include <list>
#include <mutex>
#include <set>

#include "onnx/program/segment_code.hpp"
#include "onnx/tracer.hpp"

namespace lathe::onnx {


/// An op of the host, or a loop, run when a segment is. Its inputs are constants, or named inputs that stand for
/// values that are there. The shapes of its outputs decide how the program goes on.
struct HostStep {
  static constexpr int kOutputs = 3; // names there are for an op; it may have fewer outputs

  HostOp op;
  std::vector<Value> inputs;
  std::vector<std::string> outputs;          // names of its values, or of their ids
  std::shared_ptr<Program::Impl> loop_body{}; // of a loop: `op` tells loops apart, its integer is the number of states
};

struct Segment;

/// Values of sizes by the names of their variables.
using Sizes = std::map<std::string, int64_t>;

/// The way behind a segment for many numbers that may be seen there.
struct OpenBranch {
  enum class State {
    Trying, ///< the call that made the branch runs, and no other call takes the branch
    Taken,  ///< a call came to its end through the branch
    Refused ///< the model can't be traced through the branch, and no call takes it
  };

  /// One for each number: what it has to be, or a variable that has its value from here on.
  std::vector<Expr> numbers;
  std::unique_ptr<Segment> segment{}; ///< null where it is refused
  const Segment* like = nullptr;      ///< the way of another call, from which `numbers` follow
  State state = State::Trying;
};

/// A way that has been taken, which shows how numbers behind a segment depend on sizes.
struct Example {
  const Segment* segment = nullptr; ///< null if there is none
  Sizes sizes{};                    ///< on that way, of variables that it has as numbers
};

/// Computes some values from what is there, then either looks at one of them or runs an op of the host and
/// goes on, or is done.
struct Segment {
  std::shared_ptr<SegmentCode> code; // null if all it needs is there
  std::string looked_at;          // the name of the value that decides; "": none
  std::optional<HostStep> host;   // instead of a look
  bool looks_at_sizes = false;    // of a loop's body: those of all inputs, instead of a value
  int64_t strings = 0;            // as many the program's table had when this was made
  std::map<std::vector<Scalar>, std::unique_ptr<Segment>,
           bool (*)(const std::vector<Scalar>&, const std::vector<Scalar>&)>
      next;
  std::list<OpenBranch> open; // for numbers that `next` does not have; what is taken stays
  std::vector<std::pair<std::string, Value>>
      results; // when done; a named input stands for a value that is there
  bool made = false;
  bool completed = false; // whether a call came to its end through it
  Sizes made_at;          // the sizes of the call for which it was made
  Example example; // how else the model went here

  bool is_last() const { return looked_at.empty() && !host && !looks_at_sizes; }

  Segment();
  ~Segment(); // without recursion: a loop makes a long way
};

/// Whether these are integers made of sizes that the model names: known at each call without a kernel.
bool has_symbols(const Value& value);

/// For what has to go without inputs: a look throws NeedsInputs.
class NoInputs final : public Looker {
public:
  explicit NoInputs(bool unrolls_loops) : unrolls_loops_(unrolls_loops) {}
  std::vector<Scalar> look(const Tensor& tensor, const std::vector<Value*>& live) override;
  Shape look_at_sizes(const Tensor& tensor, const std::vector<Value*>& live) override;
  std::vector<Value> on_host(const HostOp& op, const std::vector<Value>& inputs,
                             const std::vector<Value*>& live) override;
  std::vector<Value> loop(const LoopCall& call, const std::vector<Value*>& live) override;
  bool unrolls_loops() const override { return unrolls_loops_; }
  StringTable& strings() override { return strings_; }

private:
  bool unrolls_loops_;
  StringTable strings_;
};

struct Program::Impl {
  std::shared_ptr<const Model::Impl> model;
  ImportOptions options;
  /// Whether there can be a tree for all sizes that the model names; else there is one for each set of
  /// shapes.
  bool symbolic = true;
  /// Whether the tree for all sizes looks at values: then the calls make it, as all the others.
  bool looks = false;
  std::set<std::string> without_tree; // keys of empty sizes for which there can be none. Locked by `mutex`
  int failures = 0; // of calls to be traced for all sizes. Locked by `making`
  /// Whether this is the body of a loop: its inputs' ranks find the root, and their sizes how to go on.
  bool is_body = false;
  /// Bound of the sizes that the model names. Locked by `mutex`, and by `making` to change it.
  int64_t largest_size = kLargestNamedSize;
  /// The least sizes that the tree for all sizes serves, where they are more than the model says. Set before
  /// the first call.
  Sizes smallest_sizes;
  /// Sizes that the tree for all sizes serves where they are multiples of these, and those that it has as
  /// numbers. Set before the first call.
  Sizes steps, pinned;
  /// The sizes that versions fix; empty: there are none.
  std::set<std::string> version_sizes;
  mutable StringTable strings; // that the segments name
  mutable std::atomic<int64_t> variables = 0; // as many branches have made; each has a name of its own
  /// Of `roots`, `last_key` and the segments' branches. What else a segment has does not change once it is made.
  mutable std::mutex mutex;
  mutable std::mutex making; // held by the thread that makes segments, which may lock `mutex` besides
  /// By Way::key: "" is the tree for all sizes.
  std::map<std::string, std::unique_ptr<Segment>> roots;
  std::string last_key; // the version for the sizes of the last call, made or not
  mutable Improver improver; // of the segments' code

  /// A trace shows one search, and moves and tuning need none that is quick.
  bool is_quick_first() const {
    const CompileOptions& how = options.compile;
    return options.quick_first && how.trace.empty() && !how.tune && how.moves.empty();
  }

  /// Whether it is whole without the model: no other tree can be better, and few sizes are out of bounds.
  bool is_closed() const {
    return symbolic && !looks && version_sizes.empty() && roots.size() == 1 && largest_size == kLargestNamedSize &&
           smallest_sizes.empty() && steps.empty() && pinned.empty();
  }
};

NamedValues call_program(Program::Impl& program, const NamedValues& inputs);

/// Makes the tree for all sizes, if there can be one without looks and it is not there. Error if it can't be
/// made.
void make_for_all_sizes(Program::Impl& program);

} // namespace lathe::onnx
