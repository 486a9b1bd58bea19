#include "search/features.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "search/dependence_map.hpp"
#include "search/op_cost.hpp"

namespace lathe::search {
namespace {

constexpr double kSymbolicSize = 256;
constexpr double kSmallTile = 0.5, kPlainLoop = 3; // more than its share of the work that a tail takes
constexpr double kMaskedForward = 24;
constexpr double kStoreForward = 5;         // cycles from a store to a load of the same address
constexpr double kDivisionInstructions = 3; // of a quotient or remainder by a constant

double clamp_size(Expr var) {
  return std::clamp(kSymbolicSize, static_cast<double>(var.lo()), static_cast<double>(var.hi()));
}

class Reader {
public:
  Reader(Features& out, const Target& target) : f_(out), target_(target) {}

  void read(const ast::Block& block) {
    const ast::Store* before = nullptr;
    for (const ast::Stmt& stmt : block) {
      const auto* store = std::get_if<ast::Store>(&stmt.node);
      if (const auto* loop = std::get_if<ast::For>(&stmt.node))
        is_hint(*loop) ? read_hint(std::get<ast::Prefetch>(loop->body[0].node)) : read_loop(*loop);
      else if (const auto* alloc = std::get_if<ast::Alloc>(&stmt.node))
        read_alloc(*alloc);
      else if (store)
        read_store(*store, before && !before->combine && before->buffer == store->buffer);
      else if (std::holds_alternative<ast::Barrier>(stmt.node))
        f_.barriers += executions();
      else
        read_hint(std::get<ast::Prefetch>(stmt.node));
      before = store;
    }
  }

private:
  enum class At { First, Middle, Last };

  /// A prefetch, or one under a condition.
  static bool is_hint(const ast::For& loop) {
    return loop.extent.lo() >= 0 && loop.extent.hi() <= 1 && loop.body.size() == 1 &&
           std::holds_alternative<ast::Prefetch>(loop.body[0].node);
  }
  void read_hint(const ast::Prefetch& hint) {
    Work& body = stack_.empty() ? f_.top : f_.loops[stack_.back()].body;
    body.loads += 1;
    body.other += 2;
    f_.buffers[static_cast<size_t>(buffer_index(hint.buffer.get()))].prefetched = true;
  }

  double executions() const {
    double n = 1;
    for (int l : stack_) n *= f_.loops[l].extent;
    return n;
  }

  int depth_of(Expr var) const {
    for (size_t d = stack_.size(); d-- > 0;)
      if (f_.loops[stack_[d]].loop->var == var) return static_cast<int>(d);
    return -1;
  }

  /// The value with every loop variable at its first, middle or last iteration.
  double value(Expr e, At at) const {
    switch (e.kind()) {
    case ExprKind::Const: return static_cast<double>(e.value());
    case ExprKind::Var: {
      if (e.id() < 0) return clamp_size(e);
      const int d = depth_of(e);
      if (at == At::First || d < 0) return 0;
      const double last = std::max(0.0, std::ceil(f_.loops[stack_[d]].extent) - 1);
      return at == At::Middle ? std::floor(last / 2) : last;
    }
    case ExprKind::Add: return value(e.lhs(), at) + value(e.rhs(), at);
    case ExprKind::Mul: return value(e.lhs(), at) * value(e.rhs(), at);
    case ExprKind::FloorDiv: return std::floor(value(e.lhs(), at) / std::max(1.0, value(e.rhs(), at)));
    case ExprKind::Mod: {
      const double b = std::max(1.0, value(e.rhs(), at)), a = value(e.lhs(), at);
      return a - b * std::floor(a / b);
    }
    case ExprKind::Min: return std::min(value(e.lhs(), at), value(e.rhs(), at));
    case ExprKind::Max: return std::max(value(e.lhs(), at), value(e.rhs(), at));
    case ExprKind::Lt: return value(e.lhs(), at) < value(e.rhs(), at);
    case ExprKind::Le: return value(e.lhs(), at) <= value(e.rhs(), at);
    case ExprKind::Eq: return value(e.lhs(), at) == value(e.rhs(), at);
    case ExprKind::And: return value(e.lhs(), at) != 0 && value(e.rhs(), at) != 0;
    }
    return 0;
  }

