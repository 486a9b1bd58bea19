// The structural hash: loops and buffers count by the order in which they appear, not by their ids and names.
#include <optional>

#include "ast/values.hpp"
#include "core/hash.hpp"
#include "core/overload.hpp"
#include "core/pointer_map.hpp"
#include "view/shape_variable.hpp"
#include "view/structural_hash.hpp"

namespace lathe::ast {
namespace {

class Hasher {
public:
  uint64_t kernel(const Kernel& k) {
    uint64_t h = mix(k.params.size(), k.shape_vars.size());
    for (Expr var : k.shape_vars) {
      h = mix(mix(h, static_cast<uint64_t>(var.lo())), static_cast<uint64_t>(var.hi()));
      if (!has_usual_value(var)) h = mix(h, static_cast<uint64_t>(var.typical()));
      number(var, ++vars_);
    }
    for (const Param& param : k.params) h = mix(declare(h, *param.buffer), param.written);
    return block(h, k.body);
  }

private:
  void forget() {
    values_.clear();
    visitor_.reset();
  }
  void number(Expr var, uint64_t n) {
    if (exprs_.has_number(var)) forget();
    exprs_.number(var, n);
  }
  uint64_t declare(uint64_t h, const Buffer& buffer) {
    if (buffers_.contains(&buffer)) forget();
    buffers_.set(&buffer, ++declared_);
    h = mix(h, static_cast<uint64_t>(buffer.dtype) * 8 + static_cast<uint64_t>(buffer.scope));
    return all(h, buffer.shape);
  }

  uint64_t all(uint64_t h, const std::vector<Expr>& exprs) {
    h = mix(h, exprs.size());
    for (Expr e : exprs) h = mix(h, exprs_(e));
    return h;
  }
  uint64_t buffer(const Buffer& b) const {
    const uint64_t* number = buffers_.find(&b);
    return number ? *number : mix(hash_text("undeclared"), static_cast<uint64_t>(b.id));
  }

  uint64_t value(const ValueRef& root) {
    if (!root) return 0;
    if (!visitor_) visitor_.emplace([this](const ValueRef& v) { values_.set(v.get(), node(*v)); });
    (*visitor_)(root);
    return *values_.find(root.get());
  }
  /// Stored schedules are found by this number. So ops keep the one that they had before the table got Scan,
  /// which no kernel has.
  static uint64_t number_of(Op op) { return static_cast<uint64_t>(op) + (op < Op::Scan ? 1 : 0); }
  uint64_t node(const Value& v) {
    uint64_t h = mix(number_of(v.op), static_cast<uint64_t>(v.dtype));
    for (const ValueRef& source : v.sources) h = mix(h, *values_.find(source.get()));
    return std::visit(Overload{[&](std::monostate) { return h; }, [&](Rounded) { return mix(h, 1); },
                               [&](const Scalar& scalar) { return mix(h, scalar.bits()); },
                               [&](const Expr& e) { return mix(h, exprs_(e)); },
                               [&](const LoadAttr& load) {
                                 h = all(mix(h, buffer(*load.buffer)), load.index);
                                 uint64_t guards = load.guards.size(); // a sum: their order does not matter
                                 for (Expr e : load.guards) guards += mix(1, exprs_(e));
                                 h = mix(mix(h, guards), static_cast<uint64_t>(load.ahead));
                                 return with_lanes(h, load.lanes);
                               }},
                      v.attr);
  }

  /// Databases hold hashes. So the LaneAccess that every access has before the machine form adds nothing to
  /// the hash.
  static uint64_t with_lanes(uint64_t h, LaneAccess lanes) {
    return lanes == LaneAccess{} ? h : mix(h, lanes.number());
  }

  uint64_t block(uint64_t h, const Block& body) {
    h = mix(h, body.size());
    for (const Stmt& stmt : body) {
      h = mix(h, stmt.node.index());
      h = std::visit([&](const auto& node) { return statement(h, node); }, stmt.node);
    }
    return h;
  }
  uint64_t statement(uint64_t h, const For& loop) {
    h = mix(h, static_cast<uint64_t>(loop.kind) * 1024 + static_cast<uint64_t>(loop.width));
    h = mix(h, exprs_(loop.extent));
    number(loop.var, ++vars_);
    return block(h, loop.body);
  }
  uint64_t statement(uint64_t h, const Alloc& alloc) { return block(declare(h, *alloc.buffer), alloc.body); }
  uint64_t statement(uint64_t h, const Store& store) {
    h = all(mix(h, buffer(*store.buffer)), store.index);
    h = mix(h, value(store.value));
    h = mix(h, store.combine ? static_cast<uint64_t>(*store.combine) + 1 : 0);
    h = with_lanes(mix(mix(h, value(store.scatter)), store.streaming), store.lanes);
    return store.by ? mix(h, static_cast<uint64_t>(*store.by) + 1) : h;
  }
  static uint64_t statement(uint64_t h, const Barrier&) { return h; }
  uint64_t statement(uint64_t h, const Prefetch& prefetch) {
    return all(mix(h, buffer(*prefetch.buffer)), prefetch.index);
  }

  uint64_t vars_ = 0, declared_ = 0;
  StructuralHash exprs_;
  PointerMap<Buffer, uint64_t> buffers_;
  PointerMap<Value, uint64_t> values_;
  std::optional<ValueVisitor> visitor_; // fills values_
};

} // namespace

uint64_t structural_hash(const Kernel& kernel) { return Hasher().kernel(kernel); }

} // namespace lathe::ast
