// The inverse of print(). A mistake in the text throws Error(Syntax), which names the line.
#include <algorithm>
#include <unordered_map>

#include <fmt/format.h>

#include "ast/ast.hpp"
#include "ast/buffer.hpp"
#include "ast/lane_kind.hpp"
#include "core/scanner.hpp"

namespace lathe::ast {
namespace {

constexpr int kMaxNesting = 256;

const std::unordered_map<std::string, Op>& functions() {
  static const auto table = [] {
    std::unordered_map<std::string, Op> out;
    for (int i = 0; i < op_count(); ++i) {
      const Op op = static_cast<Op>(i);
      if (!is_elementwise(op) || op == Op::Cast || op == Op::Bitcast) continue;
      std::string name(to_string(op));
      std::transform(name.begin(), name.end(), name.begin(),
                     [](char c) { return c < 'a' && c >= 'A' ? c + 32 : c; });
      out.emplace(std::move(name), op);
    }
    return out;
  }();
  return table;
}

std::optional<DType> dtype_named(std::string_view name) {
  for (int i = 0; i < kDTypeCount; ++i)
    if (name == to_string(static_cast<DType>(i))) return static_cast<DType>(i);
  return {};
}

class Parser {
public:
  explicit Parser(std::string_view text) : in_("kernel text", text) {}

  Kernel kernel() {
    return in_.located([&] { return parse_kernel(); });
  }

private:
  /// Takes the keyword, unless it is the name of a buffer that is indexed here.
  bool accept_word(std::string_view wanted) {
    const size_t begin = in_.at();
    if (in_.maybe_word() == wanted && in_.peek() != '[') return true;
    in_.go_to(begin);
    return false;
  }

  // ---- Exprs ----
  Expr expr(std::string_view text) {
    return parse_expr(text, [&](std::string_view name) -> std::optional<Expr> {
      for (size_t i = vars_.size(); i-- > 0;)
        if (vars_[i].name() == name) return vars_[i];
      return {};
    });
  }
  std::vector<Expr> exprs(char close) {
    std::vector<Expr> out;
    if (in_.peek() == close || in_.peek() == ';') return out;
    const std::string stop{',', ';', close};
    do out.push_back(expr(in_.until(stop)));
    while (in_.accept(","));
    return out;
  }

  // ---- The kernel ----
  Kernel parse_kernel() {
    Kernel k;
    if (!accept_word("kernel")) in_.fail("'kernel'");
    k.name = std::string(in_.word());
    in_.expect("(");
    const size_t params_at = in_.at();
    in_.until(";)");
    if (in_.accept(";")) {
      do k.shape_vars.push_back(shape_var());
      while (in_.accept(","));
    }
    vars_ = k.shape_vars;
    const size_t end = in_.at();
    in_.go_to(params_at);
    while (in_.peek() != ')' && in_.peek() != ';') {
      if (!k.params.empty()) in_.expect(",");
      BufferRef buffer = declare(Scope::Global, false);
      const bool written = accept_word("out");
      if (!written && !accept_word("in")) in_.fail("'in' or 'out'");
      k.params.push_back({std::move(buffer), written});
    }
    in_.go_to(end);
    in_.expect(")");
    in_.expect("{");
    k.body = block();
    if (!in_.at_end()) in_.fail("the end of the text");
    return k;
  }
  Expr shape_var() {
    const auto name = in_.word();
    if (in_.word() != "in") in_.fail("'in'");
    in_.expect("[");
    const int64_t lo = in_.number();
    in_.expect(",");
    const int64_t hi = in_.number();
    std::optional<int64_t> typical;
    if (in_.accept(",")) typical = in_.number();
    in_.expect("]");
    return Var(name, lo, hi, typical).expr();
  }
  /// Parses "name: f32[n, 4]", and a scope if `scoped`. The buffer is visible from here on.
  BufferRef declare(Scope scope, bool scoped) {
    Buffer buffer;
    buffer.id = next_buffer_++;
    buffer.name = std::string(in_.word());
    in_.expect(":");
    buffer.dtype = dtype();
    in_.expect("[");
    buffer.shape = exprs(']');
    in_.expect("]");
    buffer.scope = scope;
    if (scoped) {
      if (accept_word("global"))
        buffer.scope = Scope::Global;
      else if (accept_word("packed"))
        buffer.scope = Scope::Packed;
      else if (accept_word("local"))
        buffer.scope = Scope::Local;
      else if (accept_word("register"))
        buffer.scope = Scope::Register;
      else
        in_.fail("global, packed, local or register");
    }
    buffers_.push_back(make_buffer(std::move(buffer)));
    return buffers_.back();
  }
  DType dtype() {
    const auto name = in_.word();
    if (const auto found = dtype_named(name)) return *found;
    in_.refuse(fmt::format("dtype '{}' is unknown", name));
  }
  BufferRef buffer(std::string_view name) {
    for (size_t i = buffers_.size(); i-- > 0;)
      if (buffers_[i]->name == name) return buffers_[i];
    in_.refuse(fmt::format("buffer '{}' is not in scope", name));
  }

