#include "ast/machine/vectors.hpp"

#include <algorithm>
#include <unordered_set>

#include "ast/append.hpp"
#include "ast/computed_index.hpp"
#include "ast/copies.hpp"
#include "ast/flat_index.hpp"

namespace lathe::ast {
namespace {

/// Whether one vector store can write the lanes of a store.
bool writes_apart(const Store& store, Expr lane, const VectorForms& forms) {
  if (store.scatter) return forms.gathers && computed_step(*store.scatter, lane) == 1;
  const auto step = stride_of(flat_index(*store.buffer, store.index), lane);
  const bool moves = !step || step->lo() > 0 || step->hi() < 0;
  if (!store.combine) return moves;
  return step && (moves || step->is_const(0));
}

/// Checks that all lane-dependent values in the body of a vector loop have vector forms, and finds the widest
/// of them, in bytes.
class VectorCheck {
public:
  VectorCheck(const For& loop, const VectorForms& forms) : loop_(loop), forms_(forms) {}

  bool store(const Store& s) {
    widest_ = std::max(widest_, bytes_in_register(s.buffer->dtype));
    bool good = writes_apart(s, loop_.var, forms_) && (forms_.halves || !is_half(s.buffer->dtype));
    const auto look = [&](const ValueRef& v) { good = good && value(*v); };
    visit(s.value, look);
    if (s.scatter) visit(s.scatter, look);
    return good;
  }
  int widest() const { return widest_; }

private:
  bool varies(const Value& v) const {
    const auto depends = [&](Expr e) { return depends_on(e, loop_.var); };
    const auto any = [&](const std::vector<Expr>& es) { return std::any_of(es.begin(), es.end(), depends); };
    if (v.op == Op::Index) return depends(std::get<Expr>(v.attr));
    const auto* attr = std::get_if<LoadAttr>(&v.attr);
    if (attr && (any(attr->index) || any(attr->guards))) return true;
    return std::any_of(v.sources.begin(), v.sources.end(),
                       [&](const ValueRef& s) { return varying_.count(s.get()) > 0; });
  }

  bool value(const Value& v) {
    if (!varies(v)) return true;
    varying_.insert(&v);
    const auto without_form = [&](DType dtype) { return !forms_.halves && is_half(dtype); };
    if ((v.op == Op::Gather && !forms_.gathers) || without_form(v.dtype) ||
        std::any_of(v.sources.begin(), v.sources.end(),
                    [&](const ValueRef& s) { return without_form(s->dtype); }))
      return false;
    if (is_about_position(v))
      positions_.insert(&v);
    else
      widest_ = std::max(widest_, bytes_in_register(v.dtype));
    return !is_elementwise(v.op) || forms_.has_op(v);
  }

  /// Whether the value depends on the loop's variable alone. Such a value is formally 64 bits wide but is
  /// seldom more than a comparison, so it does not limit the number of lanes.
  bool is_about_position(const Value& v) const {
    if (v.dtype != DType::I64 && v.dtype != DType::Bool) return false;
    if (v.op == Op::Index) return true;
    return is_elementwise(v.op) && std::all_of(v.sources.begin(), v.sources.end(), [&](const ValueRef& s) {
             return varying_.count(s.get()) == 0 || positions_.count(s.get()) > 0;
           });
  }

  const For& loop_;
  const VectorForms& forms_;
  std::unordered_set<const Value*> varying_, positions_;
  int widest_ = 1;
};

/// Lanes of each vector that the loop becomes; 0 if the loop has to be serial.
int lanes_of(const For& loop, const VectorForms& forms) {
  const bool full = loop.extent.is_const(loop.width);
  if (!full && (!forms.parts || !(forms.ragged || loop.extent.is_const()))) return 0;
  VectorCheck check(loop, forms);
  for (const Stmt& stmt : loop.body)
    if (!check.store(std::get<Store>(stmt.node))) return 0;
  const int most = std::min({loop.width, forms.bytes / check.widest(), forms.most_lanes});
  int lanes = 1;
  while (2 * lanes <= most && loop.width % (2 * lanes) == 0) lanes *= 2;
  const bool one = lanes == loop.width;
  return lanes < 2 || !(one || loop.extent.is_const()) ? 0 : lanes;
}

class VectorSettler {
public:
  VectorSettler(const Kernel& kernel, const VectorForms& forms) : forms_(forms), copier_(kernel) {}

  Block block(const Block& in) {
    Block out;
    for (const Stmt& stmt : in) {
      const auto* loop = std::get_if<For>(&stmt.node);
      if (loop && loop->kind == LoopKind::Vector)
        append(out, settled(*loop));
      else
        out.push_back(with_body(stmt, [&](const Block& body) { return block(body); }));
    }
    return out;
  }

private:
  Block settled(const For& loop) {
    Block out;
    const int lanes = lanes_of(loop, forms_);
    if (lanes == 0) {
      out.push_back({For{loop.var, loop.extent, LoopKind::Serial, 0, loop.body}});
    } else if (lanes == loop.width) {
      out.push_back({loop});
    } else {
      for (int64_t first = 0; first < loop.extent.value(); first += lanes) {
        const Expr extent = std::min<int64_t>(lanes, loop.extent.value() - first);
        const Expr lane = loop_var(copier_.fresh_loop_id(), loop.var.name(), extent);
        out.push_back(
            {For{lane, extent, LoopKind::Vector, lanes, substitute(loop.body, {{loop.var, first + lane}})}});
      }
    }
    return out;
  }

  const VectorForms& forms_;
  Copier copier_;
};

} // namespace

Kernel settle_vectors(const Kernel& kernel, const VectorForms& forms) {
  Kernel out = kernel;
  out.body = VectorSettler(kernel, forms).block(kernel.body);
  return out;
}

} // namespace lathe::ast
