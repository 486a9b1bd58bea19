#include "ast/verify.hpp"

#include <algorithm>
#include <set>
#include <unordered_set>

#include <fmt/format.h>

#include "ast/canonical.hpp"
#include "ast/instruction.hpp"
#include "ast/tensor.hpp"
#include "core/overload.hpp"
#include "lathe/error.hpp"

namespace lathe::ast {
namespace {

bool may_combine(Op op) {
  return op == Op::Add || op == Op::Mul || op == Op::Max || op == Op::Or || op == Op::And;
}

class Verifier {
public:
  explicit Verifier(const Kernel& kernel) : kernel_(kernel) {}

  void run() {
    for (Expr var : kernel_.shape_vars) {
      if (!var.is_var() || var.id() >= 0) fail(fmt::format("shape variable {} is not a Var", to_string(var)));
      scope_.push_back(var);
    }
    for (const Param& param : kernel_.params) {
      declare(param.buffer);
      if (param.buffer->scope != Scope::Global)
        fail(fmt::format("parameter {} is not global", param.buffer->name));
      if (!param.written) read_only_.insert(param.buffer.get());
    }
    block(kernel_.body);
  }

private:
  [[noreturn]] void fail(const std::string& what) const {
    throw InternalError(fmt::format("verify {}: {}{}", kernel_.name, what,
                                    statement_ ? fmt::format(", in: {}", print_line(*statement_)) : ""));
  }

  // ---- Scopes ----
  void declare(const BufferRef& buffer) {
    if (!buffer) fail("a buffer is null");
    if (!buffer_ids_.insert(buffer->id).second)
      fail(fmt::format("buffer id {} of {} is taken", buffer->id, buffer->name));
    if (!buffer_names_.insert(buffer->name).second)
      fail(fmt::format("buffer name {} is taken", buffer->name));
    for (Expr e : buffer->shape) {
      in_scope(e);
      if (e.hi() < 0) fail(fmt::format("the shape of {} is negative", buffer->name));
    }
    buffers_.push_back(buffer.get());
  }
  void in_scope(Expr e) const {
    std::vector<Expr> vars;
    collect_vars(e, vars);
    for (Expr var : vars)
      if (std::find(scope_.begin(), scope_.end(), var) == scope_.end())
        fail(fmt::format("variable {} is not in scope", var.name()));
  }
  void in_scope(const BufferRef& buffer) const {
    if (!buffer) fail("a buffer is null");
    if (std::find(buffers_.begin(), buffers_.end(), buffer.get()) == buffers_.end())
      fail(fmt::format("buffer {} is not in scope", buffer->name));
    const auto is_private = [&](Scope s) { return s == Scope::Packed || s == Scope::Register; };
    if (is_private(buffer->scope) && outside_parallel_.count(buffer.get()))
      fail(fmt::format("buffer {} is private to a thread but made outside the parallel loop", buffer->name));
  }

  // ---- Values ----
  void access(const BufferRef& buffer, const std::vector<Expr>& index,
              const std::vector<Expr>& guards) const {
    if (index.size() != buffer->shape.size())
      fail(fmt::format("{} indices of {}, expected {}", index.size(), buffer->name, buffer->shape.size()));
    for (Expr e : guards) in_scope(e);
    std::vector<Expr> facts = guards;
    facts.insert(facts.end(), conditions_.begin(), conditions_.end());
    for (size_t d = 0; d < index.size(); ++d) {
      in_scope(index[d]);
      if (!proves_in_bounds(index[d], buffer->shape[d], facts))
        fail(fmt::format("index {} of dimension {} of {} is not provably in [0, {})", to_string(index[d]), d,
                         buffer->name, to_string(buffer->shape[d])));
    }
  }
  void value(const ValueRef& root) {
    if (!root) fail("a value is null");
    visit(root, [&](const ValueRef& v) { node(*v); });
  }

  void node(const Value& v) const {
    switch (v.op) {
    case Op::Const: return;
    case Op::Index:
      if (!std::holds_alternative<Expr>(v.attr)) fail("an Index without an Expr");
      return in_scope(std::get<Expr>(v.attr));
    case Op::Load:
    case Op::Gather: {
      const auto* attr = std::get_if<LoadAttr>(&v.attr);
      if (!attr) fail("a Load without its buffer");
      in_scope(attr->buffer);
      if (v.dtype != attr->buffer->dtype)
        fail(fmt::format("a load of {} has another dtype", attr->buffer->name));
      if (v.op == Op::Load) return access(attr->buffer, attr->index, attr->guards);
      for (Expr e : attr->guards) in_scope(e);
      if (v.sources.size() != 1 || !is_integer(v.sources[0]->dtype))
        fail(fmt::format("the index of a gather from {} is not an integer", attr->buffer->name));
      return;
    }
    default: break;
    }
    const std::string fault = operand_fault(v.op, v.dtype, v.sources);
    if (!fault.empty()) fail(fmt::format("{} of {}: {}", to_string(v.op), to_string(v.dtype), fault));
  }

