#include "ast/canonical.hpp"

#include <optional>
#include <set>
#include <unordered_map>

#include <fmt/format.h>

#include "ast/buffer.hpp"
#include "ast/values.hpp"

namespace lathe::ast {

std::string printable(std::string_view name) {
  std::string out;
  for (char c : name) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
    const bool inner = (c >= '0' && c <= '9') || c == '.';
    if (out.empty() && inner) out += '_';
    out += letter || inner ? c : '_';
  }
  return out.empty() ? "_" : out;
}

namespace {

std::string unique(const std::string& wanted, const std::set<std::string>& taken) {
  std::string name = wanted;
  for (int k = 2; taken.count(name); ++k) name = fmt::format("{}_{}", wanted, k);
  return name;
}

class Canonicaliser {
public:
  explicit Canonicaliser(bool keep_names) : keep_(keep_names) {}

  Kernel kernel(const Kernel& in) {
    Kernel out;
    out.name = keep_ ? printable(in.name) : "k";
    for (Expr var : in.shape_vars) {
      const Expr renamed =
          keep_ ? var
                : Var(fmt::format("v{}", out.shape_vars.size()), var.lo(), var.hi(), var.typical()).expr();
      if (renamed != var) vars_.emplace_back(var, renamed);
      out.shape_vars.push_back(renamed);
      loop_names_.insert(renamed.name());
    }
    for (const Param& param : in.params) out.params.push_back({declare(param.buffer), param.written});
    out.body = block(in.body);
    return out;
  }

private:
  Expr expr(Expr e) const { return vars_.empty() ? e : lathe::substitute(e, vars_); }
  std::vector<Expr> exprs(const std::vector<Expr>& in) const {
    std::vector<Expr> out;
    for (Expr e : in) out.push_back(expr(e));
    return out;
  }
  BufferRef declare(const BufferRef& buffer) {
    Buffer made = *buffer;
    made.id = next_buffer_++;
    made.name = keep_ ? unique(printable(buffer->name), buffer_names_) : fmt::format("b{}", made.id);
    buffer_names_.insert(made.name);
    values_.reset();
    made.shape = exprs(buffer->shape);
    return buffers_[buffer.get()] = make_buffer(std::move(made));
  }
  BufferRef buffer(const BufferRef& b) const {
    auto it = buffers_.find(b.get());
    return it == buffers_.end() ? b : it->second;
  }
  ValueRef value(const ValueRef& v) {
    if (!values_) {
      Rewriter rewriter;
      rewriter.on_expr = [this](Expr e) { return expr(e); };
      rewriter.on_buffer = [this](const BufferRef& b) { return buffer(b); };
      values_.emplace(std::move(rewriter));
    }
    return (*values_)(v);
  }

  Block block(const Block& in) {
    Block out;
    out.reserve(in.size());
    for (const Stmt& s : in)
      out.push_back(std::visit([&](const auto& node) { return Stmt{rebuild(node)}; }, s.node));
    return out;
  }
  For rebuild(const For& loop) {
    const Expr extent = expr(loop.extent);
    const std::string name = keep_ ? unique(printable(loop.var.name()), loop_names_) : "i";
    For out{loop_var(next_loop_++, name, extent), extent, loop.kind, loop.width, {}};
    // If the variable is mapped already (verify refuses such a kernel), the inner loop's mapping hides it.
    Substitution outer = vars_;
    std::erase_if(vars_, [&](const auto& pair) { return pair.first == loop.var; });
    vars_.emplace_back(loop.var, out.var);
    values_.reset();
    const bool is_new = loop_names_.insert(name).second;
    out.body = block(loop.body);
    if (is_new) loop_names_.erase(name);
    vars_ = std::move(outer);
    values_.reset();
    return out;
  }
  Alloc rebuild(const Alloc& alloc) {
    BufferRef made = declare(alloc.buffer);
    return {std::move(made), block(alloc.body)};
  }
  Store rebuild(const Store& store) {
    return {buffer(store.buffer), exprs(store.index), value(store.value), store.combine,
            value(store.scatter), store.streaming,    store.lanes,        store.by};
  }
  Barrier rebuild(const Barrier& barrier) { return barrier; }
  Prefetch rebuild(const Prefetch& prefetch) { return {buffer(prefetch.buffer), exprs(prefetch.index)}; }

  const bool keep_;
  int next_loop_ = 0, next_buffer_ = 0;
  Substitution vars_;
  std::optional<ValueRewriter> values_; // for the present vars_; reset when they change
  std::unordered_map<const Buffer*, BufferRef> buffers_;
  std::set<std::string> loop_names_, buffer_names_;
};

} // namespace

Kernel canonical(const Kernel& kernel, bool keep_names) { return Canonicaliser(keep_names).kernel(kernel); }

} // namespace lathe::ast
