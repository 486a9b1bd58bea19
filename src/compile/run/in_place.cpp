#include "compile/run/in_place.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include <unordered_map>

#include "ast/flat_index.hpp"
#include "ast/values.hpp"

namespace lathe::pipeline {
namespace {

using ast::Block;
using ast::BufferRef;
using ast::For;
using ast::LoadAttr;
using ast::Store;
using ast::ValueRef;

Expr place_of(const LoadAttr& load) { return ast::flat_index(*load.buffer, load.index); }
Expr place_of(const Store& store) { return ast::flat_index(*store.buffer, store.index); }

/// Whether the store only copies the element of buffer `id` at its own place.
bool copies_own_element(const Store& store, int id) {
  if (store.scatter || store.combine || store.value->op != Op::Load) return false;
  const auto& load = std::get<LoadAttr>(store.value->attr);
  return load.buffer->id == id && load.guards.empty() && place_of(load) == place_of(store);
}

/// What a loop adds to a place: a multiple of its variable.
struct Digit {
  int64_t stride, largest; // largest: value of the variable
  Expr var;
};

/// Whether the digits make each number once. `digits` ascend by stride.
bool are_distinct(const std::vector<Digit>& digits) {
  int64_t reach = 0; // the largest sum of the smaller digits
  Expr smaller = 0;  // that sum
  for (const Digit& digit : digits) {
    // The two loops of a split reach as far as the loop that was split, which may be less than each by
    // itself.
    if (digit.stride <= reach && proves_lt(smaller, digit.stride)) reach = digit.stride - 1;
    int64_t own;
    if (digit.stride <= reach || __builtin_mul_overflow(digit.stride, digit.largest, &own) ||
        __builtin_add_overflow(reach, own, &reach))
      return false;
    smaller = smaller + digit.var * digit.stride;
  }
  return true;
}

/// Whether no two iterations of the loops store at one place: the place is a number whose digits are the
/// loops' variables.
bool stores_each_once(const Store& store, const std::vector<const For*>& loops) {
  if (store.scatter || store.combine) return false;
  const Expr place = place_of(store);
  std::vector<Digit> digits;
  for (const For* loop : loops) {
    if (loop->extent.hi() <= 1) continue;
    const auto stride = stride_of(place, loop->var);
    if (!stride || !stride->is_const() || stride->value() <= 0) return false; // no loop stores backwards
    digits.push_back({stride->value(), loop->extent.hi() - 1, loop->var});
  }
  std::sort(digits.begin(), digits.end(), [](const Digit& a, const Digit& b) { return a.stride < b.stride; });
  return are_distinct(digits);
}

/// A kernel that reads `old` and writes `next`, and the proof that both may be one memory.
class Writer {
public:
  Writer(const ast::Kernel& kernel, const BufferRef& old, const BufferRef& next)
      : kernel_(kernel), old_(old), next_(next) {
    walk(kernel.body);
  }

  /// The kernel over one memory; nothing where that may be wrong.
  std::optional<ast::Kernel> in_one_memory() const {
    for (const size_t nest : copies_)
      if (nest >= first_write_) return {};
    for (const Read& read : reads_)
      if (!has_index_in_next(read) || (read.nest >= first_write_ && !comes_before_the_write(read))) return {};
    return joined();
  }

private:
  struct Site {
    size_t nest;
    const Store* store;
    const For* loop; // the innermost around it
    size_t position; // among all stores
  };
  struct Write : Site {
    bool each_once;
  };
  struct Read : Site {
    const LoadAttr* load;
    bool gathers;
  };

  /// Nests are counted in the order in which they run: an allocation at the top is no nest.
  void walk(const Block& block) {
    for (const ast::Stmt& stmt : block) {
      if (const auto* alloc = std::get_if<ast::Alloc>(&stmt.node)) {
        walk(alloc->body);
        continue;
      }
      if (loops_.empty()) ++nest_;
      if (const auto* loop = std::get_if<For>(&stmt.node)) {
        loops_.push_back(loop);
        walk(loop->body);
        loops_.pop_back();
      } else if (const auto* store = std::get_if<Store>(&stmt.node)) {
        add(*store);
      }
    }
  }

