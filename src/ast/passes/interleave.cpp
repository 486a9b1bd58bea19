// A core looks some hundred instructions ahead, and its schedulers hold fewer waiting instructions than that.
// The operations of a long function wait for each other. So of consecutive copies of the function, the core
// runs only one or two at a time. This pass lets the copies advance together: all copies do one operation
// before any copy does the next. Registers hold the results of the operations.
#include "ast/passes/interleave.hpp"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "ast/append.hpp"
#include "ast/copies.hpp"
#include "ast/passes/detour.hpp"

namespace lathe::ast {
namespace {

/// One vector of a long function: its loop, its store, and the values that get a register of their own.
struct Copy {
  const For* loop = nullptr;
  const Store* store = nullptr;
  std::vector<ValueRef> steps; // sources first
};

/// Whether the value may become a step, with its own register. Masks, integers, and products with powers of
/// two may not: they share one or two instructions with other values.
bool can_stand_alone(const Value& v) {
  if (v.dtype != DType::F32 || v.op == Op::Neg || v.op == Op::Bitcast) return false;
  if (v.op != Op::Load && !is_elementwise(v.op)) return false;
  return v.op != Op::Mul || v.sources[1]->op != Op::Bitcast;
}

std::optional<Copy> as_copy(const Stmt& stmt) {
  const auto* loop = std::get_if<For>(&stmt.node);
  if (!loop || loop->kind != LoopKind::Vector || !loop->extent.is_const(loop->width)) return {};
  const auto* store = loop->body.size() == 1 ? std::get_if<Store>(&loop->body[0].node) : nullptr;
  if (!store || store->combine || store->scatter) return {};
  Copy copy{loop, store, {}};
  const auto varies = [&](Expr e) { return depends_on(e, loop->var); };
  std::unordered_set<const Value*> varying;
  bool gathers = false;
  visit(store->value, [&](const ValueRef& v) {
    bool in_lanes = std::any_of(v->sources.begin(), v->sources.end(),
                                [&](const ValueRef& s) { return varying.contains(s.get()); });
    if (const auto* e = std::get_if<Expr>(&v->attr)) in_lanes = varies(*e);
    if (const auto* load = std::get_if<LoadAttr>(&v->attr))
      in_lanes |= std::any_of(load->index.begin(), load->index.end(), varies) ||
                  std::any_of(load->guards.begin(), load->guards.end(), varies);
    gathers |= v->op == Op::Gather;
    if (!in_lanes) return;
    varying.insert(v.get());
    if (v != store->value && can_stand_alone(*v)) copy.steps.push_back(v);
  });
  // A detour computes its values for few elements. As steps, every element would compute them.
  if (gathers || copy.steps.size() < kLeastSteps || !find_detours(store->value).empty()) return {};
  return copy;
}

/// Whether all copies may read before any of them writes.
bool are_independent(const std::vector<Copy>& copies) {
  std::unordered_set<int> written;
  for (const Copy& copy : copies) written.insert(copy.store->buffer->id);
  return std::all_of(copies.begin(), copies.end(), [&](const Copy& copy) {
    bool reads_other = false;
    visit(copy.store->value, [&](const ValueRef& v) {
      const auto* load = std::get_if<LoadAttr>(&v->attr);
      reads_other |= load && written.contains(load->buffer->id);
    });
    return !reads_other;
  });
}

class Interleaver {
public:
  explicit Interleaver(const Kernel& kernel) : copier_(kernel) {}

  Block block(const Block& in) {
    Block out;
    for (size_t i = 0; i < in.size();) {
      const std::vector<Copy> copies = side_by_side(in, i);
      if (copies.size() > 1) {
        out.push_back(together(copies));
        i += copies.size();
        continue;
      }
      out.push_back(with_body(in[i++], [&](const Block& body) { return block(body); }));
    }
    return out;
  }

private:
  static std::vector<Copy> side_by_side(const Block& in, size_t first) {
    std::vector<Copy> copies;
    for (size_t i = first; i < in.size() && copies.size() < kMostTogether; ++i) {
      std::optional<Copy> next = as_copy(in[i]);
      if (!next) break;
      if (!copies.empty() &&
          (next->steps.size() != copies[0].steps.size() || next->loop->width != copies[0].loop->width))
        break;
      copies.push_back(std::move(*next));
      if (are_independent(copies)) continue;
      copies.pop_back();
      break;
    }
    return copies;
  }

  Stmt together(const std::vector<Copy>& copies) {
    std::vector<BufferRef> results; // by copy
    std::vector<Block> written;
    for (const Copy& copy : copies) {
      const Shape shape{static_cast<int64_t>(copy.steps.size()), int64_t{copy.loop->width}};
      results.push_back(
          copier_.fresh_buffer(copy.store->buffer->name + ".s", DType::F32, shape, Scope::Register));
      written.push_back(in_steps(copy, results.back()));
    }
    Block body;
    for (size_t s = 0; s < written[0].size(); ++s)
      for (Block& copy : written) body.push_back(std::move(copy[s]));
    for (auto r = results.rbegin(); r != results.rend(); ++r) {
      Block around;
      around.push_back({Alloc{*r, std::move(body)}});
      body = std::move(around);
    }
    return std::move(body[0]);
  }

  /// The copy's steps, each a vector loop that stores its result in results[step], and then the copy's store.
  Block in_steps(const Copy& copy, const BufferRef& results) {
    const For& loop = *copy.loop;
    Block out;
    std::unordered_map<const Value*, ValueRef> now; // original value -> rewritten value
    const auto add = [&](Store store, Expr lane) {
      For lanes{lane, loop.extent, loop.kind, loop.width, {}};
      lanes.body.push_back({std::move(store)});
      out.push_back({std::move(lanes)});
    };
    visit(copy.store->value, [&](const ValueRef& v) {
      std::vector<ValueRef> sources;
      for (const ValueRef& s : v->sources) sources.push_back(now.at(s.get()));
      ValueRef made = v->sources == sources ? v : make_exact(v->op, v->dtype, std::move(sources));
      const auto step = static_cast<int64_t>(out.size());
      if (static_cast<size_t>(step) < copy.steps.size() && copy.steps[static_cast<size_t>(step)] == v) {
        const Expr lane = loop_var(copier_.fresh_loop_id(), loop.var.name(), loop.extent);
        Store result{results, {step, lane}, substitute(made, {{loop.var, lane}}), {}, {}};
        add(std::move(result), lane);
        made = load(results, {step, loop.var});
      }
      now.emplace(v.get(), std::move(made));
    });
    Store last = *copy.store;
    last.value = now.at(copy.store->value.get());
    add(std::move(last), loop.var);
    return out;
  }

  Copier copier_;
};

} // namespace

Kernel interleave_copies(const Kernel& kernel) {
  Kernel out = kernel;
  out.body = Interleaver(kernel).block(kernel.body);
  return out;
}

} // namespace lathe::ast
