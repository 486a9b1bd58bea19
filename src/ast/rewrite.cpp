// The generic visitor, the generic rewriter and, as one use of it, substitution.
#include "ast/append.hpp"
#include "ast/ast.hpp"
#include "ast/values.hpp"
#include "core/overload.hpp"
#include "core/pointer_map.hpp"
#include "lathe/error.hpp"

namespace lathe::ast {
namespace {

using StmtVisitor = std::function<void(const Stmt&, const std::vector<const For*>& loops)>;

void visit_block(const Block& block, const StmtVisitor& f, std::vector<const For*>& loops) {
  for (const Stmt& stmt : block) {
    f(stmt, loops);
    std::visit(Overload{[&](const For& loop) {
                          loops.push_back(&loop);
                          visit_block(loop.body, f, loops);
                          loops.pop_back();
                        },
                        [&](const Alloc& alloc) { visit_block(alloc.body, f, loops); }, [](const Store&) {},
                        [](const Barrier&) {}, [](const Prefetch&) {}},
               stmt.node);
  }
}

/// Calls `f` on each distinct value after its sources. An explicit stack replaces recursion, since the DAG
/// may be deep.
template <class Done, class F> void post_order(const ValueRef& root, const Done& done, const F& f) {
  std::vector<std::pair<const ValueRef*, size_t>> stack{{&root, 0}};
  if (done(root)) return;
  while (!stack.empty()) {
    auto& [value, next] = stack.back();
    if (next < (*value)->sources.size()) {
      const ValueRef& source = (*value)->sources[next++];
      if (!done(source)) stack.emplace_back(&source, 0);
    } else {
      const ValueRef& finished = *value;
      stack.pop_back();
      if (!done(finished)) f(finished);
    }
  }
}

class RewriteRun {
public:
  explicit RewriteRun(const Rewriter& rewriter) : r_(rewriter) {}

  Block block(const Block& in) {
    Block out;
    out.reserve(in.size());
    for (const Stmt& stmt : in) {
      Stmt rebuilt = std::visit([&](const auto& node) { return Stmt{rebuild(node)}; }, stmt.node);
      if (!r_.on_stmt) {
        out.push_back(std::move(rebuilt));
        continue;
      }
      append(out, r_.on_stmt(std::move(rebuilt)));
    }
    return out;
  }

  ValueRef value(const ValueRef& root) {
    if (!root || (!r_.on_value && !r_.on_expr && !r_.on_buffer && rebound_.empty())) return root;
    post_order(
        root, [&](const ValueRef& v) { return values_.contains(v.get()); },
        [&](const ValueRef& v) {
          ValueRef made = rebuild_value(v);
          if (r_.on_value) made = r_.on_value(made);
          if (!made) throw InternalError("a rewriter returned no value");
          values_.set(v.get(), {v, std::move(made)});
        });
    return rebuilt(root);
  }

private:
  Expr expr(Expr e) {
    if (e.is_const() || (!r_.on_expr && rebound_.empty())) return e;
    if (const auto* known = exprs_.find(e.node())) return Expr(*known);
    Expr mapped = r_.on_expr ? r_.on_expr(e) : e;
    if (!rebound_.empty()) mapped = lathe::substitute(mapped, rebound_);
    exprs_.set(e.node(), mapped.node());
    return mapped;
  }
  std::vector<Expr> exprs(const std::vector<Expr>& in) {
    std::vector<Expr> out;
    out.reserve(in.size());
    for (Expr e : in) out.push_back(expr(e));
    return out;
  }
  BufferRef buffer(const BufferRef& b) { return r_.on_buffer ? r_.on_buffer(b) : b; }

  const ValueRef& rebuilt(const ValueRef& v) const { return values_.find(v.get())->second; }

  ValueRef rebuild_value(const ValueRef& v) {
    switch (v->op) {
    case Op::Const: return v;
    case Op::Index: {
      const Expr before = std::get<Expr>(v->attr), after = expr(before);
      return after == before ? v : index_value(after, v->dtype);
    }
    case Op::Load: {
      const auto& attr = std::get<LoadAttr>(v->attr);
      return load(buffer(attr.buffer), exprs(attr.index), exprs(attr.guards), attr.ahead, attr.lanes);
    }
    case Op::Gather: {
      const auto& attr = std::get<LoadAttr>(v->attr);
      return gather(buffer(attr.buffer), rebuilt(v->sources[0]), exprs(attr.guards));
    }
    default: break;
    }
    std::vector<ValueRef> sources;
    bool changed = false;
    for (const ValueRef& source : v->sources) {
      sources.push_back(rebuilt(source));
      changed |= sources.back() != source;
    }
    if (!changed) return v;
    ValueRef made = make(v->op, v->dtype, std::move(sources));
    return std::holds_alternative<Rounded>(v->attr) ? rounded(made) : made;
  }