  // ---- Statements ----
  void block(const Block& body) {
    for (const Stmt& stmt : body) {
      const Stmt* outer = std::exchange(statement_, &stmt);
      std::visit([&](const auto& node) { check(node); }, stmt.node);
      statement_ = outer;
    }
  }
  void check(const For& loop) {
    if (!loop.var.is_var() || loop.var.id() < 0) fail("the variable of a loop is not one");
    if (!loop_ids_.insert(loop.var.id()).second) fail(fmt::format("loop id {} is taken", loop.var.id()));
    in_scope(loop.extent);
    // Proofs of bounds use the variable's own extent, so that it must cover the loop's.
    const auto bound = loop.var.extent();
    if (!bound || !proves_le(loop.extent, *bound))
      fail(fmt::format("variable {} is bounded by {}, not by the loop's extent", loop.var.name(),
                       bound ? to_string(*bound) : "nothing"));
    switch (loop.kind) {
    case LoopKind::Vector:
      if (loop.width < 1 || !proves_le(loop.extent, loop.width))
        fail(fmt::format("a vector loop of up to {} iterations has width {}", loop.extent.hi(), loop.width));
      for (const Stmt& stmt : loop.body)
        if (!std::holds_alternative<Store>(stmt.node)) fail("a vector loop holds more than Stores");
      break;
    case LoopKind::Tensor:
      if (!inside(LoopKind::Tensor) && !tensor_nest(loop))
        fail("a tensor loop holds more than tensor loops of constant extents and one store");
      break;
    case LoopKind::Group:
    case LoopKind::Local:
      if (loop.width < 0 || loop.width > 2) fail(fmt::format("axis {} is not 0, 1 or 2", loop.width));
      if (loop.kind == LoopKind::Group && inside(LoopKind::Local)) fail("a group loop inside a local loop");
      break;
    default: break;
    }
    if (loop.kind == LoopKind::Parallel && inside(LoopKind::Parallel))
      fail("a parallel loop inside a parallel loop");
    const bool in_order =
        loop.kind == LoopKind::Serial || loop.kind == LoopKind::Unroll || loop.kind == LoopKind::Tensor;
    if (!in_order) {
      const Stmt* at_fault = nullptr;
      const std::string race = find_race(loop, &at_fault);
      if (!race.empty()) {
        statement_ = at_fault;
        fail(race);
      }
    }
    const auto hidden = outside_parallel_;
    if (loop.kind == LoopKind::Parallel || loop.kind == LoopKind::Group)
      outside_parallel_.insert(buffers_.begin(), buffers_.end());
    // A loop over a condition runs once if the condition holds.
    const bool condition = loop.extent.kind() == ExprKind::Lt || loop.extent.kind() == ExprKind::Le ||
                           loop.extent.kind() == ExprKind::Eq || loop.extent.kind() == ExprKind::And;
    scope_.push_back(loop.var);
    loops_.push_back(&loop);
    if (condition) conditions_.push_back(loop.extent);
    block(loop.body);
    if (condition) conditions_.pop_back();
    loops_.pop_back();
    scope_.pop_back();
    outside_parallel_ = hidden;
  }
  void check(const Alloc& alloc) {
    declare(alloc.buffer);
    if (alloc.buffer->scope == Scope::Register && !is_static(alloc.buffer->shape))
      fail(fmt::format("register buffer {} has a shape that is not constant", alloc.buffer->name));
    block(alloc.body);
    buffers_.pop_back();
  }
  void check(const Store& store) {
    in_scope(store.buffer);
    if (read_only_.count(store.buffer.get())) fail(fmt::format("buffer {} is read-only", store.buffer->name));
    value(store.value);
    if (store.value->dtype != store.buffer->dtype)
      fail(fmt::format("a {} is stored to {} of {}", to_string(store.value->dtype), store.buffer->name,
                       to_string(store.buffer->dtype)));
    if (store.combine &&
        (!may_combine(*store.combine) || !accepts(info(*store.combine).dtypes, store.buffer->dtype)))
      fail(fmt::format("{} is no combine of {}", to_string(*store.combine), to_string(store.buffer->dtype)));
    if (store.by && !computes(*store.by, store))
      fail(fmt::format("{} does not compute what is stored to {}", info(*store.by).name, store.buffer->name));
    if (!store.scatter) return access(store.buffer, store.index, {});
    value(store.scatter);
    if (!store.index.empty() || !is_integer(store.scatter->dtype))
      fail("a scatter takes one computed index, an integer");
  }
  /// Whether the instruction computes the store, in the tensor loops around if it takes several elements.
  bool computes(Instruction by, const Store& store) const {
    if (!info(by).is_tensor()) return instruction_for(store) == by;
    size_t first = loops_.size();
    while (first > 0 && loops_[first - 1]->kind == LoopKind::Tensor) --first;
    const auto nest = first < loops_.size() ? tensor_nest(*loops_[first]) : std::nullopt;
    const auto product = nest ? tensor_product(*nest) : std::nullopt;
    return product && instruction_of(*product, {by}) && is_laid_out(*product, info(by));
  }
  void check(const Barrier&) const {
    if (!inside(LoopKind::Group) || inside(LoopKind::Local))
      fail("a barrier stands inside a group loop, between local loops");
  }
  void check(const Prefetch& prefetch) const {
    in_scope(prefetch.buffer);
    if (prefetch.index.size() != prefetch.buffer->shape.size())
      fail(fmt::format("{} indices of {}, expected {}", prefetch.index.size(), prefetch.buffer->name,
                       prefetch.buffer->shape.size()));
    for (Expr e : prefetch.index) in_scope(e);
  }
  bool inside(LoopKind kind) const {
    return std::any_of(loops_.begin(), loops_.end(), [&](const For* loop) { return loop->kind == kind; });
  }

  const Kernel& kernel_;
  const Stmt* statement_ = nullptr;
  std::vector<Expr> scope_, conditions_;
  std::vector<const For*> loops_;
  std::vector<const Buffer*> buffers_;
  std::set<int> buffer_ids_, loop_ids_;
  std::set<std::string> buffer_names_;
  std::unordered_set<const Buffer*> read_only_, outside_parallel_;
};

} // namespace

void verify(const Kernel& kernel) { Verifier(kernel).run(); }

} // namespace lathe::ast
