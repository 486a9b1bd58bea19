// The move that makes two axes one: join.
#include "search/moves/join.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "ast/buffer.hpp"
#include "ast/values.hpp"

namespace lathe::search {

using namespace ast;

namespace {

/// Two loops, one directly in the other.
struct LoopPair {
  Expr outer, inner, joined;
  Expr length; // of the inner one
};

/// One join of axes. join() finds which loops, and which axes of which buffers, must be joined together, and
/// changes nothing; apply() then joins them.
class Joining {
public:
  explicit Joining(const Block& body) {
    ast::visit(body, [&](const Stmt& stmt, const std::vector<const For*>& loops) {
      if (const auto* loop = std::get_if<For>(&stmt.node)) {
        others_.push_back(loop->extent);
      } else if (const auto* prefetch = std::get_if<Prefetch>(&stmt.node)) {
        others_.insert(others_.end(), prefetch->index.begin(), prefetch->index.end());
      } else if (const auto* store = std::get_if<Store>(&stmt.node)) {
        accesses_.push_back({store->buffer, store->index, loops});
        see(store->value, loops);
        if (store->scatter) see(store->scatter, loops);
      }
    });
  }

  Verdict join(int buffer, size_t axis) {
    axes_[buffer] = axis;
    for (size_t known = 0; known != axes_.size() + pairs_.size();) {
      known = axes_.size() + pairs_.size();
      for (const Access& access : accesses_) {
        if (auto verdict = loops_of_axes(access); !verdict.empty()) return verdict;
        if (auto verdict = axes_of_loops(access); !verdict.empty()) return verdict;
      }
    }
    if (pairs_.empty()) return "no loops walk along the axes";
    for (const LoopPair& pair : pairs_)
      for (Expr e : others_)
        if (moves_along(e, pair)) return fmt::format("{} is used by itself", to_string(e));
    return {};
  }

  void apply(Block& body) {
    for (Stmt& stmt : body) {
      if (auto* loop = std::get_if<For>(&stmt.node)) {
        for (const LoopPair& pair : pairs_)
          if (loop->var == pair.outer) {
            For inner = std::move(std::get<For>(loop->body[0].node));
            inner.var = pair.joined;
            inner.extent = *pair.joined.extent();
            *loop = std::move(inner);
            break;
          }
        apply(loop->body);
      } else if (auto* alloc = std::get_if<Alloc>(&stmt.node)) {
        alloc->buffer = joined(alloc->buffer);
        apply(alloc->body);
      } else if (auto* store = std::get_if<Store>(&stmt.node)) {
        store->index = joined(*store->buffer, std::move(store->index));
        store->buffer = joined(store->buffer);
        store->value = loads_(store->value);
        store->scatter = loads_(store->scatter);
      }
    }
  }

private:
  struct Access {
    BufferRef buffer;
    std::vector<Expr> index;
    std::vector<const For*> loops;
  };

  void see(const ValueRef& value, const std::vector<const For*>& loops) {
    ast::visit(value, [&](const ValueRef& v) {
      if (const auto* index = std::get_if<Expr>(&v->attr)) others_.push_back(*index);
      const auto* attr = std::get_if<LoadAttr>(&v->attr);
      if (!attr) return;
      others_.insert(others_.end(), attr->guards.begin(), attr->guards.end());
      accesses_.push_back({attr->buffer, attr->index, loops});
    });
  }

  static bool moves_along(Expr e, const LoopPair& pair) {
    return depends_on(e, pair.outer) || depends_on(e, pair.inner);
  }

  /// By how many steps of the outer loop two indices are ahead of a pair of loops; nothing if they do not
  /// follow it.
  static std::optional<Expr> ahead_of(const LoopPair& pair, Expr outer, Expr inner) {
    if (inner != pair.inner) return {};
    const Expr ahead = outer - pair.outer;
    // A row of kShortAxis elements or more fills vectors by itself, and several such rows may be computed
    // together from the rows that they share. The joined loop has no rows.
    constexpr int64_t kShortAxis = 16;
    if (moves_along(ahead, pair) || (!ahead.is_const(0) && !proves_lt(pair.length, kShortAxis))) return {};
    return ahead;
  }

