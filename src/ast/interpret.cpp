// The interpreter, which is the oracle for kernels. It first compiles the kernel. Every Expr gets a register,
// computed once per iteration of the innermost loop that the Expr depends on. Every value of a store gets a
// slot and one instruction. Loops of every kind run in order.
#include <cstring>
#include <unordered_map>

#include <fmt/format.h>

#include "ast/ast.hpp"
#include "ast/interpret_ops.hpp"
#include "ast/tensor.hpp"
#include "core/overload.hpp"
#include "lathe/error.hpp"

namespace lathe::ast {
namespace {

using namespace interpreter;

struct Step { // register target = lhs kind rhs
  ExprKind kind;
  int target, lhs, rhs;
};

/// A compiled statement. Loop: `var`, `extent`, `steps` at the start of each iteration, then `body`. Factors:
/// two slots are taken down. AddProducts: `instructions` load an element, and store it after all that was
/// taken down is added.
struct Code {
  enum Kind : uint8_t { Loop, Scope, Store, Factors, AddProducts } kind;
  explicit Code(Kind k) : kind(k) {}
  int var = 0, extent = 0; // registers
  int buffer = 0;          // of Scope
  std::vector<Step> steps;
  std::vector<Operation> instructions; // of Store, Factors and AddProducts
  int a = 0, b = 0;                    // slots of Factors; of AddProducts: the element's
  Instruction by{};                    // of AddProducts
  std::vector<Code> body;
};

class Machine {
public:
  explicit Machine(const Kernel& kernel) : kernel_(kernel) {}

  void run(const std::vector<Bytes>& data, const std::vector<int64_t>& shape_values) {
    if (data.size() != kernel_.params.size() || shape_values.size() != kernel_.shape_vars.size())
      throw InternalError(fmt::format("interpret {}: {} buffers and {} shape values, expected {} and {}",
                                      kernel_.name, data.size(), shape_values.size(), kernel_.params.size(),
                                      kernel_.shape_vars.size()));
    levels_.emplace_back();
    for (size_t i = 0; i < shape_values.size(); ++i) {
      bind(kernel_.shape_vars[i], new_register());
      frame_.registers.back() = shape_values[i];
    }
    for (const Param& param : kernel_.params) declare(param.buffer);
    std::vector<Code> code = compile(kernel_.body);
    run_steps(levels_[0].steps);
    for (size_t i = 0; i < data.size(); ++i) {
      BufferState& state = frame_.buffers[i];
      size(state);
      const auto needed =
          static_cast<uint64_t>(state.elements) * static_cast<uint64_t>(size_of(state.buffer->dtype));
      if (data[i].bytes < needed)
        throw InternalError(fmt::format("interpret {}: buffer {} has {} bytes, expected {}", kernel_.name,
                                        state.buffer->name, data[i].bytes, needed));
      state.data = static_cast<uint8_t*>(data[i].data);
    }
    execute(code);
  }

private:
  // ---- Exprs ----
  struct Level {
    std::vector<Step> steps;
    std::vector<const ExprNode*> defined;
  };
  struct Place {
    int reg;
    int level;
  };

  int new_register() {
    frame_.registers.push_back(0);
    return static_cast<int>(frame_.registers.size()) - 1;
  }
  int new_slot() {
    frame_.slots.push_back({});
    return static_cast<int>(frame_.slots.size()) - 1;
  }
  void bind(Expr var, int reg) {
    places_[var.node()] = {reg, static_cast<int>(levels_.size()) - 1};
    levels_.back().defined.push_back(var.node());
  }

  Place place(Expr e) {
    if (auto it = places_.find(e.node()); it != places_.end()) return it->second;
    Place out{new_register(), 0};
    if (e.is_const()) {
      frame_.registers[out.reg] = e.value();
    } else if (e.is_var()) {
      throw InternalError(fmt::format("interpret {}: variable {} is not in scope", kernel_.name, e.name()));
    } else {
      const Place lhs = place(e.lhs()), rhs = place(e.rhs());
      out.level = std::max(lhs.level, rhs.level);
      levels_[out.level].steps.push_back({e.kind(), out.reg, lhs.reg, rhs.reg});
    }
    levels_[out.level].defined.push_back(e.node());
    return places_[e.node()] = out;
  }
  int reg(Expr e) { return place(e).reg; }
  std::vector<int> regs(const std::vector<Expr>& exprs) {
    std::vector<int> out;
    for (Expr e : exprs) out.push_back(reg(e));
    return out;
  }

  // ---- Statements ----
  int declare(const BufferRef& buffer) {
    const int index = static_cast<int>(frame_.buffers.size());
    frame_.buffers.emplace_back().buffer = buffer.get();
    frame_.buffers.back().shape = regs(buffer->shape);
    buffers_[buffer.get()] = index;
    return index;
  }
  const Access* access(const BufferRef& buffer, const std::vector<Expr>& index,
                       const std::vector<Expr>& guards) {
    auto it = buffers_.find(buffer.get());
    if (it == buffers_.end())
      throw InternalError(fmt::format("interpret {}: buffer {} is not in scope", kernel_.name, buffer->name));
    accesses_.push_back(std::make_unique<Access>(Access{it->second, regs(index), regs(guards), statement_}));
    return accesses_.back().get();
  }

