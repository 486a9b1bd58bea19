#include "search/moves/move.hpp"

#include <algorithm>
#include <unordered_map>

#include <fmt/format.h>

#include "lathe/error.hpp"
#include "search/moves/draft.hpp"
#include "search/moves/join.hpp"

namespace lathe::search {

History::~History() {
  // A long history is a long chain of sole owners: take it apart from the front.
  while (earlier && earlier.use_count() == 1) {
    auto next = std::move(const_cast<History*>(earlier.get())->earlier);
    earlier = std::move(next);
  }
}

std::vector<Move> Plan::moves() const {
  std::vector<Move> out;
  for (const History* h = history.get(); h; h = h->earlier.get()) out.push_back(h->move);
  std::reverse(out.begin(), out.end());
  return out;
}

namespace {

/// Kernels are joined up to here: each move looks at all of a kernel, and a larger one is no faster.
constexpr size_t kMostStages = 24;

/// A plan being changed by one or more moves: knows which kernel computes a stage and who reads it.
class Editor {
public:
  Editor(const Plan& plan, const Target& target) : plan_(plan), target_(target), program_(*plan.program) {
    owner_.resize(program_.stages.size());
    readers_.resize(program_.stages.size());
    for (const KernelPlanRef& kernel : plan_.kernels) add(kernel, static_cast<double>(order_.size()));
  }

  Verdict apply(const Move& move) {
    Verdict verdict;
    if (move.kind == MoveKind::Inline || move.kind == MoveKind::FuseAt) close();
    if (move.kind == MoveKind::Inline)
      verdict = inline_everywhere(move);
    else if (move.kind == MoveKind::FuseAt)
      verdict = fuse(move);
    else
      verdict = edit(move);
    if (verdict.empty()) plan_.history = std::make_shared<History>(move, plan_.history);
    return verdict;
  }

  Plan take() {
    close();
    return std::move(plan_);
  }

private:
  void add(const KernelPlanRef& kernel, double order) {
    order_[kernel.get()] = order;
    for (int s : kernel->stages) owner_[static_cast<size_t>(s)] = kernel;
    for (int s : kernel->reads) readers_[static_cast<size_t>(s)].push_back(kernel);
  }

  void replace(const KernelPlanRef& old, KernelPlanRef made) {
    auto it = std::find(plan_.kernels.begin(), plan_.kernels.end(), old);
    const double order = order_.at(old.get());
    order_.erase(old.get());
    for (int s : old->stages)
      if (owner_[static_cast<size_t>(s)] == old) owner_[static_cast<size_t>(s)] = nullptr;
    for (int s : old->reads) std::erase(readers_[static_cast<size_t>(s)], old);
    if (!made) {
      plan_.kernels.erase(it);
      return;
    }
    add(made, order);
    *it = std::move(made);
  }

  /// The kernels that read a stage, in the order in which they run.
  std::vector<KernelPlanRef> readers_of(int stage) const {
    std::vector<KernelPlanRef> readers = readers_[static_cast<size_t>(stage)];
    std::sort(readers.begin(), readers.end(), [&](const KernelPlanRef& a, const KernelPlanRef& b) {
      return order_.at(a.get()) < order_.at(b.get());
    });
    return readers;
  }

  KernelPlanRef owner_of(std::string_view name) const {
    const int stage = stage_of_name(name);
    return stage < 0 || stage >= static_cast<int>(owner_.size()) ? nullptr
                                                                 : owner_[static_cast<size_t>(stage)];
  }

