// Moves that join stages: inline a producer into its users, or put its nests under a loop of its consumer
// with the storage shrunk to what one iteration of that loop needs.
#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

#include <fmt/format.h>

#include "ast/buffer.hpp"
#include "ast/values.hpp"
#include "lathe/error.hpp"
#include "search/moves/ids.hpp"
#include "search/moves/join.hpp"
#include "view/size.hpp"

namespace lathe::search {

using namespace ast;

namespace {

/// A canonical nest: loops around one Store whose index is the loops' variables (or 0 where the axis has no
/// loop), or around several that differ in constant places along some axes.
struct CanonicalNest {
  std::vector<For*> loops;
  std::vector<Store*> stores;
  Store* single() const { return stores.size() == 1 ? stores[0] : nullptr; }
};

CanonicalNest canonical_nest(Stmt& stmt) {
  CanonicalNest nest;
  Stmt* at = &stmt;
  Block* body = nullptr;
  while (auto* loop = std::get_if<For>(&at->node)) {
    if (loop->kind != LoopKind::Serial) return {};
    nest.loops.push_back(loop);
    body = &loop->body;
    if (body->size() != 1) break;
    at = &body->front();
  }
  const auto add = [&](Stmt& one) {
    auto* store = std::get_if<Store>(&one.node);
    if (!store || store->scatter) return false;
    if (!nest.stores.empty() && store->buffer != nest.stores[0]->buffer) return false;
    nest.stores.push_back(store);
    return std::all_of(store->index.begin(), store->index.end(),
                       [](Expr index) { return index.is_var() || index.is_const(); });
  };
  if (!body || body->size() == 1) return add(*at) ? nest : CanonicalNest{};
  for (Stmt& one : *body)
    if (!add(one)) return {};
  return nest;
}

Store* innermost_store(Stmt& stmt) {
  Stmt* at = &stmt;
  while (true) {
    if (auto* store = std::get_if<Store>(&at->node)) return store;
    Block* body = nullptr;
    if (auto* loop = std::get_if<For>(&at->node))
      body = &loop->body;
    else if (auto* alloc = std::get_if<Alloc>(&at->node))
      body = &alloc->body;
    if (!body || body->empty()) return nullptr;
    at = &body->back();
  }
}

/// v where the guards hold, else 0; the loads inside happen only where they hold.
ValueRef guarded(const ValueRef& v, const std::vector<Expr>& guards) {
  if (guards.empty()) return v;
  Rewriter rewriter;
  rewriter.on_value = [&](const ValueRef& value) -> ValueRef {
    const auto* attr = std::get_if<LoadAttr>(&value->attr);
    if (!attr) return value;
    std::vector<Expr> all = attr->guards;
    for (Expr g : guards)
      if (std::find(all.begin(), all.end(), g) == all.end()) all.push_back(g);
    return value->op == Op::Gather ? gather(attr->buffer, value->sources[0], all)
                                   : load(attr->buffer, attr->index, all, attr->ahead);
  };
  const ValueRef inner = ast::rewrite(v, rewriter);
  Expr condition = guards[0];
  for (size_t i = 1; i < guards.size(); ++i) condition = land(condition, guards[i]);
  return make(Op::Where, v->dtype,
              {index_value(condition, DType::Bool), inner, constant(Scalar::zero(v->dtype))});
}

Verdict index_fault(const LoadAttr& attr) {
  if (!is_too_long(attr.index, attr.guards)) return {};
  return fmt::format("the index into {} grows too long", attr.buffer->name);
}

/// Replaces loads of stages by the values of the stages. Each value is made once for each place that reads
/// it, however many stages lie between the two.
class Inlining {
public:
  Inlining(Draft& draft, const std::vector<int>& stages) : draft_(draft) {
    for (int s : stages) reads_[draft.program->stages[s].buffer->id];
  }

