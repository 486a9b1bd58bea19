#include "render/c_family.hpp"

#include <fmt/format.h>

#include "core/overload.hpp"
#include "lathe/error.hpp"

namespace lathe::render {

CFamily::CFamily(const Dialect& dialect)
    : dialect_(dialect), ops_(dialect, [this](const std::string& type, const std::string& expression) {
        return local(type, expression);
      }) {}

void CFamily::add(const std::string& text) {
  if (text[0] == '}' && deepest_load_ > indent_) { // names of loads in that block end with it
    for (auto& [buffer, known] : loads_)
      std::erase_if(known, [&](const auto& load) { return load.second.indent > indent_; });
    deepest_load_ = indent_;
  }
  text_.append(static_cast<size_t>(2 * indent_), ' ');
  text_ += text;
  text_ += '\n';
}

std::string CFamily::local(const std::string& type, const std::string& expression) {
  const std::string name = names_.fresh_value();
  add(fmt::format("const {} {} = {};", type, name, expression));
  return name;
}

std::string CFamily::expr(Expr e, Level level) {
  const auto binary = [&](const char* op, Level own, Level right) {
    const std::string text = fmt::format("{} {} {}", expr(e.lhs(), own), op, expr(e.rhs(), right));
    return own < level ? parens(text) : text;
  };
  const auto compare = [&](const char* op) {
    const std::string text =
        fmt::format("{} {} {}", expr(e.lhs(), Level::Sum), op, expr(e.rhs(), Level::Sum));
    return level > Level::Comparison ? parens(text) : text;
  };
  const auto call = [&](const char* function) {
    return fmt::format("{}({}, {})", function, expr(e.lhs()), expr(e.rhs()));
  };
  switch (e.kind()) {
  case ExprKind::Const: return e.value() < 0 ? fmt::format("({})", e.value()) : fmt::format("{}", e.value());
  case ExprKind::Var:
    if (e.id() < 0) used_shape_vars_.insert(e.name());
    return names_.variable(e);
  case ExprKind::Add: return binary("+", Level::Sum, Level::Sum);
  case ExprKind::Mul: return binary("*", Level::Product, Level::Primary);
  case ExprKind::FloorDiv:
  case ExprKind::Mod: {
    const bool div = e.kind() == ExprKind::FloorDiv;
    if (e.lhs().lo() >= 0 && e.rhs().lo() > 0) return binary(div ? "/" : "%", Level::Product, Level::Primary);
    return call(div ? "lathe_floordiv" : "lathe_floormod");
  }
  case ExprKind::Min: return call("lathe_min");
  case ExprKind::Max: return call("lathe_max");
  case ExprKind::Lt: return compare("<");
  case ExprKind::Le: return compare("<=");
  case ExprKind::Eq: return compare("==");
  case ExprKind::And: return binary("&&", Level::Any, Level::Comparison);
  }
  throw InternalError("renderer: unknown Expr");
}

void CFamily::forget_loads() {
  columns_.clear();
  loads_.clear();
  deepest_load_ = 0;
}

void CFamily::block(const ast::Block& body) {
  for (const ast::Stmt& stmt : body)
    std::visit(Overload{[&](const ast::For& f) { loop(f); }, [&](const ast::Alloc& a) { alloc(a); },
                        [&](const ast::Store& s) { store(s, nullptr); },
                        [&](const ast::Barrier&) {
                          forget_loads();
                          barrier();
                        },
                        [&](const ast::Prefetch& p) { prefetch(p); }},
               stmt.node);
}

void CFamily::loop(const ast::For& loop) {
  switch (loop.kind) {
  case ast::LoopKind::Serial:
  case ast::LoopKind::Unroll: return serial_loop(loop);
  case ast::LoopKind::Vector: return vector_loop(loop);
  case ast::LoopKind::Parallel:
  case ast::LoopKind::Group:
  case ast::LoopKind::Local: return special_loop(loop);
  case ast::LoopKind::Tensor: return tensor_loops(loop);
  }
}

void CFamily::serial_loop(const ast::For& loop) {
  const std::string var = names_.variable(loop.var);
  add(fmt::format("for ({0} {1} = 0; {1} < {2}; ++{1}) {{", dialect_.index_type(), var,
                  expr(loop.extent, Level::Sum)));
  ++indent_;
  forget_loads();
  block(loop.body);
  forget_loads();
  --indent_;
  add("}");
}

void CFamily::vector_loop(const ast::For& loop) {
  const Chunk chunk(loop);
  for (const ast::Stmt& stmt : loop.body) store(std::get<ast::Store>(stmt.node), &chunk);
}

void CFamily::prefetch(const ast::Prefetch& prefetch) {
  const std::string place = fmt::format("{} + {}", pointer(prefetch.buffer),
                                        expr(flat_index(*prefetch.buffer, prefetch.index), Level::Sum));
  add(dialect_.prefetch(place, CacheLevel::Second));
}

void CFamily::register_alloc(const ast::Alloc& alloc) {
  const ast::Buffer& buffer = *alloc.buffer;
  const std::string name = names_.buffer(buffer);
  if (const auto pieces =
          register_slices(alloc, dialect_)) { // no block, so that loads in it stay known after it
    Slices slices = *pieces;
    for (auto& [first, slice] : slices) {
      slice.name = names_.fresh(fmt::format("{}_{}", name, first));
      // Lanes that nothing writes are computed with, and then dropped.
      const bool is_filled = slice.active < slice.lanes;
      add(fmt::format("{} {}{};", dialect_.type(buffer.dtype, slice.lanes), slice.name,
                      is_filled ? " = " + dialect_.splat("0", buffer.dtype, slice.lanes) : ""));
    }
    slices_[buffer.id] = std::move(slices);
    block(alloc.body);
    columns_.clear();
    return;
  }
  slices_.erase(buffer.id);
  add("{");
  ++indent_;
  add(fmt::format("LATHE_ALIGNED(64) {} {}[{}];", dialect_.storage_type(buffer.dtype), name,
                  std::max<int64_t>(1, num_elements(buffer.shape).hi())));
  block(alloc.body);
  columns_.clear();
  --indent_;
  add("}");
}

} // namespace lathe::render