  Verdict edit(const Move& move) {
    const KernelPlanRef kernel = owner_of(move.names[0]);
    if (!kernel) return fmt::format("no kernel computes {}", move.names[0]);
    for (const std::string& name : move.names)
      if (stage_of_name(name) >= 0 && name.find('.') != std::string::npos && owner_of(name) != kernel)
        return fmt::format("{} and {} are not in one kernel", move.names[0], name);
    if (open_kernel_ != kernel) {
      close();
      open_ = draft_of(program_, *kernel);
      open_kernel_ = kernel;
    }
    Draft& draft = *open_;
    Verdict verdict;
    switch (move.kind) {
    case MoveKind::Split: verdict = split(draft, move); break;
    case MoveKind::Reorder: verdict = reorder(draft, move); break;
    case MoveKind::Unroll: verdict = unroll(draft, move); break;
    case MoveKind::Vectorise: verdict = vectorise(draft, move, target_); break;
    case MoveKind::Parallelise: verdict = parallelise(draft, move); break;
    case MoveKind::Bind: verdict = bind(draft, move, target_); break;
    case MoveKind::Stream: verdict = stream(draft, move); break;
    case MoveKind::PrefetchTile: verdict = prefetch_tile(draft, move, target_); break;
    case MoveKind::Prefetch: verdict = prefetch(draft, move); break;
    case MoveKind::Merge: verdict = merge(draft, move); break;
    case MoveKind::Border: verdict = border(draft, move); break;
    case MoveKind::Join: verdict = join(draft, move); break;
    case MoveKind::Carry: verdict = carry(draft, move); break;
    case MoveKind::Pack: verdict = pack(draft, move, target_); break;
    case MoveKind::Prepack: verdict = prepack(draft, move); break;
    case MoveKind::Accumulate: verdict = accumulate(draft, move); break;
    case MoveKind::StoreFirst: verdict = store_first(draft, move); break;
    case MoveKind::Winograd:
    case MoveKind::Strassen:
    case MoveKind::Innermost: verdict = "the graph is rewritten before all other moves"; break;
    case MoveKind::Inline:
    case MoveKind::FuseAt: throw InternalError("a graph move in the loop moves");
    }
    if (!verdict.empty()) return verdict;
    drop_idle_prefetches(draft); // at once, so that moves find the same loops one by one and in a list
    draft.moves.push_back(move);
    return {};
  }

  /// Loop moves on one kernel edit one draft; it becomes a kernel when something else is looked at.
  void close() {
    if (!open_) return;
    replace(open_kernel_, finish(std::move(*open_)));
    open_.reset();
    open_kernel_.reset();
  }

  Verdict inline_everywhere(const Move& move) {
    const int stage = stage_of_name(move.names[0]);
    const KernelPlanRef producer = owner_of(move.names[0]);
    if (!producer) return fmt::format("no kernel computes {}", move.names[0]);
    const lower::Stage& info = program_.stages[stage];
    // The producer must still have its own canonical nest, to be dropped.
    Draft rest = draft_of(program_, *producer);
    size_t dropped = 0;
    if (!info.is_output) {
      for (size_t i = 0; i < rest.body.size();) {
        size_t stores = 0, own = 0;
        ast::Block one;
        one.push_back(rest.body[i]);
        for_each_store(one, [&](ast::Store& store, const auto&) {
          ++stores;
          own += store.buffer->id == info.buffer->id;
        });
        if (own == stores && stores > 0) {
          rest.body.erase(rest.body.begin() + static_cast<long>(i));
          ++dropped;
        } else if (own) {
          return fmt::format("{} is fused with other stages", move.names[0]);
        } else {
          ++i;
        }
      }
      if (dropped != info.nests.size())
        return fmt::format("{} is not at the top level of its kernel", move.names[0]);
      std::erase(rest.stages, stage);
    } else {
      // It stays; what it is computed from must be there for whoever computes it again.
      Verdict hidden;
      ast::visit(rest.body, [&](const ast::Stmt& stmt, const auto&) {
        const auto* alloc = std::get_if<ast::Alloc>(&stmt.node);
        if (alloc && stage_of_name(alloc->buffer->name) >= 0 &&
            program_.stages[stage_of_name(alloc->buffer->name)].buffer->id == alloc->buffer->id)
          hidden = fmt::format("{} is fused with {}", alloc->buffer->name, move.names[0]);
      });
      if (!hidden.empty()) return hidden;
    }
    // Every kernel that reads it.
    std::vector<std::pair<KernelPlanRef, Draft>> changed;
    std::vector<KernelPlanRef> concerned = readers_of(stage);
    if (std::find(concerned.begin(), concerned.end(), producer) == concerned.end())
      concerned.insert(concerned.begin(), producer);
    for (const KernelPlanRef& kernel : concerned) {
      const bool self = kernel == producer;
      Draft draft = self ? rest : draft_of(program_, *kernel);
      if (self && draft.stages.empty()) {
        changed.emplace_back(kernel, std::move(draft));
        continue;
      }
      // The value is the canonical one: what was inlined into the producer is inlined again.
      std::vector<int> stages = producer->inlined;
      stages.push_back(stage);
      if (auto verdict = inline_stages(draft, std::move(stages)); !verdict.empty()) return verdict;
      if (auto verdict = see_alike(draft.body); !verdict.empty()) return verdict;
      draft.moves.push_back(move);
      changed.emplace_back(kernel, std::move(draft));
    }
    if (changed.empty() || (changed.size() == 1 && changed[0].first == producer && info.is_output &&
                            producer->stages.size() == 1))
      return fmt::format("nothing reads {}", move.names[0]);
    for (auto& [kernel, draft] : changed)
      replace(kernel, draft.stages.empty() ? nullptr : finish(std::move(draft)));
    return {};
  }

