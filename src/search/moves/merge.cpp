// The moves that let one nest run inside another: merge and store_with.
#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "ast/values.hpp"
#include "search/moves/draft.hpp"

namespace lathe::search {

using namespace ast;

namespace {

/// The nest that stores to the buffer, other than one that sets it to a constant.
Site find_nest(Block& block, int buffer) {
  for (size_t i = 0; i < block.size(); ++i) {
    if (const Nest nest = perfect_nest(block[i]); nest.store && nest.store->buffer->id == buffer) {
      const bool initial = nest.store->value->op == Op::Const;
      if (!initial) return {&block, i};
    }
    Site found;
    if (auto* loop = std::get_if<For>(&block[i].node))
      found = find_nest(loop->body, buffer);
    else if (auto* alloc = std::get_if<Alloc>(&block[i].node))
      found = find_nest(alloc->body, buffer);
    if (found.block) return found;
  }
  return {};
}

std::vector<ValueRef> loads_of(const Store& store) {
  std::vector<ValueRef> loads;
  const auto see = [&](const ValueRef& value) {
    if (std::holds_alternative<LoadAttr>(value->attr)) loads.push_back(value);
  };
  ast::visit(store.value, see);
  if (store.scatter) ast::visit(store.scatter, see);
  return loads;
}

const LoadAttr& attr_of(const ValueRef& load) { return std::get<LoadAttr>(load->attr); }

bool reads(const Store& store, int buffer) {
  const auto loads = loads_of(store);
  return std::any_of(loads.begin(), loads.end(),
                     [&](const ValueRef& v) { return attr_of(v).buffer->id == buffer; });
}

/// Loops, each directly in the one before, around nothing but stores.
struct Leaf {
  std::vector<For*> loops; // outermost first
  Block* body = nullptr;

  std::vector<Store*> stores() const {
    std::vector<Store*> out;
    for (Stmt& stmt : *body) out.push_back(&std::get<Store>(stmt.node));
    return out;
  }
};

Leaf leaf_of(Stmt& stmt) {
  Leaf leaf;
  Stmt* at = &stmt;
  while (auto* loop = std::get_if<For>(&at->node)) {
    if (loop->kind != LoopKind::Serial) return {};
    leaf.loops.push_back(loop);
    if (std::all_of(loop->body.begin(), loop->body.end(),
                    [](const Stmt& inner) { return std::holds_alternative<Store>(inner.node); })) {
      leaf.body = &loop->body;
      return leaf;
    }
    if (loop->body.size() != 1) return {};
    at = &loop->body[0];
  }
  return {};
}

/// Walks through the statements after the producer, into Allocs but into no loop, up to the nest of the
/// consumer. Statements between the two must neither read nor write what the producer makes, nor write what
/// the producer reads.
class Between {
public:
  /// With `or_beside`, the nest of the consumer need not read what the producer makes.
  Between(const Store& producer, int consumer, const std::string& name, bool or_beside)
      : made_(producer.buffer->id), consumer_(consumer), made_name_(producer.buffer->name), name_(name),
        or_beside_(or_beside) {
    for (const ValueRef& load : loads_of(producer)) needed_.insert(attr_of(load).buffer->id);
  }

  Leaf find(Block& block, size_t from) {
    for (size_t i = from; i < block.size() && verdict_.empty(); ++i) {
      if (const Leaf leaf = leaf_of(block[i]); leaf.body && is_consumer(leaf)) return leaf;
      if (auto* alloc = std::get_if<Alloc>(&block[i].node)) {
        if (const Leaf found = find(alloc->body, 0); found.body) return found;
        continue;
      }
      pass(block[i]);
    }
    return {};
  }
  const Verdict& verdict() const { return verdict_; }
  bool needs(int buffer) const { return needed_.contains(buffer); }

private:
  /// Whether it computes the consumer from what the producer makes, or element by element from anything.
  bool is_consumer(const Leaf& leaf) const {
    const auto stores = leaf.stores();
    return std::any_of(stores.begin(), stores.end(), [&](const Store* store) {
      if (store->buffer->id != consumer_) return false;
      return reads(*store, made_) || (or_beside_ && !store->combine && store->value->op != Op::Const);
    });
  }
  void pass(const Stmt& stmt) {
    Block one{stmt};
    for_each_store(one, [&](Store& store, const auto&) {
      if (reads(store, made_) && store.buffer->id == consumer_)
        verdict_ = fmt::format("{} has loops of its own, or none", name_);
      else if (reads(store, made_))
        verdict_ = fmt::format("{} reads {} before {} does", store.buffer->name, made_name_, name_);
      if (needed_.contains(store.buffer->id) || store.buffer->id == made_)
        verdict_ = fmt::format("{} is written in between", store.buffer->name);
    });
  }

