#include "compile/measure/bounded_kernel.hpp"

#include <algorithm>
#include <optional>
#include <unordered_map>

#include <fmt/format.h>

#include "compile/front/shape_values.hpp"
#include "lathe/error.hpp"
#include "view/expr_node.hpp"

namespace lathe::pipeline {
namespace {

struct Step { // register target = lhs kind rhs
  ExprKind kind;
  int target, lhs, rhs;
};

struct LlvmInstruction {
  Op op;
  DType dtype, from; // of the result; of the last operand
  int sources[3] = {-1, -1, -1};
  int target = 0;
  int buffer = -1;                // of Load and Gather
  std::vector<int> index, guards; // registers
  Bounded value;                  // of Const
};

/// One store with the loops around it. The requested element fixes the variables that are a dimension of the
/// index; the other loops run.
struct Definition {
  const ast::Store* store = nullptr;
  std::vector<const ast::For*> loops;
  bool by_element = true; // false: only all elements together can be computed
  struct Dimension {
    int variable = -1; // register of the loop that runs along it
    int64_t at = 0;    // the index of a constant dimension
  };
  std::vector<Dimension> dimensions;
  struct Run {
    int variable, extent; // registers
  };
  std::vector<Run> runs;
  std::vector<std::vector<Step>> steps; // [0] once an element, [k + 1] at each iteration of runs[k]
  std::vector<LlvmInstruction> instructions;
  int value = -1, scatter = -1; // slots
  std::vector<int> index;       // registers, if not by element
  std::vector<int64_t> registers;
  std::vector<Bounded> slots;
};

struct BufferState {
  const ast::Buffer* buffer = nullptr;
  const unsigned char* data = nullptr; // of inputs
  std::vector<int64_t> shape;
  int64_t elements = 1;
  std::vector<Definition> definitions;
  bool is_remembered = true; // false: an element is cheap, and read in one place
  std::unordered_map<int64_t, Bounded> known;
  std::optional<std::vector<Bounded>> all; // set if the definitions are not by element
};

constexpr size_t kMostKnown = size_t{1} << 18; // remembered elements of a buffer; then all are forgotten

/// Turns a store's Exprs and values into steps and instructions.
class Compiler {
public:
  Compiler(const ShapeValues& values, const std::unordered_map<const ast::Buffer*, int>& buffers,
           Definition& to)
      : values_(values), buffers_(buffers), to_(to) {}

  void compile(const std::vector<Expr>& shape_vars, bool by_element) {
    to_.steps.emplace_back();
    for (const Expr var : shape_vars) set(var, values_.evaluate(var));
    std::vector<const ast::For*> running;
    for (const ast::For* loop : to_.loops) {
      const auto& index = to_.store->index;
      if (by_element && std::find(index.begin(), index.end(), loop->var) != index.end())
        places_[loop->var.node()] = {new_register(), 0};
      else
        running.push_back(loop);
    }
    for (const ast::For* loop : running) {
      const int extent = place(loop->extent).reg;
      to_.steps.emplace_back();
      places_[loop->var.node()] = {new_register(), static_cast<int>(to_.steps.size()) - 1};
      to_.runs.push_back({places_[loop->var.node()].reg, extent});
    }
    for (const Expr e : to_.store->index) {
      to_.dimensions.push_back({by_element && e.is_var() ? place(e).reg : -1, e.is_const() ? e.value() : 0});
      if (!by_element) to_.index.push_back(place(e).reg);
    }
    to_.value = slot_of(to_.store->value);
    if (to_.store->scatter) to_.scatter = slot_of(to_.store->scatter);
  }

private:
  struct Place {
    int reg = -1, level = 0;
  };
  int new_register() {
    to_.registers.push_back(0);
    return static_cast<int>(to_.registers.size()) - 1;
  }
  void set(Expr e, int64_t value) {
    places_[e.node()] = {new_register(), 0};
    to_.registers.back() = value;
  }
  Place place(Expr e) {
    if (const auto it = places_.find(e.node()); it != places_.end()) return it->second;
    if (e.is_const()) {
      set(e, e.value());
      return places_[e.node()];
    }
    if (e.is_var()) throw InternalError(fmt::format("bounds: variable {} is not in scope", e.name()));
    const Place lhs = place(e.lhs()), rhs = place(e.rhs());
    const Place out{new_register(), std::max(lhs.level, rhs.level)};
    to_.steps[static_cast<size_t>(out.level)].push_back({e.kind(), out.reg, lhs.reg, rhs.reg});
    return places_[e.node()] = out;
  }
  int slot_of(const ast::ValueRef& root) {
    ast::visit(root, [&](const ast::ValueRef& v) {
      if (!slots_.contains(v.get())) slots_[v.get()] = add(*v);
    });
    return slots_.at(root.get());
  }
  int add(const ast::Value& v) {
    LlvmInstruction in{};
    in.op = v.op;
    in.dtype = v.dtype;
    in.from = v.sources.empty() ? v.dtype : v.sources.back()->dtype;
    for (size_t k = 0; k < v.sources.size(); ++k) in.sources[k] = slots_.at(v.sources[k].get());
    if (v.op == Op::Const) in.value = bounded(std::get<Scalar>(v.attr));
    if (v.op == Op::Index) in.index = {place(std::get<Expr>(v.attr)).reg};
    if (v.op == Op::Load || v.op == Op::Gather) {
      const auto& attr = std::get<ast::LoadAttr>(v.attr);
      in.buffer = buffers_.at(attr.buffer.get());
      for (const Expr e : attr.index) in.index.push_back(place(e).reg);
      for (const Expr e : attr.guards) in.guards.push_back(place(e).reg);
    }
    in.target = static_cast<int>(to_.slots.size());
    to_.slots.emplace_back();
    to_.instructions.push_back(std::move(in));
    return static_cast<int>(to_.slots.size()) - 1;
  }

