// The printer of statements and values that C and OpenCL C share. A subclass says how functions begin and
// what the loops mean that only its target has.
//
// Each distinct value of a statement becomes a local constant, once. A Vector loop is written without a loop.
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
#include "render/c_names.hpp"
#include "render/c_ops.hpp"

namespace lathe::render {

/// The vector loop around a statement: of `lanes` lanes the first `active` run; what the others hold means
/// nothing.
struct Chunk {
  Expr var;
  int lanes, active;
  explicit Chunk(const ast::For& loop)
      : var(loop.var), lanes(loop.width), active(static_cast<int>(loop.extent.value())) {}
};
Expr at_lane(Expr e, const Chunk& chunk, int lane);

/// A register buffer that is only ever touched at constant places, in pieces that don't overlap: each piece
/// is a variable.
struct Slice {
  std::string name;
  int lanes, active; // elements, the first of `lanes`
};
using Slices = std::map<int64_t, Slice>; // by first element
/// The pieces without names; nothing if the buffer has to be an array.
std::optional<Slices> register_slices(const ast::Alloc& alloc, const Dialect& dialect);

/// What the dialect has vectors for.
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
  void prefetch(const ast::Prefetch& prefetch);
  void register_alloc(const ast::Alloc& alloc);
  virtual void alloc(const ast::Alloc& alloc) = 0;
  virtual void special_loop(const ast::For& loop) = 0; // Parallel, Group, Local
  virtual void barrier() = 0;
  virtual void store(const ast::Store& store, const Chunk* chunk);
  void add(const std::string& text); // one line at the current indentation
  enum class Level { Any, Comparison, Sum, Product, Primary };
  /// In parentheses if it binds more weakly than `level`. Notes the shape variables used.
  std::string expr(Expr e, Level level = Level::Any);

  // ---- values (c_values.cpp, c_loads.cpp) ----
  Operand value(const ast::ValueRef& value, const Chunk* chunk);
  std::string local(const std::string& type, const std::string& expression);
  /// What has been loaded so far may have changed, or was loaded where control need not have come by.
  void forget_loads();

  const Dialect& dialect_;
  Names names_;
  OpPrinter ops_;
  // What the function being written uses, so that it declares no more than that.
  std::string text_;
  int indent_ = 1;
  std::map<int, ast::BufferRef> used_buffers_;
  std::set<std::string> used_shape_vars_;
  bool streams_ = false;

private:
  void store_scatter(const ast::Store& store);
  void store_scalar(const ast::Store& store, Expr flat);
  void store_vector(const ast::Store& store, Expr flat, const Chunk& chunk);
  void store_horizontal(const ast::Store& store, Expr flat, const Chunk& chunk);
  void write_element(const ast::BufferRef& buffer, Expr flat, const std::string& value);
  /// old combined with value; a product that is summed is fused.
  Operand combined(const ast::Store& store, const Operand& old, const Chunk* chunk);

  /// A product, or what is added to one, that the dialect has a function for.
  std::optional<ast::math::Scaled> as_scaled(const ast::Value& value) const;

  using Memo = std::unordered_map<const ast::Value*, Operand>;
  Operand leaf_or_op(const ast::ValueRef& value, const Chunk* chunk, const Memo& memo);
  /// A load by its place: the start, the stride and the guards at its lanes. Nothing where the lanes follow
  /// no stride.
  using Place = std::vector<const void*>;
  static std::optional<Place> place_of(Expr flat, const std::vector<Expr>& guards, const Chunk* chunk);
  Operand load(const ast::Value& value, const Chunk* chunk);
  void ask_ahead(const ast::LoadAttr& attr, Expr first);
  Operand load_anew(const ast::Value& value, Expr flat, const Chunk* chunk);
  Operand load_moved_up(const ast::LoadAttr& attr, const Chunk& chunk);
  /// The lanes whose guards hold: lo <= lane < hi, and only if `always` does.
  struct LaneRange {
    Expr lo, hi;
    std::vector<Expr> always;
  };
  /// Nothing if the guards leave no such range.
  static std::optional<LaneRange> range_of(const std::vector<Expr>& guards, const Chunk& chunk);
  Operand load_range(Operand out, const ast::LoadAttr& attr, Expr flat, const LaneRange& range,
                     const Chunk& chunk);
  /// How far from the first lane the others lie, for loads and stores of lanes apart; none if there are no
  /// such.
  std::vector<int64_t> offsets_of(const ast::BufferRef& buffer, Expr flat, const Chunk& chunk) const;
  /// Expressions: lanes one by one, and every second element, all of which are read.
  std::string lanes_of(const ast::BufferRef& buffer, Expr flat, const std::vector<Expr>& guards,
                       const Chunk& chunk);
  std::string every_second(const ast::BufferRef& buffer, Expr flat, const Chunk& chunk);
  /// `v` in the active lanes, `other` in the rest.
  std::string in_active(const std::string& v, const std::string& other, DType dtype, const Chunk& chunk);
  /// The lanes of a vector that lie one in each row of a register tile; nothing if it isn't one
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
  // Loads from memory that still hold, by buffer. A compiler could seldom tell that the stores between don't
  // touch them, and would never drop a prefetch that was asked for before.
  struct Known {
    Operand value;
    int indent; // of the block it stands in
  };
  std::map<int, std::map<Place, Known>> loads_;
  int deepest_load_ = 0;
  // Columns already made in this block, by buffer, first element, elements from row to row, lanes and how
  // many of them are active.
  std::map<std::tuple<int, int64_t, int64_t, int, int>, std::string> columns_;
};

} // namespace lathe::render
