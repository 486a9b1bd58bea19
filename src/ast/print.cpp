// Prints kernels as text that a person can read and parse() accepts. Values used more than once, and very
// deep ones, get a `let` line before their store, so that the text is linear in the size of the DAG.
#include <unordered_map>

#include <fmt/format.h>

#include "ast/canonical.hpp"
#include "ast/infix.hpp"
#include "ast/lane_kind.hpp"
#include "core/overload.hpp"
#include "view/shape_variable.hpp"

namespace lathe::ast {
namespace {

constexpr int kMaxDepth = 16; // ops nested in the expression of one line

std::string list(const std::vector<Expr>& exprs, const char* separator) {
  std::string out;
  for (Expr e : exprs) out += (out.empty() ? "" : separator) + to_string(e);
  return out;
}

std::string lanes_text(LaneAccess lanes) {
  if (lanes.kind == LaneKind::Unsaid) return "";
  return fmt::format("; lanes: {}{}", kLaneKindNames[static_cast<size_t>(lanes.kind)],
                     lanes.masked ? kMasked : "");
}

class ValuePrinter {
public:
  /// Finds the values that need a name in the DAGs under `roots` and writes their `let` lines.
  std::string lets(const std::vector<ValueRef>& roots, const std::string& indent) {
    std::unordered_map<const Value*, int> uses;
    std::vector<ValueRef> order;
    for (const ValueRef& root : roots) {
      if (!root) continue;
      ++uses[root.get()];
      visit(root, [&](const ValueRef& v) {
        if (!depth_.emplace(v.get(), 0).second) return;
        order.push_back(v);
        for (const ValueRef& source : v->sources) ++uses[source.get()];
      });
    }
    std::string out;
    for (const ValueRef& v : order) {
      int depth = 1;
      for (const ValueRef& source : v->sources) depth = std::max(depth, 1 + depth_[source.get()]);
      const bool leaf = v->op == Op::Const || v->op == Op::Index;
      if (!leaf && (uses[v.get()] > 1 || depth > kMaxDepth)) {
        const std::string line = text(v, 0);
        const size_t number = names_.size() + 1;
        names_.emplace(v.get(), fmt::format("%{}", number));
        out += fmt::format("{}let %{} = {}\n", indent, number, line);
        depth = 0;
      }
      depth_[v.get()] = depth;
    }
    return out;
  }

  std::string text(const ValueRef& v, int level) const {
    if (!v) return "<null>";
    if (auto it = names_.find(v.get()); it != names_.end()) return it->second;
    if (std::holds_alternative<Rounded>(v->attr)) return fmt::format("rounded({})", op_text(v, 0));
    return op_text(v, level);
  }

private:
  std::string op_text(const ValueRef& v, int level) const {
    switch (v->op) {
    case Op::Const: return fmt::format("{}:{}", to_string(std::get<Scalar>(v->attr)), to_string(v->dtype));
    case Op::Index: return fmt::format("{}({})", to_string(v->dtype), to_string(std::get<Expr>(v->attr)));
    case Op::Load:
    case Op::Gather: {
      const auto& attr = std::get<LoadAttr>(v->attr);
      const std::string place =
          v->op == Op::Load ? list(attr.index, ", ") : fmt::format("@{}", text(v->sources[0], 0));
      const std::string ahead = attr.ahead ? fmt::format("; ahead: {}", attr.ahead) : "";
      return fmt::format("{}[{}{}{}{}{}]", attr.buffer->name, place, attr.guards.empty() ? "" : "; ",
                         list(attr.guards, "; "), ahead, lanes_text(attr.lanes));
    }
    case Op::Cast:
    case Op::Bitcast:
      return fmt::format("{}_{}({})", word_of(v->op), to_string(v->dtype), text(v->sources[0], 0));
    default: break;
    }
    if (const Infix op = infix(v->op); op.text) {
      const int left = op.level + (op.level == kComparisonLevel ? 1 : 0);
      const std::string out =
          fmt::format("{} {} {}", text(v->sources[0], left), op.text, text(v->sources[1], op.level + 1));
      return op.level < level ? fmt::format("({})", out) : out;
    }
    std::string arguments;
    for (const ValueRef& source : v->sources) arguments += (arguments.empty() ? "" : ", ") + text(source, 0);
    return fmt::format("{}({})", word_of(v->op), arguments);
  }