  /// Notes, for each load of the stage that has been seen, the value that the canonical nest stores there.
  /// The stages that read this one come first.
  Verdict find(int stage_id) {
    const lower::Stage& stage = draft_.program->stages[stage_id];
    if (stage.is_reduction || stage.is_scatter || stage.is_transform)
      return fmt::format("{} is not elementwise", stage.buffer->name);
    std::vector<ValueRef>& reads = reads_.at(stage.buffer->id);
    if (reads.empty()) return {};
    Block nest = stage.nests;
    const BufferRef seen = std::get<LoadAttr>(reads.back()->attr).buffer;
    if (auto verdict = join_into(nest, seen->id, seen->shape); !verdict.empty()) return verdict;
    const CanonicalNest producer = canonical_nest(nest.at(0));
    const Store* from = producer.single();
    if (!from || from->combine) return fmt::format("{} is not elementwise", stage.buffer->name);
    for (const ValueRef& read : reads) {
      if (read->op == Op::Gather) return fmt::format("{} is read at a computed index", stage.buffer->name);
      const auto& attr = std::get<LoadAttr>(read->attr);
      Substitution vars;
      for (size_t d = 0; d < attr.index.size(); ++d)
        if (from->index[d].is_var()) vars.emplace_back(from->index[d], attr.index[d]);
      computed_.emplace_back(read, guarded(ast::substitute(from->value, vars), attr.guards));
      if (auto verdict = see(computed_.back().second); !verdict.empty()) return verdict;
    }
    draft_.inlined.push_back(stage_id);
    return {};
  }

  /// Notes what the value reads of the stages.
  Verdict see(const ValueRef& value) {
    visit_(value);
    return verdict_;
  }

  void apply() {
    // From producers to readers, so that the values that a value reads are made before it.
    std::unordered_map<const Value*, ValueRef> made;
    Rewriter rewriter;
    rewriter.on_value = [&](const ValueRef& value) -> ValueRef {
      const auto it = made.find(value.get());
      return it == made.end() ? value : it->second;
    };
    for (auto it = computed_.rbegin(); it != computed_.rend(); ++it)
      made[it->first.get()] = ast::rewrite(it->second, rewriter);
    rewrite_values(draft_.body, rewriter);
  }

private:
  void see_one(const ValueRef& value) {
    const auto* attr = std::get_if<LoadAttr>(&value->attr);
    if (!attr) return;
    if (Verdict fault = index_fault(*attr); !fault.empty()) verdict_ = std::move(fault);
    if (const auto it = reads_.find(attr->buffer->id); it != reads_.end()) it->second.push_back(value);
  }

