// The inverse of print(). Every mistake in the text is Error(Syntax) with the line.
#include <algorithm>
#include <unordered_map>

#include <fmt/format.h>

#include "ast/ast.hpp"
#include "ast/buffer.hpp"
#include "ast/lane_kind.hpp"
#include "lathe/error.hpp"

namespace lathe::ast {
namespace {

constexpr int kMaxNesting = 256;

bool is_space(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '.' || is_digit(c);
}

std::string_view trim(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

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
  explicit Parser(std::string_view text) : text_(text) {}

  Kernel kernel() {
    try {
      return parse_kernel();
    } catch (const Error& e) {
      if (located_) throw;
      fail(e.what());
    } catch (const InternalError& e) { // a value or load that no kernel may hold
      fail(e.what());
    }
  }

private:
  [[noreturn]] void fail(const std::string& what) {
    located_ = true;
    const auto line =
        1 + std::count(text_.begin(),
                       text_.begin() + static_cast<std::ptrdiff_t>(std::min(at_, text_.size())), '\n');
    throw Error(ErrorKind::Syntax, fmt::format("kernel text line {}: {}", line, what));
  }

  // ---- Words ----
  char peek() {
    while (at_ < text_.size() && is_space(text_[at_])) ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool accept(std::string_view token) {
    peek();
    if (text_.substr(at_, token.size()) != token) return false;
    at_ += token.size();
    return true;
  }
  void expect(std::string_view token) {
    if (!accept(token)) fail(fmt::format("expected '{}'", token));
  }
  std::string_view word() {
    peek();
    const size_t begin = at_;
    while (at_ < text_.size() && is_word(text_[at_])) ++at_;
    if (at_ == begin || is_digit(text_[begin])) fail("expected a name");
    return text_.substr(begin, at_ - begin);
  }
  /// A keyword, unless it is a buffer of that name.
  bool accept_word(std::string_view wanted) {
    const char first = peek();
    const size_t begin = at_;
    if (is_word(first) && !is_digit(first) && word() == wanted && peek() != '[') return true;
    at_ = begin;
    return false;
  }
  int64_t number() {
    peek();
    const size_t begin = at_;
    if (at_ < text_.size() && text_[at_] == '-') ++at_;
    while (at_ < text_.size() && is_digit(text_[at_])) ++at_;
    const auto digits = text_.substr(begin, at_ - begin);
    if (digits.empty() || digits == "-" || digits.size() > 20) fail("expected a number");
    return parse_scalar(DType::I64, digits).as_int();
  }
  /// Up to an unnested character of `stop`, which stays.
  std::string_view until(std::string_view stop) {
    const size_t begin = at_;
    int depth = 0;
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (depth == 0 && stop.find(c) != std::string_view::npos) return trim(text_.substr(begin, at_ - begin));
      if (c == '(' || c == '[') ++depth;
      if (c == ')' || c == ']') --depth;
      if (c == '\n') break;
    }
    fail(fmt::format("expected one of '{}' before the end of the line", stop));
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
    if (peek() == close || peek() == ';') return out;
    const std::string stop{',', ';', close};
    do out.push_back(expr(until(stop)));
    while (accept(","));
    return out;
  }

  // ---- The kernel ----
  Kernel parse_kernel() {
    Kernel k;
    if (!accept_word("kernel")) fail("expected 'kernel'");
    k.name = std::string(word());
    expect("(");
    const size_t params_at = at_;
    until(";)");
    if (accept(";")) {
      do k.shape_vars.push_back(shape_var());
      while (accept(","));
    }
    vars_ = k.shape_vars;
    const size_t end = at_;
    at_ = params_at;
    while (peek() != ')' && peek() != ';') {
      if (!k.params.empty()) expect(",");
      BufferRef buffer = declare(Scope::Global, false);
      const bool written = accept_word("out");
      if (!written && !accept_word("in")) fail("expected 'in' or 'out'");
      k.params.push_back({std::move(buffer), written});
    }
    at_ = end;
    expect(")");
    expect("{");
    k.body = block();
    if (peek() != '\0') fail("expected the end of the text");
    return k;
  }
  Expr shape_var() {
    const auto name = word();
    if (word() != "in") fail("expected 'in'");
    expect("[");
    const int64_t lo = number();
    expect(",");
    const int64_t hi = number();
    expect("]");
    return Var(name, lo, hi).expr();
  }
  /// "name: f32[n, 4]", and a scope if `scoped`. Visible from here on.
  BufferRef declare(Scope scope, bool scoped) {
    Buffer buffer;
    buffer.id = next_buffer_++;
    buffer.name = std::string(word());
    expect(":");
    buffer.dtype = dtype();
    expect("[");
    buffer.shape = exprs(']');
    expect("]");
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
        fail("expected global, packed, local or register");
    }
    buffers_.push_back(make_buffer(std::move(buffer)));
    return buffers_.back();
  }
  DType dtype() {
    const auto name = word();
    if (const auto found = dtype_named(name)) return *found;
    fail(fmt::format("dtype '{}' is unknown", name));
  }
  BufferRef buffer(std::string_view name) {
    for (size_t i = buffers_.size(); i-- > 0;)
      if (buffers_[i]->name == name) return buffers_[i];
    fail(fmt::format("buffer '{}' is not in scope", name));
  }

