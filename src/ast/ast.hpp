// The loop AST: what a kernel does, as loop nests over buffers.
//
// Semantics
//   - Pure values are an interned DAG (Value); effects are an owned tree (Stmt). Two equal stores are two
//     events.
//   - Indices are Exprs over loop variables, one per buffer dimension, so that every pass and the cost model
//     can take an access's stride along a loop. Buffers are row-major over their shape.
//   - A loop runs over [0, extent). Extents may depend on outer loop variables. A split with a tail gives the
//     inner loop the extent min(factor, n - outer * factor), so that no store needs a guard. An extent that
//     is a condition (lt, le, eq, land) makes the loop an if.
//   - The guards of a Load or a Gather mark its out-of-range part: the load happens only if all guards hold,
//     else its value is 0.
//   - A reduction is a Store with a combine op. Its reducing loops are those whose variable is not in its
//     index. Its initialisation is a nest of its own, before it. Every pass takes combines as associative and
//     commutative (float sums may be reassociated), so any order of the loops of a nest is legal. If the loop
//     also reads the element it combines into (a running sum), its iterations keep their order.
//   - Iterations of parallel, group and local loops are independent, except across Barriers in local loops.
//   - A vector loop has lanes: its extent is at most `width`, and its body holds Stores only (no loops).
//     If the extent is the constant `width`, the vector is full; else lanes past the extent are masked. A
//     combine at an index without the loop's variable is a horizontal reduction.
//   - Tensor loops are what one instruction of core/instructions.def computes: [rows, rows of k,] columns, k, one directly
//     in the other, with constant extents, around one store. machine/tensor.hpp has the form.
//   - In the machine form (machine/) every access in a vector loop states how its lanes lie, and a store may
//     name the instruction that computes it. Results stay the same, except that a MultiplyAdd rounds once.
//   - Group and local loops are OpenCL's. A local loop with extent e runs on the work-items with id < e of
//     its axis.
//   - Integer arithmetic wraps; float multiplication and addition may be fused only where the AST says Fma.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/instruction.hpp"
#include "core/intern.hpp"
#include "lathe/expr.hpp"

namespace lathe::ast {

/// global: kernel parameters, and temporaries of the whole kernel. packed: thread-private scratch. local:
/// shared by a work-group (OpenCL). register: a small constant-size array that the target keeps in registers
/// once its loops are unrolled.
enum class Scope : uint8_t { Global, Packed, Local, Register };

struct Buffer {
  int id;           // unique in its kernel
  std::string name; // unique in its kernel
  DType dtype;
  Shape shape;
  Scope scope = Scope::Global;
};
using BufferRef = std::shared_ptr<const Buffer>;

struct Value;
using ValueRef = Ref<Value>;

/// How the lanes of a vector loop lie in a buffer. The machine form sets it for each access
/// (machine/access.hpp); before that, it is Unsaid.
enum class LaneKind : uint8_t {
  Unsaid,
  One,         // all lanes at one element
  Whole,       // at consecutive elements
  Backwards,   // at consecutive elements, from the last lane to the first
  Spaced,      // a few elements from lane to lane, picked from whole vectors (machine/access.hpp)
  Apart,       // a fixed number of elements from lane to lane
  Column,      // in a register array: one lane in each row, as many rows as lanes
  MovedUp,     // a whole vector moved up by some lanes, with zeros before it (machine/moved_up.hpp)
  Scattered    // each lane at an index of its own
};
struct LaneAccess {
  LaneKind kind = LaneKind::Unsaid;
  bool masked = false; // some lanes must not touch memory
  bool operator==(const LaneAccess&) const = default;
  uint64_t number() const { return static_cast<uint64_t>(kind) * 2 + masked; }
};

/// Attributes of a Load or a Gather. Load: one index per dimension. Gather: `index` is empty and sources[0]
/// is the flat element index (any integer).
struct LoadAttr {
  BufferRef buffer;
  std::vector<Expr> index;
  std::vector<Expr> guards; // all must be 1, else the value is 0
  /// Load only, in elements: if not 0, a hint to prefetch from this far past the loaded element. The place
  /// may lie outside of the buffer.
  int64_t ahead = 0;
  LaneAccess lanes = {}; // Load only
};

/// Marks a Mul that several ops read: no addition of the product becomes an Fma, so that all ops see the same
/// number.
struct Rounded {
  bool operator==(const Rounded&) const = default;
};

/// Op is Const (Scalar), Index (Expr as a number of `dtype`; comparison Exprs may have dtype bool), Load,
/// Gather, or any elementwise op of the table.
struct Value : Interned<Value> {
  Op op;
  DType dtype;
  std::vector<ValueRef> sources;
  std::variant<std::monostate, Scalar, Expr, LoadAttr, Rounded> attr;