  const ShapeValues& values_;
  const std::unordered_map<const ast::Buffer*, int>& buffers_;
  Definition& to_;
  std::unordered_map<const ExprNode*, Place> places_;
  std::unordered_map<const ast::Value*, int> slots_;
};

/// Returns whether each dimension of the index is a loop's variable or constant, and no variable is in two.
bool is_by_element(const ast::Store& store, const std::vector<const ast::For*>& loops) {
  if (store.scatter) return false;
  for (size_t d = 0; d < store.index.size(); ++d) {
    const Expr e = store.index[d];
    if (e.is_const()) continue;
    const bool is_loop =
        std::any_of(loops.begin(), loops.end(), [&](const ast::For* l) { return l->var == e; });
    if (!is_loop || std::count(store.index.begin(), store.index.end(), e) > 1) return false;
  }
  return true;
}

int64_t computed(ExprKind kind, int64_t a, int64_t b) {
  switch (kind) {
  case ExprKind::Add: return a + b;
  case ExprKind::Mul: return a * b;
  case ExprKind::FloorDiv: return b == 0 ? 0 : floor_quotient(a, b);
  case ExprKind::Mod: return b == 0 ? 0 : floor_remainder(a, b);
  case ExprKind::Min: return std::min(a, b);
  case ExprKind::Max: return std::max(a, b);
  case ExprKind::Lt: return a < b;
  case ExprKind::Le: return a <= b;
  case ExprKind::Eq: return a == b;
  case ExprKind::And: return a && b;
  case ExprKind::Const:
  case ExprKind::Var: break;
  }
  throw InternalError("bounds: no operation");
}

} // namespace

struct BoundedKernel::Machine {
  std::vector<BufferState> buffers; // parameters first
  int64_t steps_left = 0;

  Machine(const ast::Kernel& kernel, const std::vector<const void*>& inputs,
          const std::vector<int64_t>& shape_values) {
    ShapeValues values(kernel.shape_vars);
    for (size_t k = 0; k < shape_values.size(); ++k)
      values.bind(kernel.shape_vars[k], shape_values[k], "bounds");
    std::unordered_map<const ast::Buffer*, int> places;
    const auto declare = [&](const ast::Buffer& buffer, const void* data) {
      places[&buffer] = static_cast<int>(buffers.size());
      BufferState& state = buffers.emplace_back();
      state.buffer = &buffer;
      state.data = static_cast<const unsigned char*>(data);
      state.shape = values.sizes(buffer.shape);
      for (const int64_t size : state.shape) state.elements *= size;
    };
    for (size_t k = 0; k < kernel.params.size(); ++k) declare(*kernel.params[k].buffer, inputs[k]);
    ast::visit(kernel.body, [&](const ast::Stmt& stmt, const auto&) {
      if (const auto* alloc = std::get_if<ast::Alloc>(&stmt.node)) declare(*alloc->buffer, nullptr);
    });
    ast::visit(kernel.body, [&](const ast::Stmt& stmt, const std::vector<const ast::For*>& loops) {
      const auto* store = std::get_if<ast::Store>(&stmt.node);
      if (!store) return;
      BufferState& state = buffers[static_cast<size_t>(places.at(store->buffer.get()))];
      Definition& made = state.definitions.emplace_back();
      made.store = store;
      made.loops = loops;
    });
    for (BufferState& state : buffers) {
      const bool by_element =
          std::all_of(state.definitions.begin(), state.definitions.end(),
                      [](const Definition& d) { return is_by_element(*d.store, d.loops); });
      for (Definition& definition : state.definitions) {
        definition.by_element = by_element;
        Compiler(values, places, definition).compile(kernel.shape_vars, by_element);
      }
    }
    forget_what_is_cheap();
  }

