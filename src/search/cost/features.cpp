#include "search/cost/features.hpp"

#include <algorithm>

#include "search/cost/loops_around.hpp"
#include "search/cost/work.hpp"

namespace lathe::search {
namespace {

class Reader {
public:
  Reader(Features& out, const ast::Block& block, const Target& target)
      : f_(out), target_(target), loops_(out, block) {}

  void read(const ast::Block& block) {
    const ast::Store* before = nullptr;
    for (const ast::Stmt& stmt : block) {
      const auto* store = std::get_if<ast::Store>(&stmt.node);
      if (const auto* loop = std::get_if<ast::For>(&stmt.node))
        is_hint(*loop) ? read_hint(std::get<ast::Prefetch>(loop->body[0].node)) : read_loop(*loop);
      else if (const auto* alloc = std::get_if<ast::Alloc>(&stmt.node))
        read_alloc(*alloc);
      else if (store)
        count_store(*store, before && !before->combine && before->buffer == store->buffer, target_, loops_);
      else if (std::holds_alternative<ast::Barrier>(stmt.node))
        f_.barriers += loops_.executions();
      else
        read_hint(std::get<ast::Prefetch>(stmt.node));
      before = store;
    }
  }

private:
  using At = LoopsAround::At;

  /// A prefetch, or one under a condition.
  static bool is_hint(const ast::For& loop) {
    return loop.extent.lo() >= 0 && loop.extent.hi() <= 1 && loop.body.size() == 1 &&
           std::holds_alternative<ast::Prefetch>(loop.body[0].node);
  }
  static bool is_condition(Expr extent) {
    const ExprKind kind = extent.kind();
    return kind == ExprKind::Lt || kind == ExprKind::Le || kind == ExprKind::Eq || kind == ExprKind::And;
  }
  void read_hint(const ast::Prefetch& hint) {
    Work& body = loops_.body(loops_.size());
    body.loads += 1;
    body.other += 2;
    BufferInfo& buffer = f_.buffers[static_cast<size_t>(loops_.buffer_index(hint.buffer.get()))];
    const double at = std::max(0.0, loops_.offset(*hint.buffer, hint.index));
    buffer.asked_at = buffer.is_prefetched() ? std::min(buffer.asked_at, at) : at;
  }

  void read_alloc(const ast::Alloc& alloc) {
    loops_.make(*alloc.buffer);
    read(alloc.body);
  }

  void read_loop(const ast::For& loop) {
    const int index = static_cast<int>(f_.loops.size());
    const double first = std::max(0.0, loops_.value(loop.extent, At::First));
    double extent = first, tail = 0;
    if (loops_.varies(loop.extent)) {
      const double last = std::max(0.0, loops_.value(loop.extent, At::Last));
      double deciders = 1;
      const uint64_t mask = loops_.dependence(loop.extent);
      for (size_t d = 0; d < loops_.size(); ++d)
        if (mask >> d & 1) deciders *= std::max(1.0, loops_[d].extent);
      if (is_condition(loop.extent)) { // of a first iteration, as moves make them
        extent = first / deciders + last * (1 - 1 / deciders);
      } else {
        if (last != first) {
          tail = 1 / deciders;
          extent = first + (last - first) * tail;
        }
        // A region cut off at the beginning of its range, or at both ends, is whole in between.
        if (const double middle = loops_.value(loop.extent, At::Middle); middle > first) extent = middle;
        // One that grows along several loops is not yet long in the middle of all.
        if (last > first) extent = std::max(extent, loops_.average_of_corners(loop.extent, mask));
      }
    }
    const int accesses = static_cast<int>(f_.accesses.size());
    f_.loops.push_back({&loop,
                        loops_.innermost(),
                        index + 1,
                        static_cast<int>(loops_.size()),
                        extent,
                        tail,
                        accesses,
                        accesses,
                        {},
                        is_condition(loop.extent)});
    loops_.enter(index);
    read(loop.body);
    loops_.leave();
    f_.loops[index].end = static_cast<int>(f_.loops.size());
    f_.loops[index].end_access = static_cast<int>(f_.accesses.size());
  }

  Features& f_;
  const Target& target_;
  LoopsAround loops_;
};

} // namespace

int Features::loop_ahead(const AccessInfo& a) const {
  const double ahead = buffers[static_cast<size_t>(a.buffer)].asked_at - a.offset;
  for (int l = a.loop; l >= 0 && ahead > 0; l = loops[l].parent)
    if (stride(a, l) == ahead) return l;
  return -1;
}

void read_features(const ast::Kernel& kernel, const Target& target, Features& out) {
  out.loops.clear();
  out.accesses.clear();
  out.buffers.clear();
  out.strides.clear();
  out.runs.clear();
  out.top = {};
  out.barriers = 0;
  Reader(out, kernel.body, target).read(kernel.body);
}

} // namespace lathe::search