  size_t hash_value() const;
  bool equal(const Value&) const; // buffers compare by pointer
};

ValueRef constant(Scalar value);
ValueRef index_value(Expr expr, DType dtype);
ValueRef load(BufferRef buffer, std::vector<Expr> index, std::vector<Expr> guards = {}, int64_t ahead = 0,
              LaneAccess lanes = {});
ValueRef gather(BufferRef buffer, ValueRef flat_index, std::vector<Expr> guards = {});
/// Folds constants and applies the value rules (a + -b -> a - b, a * recip(b) -> a / b, a * b + c -> fma for
/// floats ...).
ValueRef make(Op op, DType dtype, std::vector<ValueRef> sources);
/// As make, but returns exactly this node: no folding, no rules.
ValueRef make_exact(Op op, DType dtype, std::vector<ValueRef> sources);
/// `product` (a Mul, or a Neg of one) marked Rounded, which keeps it out of every Fma. Returns any other
/// value as it is.
ValueRef rounded(const ValueRef& product);
inline ValueRef make(Op op, DType dtype, ValueRef a) {
  return make(op, dtype, std::vector<ValueRef>{std::move(a)});
}

struct Stmt;
using Block = std::vector<Stmt>;

enum class LoopKind : uint8_t { Serial, Parallel, Vector, Unroll, Group, Local, Tensor };

struct For {
  Expr var; // from loop_var(); its id is unique in the kernel
  Expr extent;
  LoopKind kind = LoopKind::Serial;
  int width = 0; // Vector: lanes of the machine vector; Group and Local: the axis 0, 1 or 2
  Block body;
};
/// The buffer exists in the body and is uninitialised at its start.
struct Alloc {
  BufferRef buffer;
  Block body;
};
struct Store {
  BufferRef buffer;
  std::vector<Expr> index;
  ValueRef value;
  std::optional<Op> combine; // Add, Mul, Max, Or, And: buffer[index] = combine(buffer[index], value)
  ValueRef scatter; // if set, `index` is empty and this is the flat element index; out of range is dropped
  bool streaming = false; // non-temporal: the result is not read again soon
  LaneAccess lanes = {};
  /// Machine form only: the instruction that multiplies the two factors of `value` and adds the product to
  /// the element.
  std::optional<Instruction> by = {};
};
struct Barrier {};
/// A hint that the kernel will soon read the cache line of this element. The hint changes no result, and the
/// element may lie outside of the buffer.
struct Prefetch {
  BufferRef buffer;
  std::vector<Expr> index;
};
struct Stmt {
  std::variant<For, Alloc, Store, Barrier, Prefetch> node;
};

struct Param {
  BufferRef buffer;
  bool written; // else read-only
};

struct Kernel {
  std::string name;
  std::vector<Param> params;    // inputs then outputs
  std::vector<Expr> shape_vars; // in the order in which launch takes them
  Block body;                   // the nests, in order
};

/// Calls `f` on every statement in order, outermost first; `loops` is the stack of enclosing Fors.
void visit(const Block&, const std::function<void(const Stmt&, const std::vector<const For*>& loops)>& f);
/// Calls `f` on every distinct value of the DAG under v, sources first.
void visit(const ValueRef& v, const std::function<void(const ValueRef&)>& f);
/// Functions for rewrite(), the one rewriter. `on_value` takes every value node, bottom-up (after its
/// sources); `on_expr` every index, guard and extent; `on_stmt` every rebuilt statement, which it may replace
/// by several or none.
struct Rewriter {
  std::function<ValueRef(const ValueRef&)> on_value;
  std::function<Expr(Expr)> on_expr;
  std::function<BufferRef(const BufferRef&)> on_buffer;
  std::function<Block(Stmt)> on_stmt;
};
Block rewrite(const Block&, const Rewriter&);
ValueRef rewrite(const ValueRef&, const Rewriter&);
/// Replaces variables in indices, guards, extents and Index values. A For::var whose extent changes gets the
/// new extent as its bound.
Block substitute(const Block&, const Substitution&);
ValueRef substitute(const ValueRef&, const Substitution&);

/// Throws an InternalError that names the statement if the kernel breaks a rule: scoping, types, bounds of
/// accesses, or independence of parallel iterations. An access whose bounds can't be proved breaks the rule,
/// too; Gather and scatter are exempt.
void verify(const Kernel&);

/// "for i0 in 64 parallel { ... }"; parse(print(k)) prints the same and has the same structural hash.
std::string print(const Kernel&);
Kernel parse(std::string_view text);
/// A hash of the structure: names and ids of the kernel, loops and buffers do not matter, but their order of
/// appearance does.
uint64_t structural_hash(const Kernel&);

/// Executes a kernel exactly and checks bounds (InternalError on a bad access). `buffers` are in the order of
/// params, `shape_values` in the order of shape_vars.
struct Bytes {
  void* data;
  size_t bytes;
};
void interpret(const Kernel&, const std::vector<Bytes>& buffers, const std::vector<int64_t>& shape_values);

} // namespace lathe::ast