  Bounded element(BufferState& state, int64_t index) {
    if (state.data)
      return read_bounded(state.buffer->dtype, state.data + index * size_of(state.buffer->dtype));
    if (state.all) return (*state.all)[static_cast<size_t>(index)];
    if (const auto it = state.known.find(index); it != state.known.end()) return it->second;
    if (!state.definitions.empty() && !state.definitions[0].by_element) {
      compute_all(state);
      return (*state.all)[static_cast<size_t>(index)];
    }
    std::optional<Bounded> value;
    for (Definition& d : state.definitions)
      if (bind(d, state, index)) value = combined(d, state.buffer->dtype, value);
    if (!value)
      throw InternalError(fmt::format("bounds: {} is read where it is not written", state.buffer->name));
    if (state.is_remembered) {
      if (state.known.size() >= kMostKnown) state.known.clear();
      state.known.emplace(index, *value);
    }
    return *value;
  }

private:
  /// A product under a sum has as many elements as the sum has terms: it is not remembered, but computed
  /// where it is read.
  void forget_what_is_cheap() {
    std::vector<int> readers(buffers.size(), 0);
    for (const BufferState& state : buffers)
      for (const Definition& d : state.definitions)
        for (const LlvmInstruction& in : d.instructions)
          if (in.buffer >= 0) ++readers[static_cast<size_t>(in.buffer)];
    for (size_t k = 0; k < buffers.size(); ++k)
      buffers[k].is_remembered =
          readers[k] > 1 || std::any_of(buffers[k].definitions.begin(), buffers[k].definitions.end(),
                                        [](const Definition& d) { return !d.runs.empty(); });
  }

  static bool bind(Definition& d, const BufferState& state, int64_t index) {
    for (size_t k = d.dimensions.size(); k-- > 0;) {
      const int64_t at = index % state.shape[k];
      index /= state.shape[k];
      const Definition::Dimension& dimension = d.dimensions[k];
      if (dimension.variable >= 0)
        d.registers[static_cast<size_t>(dimension.variable)] = at;
      else if (dimension.at != at)
        return false;
    }
    return true;
  }

  Bounded combined(Definition& d, DType dtype, const std::optional<Bounded>& before) {
    if (!d.store->combine) {
      Bounded last = before.value_or(Bounded{});
      run(d, [&] { last = evaluate(d); });
      return last;
    }
    if (!before) throw InternalError("bounds: a combine into what holds nothing");
    Combined all(*d.store->combine, dtype, *before);
    run(d, [&] { all.add(evaluate(d)); });
    return all.result();
  }

  /// Calls f at each iteration of the loops that run.
  template <class F> void run(Definition& d, const F& f) {
    step(d, 0);
    loop(d, 0, f);
  }
  template <class F> void loop(Definition& d, size_t depth, const F& f) {
    if (depth == d.runs.size()) {
      if (--steps_left < 0) throw TooMuchWork();
      return f();
    }
    const int64_t extent = d.registers[static_cast<size_t>(d.runs[depth].extent)];
    for (int64_t i = 0; i < extent; ++i) {
      d.registers[static_cast<size_t>(d.runs[depth].variable)] = i;
      step(d, depth + 1);
      loop(d, depth + 1, f);
    }
  }
  static void step(Definition& d, size_t level) {
    int64_t* r = d.registers.data();
    for (const Step& s : d.steps[level]) r[s.target] = computed(s.kind, r[s.lhs], r[s.rhs]);
  }