  void forget() {
    exprs_.clear();
    values_.clear();
  }

  For rebuild(const For& loop) {
    For out{loop.var, expr(loop.extent), loop.kind, loop.width, {}};
    // A loop variable carries its extent as its bound. Both change together, so that bounds stay tight and in
    // scope.
    const bool rebinds = out.extent != loop.extent && loop.var.extent() == loop.extent;
    if (rebinds) {
      out.var = loop_var(loop.var.id(), loop.var.name(), out.extent);
      rebound_.emplace_back(loop.var, out.var);
      forget();
    }
    out.body = block(loop.body);
    if (rebinds) {
      rebound_.pop_back();
      forget();
    }
    return out;
  }
  Alloc rebuild(const Alloc& alloc) { return {buffer(alloc.buffer), block(alloc.body)}; }
  Store rebuild(const Store& store) {
    return {buffer(store.buffer), exprs(store.index), value(store.value), store.combine,
            value(store.scatter), store.streaming,    store.lanes,        store.by};
  }
  Barrier rebuild(const Barrier& barrier) { return barrier; }
  Prefetch rebuild(const Prefetch& prefetch) { return {buffer(prefetch.buffer), exprs(prefetch.index)}; }

  const Rewriter& r_;
  Substitution rebound_;
  PointerMap<ExprNode, const ExprNode*> exprs_;
  // The entry also holds a reference to its key, so that no other value gets the key's address meanwhile.
  PointerMap<Value, std::pair<ValueRef, ValueRef>> values_;
};

} // namespace

void visit(const Block& block, const StmtVisitor& f) {
  std::vector<const For*> loops;
  visit_block(block, f, loops);
}

struct ValueVisitor::Run {
  const std::function<void(const ValueRef&)> f;
  PointerMap<Value, bool> seen;
};
ValueVisitor::ValueVisitor(std::function<void(const ValueRef&)> f)
    : run_(std::make_unique<Run>(Run{std::move(f), {}})) {}
ValueVisitor::~ValueVisitor() = default;
void ValueVisitor::operator()(const ValueRef& v) {
  if (!v) return;
  post_order(
      v, [&](const ValueRef& value) { return run_->seen.contains(value.get()); },
      [&](const ValueRef& value) {
        run_->seen.set(value.get(), true);
        run_->f(value);
      });
}

void visit(const ValueRef& v, const std::function<void(const ValueRef&)>& f) { ValueVisitor{f}(v); }

Block rewrite(const Block& block, const Rewriter& rewriter) { return RewriteRun(rewriter).block(block); }
ValueRef rewrite(const ValueRef& value, const Rewriter& rewriter) {
  return RewriteRun(rewriter).value(value);
}

struct ValueRewriter::Run {
  explicit Run(Rewriter r) : rewriter(std::move(r)), values(rewriter) {}
  const Rewriter rewriter;
  RewriteRun values;
};
ValueRewriter::ValueRewriter(Rewriter rewriter) : run_(std::make_unique<Run>(std::move(rewriter))) {}
ValueRewriter::~ValueRewriter() = default;
ValueRef ValueRewriter::operator()(const ValueRef& value) { return run_->values.value(value); }

Block substitute(const Block& block, const Substitution& vars) {
  if (vars.empty()) return block;
  return rewrite(block, {.on_value = {},
                         .on_expr = [&](Expr e) { return lathe::substitute(e, vars); },
                         .on_buffer = {},
                         .on_stmt = {}});
}
ValueRef substitute(const ValueRef& value, const Substitution& vars) {
  if (vars.empty()) return value;
  return rewrite(value, {.on_value = {},
                         .on_expr = [&](Expr e) { return lathe::substitute(e, vars); },
                         .on_buffer = {},
                         .on_stmt = {}});
}

} // namespace lathe::ast