  Verdict fuse(const Move& move) {
    const int stage = stage_of_name(move.names[0]);
    const KernelPlanRef producer = owner_of(move.names[0]);
    if (!producer) return fmt::format("no kernel computes {}", move.names[0]);
    const std::string& where = move.names[1];
    const bool beside = where == "root" || where.find('.') == std::string::npos;
    KernelPlanRef consumer;
    if (where == "root") {
      for (const KernelPlanRef& kernel : readers_of(stage))
        if (kernel != producer && !consumer) consumer = kernel;
      if (!consumer) return fmt::format("no other kernel reads {}", move.names[0]);
    } else {
      consumer = owner_of(where);
      if (!consumer) return fmt::format("no kernel computes {}", where);
    }
    if (beside && consumer == producer) return fmt::format("{} is in the same kernel already", move.names[0]);
    if (!beside && program_.stages[stage].is_output)
      return fmt::format("{} is an output: it needs its whole buffer", move.names[0]);
    if (!beside)
      for (const KernelPlanRef& kernel : readers_of(stage))
        if (kernel != producer && kernel != consumer)
          return fmt::format("{} is also read by another kernel", move.names[0]);

    Draft merged = draft_of(program_, *consumer);
    if (consumer == producer) {
      if (auto verdict = fuse_at_loop(merged, merged.body, stage, move, target_); !verdict.empty())
        return verdict;
      merged.moves.push_back(move);
      replace(consumer, finish(std::move(merged)));
      return {};
    }
    if (producer->stages.size() + consumer->stages.size() > kMostStages)
      return fmt::format("a kernel of more than {} stages", kMostStages);
    if (between(producer, consumer))
      return fmt::format("a third kernel lies between those of {} and {}", move.names[0], where);
    Draft first = draft_of(program_, *producer);
    if (!beside)
      if (auto verdict = fuse_at_loop(merged, first.body, stage, move, target_); !verdict.empty())
        return verdict;
    const bool consumer_first = reaches(consumer, producer);
    if (consumer_first) std::swap(first, merged);
    Draft both{&program_,   first.stages,          first.inlined,
               first.moves, std::move(first.body), std::move(first.constants)};
    for (ast::Kernel& c : merged.constants) both.constants.push_back(std::move(c));
    for (int s : merged.stages) both.stages.push_back(s);
    for (int s : merged.inlined) both.inlined.push_back(s);
    for (const Move& m : merged.moves) both.moves.push_back(m);
    both.moves.push_back(move);
    for (ast::Stmt& stmt : merged.body) both.body.push_back(std::move(stmt));
    if (auto verdict = see_alike(both.body); !verdict.empty()) return verdict;
    KernelPlanRef made = finish(std::move(both));
    const auto position = [&](const KernelPlanRef& k) {
      return std::find(plan_.kernels.begin(), plan_.kernels.end(), k);
    };
    const bool producer_first = position(producer) < position(consumer);
    const KernelPlanRef& earlier = producer_first ? producer : consumer;
    const KernelPlanRef& later = producer_first ? consumer : producer;
    postpone_dependents(earlier, later, made);
    replace(earlier, nullptr);
    replace(later, std::move(made));
    return {};
  }

  /// The merged kernel takes the later place. Kernels between the two that read `earlier` are moved behind
  /// it.
  void postpone_dependents(const KernelPlanRef& earlier, const KernelPlanRef& later,
                           const KernelPlanRef& made) {
    auto& kernels = plan_.kernels;
    auto first = std::find(kernels.begin(), kernels.end(), earlier) + 1;
    const auto last = std::find(kernels.begin(), kernels.end(), later);
    std::set<int> ready_later(made->stages.begin(), made->stages.end());
    std::vector<KernelPlanRef> stay, move_behind;
    for (auto k = first; k != last; ++k) {
      const bool depends =
          std::any_of((*k)->reads.begin(), (*k)->reads.end(), [&](int s) { return ready_later.contains(s); });
      if (depends) ready_later.insert((*k)->stages.begin(), (*k)->stages.end());
      (depends ? move_behind : stay).push_back(*k);
    }
    auto out = std::copy(stay.begin(), stay.end(), first);
    *out++ = KernelPlanRef(later);
    std::copy(move_behind.begin(), move_behind.end(), out);
    // Behind the later one, before what follows it.
    const auto behind =
        std::find(kernels.begin(), kernels.end(), later) + 1 + static_cast<long>(move_behind.size());
    const double at = order_.at(later.get());
    const double gap = (behind == kernels.end() ? 1.0 : order_.at(behind->get()) - at) /
                       static_cast<double>(move_behind.size() + 1);
    for (size_t k = 0; k < move_behind.size(); ++k)
      order_[move_behind[k].get()] = at + gap * static_cast<double>(k + 1);
  }