  /// Without shape variables: once the loops around are partitioned it is a constant.
  static bool is_known(Expr e) {
    std::vector<Expr> vars;
    collect_vars(e, vars);
    return std::all_of(vars.begin(), vars.end(), [](Expr v) { return v.id() >= 0; });
  }

  bool varies(Expr e) const {
    if (e.is_const()) return false;
    if (e.is_var()) return e.id() >= 0;
    return varies(e.lhs()) || varies(e.rhs());
  }

  /// Adds scale * (steps of e per step of each loop) to coefficients[depth]. Division and remainder count as
  /// their average slope.
  void add_strides(Expr e, double scale, double* coefficients) const {
    switch (e.kind()) {
    case ExprKind::Const: return;
    case ExprKind::Var:
      if (const int d = depth_of(e); d >= 0) coefficients[d] += scale;
      return;
    case ExprKind::Add:
      add_strides(e.lhs(), scale, coefficients);
      add_strides(e.rhs(), scale, coefficients);
      return;
    case ExprKind::Mul:
      if (!varies(e.lhs())) return add_strides(e.rhs(), scale * value(e.lhs(), At::First), coefficients);
      if (!varies(e.rhs())) return add_strides(e.lhs(), scale * value(e.rhs(), At::First), coefficients);
      add_strides(e.lhs(), scale * std::max(1.0, value(e.rhs(), At::Last)), coefficients);
      add_strides(e.rhs(), scale * std::max(1.0, value(e.lhs(), At::Last)), coefficients);
      return;
    case ExprKind::FloorDiv:
      return add_strides(e.lhs(), scale / std::max(1.0, value(e.rhs(), At::Last)), coefficients);
    default:
      add_strides(e.lhs(), scale, coefficients);
      if (e.kind() != ExprKind::Mod) add_strides(e.rhs(), scale, coefficients);
      return;
    }
  }

  uint64_t dependence(Expr e) const {
    if (e.is_const()) return 0;
    if (e.is_var()) {
      const int d = depth_of(e);
      return d < 0 ? 0 : uint64_t{1} << std::min(d, 63);
    }
    return dependence(e.lhs()) | dependence(e.rhs());
  }

  void read_alloc(const ast::Alloc& alloc) {
    made_at_[alloc.buffer->id] = stack_.size();
    read(alloc.body);
  }

  void read_loop(const ast::For& loop) {
    const int index = static_cast<int>(f_.loops.size());
    const int parent = stack_.empty() ? -1 : stack_.back();
    const double first = std::max(0.0, value(loop.extent, At::First));
    double extent = first, tail = 0;
    if (varies(loop.extent)) {
      const double last = std::max(0.0, value(loop.extent, At::Last));
      double deciders = 1;
      const uint64_t mask = dependence(loop.extent);
      for (size_t d = 0; d < stack_.size(); ++d)
        if (mask >> d & 1) deciders *= std::max(1.0, f_.loops[stack_[d]].extent);
      if (last != first) {
        tail = 1 / deciders;
        extent = first + (last - first) * tail;
      }
      // A region cut off at the beginning of its range, or at both ends, is whole in between.
      if (const double middle = value(loop.extent, At::Middle); middle > first) extent = middle;
    }
    const int accesses = static_cast<int>(f_.accesses.size());
    f_.loops.push_back(
        {&loop, parent, index + 1, static_cast<int>(stack_.size()), extent, tail, accesses, accesses, {}});
    stack_.push_back(index);
    read(loop.body);
    stack_.pop_back();
    f_.loops[index].end = static_cast<int>(f_.loops.size());
    f_.loops[index].end_access = static_cast<int>(f_.accesses.size());
  }