  /// Adds the loops along axes that are to be joined.
  Verdict loops_of_axes(const Access& access) {
    const auto it = axes_.find(access.buffer->id);
    if (it == axes_.end()) return {};
    const size_t d = it->second;
    if (d + 1 >= access.index.size()) return fmt::format("{} has no such axes here", access.buffer->name);
    const Expr outer = access.index[d], inner = access.index[d + 1];
    for (const LoopPair& pair : pairs_)
      if (ahead_of(pair, outer, inner)) return {};
    for (size_t i = 0; i + 1 < access.loops.size(); ++i) {
      const For &a = *access.loops[i], &b = *access.loops[i + 1];
      LoopPair pair{a.var, b.var, {}, b.extent};
      if (!ahead_of(pair, outer, inner)) continue;
      const bool plain = a.kind == LoopKind::Serial && b.kind == LoopKind::Serial && a.body.size() == 1 &&
                         std::holds_alternative<For>(a.body[0].node);
      if (!plain || !a.extent.is_const() || !b.extent.is_const() || b.extent != access.buffer->shape[d + 1])
        break;
      pair.joined = loop_var(a.var.id(), a.var.name(), a.extent * b.extent);
      pairs_.push_back(pair);
      return {};
    }
    return fmt::format("no two loops, one in the other, walk along these axes of {}", access.buffer->name);
  }

  /// Adds the axes along which the joined loops walk.
  Verdict axes_of_loops(const Access& access) {
    for (const LoopPair& pair : pairs_)
      for (size_t d = 0; d < access.index.size(); ++d) {
        if (!moves_along(access.index[d], pair)) continue;
        const bool both = d + 1 < access.index.size() &&
                          ahead_of(pair, access.index[d], access.index[d + 1]) &&
                          access.buffer->shape[d + 1] == pair.length;
        const auto [it, is_new] = axes_.emplace(access.buffer->id, d);
        if (!both || it->second != d)
          return fmt::format("{} and {} take {} to different places", pair.outer.name(), pair.inner.name(),
                             access.buffer->name);
        ++d; // the inner one, looked at already
      }
    return {};
  }

  BufferRef joined(const BufferRef& buffer) {
    const auto it = axes_.find(buffer->id);
    if (it == axes_.end()) return buffer;
    BufferRef& made = made_[buffer->id];
    if (!made) {
      Buffer one = *buffer;
      one.shape[it->second] = one.shape[it->second] * one.shape[it->second + 1];
      one.shape.erase(one.shape.begin() + static_cast<long>(it->second) + 1);
      made = make_buffer(std::move(one));
    }
    return made;
  }

  std::vector<Expr> joined(const Buffer& buffer, std::vector<Expr> index) const {
    const auto it = axes_.find(buffer.id);
    if (it == axes_.end()) return index;
    for (const LoopPair& pair : pairs_)
      if (const auto ahead = ahead_of(pair, index[it->second], index[it->second + 1])) {
        index[it->second] = pair.joined + *ahead * pair.length;
        break;
      }
    index.erase(index.begin() + static_cast<long>(it->second) + 1);
    return index;
  }