  std::unordered_map<const Value*, int> depth_;
  std::unordered_map<const Value*, std::string> names_;
};

std::string kind_text(const For& loop) {
  switch (loop.kind) {
  case LoopKind::Serial: return "";
  case LoopKind::Parallel: return " parallel";
  case LoopKind::Unroll: return " unroll";
  case LoopKind::Vector: return fmt::format(" vector({})", loop.width);
  case LoopKind::Group: return fmt::format(" group({})", loop.width);
  case LoopKind::Local: return fmt::format(" local({})", loop.width);
  case LoopKind::Tensor: return " tensor";
  }
  return "";
}

const char* scope_text(Scope scope) {
  constexpr const char* names[] = {"global", "packed", "local", "register"};
  return names[static_cast<int>(scope)];
}

std::string buffer_text(const Buffer& buffer) {
  return fmt::format("{}: {}[{}]", buffer.name, to_string(buffer.dtype), list(buffer.shape, ", "));
}

std::string head(const For& loop) {
  return fmt::format("for {} in {}{} {{", loop.var.name(), to_string(loop.extent), kind_text(loop));
}
std::string head(const Alloc& alloc) {
  return fmt::format("alloc {} {} {{", buffer_text(*alloc.buffer), scope_text(alloc.buffer->scope));
}
std::string combine_text(const std::optional<Op>& combine) {
  if (!combine) return "=";
  if (*combine == Op::Max) return "max=";
  const Infix op = infix(*combine);
  return (op.text ? op.text : word_of(*combine)) + std::string("=");
}
std::string store_text(const Store& store, const ValuePrinter& values) {
  const std::string place =
      store.scatter ? fmt::format("@{}", values.text(store.scatter, 0)) : list(store.index, ", ");
  return fmt::format("{}{}[{}{}] {} {}{}", store.streaming ? "stream " : "", store.buffer->name, place,
                     lanes_text(store.lanes), combine_text(store.combine), values.text(store.value, 0),
                     store.by ? fmt::format(" by {}", info(*store.by).name) : "");
}

std::string prefetch_text(const Prefetch& prefetch) {
  return fmt::format("prefetch {}[{}]", prefetch.buffer->name, list(prefetch.index, ", "));
}

void print_block(const Block& block, const std::string& indent, std::string& out) {
  for (const Stmt& stmt : block)
    std::visit(Overload{[&](const For& loop) {
                          out += indent + head(loop) + "\n";
                          print_block(loop.body, indent + "  ", out);
                          out += indent + "}\n";
                        },
                        [&](const Alloc& alloc) {
                          out += indent + head(alloc) + "\n";
                          print_block(alloc.body, indent + "  ", out);
                          out += indent + "}\n";
                        },
                        [&](const Store& store) {
                          ValuePrinter values;
                          out += values.lets({store.scatter, store.value}, indent);
                          out += indent + store_text(store, values) + "\n";
                        },
                        [&](const Barrier&) { out += indent + "barrier\n"; },
                        [&](const Prefetch& prefetch) { out += indent + prefetch_text(prefetch) + "\n"; }},
               stmt.node);
}

} // namespace

std::string print_line(const Stmt& stmt) {
  return std::visit(Overload{[](const For& loop) { return head(loop) + " ... }"; },
                             [](const Alloc& alloc) { return head(alloc) + " ... }"; },
                             [](const Store& store) {
                               ValuePrinter values;
                               const std::string lets = values.lets({store.scatter, store.value}, "");
                               return lets + store_text(store, values);
                             },
                             [](const Barrier&) { return std::string("barrier"); },
                             [](const Prefetch& prefetch) { return prefetch_text(prefetch); }},
                    stmt.node);
}

std::string print(const Kernel& kernel) {
  const Kernel k = canonical(kernel, true);
  std::string params;
  for (const Param& p : k.params)
    params +=
        fmt::format("{}{} {}", params.empty() ? "" : ", ", buffer_text(*p.buffer), p.written ? "out" : "in");
  std::string vars;
  for (Expr v : k.shape_vars)
    vars += fmt::format("{}{} in {}", vars.empty() ? "; " : ", ", v.name(), bounds_text(v));
  std::string out = fmt::format("kernel {}({}{}) {{\n", k.name, params, vars);
  print_block(k.body, "  ", out);
  return out + "}\n";
}

} // namespace lathe::ast