  const int made_, consumer_;
  const std::string made_name_, &name_; // of the producer and the consumer
  const bool or_beside_;
  std::set<int> needed_;
  Verdict verdict_;
};

/// The variables of the producer's loops, and those of the consumer's loops in their places.
struct Matching {
  Substitution vars;
  Verdict verdict;
};

/// So that the consumer reads at `read` what the producer stores.
Matching by_element(const Nest& producer, const std::vector<Expr>& read, const Leaf& consumer) {
  Matching found;
  const auto loop_of = [](const std::vector<For*>& loops, Expr var) -> const For* {
    for (const For* f : loops)
      if (f->var == var) return f;
    return nullptr;
  };
  for (size_t d = 0; d < producer.store->index.size(); ++d) {
    const Expr at = producer.store->index[d], wanted = read[d];
    const For *from = loop_of(producer.loops, at), *to = loop_of(consumer.loops, wanted);
    if (!from && !to && at == wanted) continue;
    if (!from || !to || from->extent != to->extent) {
      found.verdict = "is walked through in another way than it is computed";
      return found;
    }
    for (const auto& [old, now] : found.vars)
      if (old == from->var || now == to->var) found.verdict = "is walked through along a diagonal";
    found.vars.emplace_back(from->var, to->var);
  }
  return found;
}

/// So that loops of the same order have the same number of iterations.
Matching by_order(const Nest& producer, const Leaf& consumer) {
  Matching found;
  if (producer.loops.size() != consumer.loops.size()) {
    found.verdict = "has loops of its own";
    return found;
  }
  for (size_t i = 0; i < producer.loops.size(); ++i) {
    if (producer.loops[i]->extent != consumer.loops[i]->extent) found.verdict = "has loops of other lengths";
    found.vars.emplace_back(producer.loops[i]->var, consumer.loops[i]->var);
  }
  return found;
}

/// The index at which the stores of the leaf read the buffer: one and the same. Empty if none reads it.
std::vector<Expr> index_of_reads(const Leaf& leaf, int buffer, Verdict& verdict) {
  const LoadAttr* read = nullptr;
  for (const Store* store : leaf.stores())
    for (const ValueRef& load : loads_of(*store)) {
      const LoadAttr& attr = attr_of(load);
      if (attr.buffer->id != buffer) continue;
      if (load->op == Op::Gather || !attr.guards.empty() || (read && read->index != attr.index))
        verdict = "is not read element by element";
      read = &attr;
    }
  return read ? read->index : std::vector<Expr>();
}

/// The stores use the value in place of what they loaded.
void use_value(const std::vector<Store*>& stores, const Store& made) {
  ValueRewriter rewriter{Rewriter{[&](const ValueRef& value) -> ValueRef {
                                    const auto* attr = std::get_if<LoadAttr>(&value->attr);
                                    return attr && attr->buffer->id == made.buffer->id ? made.value : value;
                                  },
                                  {},
                                  {},
                                  {}}};
  for (Store* store : stores) store->value = rewriter(store->value);
}

enum class Where { Before, Behind }; // the stores of the companion

Verdict move_into(Draft& draft, StageHandle stage, StageHandle companion, Where where) {
  const std::string &name = stage.buffer().name(), &companion_name = companion.buffer().name();
  const Site place = find_nest(draft.body, draft.id_of(stage.buffer()));
  if (!place.block) return fmt::format("no plain nest computes {}", name);
  const Nest producer = perfect_nest((*place.block)[place.position]);
  const Buffer& made = *producer.store->buffer;
  if (producer.store->combine || producer.store->scatter) return fmt::format("{} is a reduction", name);
  Between between(*producer.store, draft.id_of(companion.buffer()), companion_name, where == Where::Behind);
  const Leaf leaf = between.find(*place.block, place.position + 1);
  if (!leaf.body)
    return between.verdict().empty()
               ? fmt::format("no plain nest of {} after {} reads it", companion_name, name)
               : between.verdict();
  const std::vector<Store*> stores = leaf.stores();
  for (const Store* store : stores) {
    if (store->scatter) return fmt::format("{} is a scatter", store->buffer->name);
    if (between.needs(store->buffer->id)) return fmt::format("{} reads {}", name, store->buffer->name);
  }

  // The loops must walk through all elements, and read one of them in each iteration.
  Verdict unlike;
  const std::vector<Expr> read = index_of_reads(leaf, made.id, unlike);
  const bool is_read = !read.empty();
  if (where == Where::Behind && is_read && (is_half(made.dtype) || is_narrow(made.dtype)))
    return fmt::format("{} is rounded when it is stored", name);
  const Matching match = is_read ? by_element(producer, read, leaf) : by_order(producer, leaf);
  for (const Verdict& verdict : {unlike, match.verdict})
    if (!verdict.empty()) return fmt::format("beside {}, {} {}", companion_name, name, verdict);
  if (match.vars.size() != producer.loops.size() || match.vars.size() != leaf.loops.size())
    return fmt::format("{} does not use each element of {} once", companion_name, name);

  Store moved = *producer.store;
  for (Expr& e : moved.index) e = substitute(e, match.vars);
  moved.value = ast::substitute(moved.value, match.vars);
  // Behind the others, the store comes after all that is read of a buffer that it may overwrite in place.
  if (where == Where::Behind) use_value(stores, moved);
  leaf.body->insert(where == Where::Behind ? leaf.body->end() : leaf.body->begin(), Stmt{std::move(moved)});
  place.block->erase(place.block->begin() + static_cast<long>(place.position));
  return check_structure(draft.body);
}

} // namespace

Verdict merge(Draft& draft, StageHandle stage, StageHandle reader) {
  return move_into(draft, stage, reader, Where::Before);
}

Verdict store_with(Draft& draft, StageHandle stage, StageHandle companion) {
  return move_into(draft, stage, companion, Where::Behind);
}

} // namespace lathe::search
