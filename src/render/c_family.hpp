// The printer of statements and values that C, OpenCL C and CUDA C share. A subclass writes the heads of
// functions and the loops that only its target has.
//
// Each distinct value of a statement becomes a local constant, once. A Vector loop becomes straight-line
// code.
#pragma once
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "ast/flat_index.hpp"
#include "ast/machine/forms.hpp"
#include "ast/passes/math.hpp"
#include "ast/tensor.hpp"
#include "render/c_names.hpp"
#include "render/c_ops.hpp"

namespace lathe::render {

/// The vector loop around a statement. The first `active` of its `lanes` lanes run; the others hold
/// meaningless values.
struct Chunk {
  Expr var;
  int lanes, active;
  explicit Chunk(const ast::For& loop)
      : var(loop.var), lanes(loop.width), active(static_cast<int>(loop.extent.value())) {}
};
Expr at_lane(Expr e, const Chunk& chunk, int lane);

/// One piece of a register buffer, written as a variable. A buffer has slices if code touches it only at
/// constant places, in pieces that don't overlap.
struct Slice {
  std::string name;
  int lanes, active; // lanes of the variable; how many of them, from the first, are elements
};
using Slices = std::map<int64_t, Slice>; // by first element
/// The slices of the buffer, still without names; nothing if the buffer has to be an array.
std::optional<Slices> register_slices(const ast::Alloc& alloc, const Dialect& dialect);

/// What the dialect can do with vectors.
ast::VectorForms forms_of(const Dialect& dialect);

class CFamily {
public:
  explicit CFamily(const Dialect& dialect);
  virtual ~CFamily() = default;

protected:
  // ---- statements (c_family.cpp) ----
  void block(const ast::Block& body);
  void loop(const ast::For& loop);
  void serial_loop(const ast::For& loop);
  void vector_loop(const ast::For& loop);
  void tensor_loops(const ast::For& loop); // c_tensors.cpp
  void prefetch(const ast::Prefetch& prefetch);
  void register_alloc(const ast::Alloc& alloc);
  virtual void alloc(const ast::Alloc& alloc) = 0;
  virtual void special_loop(const ast::For& loop) = 0; // Parallel, Group, Local
  virtual void barrier() = 0;
  virtual void store(const ast::Store& store, const Chunk* chunk);
  void add(const std::string& text); // one line at the current indentation
  enum class Level { Any, Comparison, Sum, Product, Primary };
  /// The text of `e`, in parentheses if it binds more weakly than `level`. Notes the shape variables used.
  std::string expr(Expr e, Level level = Level::Any);

  // ---- values (c_values.cpp, c_loads.cpp) ----
  Operand value(const ast::ValueRef& value, const Chunk* chunk);
  std::string local(const std::string& type, const std::string& expression);
  /// Forgets all loads so far: memory may have changed, or the code of a load may not have run.
  void forget_loads();

  const Dialect& dialect_;
  Names names_;
  OpPrinter ops_;
  // Text of the function being written, and the names it uses, so that it declares only those.
  std::string text_;
  int indent_ = 1;
  std::map<int, ast::BufferRef> used_buffers_;
  std::set<std::string> used_shape_vars_;
  bool streams_ = false;

private:
  std::string product_operand(const ast::LoadAttr& load, const ast::TensorNest& nest, bool all_lanes);
  void store_scatter(const ast::Store& store);
  void store_scalar(const ast::Store& store, Expr flat);
  void store_vector(const ast::Store& store, Expr flat, const Chunk& chunk);
  void store_horizontal(const ast::Store& store, Expr flat, const Chunk& chunk);
  void write_element(const ast::BufferRef& buffer, Expr flat, const std::string& value);
  /// `old` combined with the store's value. With the instruction of store.by, one fused multiply-add.
  Operand combined(const ast::Store& store, const Operand& old, const Chunk* chunk);