  // ---- Statements ----
  Block block() {
    if (++nesting_ > kMaxNesting) fail("nested too deeply");
    Block out;
    lets_.clear();
    while (!accept("}")) {
      if (peek() == '\0') fail("expected '}'");
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
    const std::string name(word());
    if (!accept_word("in")) fail("expected 'in'");
    std::string_view text = until("{");
    expect("{");
    take_kind(text, out);
    out.extent = expr(text);
    out.var = loop_var(next_loop_++, name, out.extent);
    vars_.push_back(out.var);
    out.body = block();
    vars_.pop_back();
    return out;
  }
  /// Cuts a trailing loop kind off `text`. It follows an operand, so no variable can be taken for it.
  void take_kind(std::string_view& text, For& out) {
    struct Row {
      std::string_view word;
      LoopKind kind;
      bool numbered;
    };
    constexpr Row rows[] = {{"parallel", LoopKind::Parallel, false},
                            {"unroll", LoopKind::Unroll, false},
                            {"vector", LoopKind::Vector, true},
                            {"group", LoopKind::Group, true},
                            {"local", LoopKind::Local, true}};
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
          fail(fmt::format("expected a number after '{}'", row.word));
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
    expect("{");
    out.body = block();
    buffers_.resize(visible);
    return out;
  }
  void let() {
    expect("%");
    const int64_t id = number();
    expect("=");
    lets_[id] = value(0);
  }
  /// "i, j", with one index per dimension.
  std::vector<Expr> indices_of(const Buffer& buffer) {
    std::vector<Expr> index = exprs(']');
    if (index.size() != buffer.shape.size())
      fail(fmt::format("{} indices of {}, expected {}", index.size(), buffer.name, buffer.shape.size()));
    return index;
  }
  /// What follows "lanes:".
  LaneAccess lanes() {
    const std::string_view name = word();
    const auto kind = std::find(kLaneKindNames.begin() + 1, kLaneKindNames.end(), name);
    if (kind == kLaneKindNames.end()) fail(fmt::format("'{}' is no kind of access", name));
    return {static_cast<LaneKind>(kind - kLaneKindNames.begin()), accept_word("masked")};
  }
  Prefetch prefetch() {
    Prefetch out;
    out.buffer = buffer(word());
    expect("[");
    out.index = indices_of(*out.buffer);
    expect("]");
    return out;
  }
  Instruction instruction() {
    const std::string_view name = word();
    const auto row = std::find_if(std::begin(kInstructions), std::end(kInstructions),
                                  [&](const InstructionInfo& known) { return known.name == name; });
    if (row == std::end(kInstructions)) fail(fmt::format("'{}' is no instruction", name));
    return static_cast<Instruction>(row - std::begin(kInstructions));
  }
  Store store() {
    Store out;
    out.streaming = accept_word("stream");
    out.buffer = buffer(word());
    expect("[");
    if (accept("@")) {
      out.scatter = value(0);
    } else {
      out.index = indices_of(*out.buffer);
      if (accept(";")) {
        expect("lanes:");
        out.lanes = lanes();
      }
    }
    expect("]");
    constexpr std::pair<std::string_view, Op> combines[] = {
        {"+=", Op::Add}, {"*=", Op::Mul}, {"max=", Op::Max}, {"|=", Op::Or}, {"&=", Op::And}};
    for (const auto& [token, op] : combines)
      if (!out.combine && accept(token)) out.combine = op;
    if (!out.combine) expect("=");
    out.value = value(0);
    if (out.value->dtype != out.buffer->dtype)
      fail(fmt::format("a {} stored to {}, expected {}", to_string(out.value->dtype), out.buffer->name,
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
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    for (const Infix& row : rows)
      if (text_.substr(at_, row.text.size()) == row.text) return row;
    return {};
  }
  ValueRef apply(Op op, std::vector<ValueRef> sources) {
    if (static_cast<int>(sources.size()) != info(op).arity)
      fail(fmt::format("{} takes {} operands, not {}", to_string(op), info(op).arity, sources.size()));
    const DType operand = sources.back()->dtype;
    return make_exact(op, result_dtype(op, operand), std::move(sources));
  }
  ValueRef value(int level) {
    if (++nesting_ > kMaxNesting) fail("nested too deeply");
    ValueRef left = primary();
    for (auto op = infix(); op && op->level >= level; op = infix()) {
      at_ += op->text.size();
      ValueRef right = value(op->level + 1);
      left = apply(op->op, {std::move(left), std::move(right)});
    }
    --nesting_;
    return left;
  }
  ValueRef primary() {
    const char c = peek();
    if (accept("(")) {
      ValueRef inner = value(0);
      expect(")");
      return inner;
    }
    if (accept("%")) {
      auto it = lets_.find(number());
      if (it == lets_.end()) fail("a % name without its let");
      return it->second;
    }
    if (is_digit(c) || c == '-') return scalar();
    const size_t begin = at_;
    const std::string name(word());
    if (peek() == ':') {
      at_ = begin;
      return scalar();
    }
    if (accept("[")) return element(buffer(name));
    expect("(");
    if (const auto as = dtype_named(name)) {
      const Expr e = expr(until(")"));
      expect(")");
      return index_value(e, *as);
    }
    std::vector<ValueRef> sources;
    do sources.push_back(value(0));
    while (accept(","));
    expect(")");
    for (Op op : {Op::Cast, Op::Bitcast}) {
      const std::string_view prefix = op == Op::Cast ? "cast_" : "bitcast_";
      if (!name.starts_with(prefix)) continue;
      const auto to = dtype_named(std::string_view(name).substr(prefix.size()));
      if (!to) fail(fmt::format("unknown function '{}'", name));
      return make_exact(op, *to, std::move(sources));
    }
    if (name == "rounded" && sources.size() == 1) return rounded(sources[0]);
    auto it = functions().find(name);
    if (it == functions().end()) fail(fmt::format("unknown function '{}'", name));
    return apply(it->second, std::move(sources));
  }
  ValueRef scalar() {
    const std::string_view text = until(":");
    expect(":");
    return constant(parse_scalar(dtype(), text));
  }
  ValueRef element(BufferRef from) {
    ValueRef flat;
    std::vector<Expr> index, guards;
    int64_t ahead = 0;
    LaneAccess access;
    if (accept("@"))
      flat = value(0);
    else
      index = exprs(']');
    while (accept(";"))
      if (!flat && accept("ahead:"))
        ahead = number();
      else if (!flat && accept("lanes:"))
        access = lanes();
      else
        guards.push_back(expr(until(";]")));
    expect("]");
    return flat ? gather(std::move(from), std::move(flat), std::move(guards))
                : load(std::move(from), std::move(index), std::move(guards), ahead, access);
  }

  std::string_view text_;
  size_t at_ = 0;
  bool located_ = false;
  int nesting_ = 0, next_loop_ = 0, next_buffer_ = 0;
  std::vector<Expr> vars_;
  std::vector<BufferRef> buffers_;
  std::unordered_map<int64_t, ValueRef> lets_;
};

} // namespace

Kernel parse(std::string_view text) { return Parser(text).kernel(); }

} // namespace lathe::ast