  Draft& draft_;
  Verdict verdict_;
  ValueVisitor visit_{[this](const ValueRef& value) { see_one(value); }}; // sees each value once
  std::map<int, std::vector<ValueRef>> reads_;                            // by the stage's buffer
  std::vector<std::pair<ValueRef, ValueRef>> computed_; // a read, and what is computed there
};

Verdict inline_those(Draft& draft, std::vector<int> stages) {
  std::sort(stages.rbegin(), stages.rend()); // readers of a stage come after it in the program
  Inlining inlining(draft, stages);
  Verdict verdict;
  for_each_store(draft.body, [&](Store& store, const auto&) {
    verdict = inlining.see(store.value);
    if (verdict.empty()) verdict = inlining.see(store.scatter);
  });
  for (int stage : stages)
    if (verdict.empty()) verdict = inlining.find(stage);
  if (verdict.empty()) inlining.apply();
  return verdict;
}

} // namespace

Verdict inline_stages(Draft& draft, std::vector<int> stages,
                      const std::function<bool(int stage)>& has_no_buffer) {
  while (!stages.empty()) {
    if (auto verdict = inline_those(draft, std::move(stages)); !verdict.empty()) return verdict;
    std::set<int> left;
    for_each_load(draft.body, [&](const Value& value) {
      const Buffer& buffer = *std::get<LoadAttr>(value.attr).buffer;
      const int stage = ids::stage_of_scratch(buffer.id) ? -1 : draft.stage_of(buffer);
      if (stage >= 0 && has_no_buffer(stage)) left.insert(stage);
    });
    stages.assign(left.begin(), left.end());
  }
  return {};
}

namespace {

/// Takes the stage's nests, still canonical, out of the producer's body.
Verdict take_nests(Block& producer, const lower::Stage& stage, Block& nests) {
  const std::string& name = stage.buffer->name;
  for (size_t i = 0; i < producer.size();) {
    const Store* store = innermost_store(producer[i]);
    if (!store || store->buffer->id != stage.buffer->id) {
      ++i;
      continue;
    }
    if (canonical_nest(producer[i]).stores.empty())
      return fmt::format("a loop of {} is already scheduled", name);
    nests.push_back(std::move(producer[i]));
    producer.erase(producer.begin() + static_cast<long>(i));
  }
  if (nests.size() != stage.nests.size())
    return fmt::format("the nests of {} are not at the top level of its kernel", name);
  return {};
}

size_t loads_of(const Block& block, int buffer) {
  size_t loads = 0;
  for_each_load(block,
                [&](const Value& value) { loads += std::get<LoadAttr>(value.attr).buffer->id == buffer; });
  return loads;
}

/// The box of a buffer that one iteration of a loop reads. Each dimension has a start, which is fixed in the
/// iteration, and an extent.
class Window {
public:
  Window(BufferRef seen, std::string_view loop)
      : seen_(std::move(seen)), loop_(loop), base_(seen_->shape.size()),
        lowest_(seen_->shape.size(), INT64_MAX), highest_(seen_->shape.size(), INT64_MIN),
        whole_(seen_->shape.size(), false) {}

  /// Takes in all loads in the body of the loop.
  Verdict read(For& loop) {
    for_each_store(loop.body, [&](Store& store, const std::vector<For*>& loops) {
      std::vector<Expr> inner;
      for (const For* f : loops) inner.push_back(f->var);
      ast::visit(store.value, [&](const ValueRef& value) {
        if (const LoadAttr* attr = load_of(value)) take_in(*value, *attr, inner);
      });
      if (store.scatter)
        ast::visit(store.scatter, [&](const ValueRef& value) {
          if (load_of(value)) verdict_ = seen_->name + " is read in a scatter's index";
        });
    });
    return verdict_;
  }

  /// The buffer that holds just the box.
  Verdict shrink(Scope scope) {
    Buffer small = *seen_;
    small.scope = scope;
    int64_t elements = 1;
    for (size_t d = 0; d < seen_->shape.size(); ++d) {
      small.shape[d] = bound(d);
      if (small.shape[d].hi() > kMostElements ||
          (elements *= std::max<int64_t>(1, small.shape[d].hi())) > kMostElements)
        return fmt::format("{} needs too much scratch", seen_->name);
    }
    bytes_ = elements * size_of(small.dtype);
    buffer_ = make_buffer(std::move(small));
    return {};
  }

  const BufferRef& seen() const { return seen_; }
  const BufferRef& buffer() const { return buffer_; }
  int64_t bytes() const { return bytes_; }
  const Expr& start(size_t d) const { return start_[d]; }
  const Expr& extent(size_t d) const { return extent_[d]; }
  bool is_whole(size_t d) const { return start_[d].is_const(0) && extent_[d] == seen_->shape[d]; }

  /// The value with its loads from the buffer as loads from the box.
  ValueRef in_box(const ValueRef& value) const {
    const LoadAttr* attr = load_of(value);
    if (!attr) return value;
    std::vector<Expr> index = attr->index;
    for (size_t d = 0; d < index.size(); ++d) index[d] = index[d] - start_[d];
    return load(buffer_, std::move(index), attr->guards);
  }

private:
  static constexpr int64_t kMostElements = int64_t{1} << 32;

