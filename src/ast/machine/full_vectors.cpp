// A vector loop with fewer iterations than lanes masks its stores. In an array in registers a mask costs one
// or two instructions per vector, while an array used in whole vectors stays in registers without help. So if
// nothing reads the elements that lanes past the end would write, the loop gets all of its lanes. Only its
// loads from memory keep the end, as a guard.
#include "ast/machine/full_vectors.hpp"

#include <algorithm>
#include <numeric>
#include <unordered_map>

#include "ast/append.hpp"
#include "ast/flat_index.hpp"

namespace lathe::ast {
namespace {

/// Elements [first, first + count) of an array.
struct Span {
  Expr first, count;
};

/// The element of lane 0, if the lanes of the loop use consecutive elements.
std::optional<Expr> first_element(const Buffer& buffer, const std::vector<Expr>& index, const For& lanes) {
  const Expr flat = flat_index(buffer, index);
  const auto stride = stride_of(flat, lanes.var);
  if (!stride || !stride->is_const(1)) return {};
  return substitute(flat, {{lanes.var, 0}});
}

/// Whether all values of `first` lie at least `width` apart, or `first` has only one value.
bool steps_over(Expr first, int width) {
  std::vector<Expr> vars;
  collect_vars(first, vars);
  int64_t apart = 0;
  for (Expr var : vars) {
    const auto stride = stride_of(first, var);
    if (!stride || !stride->is_const()) return false;
    apart = std::gcd(apart, stride->value());
  }
  return apart == 0 || apart >= width;
}

/// Whether no element of [first + extent, first + width) is in `others`. The loops around may give `first`
/// several values, so that one iteration could fill an element of another.
bool misses(Expr first, Expr extent, int width, const Span& others) {
  if (others.first == first) return proves_le(others.count, extent) && steps_over(first, width);
  if (!others.first.is_const() || !first.is_const()) return false;
  return proves_le(others.first + others.count, first + extent) || proves_le(first + width, others.first);
}

/// The elements of arrays in registers that the kernel reads. Lanes past an end must not write these.
class Arrays {
public:
  explicit Arrays(const Kernel& kernel) {
    visit(kernel.body, [&](const Stmt& stmt, const std::vector<const For*>& loops) {
      const auto* store = std::get_if<Store>(&stmt.node);
      if (!store) return;
      const For* lanes = loops.empty() || loops.back()->kind != LoopKind::Vector ? nullptr : loops.back();
      for (const ValueRef& root : {store->value, store->scatter})
        if (root) visit(root, [&](const ValueRef& value) { read(*value, lanes); });
    });
  }

  /// Whether a vector loop that writes `extent` elements from `first` on may write `width` elements instead.
  bool may_fill(const Buffer& buffer, Expr first, Expr extent, int width) const {
    if (first.lo() < 0 || !proves_le(first + width, num_elements(buffer.shape))) return false;
    const auto array = arrays_.find(buffer.id);
    if (array == arrays_.end()) return true;
    return array->second.known && std::all_of(array->second.read.begin(), array->second.read.end(),
                                              [&](const Span& s) { return misses(first, extent, width, s); });
  }

private:
  struct Array {
    bool known = true; // `read` lists all elements that the kernel reads
    std::vector<Span> read;
  };

  void read(const Value& value, const For* lanes) {
    const auto* attr = std::get_if<LoadAttr>(&value.attr);
    if (!attr || attr->buffer->scope != Scope::Register) return;
    Array& array = arrays_[attr->buffer->id];
    const Expr flat = value.op == Op::Load ? flat_index(*attr->buffer, attr->index) : Expr(0);
    if (value.op != Op::Load) {
      array.known = false;
    } else if (!lanes || !depends_on(flat, lanes->var)) {
      array.read.push_back({flat, 1});
    } else if (const auto first = first_element(*attr->buffer, attr->index, *lanes)) {
      array.read.push_back({*first, lanes->extent});
    } else {
      array.known = false;
    }
  }

  std::unordered_map<int, Array> arrays_;
};

class Filler {
public:
  explicit Filler(const Kernel& kernel) : arrays_(kernel) {}

  For fill(const For& loop) const {
    const Expr all = loop_var(loop.var.id(), loop.var.name(), loop.width), end = lt(all, loop.extent);
    const Substitution renewed{{loop.var, all}};
    Rewriter rewriter;
    rewriter.on_value = [&](const ValueRef& value) {
      const auto* attr = std::get_if<LoadAttr>(&value->attr);
      if (!attr || attr->buffer->scope == Scope::Register) return value;
      const bool varies =
          value->op == Op::Gather || depend_on(attr->index, all) || depend_on(attr->guards, all);
      if (!varies) return value;
      std::vector<Expr> guards = attr->guards;
      guards.push_back(end);
      return value->op == Op::Gather ? gather(attr->buffer, value->sources[0], std::move(guards))
                                     : load(attr->buffer, attr->index, std::move(guards), attr->ahead);
    };
    rewriter.on_expr = [&](Expr e) { return lathe::substitute(e, renewed); };
    return {all, loop.width, loop.kind, loop.width, rewrite(loop.body, rewriter)};
  }

  bool can_fill(const For& loop) const {
    if (loop.kind != LoopKind::Vector || !loop.extent.is_const() || loop.extent.value() >= loop.width ||
        loop.extent.value() < 1)
      return false;
    return std::all_of(loop.body.begin(), loop.body.end(), [&](const Stmt& stmt) {
      const auto* store = std::get_if<Store>(&stmt.node);
      return store && store->buffer->scope == Scope::Register && !store->scatter &&
             fits(*store->buffer, store->index, loop, true) && reads_in_order(store->value, loop);
    });
  }

private:
  bool fits(const Buffer& buffer, const std::vector<Expr>& index, const For& loop, bool written) const {
    const auto first = first_element(buffer, index, loop);
    if (!first) return false;
    return written ? arrays_.may_fill(buffer, *first, loop.extent, loop.width)
                   : first->lo() >= 0 && proves_le(*first + loop.width, num_elements(buffer.shape));
  }

  bool reads_in_order(const ValueRef& root, const For& loop) const {
    bool in_order = true;
    visit(root, [&](const ValueRef& value) {
      const auto* attr = std::get_if<LoadAttr>(&value->attr);
      if (!attr || attr->buffer->scope != Scope::Register) return;
      const bool per_lane = value->op == Op::Gather || depend_on(attr->index, loop.var);
      in_order &= attr->guards.empty() &&
                  (!per_lane || (value->op == Op::Load && fits(*attr->buffer, attr->index, loop, false)));
    });
    return in_order;
  }

  Arrays arrays_;
};

} // namespace

Kernel fill_vectors(const Kernel& kernel) {
  const Filler filler(kernel);
  return with_statements(kernel, [&](Stmt& stmt) {
    if (const auto* loop = std::get_if<For>(&stmt.node); loop && filler.can_fill(*loop))
      stmt = {filler.fill(*loop)};
  });
}

} // namespace lathe::ast