  int buffer_index(const ast::Buffer* buffer) {
    for (size_t i = 0; i < f_.buffers.size(); ++i)
      if (f_.buffers[i].buffer == buffer) return static_cast<int>(i);
    double elements = 1;
    for (const Expr& e : buffer->shape) elements *= std::max(1.0, value(e, At::First));
    f_.buffers.push_back({buffer, elements, size_of(buffer->dtype), false});
    return static_cast<int>(f_.buffers.size()) - 1;
  }

  /// Records the access with its strides in elements; returns the loops on which its address depends.
  uint64_t add_access(const ast::Buffer* buffer, const std::vector<Expr>& index, AccessInfo access) {
    access.buffer = buffer_index(buffer);
    access.loop = stack_.empty() ? -1 : stack_.back();
    access.strides = static_cast<uint32_t>(f_.strides.size());
    f_.strides.resize(f_.strides.size() + stack_.size(), 0.0);
    uint64_t mask = 0;
    double row = 1;
    for (size_t d = index.size(); d-- > 0;) {
      add_strides(index[d], row, f_.strides.data() + access.strides);
      mask |= dependence(index[d]);
      row *= std::max(1.0, value(buffer->shape[d], At::First));
    }
    f_.accesses.push_back(access);
    return mask;
  }

  // ---- the straight-line body around one store ----

  struct Tile {
    size_t begin = 0;    // depth of its first loop
    uint64_t inside = 0; // depths of its loops
    int vector = -1;     // depth of its vector loop
    double lanes = 1;
    bool partial = false;   // the vector loop never fills its lanes
    double tail_factor = 1; // what ragged executions add
  };

  Tile tile() const {
    Tile t;
    t.begin = stack_.size();
    while (t.begin > 0) {
      const LoopInfo& l = f_.loops[stack_[t.begin - 1]];
      if (l.loop->kind != ast::LoopKind::Unroll && l.loop->kind != ast::LoopKind::Vector) break;
      --t.begin;
      t.inside |= uint64_t{1} << std::min<size_t>(t.begin, 63);
      if (l.loop->kind == ast::LoopKind::Vector) {
        t.vector = static_cast<int>(t.begin);
        t.lanes = std::max(1, l.loop->width);
        t.partial = l.loop->extent.is_const() && l.loop->extent.value() < l.loop->width;
      }
      // The ragged remainder of an unrolled loop is a smaller tile of its own, or, where its size is not
      // known, a plain loop over memory.
      if (l.loop->kind == ast::LoopKind::Unroll && l.tail > 0)
        t.tail_factor *= 1 + (is_known(l.loop->extent) ? kSmallTile : kPlainLoop) * l.tail;
    }
    return t;
  }

  /// How many copies unrolling makes of what depends on the loops of `mask`.
  double copies(const Tile& t, uint64_t mask) const {
    double n = 1;
    for (size_t d = t.begin; d < stack_.size(); ++d)
      if (static_cast<int>(d) != t.vector && mask >> d & 1) n *= std::max(1.0, f_.loops[stack_[d]].extent);
    return n;
  }

  static bool has(uint64_t mask, int depth) { return depth >= 0 && (mask >> depth & 1); }

  double registers_for(const Tile& t, bool vector, DType dtype) const {
    if (!vector) return 1;
    const int bytes = is_float(dtype) ? std::max(4, size_of(dtype)) : size_of(dtype);
    return std::max(1.0, std::ceil(t.lanes * bytes / target_.vector_bytes));
  }

  struct Pressure {
    double accumulators = 0, operands = 0, largest = 0, windows = 0;
  };