  static bool is_guarded_off(const Definition& d, const LlvmInstruction& in) {
    return std::any_of(in.guards.begin(), in.guards.end(),
                       [&](int guard) { return !d.registers[static_cast<size_t>(guard)]; });
  }
  Bounded load(const Definition& d, const LlvmInstruction& in) {
    if (is_guarded_off(d, in)) return Bounded{};
    BufferState& state = buffers[static_cast<size_t>(in.buffer)];
    int64_t flat = 0;
    for (size_t k = 0; k < in.index.size(); ++k) {
      const int64_t at = d.registers[static_cast<size_t>(in.index[k])];
      if (at < 0 || at >= state.shape[k])
        throw InternalError(fmt::format("bounds: index {} of dimension {} of {} is outside [0, {})", at, k,
                                        state.buffer->name, state.shape[k]));
      flat = flat * state.shape[k] + at;
    }
    return element(state, flat);
  }
  Bounded gather(const Definition& d, const LlvmInstruction& in) {
    const Bounded& at = d.slots[static_cast<size_t>(in.sources[0])];
    const bool is_float_result = is_float(in.dtype);
    if (!at.is_decided()) return is_float_result ? Bounded::of(0, at.error) : Bounded::of_whole(0, false);
    BufferState& state = buffers[static_cast<size_t>(in.buffer)];
    if (is_guarded_off(d, in) || at.whole < 0 || at.whole >= state.elements) return Bounded{};
    return element(state, at.whole);
  }

  Bounded evaluate(Definition& d) {
    static const Bounded none{};
    const auto source = [&](int slot) -> const Bounded& {
      return slot < 0 ? none : d.slots[static_cast<size_t>(slot)];
    };
    for (const LlvmInstruction& in : d.instructions) {
      Bounded& out = d.slots[static_cast<size_t>(in.target)];
      switch (in.op) {
      case Op::Const: out = in.value; break;
      case Op::Index: {
        const int64_t at = d.registers[static_cast<size_t>(in.index[0])];
        out = is_float(in.dtype) ? apply(Op::Cast, in.dtype, DType::I64, Bounded::of_whole(at), none, none)
                                 : bounded(Scalar::of_int(in.dtype, at));
        break;
      }
      case Op::Load: out = load(d, in); break;
      case Op::Gather: out = gather(d, in); break;
      default:
        out = apply(in.op, in.dtype, in.from, source(in.sources[0]), source(in.sources[1]),
                    source(in.sources[2]));
      }
    }
    return d.slots[static_cast<size_t>(d.value)];
  }

  void compute_all(BufferState& state) {
    steps_left -= state.elements;
    if (steps_left < 0) throw TooMuchWork();
    std::vector<Bounded> made(static_cast<size_t>(state.elements));
    for (Definition& d : state.definitions)
      run(d, [&] {
        const Bounded value = evaluate(d);
        int64_t at = 0;
        if (d.scatter >= 0) {
          const Bounded& place = d.slots[static_cast<size_t>(d.scatter)];
          // Rounding decides which element is written: no element is known.
          if (!place.is_decided()) throw TooMuchWork();
          at = place.whole;
          if (at < 0 || at >= state.elements) return;
        } else {
          for (size_t k = 0; k < d.index.size(); ++k)
            at = at * state.shape[k] + d.registers[static_cast<size_t>(d.index[k])];
        }
        Bounded& to = made[static_cast<size_t>(at)];
        to = d.store->combine
                 ? apply(*d.store->combine, state.buffer->dtype, state.buffer->dtype, to, value, value)
                 : value;
      });
    state.all = std::move(made);
  }
};

BoundedKernel::BoundedKernel(const ast::Kernel& canonical, std::vector<const void*> inputs,
                             const std::vector<int64_t>& shape_values)
    : machine_(std::make_unique<Machine>(canonical, inputs, shape_values)) {}
BoundedKernel::~BoundedKernel() = default;

int64_t BoundedKernel::elements(size_t parameter) const { return machine_->buffers[parameter].elements; }
Bounded BoundedKernel::element(size_t parameter, int64_t index, int64_t steps) {
  machine_->steps_left = steps;
  return machine_->element(machine_->buffers[parameter], index);
}

} // namespace lathe::pipeline