  // ---- Statements ----
  Block block() {
    if (++nesting_ > kMaxNesting) in_.refuse("nested too deeply");
    Block out;
    lets_.clear();
    while (!in_.accept("}")) {
      if (in_.at_end()) in_.fail("'}'");
      if (accept_word("for"))
        out.push_back({loop()});
      else if (accept_word("alloc"))
        out.push_back({alloc()});
      else if (accept_word("barrier"))
        out.push_back({Barrier{}});
      else if (accept_word("prefetch"))
        out.push_back({prefetch()});
      else if (accept_word("let"))
        let();
      else {
        out.push_back({store()});
        lets_.clear();
      }
    }
    --nesting_;
    return out;
  }
  For loop() {
    For out;
    const std::string name(in_.word());
    if (!accept_word("in")) in_.fail("'in'");
    std::string_view text = in_.until("{");
    in_.expect("{");
    take_kind(text, out);
    out.extent = expr(text);
    out.var = loop_var(next_loop_++, name, out.extent);
    vars_.push_back(out.var);
    out.body = block();
    vars_.pop_back();
    return out;
  }
  /// Cuts a trailing loop kind off `text`. The kind follows an operand, so it can't be a variable.
  void take_kind(std::string_view& text, For& out) {
    struct Row {
      std::string_view word;
      LoopKind kind;
      bool numbered;
    };
    constexpr Row rows[] = {{"parallel", LoopKind::Parallel, false}, {"unroll", LoopKind::Unroll, false},
                            {"tensor", LoopKind::Tensor, false},     {"vector", LoopKind::Vector, true},
                            {"group", LoopKind::Group, true},        {"local", LoopKind::Local, true}};
    std::string_view head = text, digits;
    const bool numbered = head.ends_with(')') && head.rfind('(') != std::string_view::npos;
    if (numbered) {
      const size_t open = head.rfind('(');
      digits = head.substr(open + 1, head.size() - open - 2);
      head = head.substr(0, open);
    }
    for (const Row& row : rows) {
      if (row.numbered != numbered || !head.ends_with(row.word)) continue;
      std::string_view before = head.substr(0, head.size() - row.word.size());
      if (before.empty() || !is_space(before.back())) continue;
      before = trim(before);
      if (before.empty() || !(is_word(before.back()) || before.back() == ')')) continue;
      out.kind = row.kind;
      if (numbered) {
        if (digits.empty() || digits.size() > 6 || !std::all_of(digits.begin(), digits.end(), is_digit))
          in_.fail(fmt::format("a number after '{}'", row.word));
        out.width = static_cast<int>(parse_scalar(DType::I64, digits).as_int());
      }
      text = before;
      return;
    }
  }
  Alloc alloc() {
    const size_t visible = buffers_.size();
    Alloc out;
    out.buffer = declare(Scope::Global, true);
    in_.expect("{");
    out.body = block();
    buffers_.resize(visible);
    return out;
  }
  void let() {
    in_.expect("%");
    const int64_t id = in_.number();
    in_.expect("=");
    lets_[id] = value(0);
  }
  /// Parses "i, j", with one index per dimension.
  std::vector<Expr> indices_of(const Buffer& buffer) {
    std::vector<Expr> index = exprs(']');
    if (index.size() != buffer.shape.size())
      in_.refuse(
          fmt::format("{} indices of {}, expected {}", index.size(), buffer.name, buffer.shape.size()));
    return index;
  }
  /// Parses the words that follow "lanes:".
  LaneAccess lanes() {
    const std::string_view name = in_.word();
    const auto kind = std::find(kLaneKindNames.begin() + 1, kLaneKindNames.end(), name);
    if (kind == kLaneKindNames.end()) in_.refuse(fmt::format("'{}' is no kind of access", name));
    return {static_cast<LaneKind>(kind - kLaneKindNames.begin()), accept_word("masked")};
  }
  Prefetch prefetch() {
    Prefetch out;
    out.buffer = buffer(in_.word());
    in_.expect("[");
    out.index = indices_of(*out.buffer);
    in_.expect("]");
    return out;
  }
  Instruction instruction() {
    const std::string_view name = in_.word();
    const auto row = std::find_if(std::begin(kInstructions), std::end(kInstructions),
                                  [&](const InstructionInfo& known) { return known.name == name; });
    if (row == std::end(kInstructions)) in_.refuse(fmt::format("'{}' is no instruction", name));
    return static_cast<Instruction>(row - std::begin(kInstructions));
  }
  Store store() {
    Store out;
    out.streaming = accept_word("stream");
    out.buffer = buffer(in_.word());
    in_.expect("[");
    if (in_.accept("@")) {
      out.scatter = value(0);
    } else {
      out.index = indices_of(*out.buffer);
      if (in_.accept(";")) {
        in_.expect("lanes:");
        out.lanes = lanes();
      }
    }
    in_.expect("]");
    constexpr std::pair<std::string_view, Op> combines[] = {
        {"+=", Op::Add}, {"*=", Op::Mul}, {"max=", Op::Max}, {"|=", Op::Or}, {"&=", Op::And}};
    for (const auto& [token, op] : combines)
      if (!out.combine && in_.accept(token)) out.combine = op;
    if (!out.combine) in_.expect("=");
    out.value = value(0);
    if (out.value->dtype != out.buffer->dtype)
      in_.refuse(fmt::format("a {} stored to {}, expected {}", to_string(out.value->dtype), out.buffer->name,
                             to_string(out.buffer->dtype)));
    if (accept_word("by")) out.by = instruction();
    return out;
  }