  const LoadAttr* load_of(const ValueRef& value) const {
    const auto* attr = std::get_if<LoadAttr>(&value->attr);
    return attr && attr->buffer->id == seen_->id ? attr : nullptr;
  }

  void take_in(const Value& value, const LoadAttr& attr, const std::vector<Expr>& inner) {
    if (value.op == Op::Gather) {
      verdict_ = seen_->name + " is read at a computed index";
      return;
    }
    for (size_t d = 0; d < seen_->shape.size(); ++d) {
      const auto [outer, part] = separate(attr.index[d], inner);
      const bool covers =
          outer.is_const(0) && part.is_var() && part.extent() && *part.extent() == seen_->shape[d];
      if (covers) whole_[d] = true;
      if (!base_[d]) base_[d] = outer;
      const Expr shift = outer - *base_[d];
      if (!shift.is_const()) {
        verdict_ = fmt::format("{} is read at places that differ by {}", seen_->name, to_string(shift));
        return;
      }
      for (Expr v : inner)
        if (depends_on(outer, v))
          verdict_ = fmt::format("the part of {} that {} needs is not a box", seen_->name, loop_);
      lowest_[d] = std::min(lowest_[d], part.lo() + shift.value());
      highest_[d] = std::max(highest_[d], part.hi() + shift.value());
    }
  }

  /// Sets start and extent along an axis, and returns the largest extent that occurs.
  Expr bound(size_t d) {
    const Expr size = seen_->shape[d];
    const int64_t span = highest_[d] - lowest_[d] + 1;
    if (whole_[d] || (size.is_const() && span >= size.value())) {
      start_.push_back(0);
      extent_.push_back(size);
      return size;
    }
    const Expr first = *base_[d] + lowest_[d];
    start_.push_back(max(first, Expr(0)));
    // If nothing is cut off at the front, the extent gets the form that a split gives, which later passes
    // know.
    const Expr end = start_[d] != first ? min(*base_[d] + (highest_[d] + 1), size) : size;
    extent_.push_back(proves_le(start_[d] + span, end) ? Expr(span) : min(Expr(span), end - start_[d]));
    return span;
  }

