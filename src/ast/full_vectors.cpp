// A vector loop with fewer iterations than lanes masks what it writes. In an array in registers a mask costs
// an instruction or two for each vector, and an array that is used as a whole stays in registers by itself.
// So where the lanes past the end would write elements that nothing reads, the loop gets all of its lanes,
// and only its loads from memory keep the end, as a guard.
#include "ast/full_vectors.hpp"

#include <algorithm>
#include <unordered_map>

#include "ast/flat_index.hpp"

namespace lathe::ast {
namespace {

/// How a vector loop uses an array in registers: lanes [first, first + extent) of [first, first + width).
struct Use {
  Expr first;
  Expr extent;
  int width;
};

/// The element of lane 0, if lanes of the loop use elements one after the other.
std::optional<Expr> first_element(const Buffer& buffer, const std::vector<Expr>& index, const For& lanes) {
  const Expr flat = flat_index(buffer, index);
  const auto stride = stride_of(flat, lanes.var);
  if (!stride || !stride->is_const(1)) return {};
  return substitute(flat, {{lanes.var, 0}});
}

/// Whether the lanes that one of them leaves out are no lanes that the other writes.
bool keep_apart(const Use& a, const Use& b) {
  if (a.width != b.width) return false;
  if (a.first == b.first) return a.extent == b.extent;
  if (a.extent.is_const(a.width) && b.extent.is_const(b.width)) return true;
  return a.first.is_const() && b.first.is_const() && std::abs(a.first.value() - b.first.value()) >= a.width;
}

class Arrays {
public:
  explicit Arrays(const Kernel& kernel) {
    visit(kernel.body, [&](const Stmt& stmt, const std::vector<const For*>& loops) {
      const auto* store = std::get_if<Store>(&stmt.node);
      if (!store || store->buffer->scope != Scope::Register) return;
      const For* lanes = loops.empty() || loops.back()->kind != LoopKind::Vector ? nullptr : loops.back();
      const auto first =
          lanes && !store->scatter ? first_element(*store->buffer, store->index, *lanes) : std::nullopt;
      Array& array = arrays_[store->buffer->id];
      if (first)
        add(array, {*first, lanes->extent, lanes->width});
      else
        array.regular = false;
    });
  }

  /// Whether all lanes of a loop may use the array's elements from `first` on.
  bool may_fill(const Buffer& buffer, Expr first, int width) const {
    const auto array = arrays_.find(buffer.id);
    if (array == arrays_.end() || !array->second.regular) return false;
    return first.lo() >= 0 && proves_le(first + width, num_elements(buffer.shape));
  }

private:
  struct Array {
    bool regular = true; // written by vector loops only, which all may be filled
    std::vector<Use> uses;
  };

  static void add(Array& array, const Use& use) {
    if (!array.regular) return;
    for (const Use& other : array.uses)
      if (!keep_apart(use, other)) {
        array.regular = false;
        return;
      }
    const auto same = [&](const Use& other) { return other.first == use.first; };
    if (std::none_of(array.uses.begin(), array.uses.end(), same)) array.uses.push_back(use);
  }

  std::unordered_map<int, Array> arrays_;
};

bool depends_on(const std::vector<Expr>& es, Expr var) {
  return std::any_of(es.begin(), es.end(), [&](Expr e) { return lathe::depends_on(e, var); });
}

class Filler {
public:
  explicit Filler(const Kernel& kernel) : arrays_(kernel) {}

  Block fill(const For& loop) const {
    const Expr all = loop_var(loop.var.id(), loop.var.name(), loop.width), end = lt(all, loop.extent);
    const Substitution renewed{{loop.var, all}};
    Rewriter rewriter;
    rewriter.on_value = [&](const ValueRef& value) {
      const auto* attr = std::get_if<LoadAttr>(&value->attr);
      if (!attr || attr->buffer->scope == Scope::Register) return value;
      const bool varies =
          value->op == Op::Gather || depends_on(attr->index, all) || depends_on(attr->guards, all);
      if (!varies) return value;
      std::vector<Expr> guards = attr->guards;
      guards.push_back(end);
      return value->op == Op::Gather ? gather(attr->buffer, value->sources[0], std::move(guards))
                                     : load(attr->buffer, attr->index, std::move(guards), attr->ahead);
    };
    rewriter.on_expr = [&](Expr e) { return lathe::substitute(e, renewed); };
    Block out;
    out.push_back({For{all, loop.width, loop.kind, loop.width, rewrite(loop.body, rewriter)}});
    return out;
  }

  bool can_fill(const For& loop) const {
    if (loop.kind != LoopKind::Vector || !loop.extent.is_const() || loop.extent.value() >= loop.width ||
        loop.extent.value() < 1)
      return false;
    return std::all_of(loop.body.begin(), loop.body.end(), [&](const Stmt& stmt) {
      const auto* store = std::get_if<Store>(&stmt.node);
      return store && store->buffer->scope == Scope::Register && !store->scatter &&
             is_regular(*store->buffer, store->index, loop) && reads_regularly(store->value, loop);
    });
  }

private:
  bool is_regular(const Buffer& buffer, const std::vector<Expr>& index, const For& loop) const {
    const auto first = first_element(buffer, index, loop);
    return first && arrays_.may_fill(buffer, *first, loop.width);
  }

  bool reads_regularly(const ValueRef& root, const For& loop) const {
    bool regular = true;
    visit(root, [&](const ValueRef& value) {
      const auto* attr = std::get_if<LoadAttr>(&value->attr);
      if (!attr || attr->buffer->scope != Scope::Register) return;
      const bool per_lane = value->op == Op::Gather || depends_on(attr->index, loop.var);
      regular &= attr->guards.empty() &&
                 (!per_lane || (value->op == Op::Load && is_regular(*attr->buffer, attr->index, loop)));
    });
    return regular;
  }

  Arrays arrays_;
};

} // namespace

Kernel fill_vectors(const Kernel& kernel) {
  const Filler filler(kernel);
  Rewriter rewriter;
  rewriter.on_stmt = [&](Stmt stmt) {
    if (const auto* loop = std::get_if<For>(&stmt.node); loop && filler.can_fill(*loop))
      return filler.fill(*loop);
    Block out;
    out.push_back(std::move(stmt));
    return out;
  };
  Kernel out = kernel;
  out.body = rewrite(kernel.body, rewriter);
  return out;
}

} // namespace lathe::ast