  void add(const Store& store) {
    const Site here{nest_, &store, loops_.empty() ? nullptr : loops_.back(), position_++};
    if (store.buffer->id == next_->id) {
      if (copies_own_element(store, old_->id)) {
        copies_.push_back(nest_);
        return;
      }
      first_write_ = std::min(first_write_, nest_);
      writes_.push_back({here, stores_each_once(store, loops_)});
    }
    ast::ValueVisitor visit([&](const ValueRef& v) {
      if (v->op != Op::Load && v->op != Op::Gather) return;
      const auto& load = std::get<LoadAttr>(v->attr);
      if (load.buffer->id == old_->id) reads_.push_back({here, &load, v->op == Op::Gather});
      if (load.buffer->id == next_->id) next_reads_.insert(nest_);
    });
    visit(store.value);
    visit(store.scatter);
  }

  bool has_index_in_next(const Read& read) const {
    return read.gathers || next_->shape == old_->shape || next_->shape.size() == 1;
  }
  std::vector<Expr> index_in_next(const std::vector<Expr>& index) const {
    if (next_->shape == old_->shape) return index;
    return delinearise(ast::flat_index(*old_, index), next_->shape);
  }

  /// Whether each element is read before the one statement of the nest that writes it does so: by that
  /// statement, or by an earlier one of the same iteration. No other statement of the nest may read the new
  /// elements, which would be the same loads as those of the old ones.
  bool comes_before_the_write(const Read& read) const {
    const Write* writer = nullptr;
    for (const Write& write : writes_) {
      if (write.nest != read.nest) continue;
      if (writer || !write.each_once) return false;
      writer = &write;
    }
    return read.nest == first_write_ && !read.gathers && !next_reads_.contains(read.nest) &&
           read.loop == writer->loop && read.position <= writer->position &&
           place_of(*read.load) == place_of(*writer->store);
  }

  /// `old` becomes `next`. The elements that would be copied to themselves are left alone.
  ast::Kernel joined() const {
    ast::Rewriter rewriter;
    rewriter.on_value = [&](const ValueRef& v) {
      if (v->op != Op::Load && v->op != Op::Gather) return v;
      const auto& load = std::get<LoadAttr>(v->attr);
      if (load.buffer->id != old_->id) return v;
      if (v->op == Op::Gather) return ast::gather(next_, v->sources[0], load.guards);
      return ast::load(next_, index_in_next(load.index), load.guards, load.ahead, load.lanes);
    };
    rewriter.on_stmt = [&](ast::Stmt stmt) {
      const auto* store = std::get_if<Store>(&stmt.node);
      const auto* loop = std::get_if<For>(&stmt.node);
      const auto* alloc = std::get_if<ast::Alloc>(&stmt.node);
      const bool is_idle = (loop && loop->body.empty()) || (alloc && alloc->body.empty()) ||
                           (store && store->buffer->id == next_->id && copies_own_element(*store, next_->id));
      Block kept;
      if (is_idle) return kept;
      const auto* hint = std::get_if<ast::Prefetch>(&stmt.node);
      if (hint && hint->buffer->id == old_->id)
        kept.push_back({ast::Prefetch{next_, index_in_next(hint->index)}});
      else
        kept.push_back(std::move(stmt));
      return kept;
    };
    ast::Kernel out = kernel_;
    out.body = ast::rewrite(kernel_.body, rewriter);
    return out;
  }

  const ast::Kernel& kernel_;
  const BufferRef old_, next_;
  std::vector<const For*> loops_; // around the statement that walk() looks at
  size_t nest_ = 0, position_ = 0;
  std::vector<size_t> copies_; // nests
  std::vector<Write> writes_;
  std::vector<Read> reads_;
  std::set<size_t> next_reads_; // nests that read `next`
  size_t first_write_ = SIZE_MAX;
};

/// The buffer as the kernel has it, which moves may have given another shape; null if it has none of this id.
BufferRef parameter(const ast::Kernel& kernel, int id) {
  for (const ast::Param& p : kernel.params)
    if (p.buffer->id == id) return p.buffer;
  return nullptr;
}

bool writes(const search::KernelPlan& plan, int buffer) {
  return std::any_of(plan.kernel.params.begin(), plan.kernel.params.end(),
                     [&](const ast::Param& p) { return p.buffer->id == buffer && p.written; });
}

/// The kernel plan with another kernel, which no longer has the parameter.
search::KernelPlanRef without_parameter(const search::KernelPlan& plan, ast::Kernel kernel, int buffer) {
  auto out = std::make_shared<search::KernelPlan>(plan);
  out->kernel = std::move(kernel);
  for (size_t p = out->kernel.params.size(); p-- > 0;) {
    if (out->kernel.params[p].buffer->id != buffer) continue;
    out->kernel.params.erase(out->kernel.params.begin() + static_cast<std::ptrdiff_t>(p));
    out->is_constant.erase(out->is_constant.begin() + static_cast<std::ptrdiff_t>(p));
  }
  out->hash = structural_hash(out->kernel);
  return out;
}

class Planner {
public:
  explicit Planner(search::Plan plan) : plan_(std::move(plan)), later_(plan_.kernels.size()) {
    std::unordered_map<int, size_t> owner; // by stage
    for (size_t k = 0; k < plan_.kernels.size(); ++k)
      for (const int stage : plan_.kernels[k]->stages) owner[stage] = k;
    for (size_t k = 0; k < plan_.kernels.size(); ++k)
      for (const int stage : plan_.kernels[k]->reads)
        if (const auto at = owner.find(stage); at != owner.end() && at->second != k)
          later_[at->second].insert(k);
  }

