// The move that lets one nest run inside another: merge.
#include <algorithm>
#include <set>

#include <fmt/format.h>

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

/// Walks through the statements after the producer, into Allocs but into no loop, up to the nest of the
/// consumer. Statements between the two must neither read nor write what the producer makes, nor write what
/// the producer reads.
class Between {
public:
  Between(const Store& producer, int consumer, const std::string& name)
      : made_(producer.buffer->id), consumer_(consumer), made_name_(producer.buffer->name), name_(name) {
    for (const ValueRef& load : loads_of(producer)) needed_.insert(attr_of(load).buffer->id);
  }

  Stmt* find(Block& block, size_t from) {
    for (size_t i = from; i < block.size() && verdict_.empty(); ++i) {
      const Nest nest = perfect_nest(block[i]);
      if (nest.store && nest.store->buffer->id == consumer_ && reads(*nest.store)) return &block[i];
      if (auto* alloc = std::get_if<Alloc>(&block[i].node)) {
        if (Stmt* found = find(alloc->body, 0)) return found;
        continue;
      }
      pass(block[i]);
    }
    return nullptr;
  }
  const Verdict& verdict() const { return verdict_; }
  bool needs(int buffer) const { return needed_.contains(buffer); }

private:
  bool reads(const Store& store) const {
    const auto loads = loads_of(store);
    return std::any_of(loads.begin(), loads.end(),
                       [&](const ValueRef& v) { return attr_of(v).buffer->id == made_; });
  }
  void pass(const Stmt& stmt) {
    Block one{stmt};
    for_each_store(one, [&](Store& store, const auto&) {
      if (reads(store))
        verdict_ = fmt::format("{} reads {} before {} does", store.buffer->name, made_name_, name_);
      if (needed_.contains(store.buffer->id) || store.buffer->id == made_)
        verdict_ = fmt::format("{} is written in between", store.buffer->name);
    });
  }

  const int made_, consumer_;
  const std::string made_name_, &name_; // of the producer and the consumer
  std::set<int> needed_;
  Verdict verdict_;
};

} // namespace

Verdict merge(Draft& draft, StageHandle stage, StageHandle reader) {
  const std::string &name = stage.buffer().name(), &consumer_name = reader.buffer().name();
  const Site place = find_nest(draft.body, draft.id_of(stage.buffer()));
  if (!place.block) return fmt::format("no plain nest computes {}", name);
  const Nest producer = perfect_nest((*place.block)[place.position]);
  if (producer.store->combine || producer.store->scatter) return fmt::format("{} is a reduction", name);
  Between between(*producer.store, draft.id_of(reader.buffer()), consumer_name);
  Stmt* found = between.find(*place.block, place.position + 1);
  if (!found)
    return between.verdict().empty()
               ? fmt::format("no plain nest of {} after {} reads it", consumer_name, name)
               : between.verdict();
  const Nest consumer = perfect_nest(*found);
  if (consumer.loops.empty()) return fmt::format("{} has no loop", consumer_name);
  if (consumer.store->scatter) return fmt::format("{} is a scatter", consumer_name);
  if (between.needs(consumer.store->buffer->id)) return fmt::format("{} reads {}", name, consumer_name);

  // The consumer must read one element per iteration, and its loops must walk through all elements.
  ValueRef read;
  for (const ValueRef& load : loads_of(*consumer.store)) {
    if (attr_of(load).buffer->id != producer.store->buffer->id) continue;
    if (read || load->op == Op::Gather || !attr_of(load).guards.empty())
      return fmt::format("{} does not read {} element by element", consumer_name, name);
    read = load;
  }
  Substitution vars;
  for (size_t d = 0; d < producer.store->index.size(); ++d) {
    const Expr at = producer.store->index[d], wanted = attr_of(read).index[d];
    const auto loop_of = [&](const Nest& nest, Expr var) -> const For* {
      for (const For* f : nest.loops)
        if (f->var == var) return f;
      return nullptr;
    };
    const For *from = loop_of(producer, at), *to = loop_of(consumer, wanted);
    if (!from && !to && at == wanted) continue;
    if (!from || !to || from->extent != to->extent)
      return fmt::format("{} walks through {} in another way than it is computed", consumer_name, name);
    for (const auto& [old, now] : vars)
      if (old == from->var || now == to->var)
        return fmt::format("{} walks through {} along a diagonal", consumer_name, name);
    vars.emplace_back(from->var, to->var);
  }
  if (vars.size() != producer.loops.size() || vars.size() != consumer.loops.size())
    return fmt::format("{} does not use each element of {} once", consumer_name, name);

  Store moved = *producer.store;
  for (Expr& e : moved.index) e = substitute(e, vars);
  moved.value = ast::substitute(moved.value, vars);
  Block& body = consumer.loops.back()->body;
  body.insert(body.begin(), Stmt{std::move(moved)});
  place.block->erase(place.block->begin() + static_cast<long>(place.position));
  return check_structure(draft.body);
}

} // namespace lathe::search
