// One LLVM function under construction: the statements of a kernel, or of the body of a parallel loop.
//
// The emitter puts each instruction in its final place, so that no optimisation pass has to move code
// afterwards. It has a level per open loop, with the values already computed there. Code that does not change
// in a loop goes before that loop. The emitter makes equal operations of one level once (value numbering). It
// forgets the loads of a buffer when the buffer is written.
#pragma once
#include <array>
#include <map>
#include <set>
#include <span>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "ast/flat_index.hpp"
#include "render/llvm/byte_table.hpp"
#include "render/llvm/ops.hpp"

namespace lathe::ast {
struct Detour;
struct PickedLoad;
struct TensorNest;
struct TensorCopy;
} // namespace lathe::ast

namespace lathe::render {

/// What the functions of one module share.
struct ModuleState {
  llvm::LLVMContext& context;
  llvm::Module& module;
  const ast::Kernel& kernel;
  const std::map<int, size_t>& scratch_offset;
  const LlvmTarget& target;
  llvm::GlobalVariable* zeros; // kZeroBytes of zeros, which a guarded load reads if its guard fails
  int functions = 0;
};
inline constexpr int kWidestLanes = 128;            // of any vector
inline constexpr int kZeroBytes = kWidestLanes * 8; // bytes; the widest vector of 8-byte elements

llvm::Function* make_function(ModuleState& state, const std::string& name,
                              std::span<llvm::Type* const> parameters,
                              llvm::GlobalValue::LinkageTypes linkage);

/// A value, and the innermost level it depends on. The value is in the code of that level.
struct Placed {
  llvm::Value* value = nullptr;
  int level = 0;
};

class FunctionEmitter {
public:
  /// Positions of the arguments of `function`; -1 if it has no such argument.
  struct Arguments {
    int index = -1, buffers = 0, vars = 1, outer = -1, scratch = 2, env = 3;
  };
  /// `outer` are the ids of the buffers in the caller's scratch.
  FunctionEmitter(ModuleState& state, llvm::Function* function, const Arguments& arguments,
                  std::set<int> outer);
  /// Emits the whole function. `index` is the variable of the parallel loop, if this is the body of one.
  void run(const ast::Block& body, std::optional<Expr> index);

private:
  using Statements = std::span<const ast::Stmt>;
  using OpKey = std::tuple<uint32_t, llvm::Type*, std::array<llvm::Value*, 3>>;
  using DetourKey = std::vector<uintptr_t>; // see detour_key()
  // Base, stride, mask, guard, lanes.
  using LoadKey = std::tuple<const ExprNode*, const ExprNode*, llvm::Value*, llvm::Value*, int>;
  /// The code of one loop's body (level 0: of the function), without deeper loops.
  struct Level {
    llvm::BasicBlock* preheader = nullptr; // the block from which the next deeper level was entered
    std::set<int> written;                 // buffers written anywhere in this level
    bool nonempty = true;                  // runs whenever the code before it does
    // By Expr and form: lanes * 64 + bits for a vector, 0 for an i64, -1 for an i1.
    std::map<std::pair<const ExprNode*, int>, llvm::Value*> exprs;
    std::map<OpKey, llvm::Value*> ops;
    std::map<DetourKey, Placed> detours;
    std::map<int, std::map<LoadKey, llvm::Value*>> loads; // by buffer
  };
  struct Var {
    llvm::Value* value;
    int level;
  };
  int depth() const { return static_cast<int>(levels_.size()) - 1; }
  /// Runs f with the builder inserting at the code of `level`.
  template <class F> auto at(int level, F&& f) {
    if (level == depth()) return f();
    llvm::IRBuilderBase::InsertPointGuard guard(b_);
    b_.SetInsertPoint(levels_[level].preheader->getTerminator());
    return f();
  }
  template <class F> auto at_entry(F&& f) {
    llvm::IRBuilderBase::InsertPointGuard guard(b_);
    b_.SetInsertPoint(entry_->getTerminator());
    return f();
  }
  /// The result of f, made once per level. `code`, `type` and `args` identify it.
  template <class F>
  llvm::Value* once(int level, uint32_t code, llvm::Type* type, std::array<llvm::Value*, 3> args, F&& f) {
    llvm::Value*& known = levels_[level].ops[{code, type, args}];
    if (!known) known = at(level, f);
    return known;
  }
  void enter(llvm::BasicBlock* body, const std::set<int>& written, bool nonempty);
  void leave(llvm::BasicBlock* after);