  /// One memory access of the body: `n` copies of it.
  void count_access(const Tile& t, const AccessInfo& access, uint64_t mask, double n, DType dtype, Work& w,
                    double& slots) {
    const bool vector = has(mask, t.vector);
    const double parts = registers_for(t, vector, dtype);
    if (!vector) {
      slots += n;
      return;
    }
    const double stride = access.random ? 0.5 : f_.strides[access.strides + t.vector];
    if (std::abs(stride) == 1) {
      // A vector that isn't aligned to its size touches two cache lines now and then.
      const double line = 64.0 / size_of(dtype);
      double crossing = 1;
      for (size_t d = 0; d < stack_.size() && crossing == 1; ++d)
        if (static_cast<int>(d) != t.vector &&
            std::fmod(f_.strides[access.strides + d], std::min(line, t.lanes)) != 0)
          crossing = 1 + std::min(1.0, t.lanes / line) * 0.9;
      slots += n * parts * crossing;
      if (stride < 0) w.other += n * parts;
    } else {
      slots += n * t.lanes;
      w.other += n * t.lanes;
      w.arithmetic += n * t.lanes * 0.5; // inserts and extracts share a vector port
    }
  }

  /// A target promotes an array to registers if whole vectors of it are used, contiguous along the lanes.
  bool stays_in_registers(const Tile& t, const ast::Buffer& buffer, const AccessInfo& access,
                          uint64_t mask) const {
    if (buffer.scope != ast::Scope::Register || (mask & ~t.inside) != 0) return false;
    return !has(mask, t.vector) || std::abs(f_.strides[access.strides + t.vector]) == 1;
  }

  /// Elements of a register tile, one from each of as many whole vectors.
  bool is_column(const Tile& t, const ast::Buffer& buffer, const AccessInfo& access, uint64_t mask) const {
    if (buffer.scope != ast::Scope::Register || (mask & ~t.inside) != 0) return false;
    return has(mask, t.vector) && !t.partial && f_.strides[access.strides + t.vector] >= t.lanes;
  }

  void count_op(const Tile& t, const ast::Value& v, uint64_t mask, bool fused, Work& w) {
    const double n = copies(t, mask);
    const bool vector = has(mask, t.vector);
    // Comparisons work on registers of what they compare.
    const DType dtype = v.sources.empty() || v.dtype != DType::Bool ? v.dtype : v.sources[0]->dtype;
    const double parts = registers_for(t, vector, dtype);
    const OpCost cost = op_cost(v.op, dtype);
    if (!fused) w.arithmetic += n * parts * cost.instructions;
    w.operations += n * (vector ? t.lanes : 1) * (cost.instructions > 0 || cost.per_lane > 0 ? 1 : 0);
    if (v.op == Op::Index) w.other += n * parts;
    const double width = vector ? std::max(1.0, t.lanes * size_of(dtype) / parts / 16) : 1;
    w.divider += n * parts * cost.divider * width;
    w.divider += n * cost.per_lane * (vector ? t.lanes : 1);
  }

  /// Quotients and remainders that change from one iteration of the body to the next.
  void count_divisions(const Tile& t, Expr e, Work& w) const {
    if (e.is_const() || e.is_var()) return;
    const uint64_t mask = dependence(e);
    const uint64_t innermost = t.begin > 0 ? uint64_t{1} << std::min<size_t>(t.begin - 1, 63) : 0;
    if ((mask & (t.inside | innermost)) == 0) return;
    if (e.kind() == ExprKind::FloorDiv || e.kind() == ExprKind::Mod)
      w.other += kDivisionInstructions * copies(t, mask);
    count_divisions(t, e.lhs(), w);
    count_divisions(t, e.rhs(), w);
  }

  /// How many different elements the copies of a load read, where unrolled loops move along the same
  /// elements. A compiler loads such a window once and keeps all of it.
  double window_of(const Tile& t, const AccessInfo& access) const {
    double span = 1, step = 0;
    for (size_t d = t.begin; d < stack_.size(); ++d) {
      const double stride = std::abs(f_.strides[access.strides + d]);
      if (static_cast<int>(d) == t.vector || stride == 0) continue;
      span += (f_.loops[stack_[d]].extent - 1) * stride;
      step = step == 0 ? stride : std::min(step, stride);
    }
    return step == 0 ? span : 1 + (span - 1) / step;
  }