  /// `to` reads, directly or not, something that `from` computes.
  bool reaches(const KernelPlanRef& from, const KernelPlanRef& to, bool directly_counts = true) const {
    const double earliest = order_.at(from.get());
    std::vector<KernelPlanRef> queue{to};
    std::set<const KernelPlan*> seen;
    while (!queue.empty()) {
      const KernelPlanRef at = queue.back();
      queue.pop_back();
      for (int s : at->reads) {
        const KernelPlanRef& source = owner_[static_cast<size_t>(s)];
        if (order_.at(source.get()) < earliest) continue; // it runs before, and can't wait for `from`
        if (source == from) {
          if (directly_counts || at != to) return true;
          continue;
        }
        if (seen.insert(source.get()).second) queue.push_back(source);
      }
    }
    return false;
  }
  bool between(const KernelPlanRef& a, const KernelPlanRef& b) const {
    return reaches(a, b, false) || reaches(b, a, false);
  }

  Plan plan_;
  const Target& target_;
  const lower::Program& program_;
  std::vector<KernelPlanRef> owner_;                    // by stage; null: inlined
  std::vector<std::vector<KernelPlanRef>> readers_;     // by stage
  std::unordered_map<const KernelPlan*, double> order_; // grows along plan_.kernels
  std::optional<Draft> open_;
  KernelPlanRef open_kernel_;
};

} // namespace

Plan initial_plan(std::shared_ptr<const lower::Program> program) {
  Plan plan;
  plan.program = program;
  plan.kernels.reserve(program->stages.size());
  for (const lower::Stage& stage : program->stages)
    plan.kernels.push_back(finish(draft_of_stage(*program, stage.id)));
  return plan;
}

Applied apply(const Plan& plan, const std::vector<Move>& moves, const Target& target) {
  Plan start = plan;
  auto move = moves.begin();
  for (; move != moves.end() && rewrites_graph(move->kind); ++move)
    if (Verdict verdict = rewrite_graph(start, *move); !verdict.empty())
      return {{}, to_string(*move) + ": " + verdict};
  Editor editor(start, target);
  for (; move != moves.end(); ++move)
    if (Verdict verdict = editor.apply(*move); !verdict.empty())
      return {{}, to_string(*move) + ": " + verdict};
  return {editor.take(), {}};
}

Applied apply(const Plan& plan, const Move& move, const Target& target) {
  return apply(plan, std::vector<Move>{move}, target);
}

Plan fuse_where_legal(const Plan& plan, const std::vector<Move>& fusions, const Target& target) {
  Editor editor(plan, target);
  for (const Move& move : fusions) editor.apply(move);
  return editor.take();
}

Plan replay(std::shared_ptr<const lower::Program> program, const std::vector<Move>& moves,
            const Target& target) {
  Applied applied = apply(initial_plan(std::move(program)), moves, target);
  if (!applied.plan) throw Error(ErrorKind::Schedule, applied.reason);
  return std::move(*applied.plan);
}

KernelPlanRef unscheduled(const lower::Program& program, const KernelPlan& scheduled) {
  Draft draft{&program, scheduled.stages, {}, {}, {}, {}};
  for (int s : scheduled.stages)
    for (ast::Stmt& stmt : draft_of_stage(program, s).body) draft.body.push_back(std::move(stmt));
  if (auto verdict = inline_stages(draft, scheduled.inlined); !verdict.empty())
    throw InternalError("an inlined stage can't be inlined: " + verdict);
  std::set<std::string> written;
  for (const ast::Param& p : scheduled.kernel.params)
    if (p.written) written.insert(p.buffer->name);
  return finish(std::move(draft),
                [&](int stage) { return written.contains(program.stages[stage].buffer->name); });
}

} // namespace lathe::search