  // statements.cpp
  void block(Statements body);
  void nests(Statements body);
  void serial_loop(const ast::For& loop);
  void once_or_never(const ast::For& loop);
  void parallel_loop(const ast::For& loop);
  void vector_loop(const ast::For& loop);
  void alloc(const ast::Alloc& alloc);
  void open_lanes(const ast::For& loop);
  void close_lanes();
  bool can_stream(const ast::Store& store, const ast::For& loop) const;
  llvm::Value* streams_are_aligned(Statements body);

  // reduce.cpp: the buffers that blocks write, and sums across lanes
  const std::set<int>& written_in(Statements body); // buffer ids
  llvm::Constant* neutral(Op combine, DType dtype) const;
  llvm::Value* across_lanes(Op combine, DType dtype, llvm::Value* lanes);

  // tensors.cpp: tensor loops
  /// Tile registers as one array of sums needs them.
  struct Tiles {
    int array = -1; // its id
    int sums = 0, rows = 0, k_rows = 0, pack_bytes = 0;
    int a_registers() const;
    bool operator==(const Tiles&) const = default;
  };
  static void find_tiles(Statements body, std::vector<Tiles>& out);
  bool has_one_configuration() const;
  void open_tiles(const ast::Buffer& array);
  void configure_tiles(const Tiles& tiles);
  void release_tiles();
  void tensor_loops(const ast::For& loop);
  void add_dot_products(const ast::TensorNest& nest);
  void multiply_tiles(const ast::TensorNest& nest);
  void move_tile(const ast::TensorNest& nest);
  void copy_side_by_side(const ast::TensorNest& nest, const ast::TensorCopy& copy);
  llvm::Value* read_group(const ast::LoadAttr& load, Expr first, const InstructionInfo& row, int lanes);
  llvm::Value* read_groups(const ast::LoadAttr& load, Expr first, const InstructionInfo& row, int lanes);
  int tile_of(const ast::Buffer& array, const std::vector<Expr>& index, const ast::TensorNest& nest);
  int operand_tile(const ast::LoadAttr& load, const ast::TensorNest& nest, const ast::For& rows, int first_register,
                   int count);

  // index.cpp: index expressions
  int level_of(Expr e) const;                 // ignores the lane
  llvm::Value* expr(Expr e);                  // i64
  llvm::Value* condition(Expr e);             // i1
  llvm::Value* vector_expr(Expr e, int bits); // <lanes x i32 or i64>
  llvm::Value* vector_condition(Expr e);      // <lanes x i1>
  llvm::Value* compare_lanes(Expr bound, bool below);
  llvm::Value* combine_kinds(Expr e, llvm::Value* x, llvm::Value* y);
  Placed index_number(Expr e, DType dtype);

  // access.cpp: buffers
  struct Guard {                   // of a load; a null part always holds
    llvm::Value* scalar = nullptr; // the part that is the same in all lanes
    llvm::Value* lanes = nullptr;
    int level = 0;
    bool never = false;
  };
  struct Lanes { // where the lanes of an access lie in the buffer
    Expr base;
    std::optional<Expr> stride; // if there is none, `base` depends on the lane
    int level = 0;
  };
  Guard guard_of(const std::vector<Expr>& guards);
  Lanes lanes_of(Expr flat) const;
  llvm::Value* base_of(const ast::Buffer& buffer);
  llvm::Value* address(const ast::Buffer& buffer, Expr flat);
  llvm::Value* lane_addresses(const ast::Buffer& buffer, const Lanes& lanes);
  int load_level(const ast::Buffer& buffer, int least) const;
  Placed load(const ast::LoadAttr& attr);
  Placed moved_up(const ast::LoadAttr& attr);
  void ask_for(const ast::Buffer& buffer, Expr first, int64_t ahead, int level);
  llvm::Value* read_column(const ast::Buffer& buffer, const Lanes& lanes, int level);
  Placed gather(const ast::Value& value, Placed index);
  ByteTable byte_table_of(const ast::Value& gather) const;
  std::vector<llvm::Value*> parts_of(const ast::Buffer& table, const ByteTable& form);
  llvm::Value* read_scalar(const ast::Buffer& buffer, llvm::Value* address, llvm::Value* guard);
  llvm::Value* read_lanes(const ast::Buffer& buffer, ast::LaneKind kind, const Lanes& lanes,
                          llvm::Value* mask, llvm::Value* guard);
  llvm::Value* read_vector(const ast::Buffer& buffer, bool forward, const Lanes& lanes, llvm::Value* mask,
                           llvm::Value* guard);
  /// Whether an instruction reads or writes lanes of `dtype` that lie apart faster than one by one.
  bool gathers(DType dtype) const { return state_.target.gathers && size_of(dtype) >= 4; }
  llvm::Value* read_spaced(const ast::Buffer& buffer, const Lanes& lanes, llvm::Value* mask,
                           llvm::Value* guard);
  llvm::Value* read_picked(const ast::Buffer& buffer, const ast::PickedLoad& picked, llvm::Value* guard);
  void write_lanes(const ast::Store& store, const Lanes& lanes, llvm::Value* value);
  void write_vector(const ast::Store& store, const Lanes& lanes, llvm::Value* value);
  llvm::Value* in_range(const ast::Buffer& buffer, llvm::Value*& index, DType dtype);
  void forget(int buffer);