  uint64_t count_load(const Tile& t, const ast::Value& v, uint64_t source_mask, Work& w, Pressure& pressure) {
    const auto& attr = std::get<ast::LoadAttr>(v.attr);
    AccessInfo access{};
    access.random = v.op == Op::Gather;
    access.ahead = attr.ahead;
    uint64_t mask = source_mask | add_access(attr.buffer.get(), attr.index, access);
    const AccessInfo& added = f_.accesses.back();
    for (const Expr& guard : attr.guards) {
      const uint64_t guard_mask = dependence(guard);
      w.other += 2 * copies(t, guard_mask);
      mask |= guard_mask;
    }
    const double n = copies(t, mask);
    const bool vector = has(mask, t.vector);
    // A scalar load under a condition: the conditions joined, the address chosen, the value apart from its
    // use.
    if (!attr.guards.empty() && !vector) w.other += 6 * n;
    for (const Expr& e : attr.index) count_divisions(t, e, w);
    if (is_column(t, *attr.buffer, added, mask)) { // of a tile transposed by shuffles, which have one port
      const double parts = registers_for(t, vector, v.dtype);
      w.arithmetic += 2 * n * parts * std::log2(t.lanes);
      pressure.operands += n * parts;
      pressure.largest = std::max(pressure.largest, n * parts);
      return mask;
    }
    if (stays_in_registers(t, *attr.buffer, added, mask)) {
      pressure.accumulators = std::max(pressure.accumulators, n * registers_for(t, vector, v.dtype));
      return mask;
    }
    if (const double window = window_of(t, added); window < n && !vector && !access.random) {
      count_access(t, added, mask, window, v.dtype, w, w.loads);
      pressure.windows += window;
      return mask;
    }
    w.other += attr.ahead ? n : 0;
    w.loads += attr.ahead ? n : 0;
    count_access(t, added, mask, n, v.dtype, w, w.loads);
    if (access.random) w.other += 3 * n;
    const double live = n * registers_for(t, vector, v.dtype);
    pressure.operands += live;
    pressure.largest = std::max(pressure.largest, live);
    return mask;
  }

  uint64_t mask_of(const ast::ValueRef& v) {
    const uint64_t* mask = masks_.find(v.get());
    return mask ? *mask : 0;
  }

  uint64_t count_values(const Tile& t, const ast::ValueRef& root, const ast::Value* fused, Work& w,
                        Pressure& pressure) {
    pending_.assign(1, root.get());
    while (!pending_.empty()) {
      const ast::Value* v = pending_.back();
      if (masks_.find(v)) {
        pending_.pop_back();
        continue;
      }
      bool ready = true;
      for (const auto& s : v->sources)
        if (!masks_.find(s.get())) {
          pending_.push_back(s.get());
          ready = false;
        }
      if (!ready) continue;
      pending_.pop_back();
      uint64_t mask = 0;
      for (const auto& s : v->sources) mask |= mask_of(s);
      if (v->op == Op::Load || v->op == Op::Gather) {
        mask = count_load(t, *v, mask, w, pressure);
      } else {
        if (v->op == Op::Index) mask = dependence(std::get<Expr>(v->attr));
        count_op(t, *v, mask, v == fused, w);
      }
      masks_.insert(v, mask);
    }
    return mask_of(root);
  }

