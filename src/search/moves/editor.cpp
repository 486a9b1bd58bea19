#include "search/moves/editor.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_set>

#include <fmt/format.h>

#include "lathe/error.hpp"
#include "search/moves/join.hpp"

namespace lathe::search {

namespace {

/// Stages in the largest kernel that joining makes. Each move looks at a whole kernel, and a larger kernel is
/// no faster.
constexpr size_t kMostStages = 24;

/// Moves in a row from which on stages are inlined together. Fewer are inlined one by one: values are
/// simplified after each, which finds a little more.
constexpr size_t kMany = 64;

/// Whether the arguments are what the row of the move asks for, so that they can be handed to its function.
bool fits(const MoveRow& row, const Move& move) {
  size_t at = 0;
  for (const Parameter& parameter : row.parameters) {
    const auto is_one = [&] {
      return at < move.arguments.size() && move.arguments[at].index() == parameter.alternative;
    };
    if (!parameter.is_list) {
      if (!is_one()) return false;
      ++at;
    }
    while (parameter.is_list && is_one()) ++at;
  }
  return at == move.arguments.size();
}

/// The loop or scratch buffer that the argument names; an empty handle if it names neither.
Handle part_of_kernel(const Argument& argument) {
  if (const auto* loop = std::get_if<LoopHandle>(&argument)) return *loop;
  if (const auto* buffer = std::get_if<BufferHandle>(&argument))
    return buffer->is_stage() || buffer->is_input() ? Handle() : Handle(*buffer);
  return {};
}

/// The nests of one kernel and behind them those of the other, as one kernel.
Draft joined(Draft first, Draft second) {
  const auto append = [](auto& to, auto& from) {
    to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
  };
  append(first.constants, second.constants);
  append(first.stages, second.stages);
  append(first.inlined, second.inlined);
  append(first.moves, second.moves);
  append(first.body, second.body);
  first.handles.add(second.handles);
  return first;
}

} // namespace

Editor::Editor(const Plan& plan, const Target& target)
    : plan_(plan), target_(target), program_(*plan.program) {
  owner_.resize(program_.stages.size());
  readers_.resize(program_.stages.size());
  for (const KernelPlanRef& kernel : plan_.kernels) add(kernel, static_cast<double>(order_.size()));
}

Verdict Editor::apply(const Move& move) {
  const MoveRow& row = row_of(move.kind);
  if (!fits(row, move))
    throw InternalError("a move with arguments that it does not have: " + to_string(move));
  move_ = &move;
  for (const Argument& argument : move.arguments)
    if (const auto* stage = std::get_if<StageHandle>(&argument); stage && is_of_recurrence(stage->index))
      return fmt::format("{} is a result of a recurrence", stage->buffer().name());
  Verdict verdict;
  if (const auto* joins = std::get_if<Verdict (*)(Editor&, const Move&)>(&row.apply)) {
    close();
    verdict = (*joins)(*this, move);
  } else {
    verdict = edit(move);
  }
  if (verdict.empty()) plan_.history = std::make_shared<History>(move, plan_.history);
  return verdict;
}

Verdict Editor::apply(std::span<const Move> moves) {
  while (!moves.empty()) {
    const auto end = std::find_if_not(moves.begin(), moves.end(), [&](const Move& m) { return is_alone(m); });
    const auto alone = std::max<size_t>(1, static_cast<size_t>(end - moves.begin()));
    // One by one, if together is not legal, to find the move at fault.
    if (alone < kMany || !inline_together(moves.first(alone)).empty())
      for (const Move& move : moves.first(alone))
        if (auto verdict = apply(move); !verdict.empty()) return to_string(move) + ": " + verdict;
    moves = moves.subspan(alone);
  }
  return {};
}

Plan Editor::take() {
  close();
  return std::move(plan_);
}

void Editor::add(const KernelPlanRef& kernel, double order) {
  order_[kernel.get()] = order;
  for (int s : kernel->stages) owner_[static_cast<size_t>(s)] = kernel;
  for (int s : kernel->reads) readers_[static_cast<size_t>(s)].push_back(kernel);
}

void Editor::replace(const KernelPlanRef& old, KernelPlanRef made) {
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
std::vector<KernelPlanRef> Editor::readers_of(int stage) const {
  std::vector<KernelPlanRef> readers = readers_[static_cast<size_t>(stage)];
  std::sort(readers.begin(), readers.end(), [&](const KernelPlanRef& a, const KernelPlanRef& b) {
    return order_.at(a.get()) < order_.at(b.get());
  });
  return readers;
}

bool Editor::is_of_recurrence(int stage) const {
  const KernelPlanRef owner = owner_of(stage);
  return owner && owner->recurrence >= 0;
}

KernelPlanRef Editor::owner_of(int stage) const {
  return stage < 0 || stage >= static_cast<int>(owner_.size()) ? nullptr : owner_[static_cast<size_t>(stage)];
}

Verdict Editor::edit(const Move& move) {
  if (rewrites_graph(move.kind)) return "the graph is rewritten before all other moves";
  const KernelPlanRef kernel = owner_of(stage_of(move));
  if (!kernel) return fmt::format("no kernel computes {}", to_string(move.arguments[0]));
  for (const Argument& argument : move.arguments)
    if (const Handle part = part_of_kernel(argument); part && owner_of(part.stage()) != kernel)
      return fmt::format("{} and {} are not in one kernel", to_string(move.arguments[0]), part.name());
  if (open_kernel_ != kernel) {
    close();
    open_ = draft_of(program_, *kernel);
    open_kernel_ = kernel;
  }
  Draft& draft = *open_;
  if (Verdict verdict = search::apply(draft, move, target_); !verdict.empty()) return verdict;
  if (Verdict verdict = fits_groups(draft.body, target_); !verdict.empty()) return verdict;
  drop_idle_prefetches(draft); // at once: moves in a list then find the same loops as moves one by one
  draft.moves.push_back(move);
  return {};
}

/// Makes the open draft a kernel. Successive moves on one kernel edit one draft, which stays open until the
/// editor needs another kernel or the plan.
void Editor::close() {
  if (!open_) return;
  replace(open_kernel_, finish(std::move(*open_)));
  open_.reset();
  open_kernel_.reset();
}

/// Takes the stage's own nests out of its kernel's draft. They must lie at the top level and hold no other
/// stage.
Verdict Editor::drop_nests(Draft& producer, int stage) const {
  const lower::Stage& info = program_.stages[static_cast<size_t>(stage)];
  size_t dropped = 0;
  for (size_t i = 0; i < producer.body.size();) {
    size_t stores = 0, own = 0;
    ast::Block one;
    one.push_back(producer.body[i]);
    for_each_store(one, [&](ast::Store& store, const auto&) {
      ++stores;
      own += store.buffer->id == info.buffer->id;
    });
    if (own == stores && stores > 0) {
      producer.body.erase(producer.body.begin() + static_cast<long>(i));
      ++dropped;
    } else if (own) {
      return fmt::format("{} is fused with other stages", info.buffer->name);
    } else {
      ++i;
    }
  }
  if (dropped != info.nests.size())
    return fmt::format("{} is not at the top level of its kernel", info.buffer->name);
  std::erase(producer.stages, stage);
  return {};
}

/// Why an output can't be computed again elsewhere: its kernel keeps the buffer of a stage to itself. Empty
/// if the kernel keeps none.
Verdict Editor::hides_stages(const Draft& producer, int stage) const {
  Verdict hidden;
  ast::visit(producer.body, [&](const ast::Stmt& stmt, const auto&) {
    const auto* alloc = std::get_if<ast::Alloc>(&stmt.node);
    if (alloc && handle_of(program_, producer.handles, *alloc->buffer).is_stage())
      hidden = fmt::format("{} is fused with {}", alloc->buffer->name,
                           program_.stages[static_cast<size_t>(stage)].buffer->name);
  });
  return hidden;
}

Verdict Editor::inline_everywhere(StageHandle handle) {
  const int stage = handle.index;
  const std::string& name = handle.buffer().name();
  const KernelPlanRef producer = owner_of(stage);
  if (!producer) return fmt::format("no kernel computes {}", name);
  const bool is_output = program_.stages[static_cast<size_t>(stage)].is_output;
  Draft rest = draft_of(program_, *producer);
  if (auto verdict = is_output ? hides_stages(rest, stage) : drop_nests(rest, stage); !verdict.empty())
    return verdict;
  // Every kernel that reads it.
  std::vector<std::pair<KernelPlanRef, Draft>> changed;
  std::vector<KernelPlanRef> concerned = readers_of(stage);
  if (std::find(concerned.begin(), concerned.end(), producer) == concerned.end())
    concerned.insert(concerned.begin(), producer);
  for (const KernelPlanRef& kernel : concerned) {
    if (kernel->recurrence >= 0) continue; // reads the buffer, which stays
    const bool self = kernel == producer;
    Draft draft = self ? rest : draft_of(program_, *kernel);
    if (self && draft.stages.empty()) {
      changed.emplace_back(kernel, std::move(draft));
      continue;
    }
    // The inlined value is the canonical one, so stages inlined into the producer are inlined here, too.
    std::vector<int> stages = producer->inlined;
    stages.push_back(stage);
    const auto has_no_buffer = [&](int read) { return !owner_of(read); };
    if (auto verdict = inline_stages(draft, std::move(stages), has_no_buffer); !verdict.empty())
      return verdict;
    if (auto verdict = see_alike(draft.body); !verdict.empty()) return verdict;
    draft.moves.push_back(*move_);
    changed.emplace_back(kernel, std::move(draft));
  }
  if (changed.empty() ||
      (changed.size() == 1 && changed[0].first == producer && is_output && producer->stages.size() == 1))
    return fmt::format("nothing reads {}", name);
  for (auto& [kernel, draft] : changed)
    replace(kernel, draft.stages.empty() ? nullptr : finish(std::move(draft)));
  return {};
}

/// Whether the move inlines a stage whose kernel computes nothing else, so that the move removes the kernel.
bool Editor::is_alone(const Move& move) const {
  if (move.kind != MoveKind::Inline) return false;
  const KernelPlanRef kernel = owner_of(stage_of(move));
  return kernel && kernel != open_kernel_ && kernel->stages.size() == 1 &&
         !program_.stages[static_cast<size_t>(kernel->stages[0])].is_output;
}

namespace {

/// Those of the stages `through` that a kernel which reads `first` reads, or that these read.
std::vector<int> reached_through(const lower::Program& program, const std::set<int>& through,
                                 const std::vector<int>& first) {
  std::set<int> reached;
  std::vector<int> left = first;
  while (!left.empty()) {
    const int stage = left.back();
    left.pop_back();
    if (!through.contains(stage) || !reached.insert(stage).second) continue;
    const std::vector<int>& reads = program.stages[static_cast<size_t>(stage)].reads;
    left.insert(left.end(), reads.begin(), reads.end());
  }
  return {reached.begin(), reached.end()};
}

} // namespace

/// Inlines stages that are alone, as one by one, but each kernel that reads some of them is rewritten once:
/// a long chain that becomes one kernel takes time in proportion to its length.
Verdict Editor::inline_together(std::span<const Move> moves) {
  close();
  std::unordered_set<int> gone;
  std::set<int> inlined; // what was inlined before into those that go, too
  for (const Move& move : moves) {
    const int stage = stage_of(move);
    if (!gone.insert(stage).second) return "a stage is inlined twice";
    const std::vector<int>& before = owner_of(stage)->inlined;
    inlined.insert(stage);
    inlined.insert(before.begin(), before.end());
  }
  std::map<double, KernelPlanRef> readers; // that stay, by their order
  for (const int stage : gone)
    for (const KernelPlanRef& reader : readers_of(stage))
      if (!gone.contains(reader->stages[0])) readers.emplace(order_.at(reader.get()), reader);
  const auto has_no_buffer = [&](int read) { return !owner_of(read) || gone.contains(read); };
  std::vector<std::pair<KernelPlanRef, Draft>> changed;
  for (const auto& [order, kernel] : readers) {
    Draft draft = draft_of(program_, *kernel);
    const auto before = static_cast<long>(draft.inlined.size());
    if (auto verdict = inline_stages(draft, reached_through(program_, inlined, kernel->reads), has_no_buffer);
        !verdict.empty())
      return verdict;
    if (auto verdict = see_alike(draft.body); !verdict.empty()) return verdict;
    const std::unordered_set<int> here(draft.inlined.begin() + before, draft.inlined.end());
    std::copy_if(moves.begin(), moves.end(), std::back_inserter(draft.moves),
                 [&](const Move& move) { return here.contains(stage_of(move)); });
    changed.emplace_back(kernel, std::move(draft));
  }
  for (auto& [kernel, draft] : changed) replace(kernel, finish(std::move(draft)));
  for (const int stage : gone) replace(owner_of(stage), nullptr);
  for (const Move& move : moves) plan_.history = std::make_shared<History>(move, plan_.history);
  return {};
}

/// The kernel that the place names; for "root", the first other kernel that reads the stage. Null if there is
/// none.
KernelPlanRef Editor::consumer_at(int stage, const Place& place) const {
  if (place.loop) return owner_of(place.loop.stage());
  if (!place.is_root()) return owner_of(place.beside.index);
  const KernelPlanRef producer = owner_of(stage);
  for (const KernelPlanRef& kernel : readers_of(stage))
    if (kernel != producer) return kernel;
  return nullptr;
}

Verdict Editor::fuse(StageHandle handle, const Place& place, ast::Scope scope) {
  const int stage = handle.index;
  const std::string& name = handle.buffer().name();
  const std::string where = to_string(Argument(place));
  const KernelPlanRef producer = owner_of(stage), consumer = consumer_at(stage, place);
  if (!producer) return fmt::format("no kernel computes {}", name);
  if (!consumer && place.is_root()) return fmt::format("no other kernel reads {}", name);
  if (!consumer) return fmt::format("no kernel computes {}", where);
  if (consumer->recurrence >= 0) return fmt::format("{} is read by a recurrence", name);
  const bool beside = !place.loop;
  if (beside && consumer == producer) return fmt::format("{} is in the same kernel already", name);
  if (!beside && program_.stages[static_cast<size_t>(stage)].is_output)
    return fmt::format("{} is an output: it needs its whole buffer", name);
  if (!beside)
    for (const KernelPlanRef& kernel : readers_of(stage))
      if (kernel != producer && kernel != consumer)
        return fmt::format("{} is also read by another kernel", name);

  Draft merged = draft_of(program_, *consumer);
  if (consumer == producer) {
    if (auto verdict = fuse_at_loop(merged, merged.body, stage, place.loop, scope, target_); !verdict.empty())
      return verdict;
    if (auto verdict = fits_groups(merged.body, target_); !verdict.empty()) return verdict;
    merged.moves.push_back(*move_);
    replace(consumer, finish(std::move(merged)));
    return {};
  }
  if (producer->stages.size() + consumer->stages.size() > kMostStages)
    return fmt::format("a kernel of more than {} stages", kMostStages);
  if (between(producer, consumer))
    return fmt::format("a third kernel lies between those of {} and {}", name, where);
  Draft first = draft_of(program_, *producer);
  merged.handles.add(first.handles); // fuse_at_loop moves nests from one to the other
  if (!beside)
    if (auto verdict = fuse_at_loop(merged, first.body, stage, place.loop, scope, target_); !verdict.empty())
      return verdict;
  Draft both = reaches(consumer, producer) ? joined(std::move(merged), std::move(first))
                                           : joined(std::move(first), std::move(merged));
  both.moves.push_back(*move_);
  if (auto verdict = see_alike(both.body); !verdict.empty()) return verdict;
  if (auto verdict = fits_groups(both.body, target_); !verdict.empty()) return verdict;
  replace_both(producer, consumer, finish(std::move(both)));
  return {};
}

/// Replaces two kernels by `made`, which computes the stages of both, in the place of the later one.
void Editor::replace_both(const KernelPlanRef& one, const KernelPlanRef& other, KernelPlanRef made) {
  const auto position = [&](const KernelPlanRef& k) {
    return std::find(plan_.kernels.begin(), plan_.kernels.end(), k);
  };
  const bool in_order = position(one) < position(other);
  const KernelPlanRef& earlier = in_order ? one : other;
  const KernelPlanRef& later = in_order ? other : one;
  postpone_dependents(earlier, later, made);
  replace(earlier, nullptr);
  replace(later, std::move(made));
}

/// Moves the kernels between the two that depend on `earlier` behind `later`, because the merged kernel takes
/// the later place.
void Editor::postpone_dependents(const KernelPlanRef& earlier, const KernelPlanRef& later,
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
  // Their order lies between that of `later` and that of the kernel which follows.
  const auto behind =
      std::find(kernels.begin(), kernels.end(), later) + 1 + static_cast<long>(move_behind.size());
  const double at = order_.at(later.get());
  const double gap = (behind == kernels.end() ? 1.0 : order_.at(behind->get()) - at) /
                     static_cast<double>(move_behind.size() + 1);
  for (size_t k = 0; k < move_behind.size(); ++k)
    order_[move_behind[k].get()] = at + gap * static_cast<double>(k + 1);
}

/// Whether `to` reads something that `from` computes, directly (if that counts) or through other kernels.
bool Editor::reaches(const KernelPlanRef& from, const KernelPlanRef& to, bool directly_counts) const {
  const double earliest = order_.at(from.get());
  std::vector<KernelPlanRef> queue{to};
  std::set<const KernelPlan*> seen;
  while (!queue.empty()) {
    const KernelPlanRef at = queue.back();
    queue.pop_back();
    for (int s : at->reads) {
      const KernelPlanRef& source = owner_[static_cast<size_t>(s)];
      if (order_.at(source.get()) < earliest) continue; // it runs before `from`, so it can't read it
      if (source == from) {
        if (directly_counts || at != to) return true;
        continue;
      }
      if (seen.insert(source.get()).second) queue.push_back(source);
    }
  }
  return false;
}
bool Editor::between(const KernelPlanRef& a, const KernelPlanRef& b) const {
  return reaches(a, b, false) || reaches(b, a, false);
}

Verdict inline_stage(Editor& editor, StageHandle stage) { return editor.inline_everywhere(stage); }
Verdict fuse_at(Editor& editor, StageHandle producer, Place place, ast::Scope scope) {
  return editor.fuse(producer, place, scope);
}

} // namespace lathe::search