  // values.cpp: values and stores
  Placed value_of(const ast::ValueRef& value);
  using Known = std::unordered_map<const ast::Value*, Placed>;
  Placed one_value(const ast::Value& value, const Known& known, int least_level);
  Placed choose(const ast::Detour& detour, Known& known);
  Placed jump(const ast::Detour& detour, Known& known);
  DetourKey detour_key(const ast::Detour& detour, const Known& known);
  /// The op on `sources`, at the outermost level that its sources allow, but no further out than
  /// `least_level`.
  Placed operation(Op op, DType result, DType operand, std::span<const Placed> sources, int least_level);
  std::optional<Placed> scaled(const ast::Value& value, const Known& known, int least_level);
  std::optional<Placed> looked_up(const ast::Value& value, const Known& known, int least_level);
  void store(const ast::Store& store);
  llvm::Value* combined(const ast::Store& store, llvm::Value* old);
  void reduce_lanes(const ast::Store& store, Expr flat);
  void scatter(const ast::Store& store);
  void scatter_row(const ast::Store& store);
  llvm::Value* op(Op op, DType result, DType operand, llvm::ArrayRef<llvm::Value*> args);
  llvm::Value* widened(Placed value);                           // a scalar becomes a splat
  llvm::Value* both(llvm::Value* x, llvm::Value* y, int level); // and of two masks; null: all lanes

  llvm::Align alignment(const ast::Buffer& buffer) const { return llvm::Align(size_of(buffer.dtype)); }

  ModuleState& state_;
  llvm::Function* function_;
  Arguments arguments_;
  std::set<int> outer_;
  llvm::IRBuilder<> b_;
  llvm::BasicBlock* entry_ = nullptr;
  std::vector<Level> levels_;
  std::map<int, Var> loop_vars_;
  std::map<int, llvm::Value*> bases_; // by buffer id
  std::map<std::pair<const ast::Stmt*, size_t>, std::set<int>> written_;
  std::map<int, int> writes_;       // by buffer id: how many there were
  std::map<int, Expr> first_lanes_; // by how many lanes they are
  /// A tile register that holds an operand: rows of the buffer from an element on, so many bytes apart.
  struct OperandTile {
    int buffer;
    const ExprNode *first, *step;
    int number;
    bool holds_same(const OperandTile& other) const {
      return buffer == other.buffer && first == other.first && step == other.step;
    }
  };
  std::vector<Tiles> all_tiles_; // of the arrays of sums outside of parallel loops
  Tiles tiles_;                  // of the open array of sums
  // Of one piece of straight-line code, by the first register of their kind; last: the one used last.
  std::map<int, std::vector<OperandTile>> operand_tiles_;
  // Of the open vector loop:
  int lanes_ = 0; // 0: no vector loop is open
  Expr lane_;
  llvm::Value* mask_ = nullptr; // null: all lanes
  int mask_level_ = 0;
  bool streaming_ = false; // bases of streamed buffers are known to be aligned
};

} // namespace lathe::render