  /// `goes_on`: it stores to the same buffer as the store before it in its body, with which it then shares
  /// the values that both need.
  void read_store(const ast::Store& s, bool goes_on) {
    const Tile t = tile();
    Work w;
    Pressure pressure;
    if (!goes_on) masks_.clear();
    const bool fused = s.combine == Op::Add && s.value->op == Op::Mul && is_float(s.value->dtype);
    const uint64_t value_mask = count_values(t, s.value, fused ? s.value.get() : nullptr, w, pressure);
    uint64_t index_mask = 0;
    if (s.scatter) index_mask = count_values(t, s.scatter, nullptr, w, pressure);
    AccessInfo access{};
    access.store = true;
    access.combine = s.combine.has_value();
    access.streaming = s.streaming;
    access.random = static_cast<bool>(s.scatter);
    index_mask |= add_access(s.buffer.get(), s.index, access);
    const AccessInfo added = f_.accesses.back();

    const int body = t.begin > 0 ? static_cast<int>(t.begin) - 1 : -1;
    // A tile that is made anew in every iteration depends on nothing from the one before.
    const auto made = made_at_.find(s.buffer->id);
    const bool carried = body >= 0 && !has(index_mask, body) &&
                         (made == made_at_.end() || static_cast<int>(made->second) <= body);
    // Lanes that meet in one element are kept apart till the loop around them ends, and so are unrolled
    // copies.
    const bool across = s.combine && has(value_mask, t.vector) && !has(index_mask, t.vector);
    const bool apart =
        across && carried && !target_.groups && f_.loops[stack_[body]].loop->kind == ast::LoopKind::Serial;
    const bool in_registers = apart || stays_in_registers(t, *s.buffer, added, index_mask);
    const bool vector = has(index_mask, t.vector) || has(value_mask, t.vector);
    const double n = copies(t, index_mask), parts = registers_for(t, vector, s.value->dtype);
    if (in_registers)
      pressure.accumulators =
          std::max(pressure.accumulators, (apart ? copies(t, index_mask | value_mask) : n) * parts);
    else
      count_access(t, added, index_mask, n, s.buffer->dtype, w, w.stores);
    if (s.combine) {
      const OpCost cost = op_cost(*s.combine, s.value->dtype);
      const double steps = copies(t, index_mask | value_mask) /
                           std::max(1.0, n); // combines into one element, one after the other
      w.arithmetic += n * steps * parts * cost.instructions;
      w.operations += n * steps * (vector ? t.lanes : 1);
      if (!in_registers) {
        count_access(t, added, index_mask, n, s.buffer->dtype, w, w.loads);
        // A masked store is not forwarded to the load that follows: that one waits until it is written.
        if (t.partial && has(index_mask, t.vector)) w.divider += n * steps * kMaskedForward;
      }
      const double times = apart ? 1 / std::max(1.0, f_.loops[stack_[body]].extent) : steps;
      if (across) w.arithmetic += n * times * std::log2(t.lanes) * (cost.instructions + 1);
      if (carried) w.chain = (apart ? 1 : steps) * cost.latency + (in_registers ? 0 : kStoreForward);
    }
    if (t.vector >= 0 && f_.loops[stack_[t.vector]].loop->extent != Expr(static_cast<int64_t>(t.lanes)))
      w.other += 2 * n;
    w.registers = pressure.accumulators == 0
                      ? 0
                      : pressure.accumulators + pressure.operands - pressure.largest + pressure.windows + 1;
    add_work(t.begin > 0 ? f_.loops[stack_[t.begin - 1]].body : f_.top, w, t.tail_factor);
  }

  static void add_work(Work& body, const Work& w, double factor) {
    body.arithmetic += w.arithmetic * factor;
    body.loads += w.loads * factor;
    body.stores += w.stores * factor;
    body.other += w.other * factor;
    body.divider += w.divider * factor;
    body.operations += w.operations;
    body.chain = std::max(body.chain, w.chain * factor);
    body.registers = std::max(body.registers, w.registers);
  }

  Features& f_;
  const Target& target_;
  std::vector<int> stack_;
  std::map<int, size_t> made_at_; // scratch buffers by id: how many loops are around where they are made
  static thread_local DependenceMap masks_;
  static thread_local std::vector<const ast::Value*> pending_;
};

thread_local DependenceMap Reader::masks_;
thread_local std::vector<const ast::Value*> Reader::pending_;

} // namespace

void read_features(const ast::Kernel& kernel, const Target& target, Features& out) {
  out.loops.clear();
  out.accesses.clear();
  out.buffers.clear();
  out.strides.clear();
  out.top = {};
  out.barriers = 0;
  Reader(out, target).read(kernel.body);
}

double estimate(Expr e) {
  try {
    return static_cast<double>(evaluate(e, [](Expr var) { return static_cast<int64_t>(clamp_size(var)); }));
  } catch (const std::exception&) {
    return kSymbolicSize;
  }
}

} // namespace lathe::search