  std::vector<Access> accesses_;
  std::vector<Expr> others_;   // outside of accesses' indices: must not depend on the joined loops
  std::map<int, size_t> axes_; // by buffer, the first of the two
  std::map<int, BufferRef> made_;
  std::vector<LoopPair> pairs_;
  ValueRewriter loads_{Rewriter{[this](const ValueRef& value) -> ValueRef {
                                  const auto* attr = std::get_if<LoadAttr>(&value->attr);
                                  if (!attr || value->op != Op::Load || !axes_.contains(attr->buffer->id))
                                    return value;
                                  return load(joined(attr->buffer), joined(*attr->buffer, attr->index),
                                              attr->guards, attr->ahead);
                                },
                                {},
                                {},
                                {}}};
};

/// Calls f on the buffer of every load and store.
void for_each_buffer(const Block& body, const std::function<void(const BufferRef&)>& f) {
  ast::visit(body, [&](const Stmt& stmt, const auto&) {
    if (const auto* store = std::get_if<Store>(&stmt.node)) f(store->buffer);
  });
  for_each_load(body, [&](const Value& value) { f(std::get<LoadAttr>(value.attr).buffer); });
}

} // namespace

Verdict join_axes(Block& body, int buffer, size_t axis) {
  Joining joining(body);
  Verdict verdict = joining.join(buffer, axis);
  if (verdict.empty()) joining.apply(body);
  return verdict;
}

Verdict join_into(Block& body, int buffer, const Shape& shape) {
  const auto current = [&] {
    Shape found;
    for_each_buffer(body, [&](const BufferRef& b) {
      if (b->id == buffer) found = b->shape;
    });
    return found;
  };
  Shape now = current();
  for (size_t d = 0; d < shape.size();) {
    if (d >= now.size()) return "it has fewer axes than its reader sees";
    if (now[d] == shape[d]) {
      ++d;
      continue;
    }
    if (auto verdict = join_axes(body, buffer, d); !verdict.empty()) return verdict;
    now = current();
  }
  return now.size() == shape.size() ? Verdict{} : "it has more axes than its reader sees";
}

BufferRef seen_in(const Block& body, const BufferRef& buffer) {
  BufferRef seen = buffer;
  for_each_load(body, [&](const Value& value) {
    const BufferRef& loaded = std::get<LoadAttr>(value.attr).buffer;
    if (loaded->id == buffer->id) seen = loaded;
  });
  return seen;
}

Verdict see_alike(Block& body) {
  std::map<int, BufferRef> seen;
  Verdict verdict;
  bool is_one = true;
  for_each_buffer(body, [&](const BufferRef& buffer) {
    const BufferRef& first = seen.emplace(buffer->id, buffer).first->second;
    is_one &= first == buffer;
    if (first->shape != buffer->shape)
      verdict = fmt::format("axes of {} are joined here and told apart there", buffer->name);
  });
  if (verdict.empty() && !is_one)
    body = ast::rewrite(body, {{},
                               {},
                               [&](const BufferRef& buffer) {
                                 const auto it = seen.find(buffer->id);
                                 return it == seen.end() ? buffer : it->second;
                               },
                               {}});
  return verdict;
}

Verdict join(Draft& draft, StageHandle stage, int64_t axis) {
  return join_axes(draft.body, draft.id_of(stage.buffer()), static_cast<size_t>(axis));
}

namespace {

/// The axes along which a nest stores with the loops that read axes `axis` and `axis` + 1 of the buffer;
/// nothing if no nest does.
std::optional<JoinedAxes> axes_of_reader(const Draft& reader, int buffer, size_t axis) {
  std::optional<JoinedAxes> found;
  ast::visit(reader.body, [&](const Stmt& stmt, const auto&) {
    const auto* store = std::get_if<Store>(&stmt.node);
    if (!store) return;
    ast::visit(store->value, [&](const ValueRef& value) {
      const auto* attr = std::get_if<LoadAttr>(&value->attr);
      if (!attr || attr->buffer->id != buffer || axis + 1 >= attr->index.size()) return;
      for (size_t d = 0; d + 1 < store->index.size(); ++d)
        if (store->index[d] == attr->index[axis] && store->index[d + 1] == attr->index[axis + 1])
          found = JoinedAxes{StageHandle(reader.stage_of(*store->buffer)), static_cast<int64_t>(d)};
    });
  });
  return found;
}

bool is_long_axis(const Expr& size) { return size.is_const() && !size.is_const(1); }

} // namespace

std::vector<Move> moves_of(const std::vector<JoinedAxes>& joins) {
  std::vector<Move> moves;
  for (const JoinedAxes& axes : joins) moves.push_back(axes.move());
  return moves;
}

std::vector<JoinedAxes> joins_between(const lower::Program& program, const KernelPlan& producer, int stage,
                                      const KernelPlan& reader) {
  std::vector<JoinedAxes> joins;
  const Buffer& made = *program.stages[static_cast<size_t>(stage)].buffer;
  Draft from = draft_of(program, producer), to = draft_of(program, reader);
  for (size_t axis = made.shape.size(); axis-- > 1;) {
    if (!is_long_axis(made.shape[axis])) continue;
    const auto axes = axes_of_reader(to, made.id, axis - 1);
    if (!axes || !join_axes(from.body, made.id, axis - 1).empty()) continue;
    if (join(to, axes->stage, axes->axis).empty()) joins.push_back(*axes);
  }
  return joins;
}

std::vector<JoinedAxes> joins_of(const lower::Program& program, const KernelPlan& kernel) {
  std::vector<JoinedAxes> joins;
  Draft draft = draft_of(program, kernel);
  for (int stage : kernel.stages) {
    const Buffer& buffer = *program.stages[stage].buffer;
    for (size_t axis = buffer.shape.size(); axis-- > 1;) {
      if (!is_long_axis(buffer.shape[axis])) continue;
      const JoinedAxes axes{StageHandle(stage), static_cast<int64_t>(axis) - 1};
      if (join(draft, axes.stage, axes.axis).empty()) joins.push_back(axes);
    }
  }
  return joins;
}

} // namespace lathe::search