  std::vector<Code> compile(const Block& block) {
    std::vector<Code> out;
    for (const Stmt& stmt : block)
      std::visit(Overload{[&](const For& loop) { out.push_back(compile(loop)); },
                          [&](const Alloc& alloc) { out.push_back(compile(alloc)); },
                          [&](const Store& store) {
                            statement_ = &stmt;
                            out.push_back(compile(store));
                          },
                          [](const Barrier&) {}, [](const Prefetch&) {}},
                 stmt.node);
    return out;
  }
  Code compile(const For& loop) {
    if (const auto nest = loop.kind == LoopKind::Tensor ? tensor_nest(loop) : std::nullopt)
      if (const auto by = nest->store->by; by && info(*by).is_tensor() && is_float(info(*by).c))
        return compile(*tensor_product(*nest));
    return compile(loop, [&] { return compile(loop.body); });
  }
  /// A product of floats, which depends on the order in which its instruction adds.
  Code compile(const TensorProduct& product) {
    const auto over = [&](const For* loop, const auto& body) {
      if (!loop) return body();
      std::vector<Code> out;
      out.push_back(compile(*loop, body));
      return out;
    };
    const auto factors = [&] {
      Code code(Code::Factors);
      std::unordered_map<const Value*, int> slots;
      visit(product.store->value, [&](const ValueRef& v) {
        if (v != product.store->value) slots[v.get()] = compile(v, slots, code.instructions);
      });
      code.a = slots.at(product.store->value->sources[0].get());
      code.b = slots.at(product.store->value->sources[1].get());
      return std::vector<Code>{std::move(code)};
    };
    const auto sums = [&] {
      std::vector<Code> out = over(product.k_rows, [&] { return over(product.k, factors); });
      Code code(Code::AddProducts);
      code.by = *product.store->by;
      code.a = compile(load(product.store->buffer, product.store->index), {}, code.instructions);
      Operation last{};
      last.a = code.a;
      last.dtype = last.from = product.store->buffer->dtype;
      last.access = access(product.store->buffer, product.store->index, {});
      last.run = store_element(last.dtype, false);
      code.instructions.push_back(last);
      out.push_back(std::move(code));
      return out;
    };
    const auto columns = [&] { return over(product.columns, sums); };
    return std::move(over(product.rows, columns)[0]);
  }
  template <class F> Code compile(const For& loop, const F& body) {
    Code code(Code::Loop);
    code.extent = reg(loop.extent);
    code.var = new_register();
    levels_.emplace_back();
    auto hidden = places_.find(loop.var.node());
    const std::optional<Place> outer = hidden == places_.end() ? std::nullopt : std::optional(hidden->second);
    bind(loop.var, code.var);
    code.body = body();
    code.steps = std::move(levels_.back().steps);
    for (const ExprNode* node : levels_.back().defined) places_.erase(node);
    levels_.pop_back();
    if (outer) places_[loop.var.node()] = *outer;
    return code;
  }
  Code compile(const Alloc& alloc) {
    Code code(Code::Scope);
    code.buffer = declare(alloc.buffer);
    code.body = compile(alloc.body);
    return code;
  }
  Code compile(const Store& given) {
    const Store store = given.by == Instruction::MultiplyAdd ? in_ops(given) : given;
    Code code(Code::Store);
    std::unordered_map<const Value*, int> slots;
    const auto slot_of_value = [&](const ValueRef& root) {
      visit(root, [&](const ValueRef& v) {
        if (!slots.count(v.get())) slots[v.get()] = compile(v, slots, code.instructions);
      });
      return slots.at(root.get());
    };
    Operation last{};
    last.a = slot_of_value(store.value);
    if (store.scatter) last.b = slot_of_value(store.scatter);
    last.c = new_slot();
    last.dtype = last.from = store.buffer->dtype;
    if (store.combine) last.op = *store.combine;
    last.access = access(store.buffer, store.index, {});
    const bool combines = store.combine.has_value();
    last.run = store.scatter ? scatter_element(last.dtype, combines) : store_element(last.dtype, combines);
    code.instructions.push_back(last);
    return code;
  }
  /// `store`, a MultiplyAdd, with its instruction written as an op of the op table.
  static Store in_ops(const Store& store) {
    Store out = store;
    out.combine = {};
    out.by = {};
    const auto& factors = store.value->sources;
    out.value =
        make_exact(Op::Fma, store.buffer->dtype, {factors[0], factors[1], load(store.buffer, store.index)});
    return out;
  }
  int compile(const ValueRef& v, const std::unordered_map<const Value*, int>& slots,
              std::vector<Operation>& out) {
    const int target = new_slot();
    if (v->op == Op::Const) {
      frame_.slots[target] = slot_of(std::get<Scalar>(v->attr));
      return target;
    }
    Operation in{};
    in.target = target;
    in.op = v->op;
    in.dtype = in.from = v->dtype;
    const auto source = [&](size_t i) {
      return slots.at(v->sources[std::min(i, v->sources.size() - 1)].get());
    };
    switch (v->op) {
    case Op::Index:
      in.a = reg(std::get<Expr>(v->attr));
      in.run = from_register(v->dtype);
      break;
    case Op::Load:
    case Op::Gather: {
      const auto& attr = std::get<LoadAttr>(v->attr);
      in.access = access(attr.buffer, attr.index, attr.guards);
      if (v->op == Op::Gather) in.a = source(0);
      in.run = v->op == Op::Load ? load_element(v->dtype) : gather_element(v->dtype);
      break;
    }
    default:
      in.a = source(0);
      in.b = source(1);
      in.c = source(2);
      in.from = v->sources.back()->dtype;
      in.run = elementwise(v->op, v->dtype, in.from);
    }
    out.push_back(in);
    return target;
  }