  bool add(const Overwrite& overwrite) {
    const BufferRef next = output(overwrite.output);
    if (!next || !taken_.insert(next->id).second) return false;
    const BufferRef old = input(overwrite.input);
    if (!old) return true; // nothing reads the input
    std::optional<size_t> writer;
    for (size_t k = 0; k < plan_.kernels.size(); ++k) {
      if (!writes(*plan_.kernels[k], next->id)) continue;
      if (writer) return false;
      writer = k;
    }
    return writer && put_over(*writer, old, next);
  }

  search::Plan take() {
    std::vector<search::KernelPlanRef> ordered;
    const std::vector<size_t> order_now = order(later_).value();
    for (const size_t k : order_now) ordered.push_back(plan_.kernels[k]);
    plan_.kernels = std::move(ordered);
    return std::move(plan_);
  }

private:
  using Followers = std::vector<std::set<size_t>>; // by kernel: those that run after it

  BufferRef input(const std::string& name) const {
    for (const lower::InputBuffer& in : plan_.program->inputs)
      if (const auto& attr = std::get<graph::InputAttr>(in.node->attr); !attr.data && attr.name == name)
        return in.buffer;
    return nullptr;
  }
  BufferRef output(const std::string& name) const {
    for (const lower::OutputBuffer& out : plan_.program->outputs)
      if (out.name == name) return plan_.program->stages[static_cast<size_t>(out.stage)].buffer;
    return nullptr;
  }

  bool put_over(size_t writer, const BufferRef& old, const BufferRef& next) {
    const search::KernelPlan& kernel = *plan_.kernels[writer];
    Followers later = later_;
    for (size_t k = 0; k < plan_.kernels.size(); ++k)
      if (k != writer && parameter(plan_.kernels[k]->kernel, old->id)) later[k].insert(writer);
    if (!order(later)) return false;
    if (const BufferRef read = parameter(kernel.kernel, old->id)) {
      if (kernel.recurrence >= 0) return false;
      std::optional<ast::Kernel> joined =
          Writer(kernel.kernel, read, parameter(kernel.kernel, next->id)).in_one_memory();
      if (!joined) return false;
      plan_.kernels[writer] = without_parameter(kernel, std::move(*joined), old->id);
    }
    later_ = std::move(later);
    return true;
  }

  /// The kernels in an order that keeps `later`, as near to the present one as can be; nothing if there is
  /// none.
  static std::optional<std::vector<size_t>> order(const Followers& later) {
    std::vector<size_t> waits(later.size()), out;
    for (const auto& followers : later)
      for (const size_t k : followers) ++waits[k];
    std::set<size_t> ready;
    for (size_t k = 0; k < waits.size(); ++k)
      if (waits[k] == 0) ready.insert(k);
    while (!ready.empty()) {
      const size_t next = *ready.begin();
      ready.erase(ready.begin());
      out.push_back(next);
      for (const size_t k : later[next])
        if (--waits[k] == 0) ready.insert(k);
    }
    return out.size() == later.size() ? std::optional(out) : std::nullopt;
  }

  search::Plan plan_;
  Followers later_;
  std::set<int> taken_; // outputs
};

} // namespace

InPlace in_place(search::Plan plan, const std::vector<Overwrite>& overwrites) {
  Planner planner(std::move(plan));
  InPlace out;
  for (const Overwrite& overwrite : overwrites) out.done.push_back(planner.add(overwrite));
  out.plan = planner.take();
  return out;
}

} // namespace lathe::pipeline