  // ---- Values ----
  struct Infix {
    std::string_view text;
    Op op;
    int level;
  };
  std::optional<Infix> infix() {
    constexpr Infix rows[] = {{"|", Op::Or, 1},    {"^", Op::Xor, 2},    {"&", Op::And, 3},
                              {"<", Op::CmpLt, 4}, {"!=", Op::CmpNe, 4}, {"+", Op::Add, 5},
                              {"-", Op::Sub, 5},   {"*", Op::Mul, 6},    {"/", Op::Div, 6}};
    // An operator stands on the line of its left operand; the next statement begins a new one.
    for (const Infix& row : rows)
      if (in_.follows_on_line(row.text)) return row;
    return {};
  }
  ValueRef apply(Op op, std::vector<ValueRef> sources) {
    if (static_cast<int>(sources.size()) != info(op).arity)
      in_.refuse(fmt::format("{} takes {} operands, not {}", to_string(op), info(op).arity, sources.size()));
    const DType operand = sources.back()->dtype;
    return make_exact(op, result_dtype(op, operand), std::move(sources));
  }
  ValueRef value(int level) {
    if (++nesting_ > kMaxNesting) in_.refuse("nested too deeply");
    ValueRef left = primary();
    for (auto op = infix(); op && op->level >= level; op = infix()) {
      in_.accept(op->text);
      ValueRef right = value(op->level + 1);
      left = apply(op->op, {std::move(left), std::move(right)});
    }
    --nesting_;
    return left;
  }
  ValueRef primary() {
    const char c = in_.peek();
    if (in_.accept("(")) {
      ValueRef inner = value(0);
      in_.expect(")");
      return inner;
    }
    if (in_.accept("%")) {
      auto it = lets_.find(in_.number());
      if (it == lets_.end()) in_.refuse("a % name without its let");
      return it->second;
    }
    if (is_digit(c) || c == '-') return scalar();
    const size_t begin = in_.at();
    const std::string name(in_.word());
    if (in_.peek() == ':') {
      in_.go_to(begin);
      return scalar();
    }
    if (in_.accept("[")) return element(buffer(name));
    in_.expect("(");
    if (const auto as = dtype_named(name)) {
      const Expr e = expr(in_.until(")"));
      in_.expect(")");
      return index_value(e, *as);
    }
    std::vector<ValueRef> sources;
    do sources.push_back(value(0));
    while (in_.accept(","));
    in_.expect(")");
    for (Op op : {Op::Cast, Op::Bitcast}) {
      const std::string_view prefix = op == Op::Cast ? "cast_" : "bitcast_";
      if (!name.starts_with(prefix)) continue;
      const auto to = dtype_named(std::string_view(name).substr(prefix.size()));
      if (!to) in_.refuse(fmt::format("unknown function '{}'", name));
      return make_exact(op, *to, std::move(sources));
    }
    if (name == "rounded" && sources.size() == 1) return rounded(sources[0]);
    auto it = functions().find(name);
    if (it == functions().end()) in_.refuse(fmt::format("unknown function '{}'", name));
    return apply(it->second, std::move(sources));
  }
  ValueRef scalar() {
    const std::string_view text = in_.until(":");
    in_.expect(":");
    return constant(parse_scalar(dtype(), text));
  }
  ValueRef element(BufferRef from) {
    ValueRef flat;
    std::vector<Expr> index, guards;
    int64_t ahead = 0;
    LaneAccess access;
    if (in_.accept("@"))
      flat = value(0);
    else
      index = exprs(']');
    while (in_.accept(";"))
      if (!flat && in_.accept("ahead:"))
        ahead = in_.number();
      else if (!flat && in_.accept("lanes:"))
        access = lanes();
      else
        guards.push_back(expr(in_.until(";]")));
    in_.expect("]");
    return flat ? gather(std::move(from), std::move(flat), std::move(guards))
                : load(std::move(from), std::move(index), std::move(guards), ahead, access);
  }

  Scanner in_;
  int nesting_ = 0, next_loop_ = 0, next_buffer_ = 0;
  std::vector<Expr> vars_;
  std::vector<BufferRef> buffers_;
  std::unordered_map<int64_t, ValueRef> lets_;
};

} // namespace

Kernel parse(std::string_view text) { return Parser(text).kernel(); }

} // namespace lathe::ast