  BufferRef seen_, buffer_;
  std::string_view loop_;
  std::vector<std::optional<Expr>> base_;
  std::vector<int64_t> lowest_, highest_;
  std::vector<bool> whole_;
  std::vector<Expr> start_, extent_;
  int64_t bytes_ = 0;
  Verdict verdict_;
};

/// Whether scratch for the window has a place under the loop.
Verdict has_place(const Window& window, Block& body, std::string_view loop, Scope scope,
                  const Target& target) {
  const std::string& name = window.seen()->name;
  const int64_t bytes = window.bytes();
  if (scope == Scope::Register) {
    if (!is_static(window.buffer()->shape))
      return fmt::format("{} has no constant size under {}", name, loop);
    if (bytes > 8192)
      return fmt::format("{} needs {} bytes under {}, too many for registers", name, bytes, loop);
  } else if (bytes > (int64_t{1} << 26)) {
    return fmt::format("{} needs {} bytes of scratch under {}", name, bytes, loop);
  }
  if (!fits_local_memory(body, scope, bytes, target))
    return fmt::format("{} needs {} bytes under {}, which do not fit local memory", name, bytes, loop);
  return {};
}

/// The nest, with each loop along an axis running only over the window's part of that axis.
Block filling(Stmt& stmt, const Window& window) {
  const CanonicalNest canonical = canonical_nest(stmt);
  std::vector<Store> stores;
  for (Store* store : canonical.stores) {
    stores.push_back(std::move(*store));
    stores.back().buffer = window.buffer();
    stores.back().streaming = false; // it is read right after
  }
  const std::vector<Expr> places = stores[0].index;
  Substitution vars;
  std::vector<For> heads;
  for (const For* f : canonical.loops) {
    const auto axis = std::find(places.begin(), places.end(), f->var);
    const Expr old_extent = substitute(f->extent, vars);
    if (axis == places.end()) {
      const Expr var = loop_var(f->var.id(), f->var.name(), old_extent);
      vars.emplace_back(f->var, var);
      heads.push_back({var, old_extent, LoopKind::Serial, 0, {}});
      continue;
    }
    const auto d = static_cast<size_t>(axis - places.begin());
    const bool once = window.extent(d).is_const(1);
    const Expr var = once ? Expr(0) : loop_var(f->var.id(), f->var.name(), window.extent(d));
    vars.emplace_back(f->var, window.start(d) + var);
    for (Store& store : stores) store.index[d] = var;
    if (!once) heads.push_back({var, window.extent(d), LoopKind::Serial, 0, {}});
  }
  Block body;
  for (Store& store : stores) {
    store.value = ast::substitute(store.value, vars);
    body.push_back(Stmt{std::move(store)});
  }
  return nest(std::move(heads), std::move(body));
}

} // namespace

Verdict fuse_at_loop(Draft& draft, Block& producer, int stage_id, LoopHandle handle, Scope scope,
                     const Target& target) {
  const std::string& loop_name = handle.name();
  const lower::Stage& stage = draft.program->stages[stage_id];
  const std::string& name = stage.buffer->name;
  if (stage.is_scatter) return name + " is a scatter: it needs its whole buffer";
  Block nests;
  if (auto verdict = take_nests(producer, stage, nests); !verdict.empty()) return verdict;

  const LoopSite site = find_loop(draft, handle);
  if (!site) return fmt::format("there is no loop {}", loop_name);
  For& loop = site.loop();
  if (loop.kind == LoopKind::Vector || loop.kind == LoopKind::Tensor)
    return fmt::format("{} is a vector or tensor loop", loop_name);
  if (scope == Scope::Local)
    if (auto verdict = may_hold_local_memory(site, target); !verdict.empty()) return verdict;
  const BufferRef seen = seen_in(draft.body, stage.buffer);
  if (auto verdict = join_into(nests, seen->id, seen->shape); !verdict.empty()) return verdict;

  Window window(seen, loop_name);
  if (auto verdict = window.read(loop); !verdict.empty()) return verdict;
  const size_t inside = loads_of(loop.body, seen->id);
  if (inside == 0) return fmt::format("nothing under {} reads {}", loop_name, name);
  const size_t elsewhere = &producer == &draft.body ? 0 : loads_of(producer, seen->id);
  if (loads_of(draft.body, seen->id) + elsewhere != inside)
    return fmt::format("{} is also read outside {}", name, loop_name);
  if (auto verdict = window.shrink(scope); !verdict.empty()) return verdict;
  // A nest that stores at constant places along an axis fills the whole axis, so the window must hold it all.
  for (Stmt& stmt : nests)
    for (const Store* store : canonical_nest(stmt).stores)
      for (size_t d = 0; d < store->index.size(); ++d)
        if (store->index[d].is_const() && !window.is_whole(d))
          return fmt::format("{} computes all of its axis {} at once", name, d);
  if (auto verdict = has_place(window, draft.body, loop_name, scope, target); !verdict.empty())
    return verdict;

  // The consumer reads the small buffer, and the producer fills it.
  Rewriter reads;
  reads.on_value = [&](const ValueRef& value) { return window.in_box(value); };
  rewrite_values(loop.body, reads);
  Alloc alloc{window.buffer(), {}};
  for (Stmt& stmt : nests)
    for (Stmt& made : filling(stmt, window)) alloc.body.push_back(std::move(made));
  Verdict verdict;
  for_each_load(alloc.body, [&](const Value& value) {
    if (verdict.empty()) verdict = index_fault(std::get<LoadAttr>(value.attr));
  });
  if (!verdict.empty()) return verdict;
  put_before_body(loop, std::move(alloc));
  return check_structure(draft.body);
}

} // namespace lathe::search
