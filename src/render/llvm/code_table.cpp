#include "render/llvm/code_table.hpp"

#include <unordered_map>
#include <vector>

namespace lathe::render {
namespace {

constexpr size_t kMostOps = 32; // of a value that is looked up

std::optional<int64_t> number_of(const ast::ValueRef& value) {
  if (value->op != Op::Const || !is_integer(value->dtype)) return {};
  return std::get<Scalar>(value->attr).as_int();
}

/// The unsigned number of 8 bits that a cast makes wider.
ast::ValueRef before_cast(const ast::ValueRef& value) {
  return value->op == Op::Cast && value->sources[0]->dtype == DType::U8 ? value->sources[0] : value;
}

struct Code {
  ast::ValueRef bytes;
  int shift = 0;
  bool is_masked = false; // away from other bits of the number
};

/// The value as four bits of a number.
std::optional<Code> code_of(const ast::ValueRef& value) {
  constexpr int kByte = 8, kCode = 4;
  const auto at = [&](const ast::ValueRef& moved) -> std::optional<Code> {
    ast::ValueRef number = moved;
    int by = 0;
    if (moved->op == Op::Shr) {
      const std::optional<int64_t> distance = number_of(moved->sources[1]);
      if (!distance) return {};
      number = moved->sources[0];
      by = static_cast<int>(*distance);
    }
    number = before_cast(number);
    if (number->op == Op::Const || by < 0) return {};
    if (number->dtype == DType::U8 && by < kByte) return Code{number, by, by + kCode < kByte};
    if (number->dtype == DType::I32 && by < 32) return Code{number, by, true};
    return {};
  };
  if (value->op == Op::And) {
    const std::optional<int64_t> mask = number_of(value->sources[1]);
    if (!mask || *mask < 1 || *mask >= CodeTable::kCodes) return {};
    return at(value->sources[0]);
  }
  if (value->op != Op::Shr) return {};
  const std::optional<Code> code = at(value);
  return code && code->bytes->dtype == DType::U8 && code->shift >= kByte - kCode ? code : std::nullopt;
}

/// What a value computes from its code, if it has one and no other source.
class Above {
public:
  explicit Above(const ast::Value& root) : fits_(visit(root)) {}
  const ast::Value* code() const { return fits_ ? code_ : nullptr; }
  const std::optional<Code>& bits() const { return bits_; }

  float at(int code) const {
    std::unordered_map<const ast::Value*, Scalar> known{{code_, Scalar::of_int(code_->dtype, code)}};
    for (const ast::Value* value : order_) {
      std::vector<Scalar> sources;
      for (const ast::ValueRef& s : value->sources)
        sources.push_back(s->op == Op::Const ? std::get<Scalar>(s->attr) : known.at(s.get()));
      known[value] = evaluate(value->op, value->dtype, sources);
    }
    return static_cast<float>(known.at(order_.back()).as_float());
  }

private:
  bool visit(const ast::Value& value) {
    for (const ast::Value* seen : order_)
      if (seen == &value) return true;
    if (!is_elementwise(value.op) || order_.size() == kMostOps) return false;
    for (const ast::ValueRef& s : value.sources) {
      if (s->op == Op::Const || s.get() == code_) continue;
      const std::optional<Code> code = code_of(s);
      if (code && code_) return false;
      if (code) {
        code_ = s.get();
        bits_ = code;
      } else if (!visit(*s)) {
        return false;
      }
    }
    order_.push_back(&value);
    return true;
  }

  const ast::Value* code_ = nullptr;
  std::optional<Code> bits_;
  std::vector<const ast::Value*> order_;
  bool fits_;
};

} // namespace

std::optional<CodeTable> find_code_table(const ast::Value& value) {
  if (value.dtype != DType::F32 || !is_elementwise(value.op)) return {};
  const Above above(value);
  if (!above.code()) return {};
  CodeTable table{above.bits()->bytes, above.bits()->shift, {}};
  const ast::Value& code = *above.code();
  const int64_t mask = code.op == Op::And ? *number_of(code.sources[1]) : 0xFF >> table.shift;
  bool is_identity = true;
  for (int k = 0; k < CodeTable::kCodes; ++k) {
    table.numbers[static_cast<size_t>(k)] = above.at(static_cast<int>(k & mask));
    is_identity &= table.numbers[static_cast<size_t>(k)] == static_cast<float>(k);
  }
  if (is_identity && !above.bits()->is_masked) return {};
  return table;
}

} // namespace lathe::render