  // ---- Execution ----
  void run_steps(const std::vector<Step>& steps) {
    int64_t* r = frame_.registers.data();
    for (const Step& s : steps) {
      const int64_t a = r[s.lhs], b = r[s.rhs];
      int64_t& out = r[s.target];
      switch (s.kind) {
      case ExprKind::Const:
      case ExprKind::Var: break;
      case ExprKind::Add: out = a + b; break;
      case ExprKind::Mul: out = a * b; break;
      // Division by zero gives 0. Only a load whose guard fails may have such an index; the bounds check
      // finds any other.
      case ExprKind::FloorDiv: out = b == 0 ? 0 : a / b - (a % b != 0 && (a % b < 0) != (b < 0)); break;
      case ExprKind::Mod:
        out = b == 0 ? 0 : (a % b != 0 && (a % b < 0) != (b < 0)) ? a % b + b : a % b;
        break;
      case ExprKind::Min: out = a < b ? a : b; break;
      case ExprKind::Max: out = a > b ? a : b; break;
      case ExprKind::Lt: out = a < b; break;
      case ExprKind::Le: out = a <= b; break;
      case ExprKind::Eq: out = a == b; break;
      case ExprKind::And: out = a && b; break;
      }
    }
  }
  void size(BufferState& state) const {
    state.elements = 1;
    for (int extent : state.shape) {
      if (frame_.registers[extent] < 0 ||
          __builtin_mul_overflow(state.elements, frame_.registers[extent], &state.elements))
        throw InternalError(fmt::format("interpret {}: the shape of {} is negative or too large",
                                        kernel_.name, state.buffer->name));
    }
  }
  void execute(const std::vector<Code>& block) {
    for (const Code& code : block) {
      switch (code.kind) {
      case Code::Store:
        for (const Operation& in : code.instructions) in.run(in, frame_);
        break;
      case Code::Factors:
        for (const Operation& in : code.instructions) in.run(in, frame_);
        products_.push_back({frame_.slots[code.a].s, frame_.slots[code.b].s});
        break;
      case Code::AddProducts: {
        const Operation &read = code.instructions[0], &write = code.instructions[1];
        read.run(read, frame_);
        float& sum = frame_.slots[code.a].s;
        sum = add_products(code.by, sum, products_);
        products_.clear();
        write.run(write, frame_);
        break;
      }
      case Code::Loop: {
        const int64_t extent = frame_.registers[code.extent];
        for (int64_t i = 0; i < extent; ++i) {
          frame_.registers[code.var] = i;
          run_steps(code.steps);
          execute(code.body);
        }
        break;
      }
      case Code::Scope: {
        BufferState& state = frame_.buffers[code.buffer];
        size(state);
        // All ones is a NaN for floats and -1 for integers, so that elements never written show.
        state.storage.assign(static_cast<size_t>(state.elements * size_of(state.buffer->dtype)), 0xFF);
        state.data = state.storage.data();
        execute(code.body);
        break;
      }
      }
    }
  }

  const Kernel& kernel_;
  Frame frame_;
  std::vector<Level> levels_;
  std::unordered_map<const ExprNode*, Place> places_;
  std::unordered_map<const Buffer*, int> buffers_;
  std::vector<std::unique_ptr<Access>> accesses_;
  std::vector<Factors> products_; // taken down since the last AddProducts
  const Stmt* statement_ = nullptr;
};

} // namespace

void interpret(const Kernel& kernel, const std::vector<Bytes>& buffers,
               const std::vector<int64_t>& shape_values) {
  Machine(kernel).run(buffers, shape_values);
}

} // namespace lathe::ast