  /// `value` as y * 2^n, possibly plus a term; nothing if it is not of that form or the dialect has no scale.
  std::optional<ast::math::Scaled> as_scaled(const ast::Value& value) const;

  using Memo = std::unordered_map<const ast::Value*, Operand>;
  Operand leaf_or_op(const ast::ValueRef& value, const Chunk* chunk, const Memo& memo);
  /// Identifies a load by its place: its elements, and its guards, at the first and last lane. Nothing if a
  /// guard follows no stride along the lanes.
  using Place = std::vector<const void*>;
  static std::optional<Place> place_of(Expr flat, const std::vector<Expr>& guards, const Chunk* chunk);
  Operand load(const ast::Value& value, const Chunk* chunk);
  void ask_ahead(const ast::LoadAttr& attr, Expr first);
  Operand load_anew(const ast::Value& value, Expr flat, const Chunk* chunk);
  Operand load_moved_up(const ast::LoadAttr& attr, const Chunk& chunk);
  /// The lanes whose guards hold: lo <= lane < hi if all of `always` hold, else none.
  struct LaneRange {
    Expr lo, hi;
    std::vector<Expr> always;
  };
  /// The range of lanes that the guards leave; nothing if it is no range.
  static std::optional<LaneRange> range_of(const std::vector<Expr>& guards, const Chunk& chunk);
  Operand load_range(Operand out, const ast::LoadAttr& attr, Expr flat, const LaneRange& range,
                     const Chunk& chunk);
  /// Offsets of all lanes from the first, in elements, for load_apart and store_apart. Empty if the dialect
  /// can't use them here.
  std::vector<int64_t> offsets_of(const ast::BufferRef& buffer, Expr flat, const Chunk& chunk) const;
  /// Expressions that load vectors: lanes_of loads lane by lane; spaced loads whole vectors and
  /// picks the lanes from them.
  std::string lanes_of(const ast::BufferRef& buffer, Expr flat, const std::vector<Expr>& guards,
                       const Chunk& chunk);
  /// Loads a vector that has all lanes and picks them from it; empty if there is none.
  std::string picked_lanes(const ast::BufferRef& buffer, Expr flat, const std::vector<Expr>& guards,
                           const Chunk& chunk);
  std::string spaced(const ast::BufferRef& buffer, Expr flat, const Chunk& chunk);
  /// `v` in the active lanes, `other` in the rest.
  std::string in_active(const std::string& v, const std::string& other, DType dtype, const Chunk& chunk);
  /// A column of a register tile, one lane in each row; nothing if the rows are not vectors of as many lanes
  /// (c_columns.cpp).
  std::optional<Operand> load_column(const ast::BufferRef& buffer, Expr flat, const Chunk& chunk);
  Operand gather(const ast::Value& value, const Operand& index);
  Operand index_number(Expr e, DType dtype, const Chunk* chunk);
  Operand index_condition(Expr e, const Chunk& chunk);
  Operand position_condition(Expr e, const Chunk* chunk);
  std::string element(const ast::BufferRef& buffer, Expr flat); // an expression
  std::string element_at(const ast::BufferRef& buffer, const std::string& index);
  std::string conjunction(const std::vector<Expr>& guards);
  const std::string& pointer(const ast::BufferRef& buffer);
  const Slices* slices_of(const ast::BufferRef& buffer) const;

  std::map<int, Slices> slices_;
  // Loads from memory that are still valid, by buffer. A compiler could seldom prove that the stores between
  // don't touch them, and would never drop a repeated prefetch.
  struct Known {
    Operand value;
    int indent; // of the block that declares the value
  };
  std::map<int, std::map<Place, Known>> loads_;
  int deepest_load_ = 0;
  // Columns already made in this block. The key: buffer, first element, elements from row to row, lanes,
  // active lanes.
  std::map<std::tuple<int, int64_t, int64_t, int, int>, std::string> columns_;
};

} // namespace lathe::render
