// The C dialect: GCC's and Clang's vector extensions, and helpers of the prelude.
#include "render/c_dialect.hpp"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "lathe/error.hpp"
#include "render/c_helpers.hpp"

namespace lathe::render {

std::string helper(const char* what, DType dtype) {
  return fmt::format("lathe_{}_{}", what, to_string(dtype));
}

std::string parens(const std::string& text) { return fmt::format("({})", text); }

DType unsigned_of(int bytes) {
  return bytes == 1 ? DType::U8 : bytes == 2 ? DType::U16 : bytes == 4 ? DType::U32 : DType::U64;
}
DType signed_of(int bytes) {
  return bytes == 1 ? DType::I8 : bytes == 2 ? DType::I16 : bytes == 4 ? DType::I32 : DType::I64;
}

const char* c_scalar_name(DType dtype) {
  constexpr const char* names[kDTypeCount] = {"uint8_t", "int8_t",   "int16_t",  "int32_t",  "int64_t",
                                              "uint8_t", "uint16_t", "uint32_t", "uint64_t", "float",
                                              "float",   "float",    "double"};
  return names[static_cast<int>(dtype)];
}

const char* function_of(Op op) {
  switch (op) {
  case Op::Sqrt: return "sqrt";
  case Op::Trunc: return "trunc";
  case Op::Exp2: return "exp2";
  case Op::Log2: return "log2";
  case Op::Sin: return "sin";
  case Op::Cos: return "cos";
  default: throw InternalError(fmt::format("renderer: no function for {}", to_string(op)));
  }
}

std::string Dialect::half_load(const std::string& buffer, const std::string& index, DType dtype) const {
  return fmt::format("{}({}[{}])", helper("value", dtype), buffer, index);
}
std::string Dialect::half_store(const std::string& buffer, const std::string& index, const std::string& value,
                                DType dtype) const {
  return fmt::format("{}[{}] = {}({});", buffer, index, helper("bits", dtype), value);
}

namespace {

class CLaneAccess : public LaneAccess {
public:
  std::string load(const std::string& pointer, DType dtype, int lanes, const std::string& lo,
                   const std::string& hi) const override {
    return fmt::format("lathe_load_part_{}({}, {}, {})", suffix(dtype, lanes), pointer, lo, hi);
  }
  std::string store(const std::string& pointer, const std::string& value, DType dtype, int lanes,
                    int hi) const override {
    return fmt::format("lathe_store_part_{}({}, {}, {});", suffix(dtype, lanes), pointer, value, hi);
  }
  bool has_offsets(DType dtype, int lanes) const override {
    return (size_of(dtype) == 4 && lanes == 16) || (size_of(dtype) == 8 && lanes == 8);
  }
  std::string load_apart(const std::string& pointer, const std::vector<int64_t>& offsets, DType dtype,
                         const std::string& lo, const std::string& hi) const override {
    return fmt::format("lathe_load_apart_{}({}, {}, {}, {})", suffix(dtype, static_cast<int>(offsets.size())),
                       pointer, lo, hi, fmt::join(offsets, ", "));
  }
  std::string store_apart(const std::string& pointer, const std::vector<int64_t>& offsets,
                          const std::string& value, DType dtype, int hi) const override {
    return fmt::format("lathe_store_apart_{}({}, {}, {}, {});",
                       suffix(dtype, static_cast<int>(offsets.size())), pointer, value, hi,
                       fmt::join(offsets, ", "));
  }
  std::string half_values(const std::string& bits, DType dtype, int lanes) const override {
    return fmt::format("lathe_value_{}({})", suffix(dtype, lanes), bits);
  }
  std::string half_bits(const std::string& values, DType dtype, int lanes) const override {
    return fmt::format("lathe_bits_{}({})", suffix(dtype, lanes), values);
  }
  std::string half_rounded(const std::string& values, DType dtype, int lanes) const override {
    return fmt::format("lathe_round_{}({})", suffix(dtype, lanes), values);
  }

private:
  static std::string suffix(DType dtype, int lanes) {
    return fmt::format("{}x{}", to_string(dtype == DType::Bool ? DType::U8 : dtype), lanes);
  }
};

class CDialect : public Dialect {
public:
  explicit CDialect(int vector_bytes) : vector_bytes_(vector_bytes) {}

  std::string type(DType dtype, int lanes) const override {
    if (lanes == 1) return c_scalar_name(dtype);
    const DType element = dtype == DType::Bool ? DType::U8 : is_half(dtype) ? DType::F32 : dtype;
    return fmt::format("lathe_{}x{}", to_string(element), lanes);
  }
  std::string storage_type(DType dtype) const override {
    return is_half(dtype) ? "uint16_t" : c_scalar_name(dtype);
  }
  std::string index_type() const override { return "int64_t"; }
  std::string integer_suffix(DType dtype) const override { return dtype == DType::U64 ? "ULL" : "LL"; }
  std::string infinity(DType dtype) const override { return helper("infinity", dtype); }
  std::string nan(DType dtype) const override { return helper("nan", dtype); }

  std::string splat(const std::string& scalar, DType dtype, int lanes) const override {
    return fmt::format("lathe_splat{}({}, {})", lanes, type(dtype, lanes), scalar);
  }
  std::string from_lanes(const std::vector<std::string>& scalars, DType dtype) const override {
    return fmt::format("(({}){{{}}})", type(dtype, static_cast<int>(scalars.size())),
                       fmt::join(scalars, ", "));
  }
  std::string lane(const std::string& vector, int index) const override {
    return fmt::format("{}[{}]", vector, index);
  }
  std::string half(const std::string& vector, bool second, int lanes) const override {
    std::vector<int> pick(lanes / 2);
    std::iota(pick.begin(), pick.end(), second ? lanes / 2 : 0);
    return fmt::format("__builtin_shufflevector({0}, {0}, {1})", vector, fmt::join(pick, ", "));
  }
  std::string shuffle(const std::string& a, const std::string& b, const std::vector<int>& pick,
                      DType) const override {
    return fmt::format("__builtin_shufflevector({}, {}, {})", a, b, fmt::join(pick, ", "));
  }
  std::string convert(const std::string& value, DType from, DType to, int lanes) const override {
    if (lanes == 1) return fmt::format("({}){}", type(to, 1), value);
    return convert_vector(value, from, to, lanes);
  }
  std::string reinterpret(const std::string& value, DType from, DType to, int lanes) const override {
    if (lanes > 1 || (!is_float(from) && !is_float(to)))
      return fmt::format("(({})({}))", type(to, lanes), value);
    const bool from_half = size_of(from) == 2 && is_float(from), to_half = size_of(to) == 2 && is_float(to);
    if (from_half || to_half) { // a half in a register is a float; its bits are those in memory
      const std::string bits =
          from_half ? fmt::format("{}({})", helper("bits", from), value) : fmt::format("(uint16_t){}", value);
      return to_half ? fmt::format("{}({})", helper("value", to), bits)
                     : fmt::format("(({}){})", type(to, 1), bits);
    }
    return fmt::format("lathe_bits_{}_to_{}({})", to_string(from), to_string(to), value);
  }
  std::string select(const std::string& mask, const std::string& a, const std::string& b, DType dtype,
                     int lanes) const override {
    // GCC has ?: on vectors only in C++.
    const std::string bits = type(signed_of(size_of(dtype)), lanes);
    return fmt::format("({0})(({1} & ({2}){3}) | (~{1} & ({2}){4}))", type(dtype, lanes), mask, bits, a, b);
  }
  std::string select_compared(Op compare, DType compared, const std::string& x, const std::string& y,
                              const std::string& a, const std::string& b, DType dtype,
                              int lanes) const override {
    return fmt::format("lathe_where_{}_{}x{}({}, {}, {}, {}, {})", compare == Op::CmpLt ? "lt" : "ne",
                       to_string(compared), lanes, type(dtype, lanes), x, y, a, b);
  }
  std::string any(const std::string& mask, int bytes, int lanes) const override {
    const DType word = unsigned_of(std::min(8, bytes * lanes));
    const int words = bytes * lanes / size_of(word);
    if (words == 1) return fmt::format("((({}){}) != 0)", type(word, 1), mask);
    std::vector<std::string> parts;
    for (int i = 0; i < words; ++i)
      parts.push_back(fmt::format("(({})({}))[{}]", type(word, words), mask, i));
    return fmt::format("(({}) != 0)", fmt::join(parts, " | "));
  }
  std::string fma(const std::string& a, const std::string& b, const std::string& c, DType dtype,
                  int lanes) const override {
    const std::string name =
        lanes == 1 ? helper("fma", dtype) : fmt::format("lathe_fma_{}x{}", to_string(dtype), lanes);
    return fmt::format("{}({}, {}, {})", name, a, b, c);
  }
  std::string scale(const std::string& y, const std::string& n, int lanes) const override {
    return lanes == 1 ? fmt::format("lathe_scale_f32({}, {})", y, n)
                      : fmt::format("lathe_scale_f32x{}({}, {})", lanes, y, n);
  }
  bool has_scale() const override { return vector_bytes_ == 64; } // AVX-512 has the instruction
  std::string extreme(bool larger, const std::string& a, const std::string& b, DType dtype,
                      int lanes) const override {
    if (lanes == 1) return fmt::format("({0} {2} {1} ? {0} : {1})", a, b, larger ? ">" : "<");
    return fmt::format("lathe_{}_{}x{}({}, {})", larger ? "larger" : "lesser", to_string(dtype), lanes, a, b);
  }
  std::string max(const std::string& a, const std::string& b, DType dtype, int lanes) const override {
    return fmt::format("lathe_max_{}x{}({}, {})", to_string(dtype), lanes, a, b);
  }
  std::string function(Op op, const std::string& a, DType dtype, int lanes) const override {
    const char* name = function_of(op);
    if (lanes > 1) return fmt::format("lathe_{}_{}x{}({})", name, to_string(dtype), lanes, a);
    return fmt::format("{}({})", helper(name, dtype), a);
  }
  bool has_vector_function(Op op) const override { return op == Op::Sqrt || op == Op::Trunc; }

  std::string vector_load(const std::string& pointer, DType dtype, int lanes) const override {
    return fmt::format("*(const {}_u*)({})", type(dtype, lanes), pointer);
  }
  std::string vector_store(const std::string& pointer, const std::string& value, DType dtype, int lanes,
                           bool streaming) const override {
    const int bytes = size_of(dtype) * lanes;
    if (streaming && (bytes == 16 || bytes == 32 || bytes == 64))
      return fmt::format("lathe_stream{}({}, {}, {});", bytes, type(dtype, lanes), pointer, value);
    return fmt::format("*({}_u*)({}) = {};", type(dtype, lanes), pointer, value);
  }
  std::string prefetch(const std::string& pointer, CacheLevel level) const override {
    return fmt::format("lathe_prefetch{}({});", level == CacheLevel::Second ? "_far" : "", pointer);
  }
  const LaneAccess* lane_access() const override { return &lane_access_; }
  bool loads_between() const override { return true; }
  int vector_bytes() const override { return vector_bytes_; }

  Instructions tensor_instructions() const override {
    using enum Instruction;
    if (vector_bytes_ < 16) return {}; // plain C
    return {PairU8I8, PairI8U8, PairI8I8, PairU8U8, PairI16I8, PairI16U8, PairI16I16, DotU8I8, DotI8U8};
  }
  std::string product_operand(Instruction by, DType dtype, const std::string& pointer, int lanes,
                              bool all_lanes) const override {
    const int bytes = info(by).k * size_of(dtype);
    const DType word = unsigned_of(bytes);
    const std::string words = all_lanes ? splat(fmt::format("lathe_bytes{}({})", bytes, pointer), word, lanes)
                                        : vector_load(pointer, word, lanes);
    return info(by).widens(dtype) ? fmt::format("lathe_pairs_{}x{}({})", to_string(dtype), lanes, words)
                                  : reinterpret(words, word, DType::I32, lanes);
  }
  std::string add_products(Instruction by, const std::string& sum, const std::string& a, const std::string& b,
                           int lanes) const override {
    if (info(by).is_pair()) return fmt::format("lathe_add_pairs_x{}({}, {}, {})", lanes, sum, a, b);
    const bool is_swapped = is_signed(info(by).a); // the helper takes the unsigned operand first
    return fmt::format("lathe_add_dots_x{}({}, {}, {})", lanes, sum, is_swapped ? b : a, is_swapped ? a : b);
  }

private:
  int vector_bytes_;
  CLaneAccess lane_access_;
};

} // namespace

std::unique_ptr<Dialect> make_c_dialect(int vector_bytes) { return std::make_unique<CDialect>(vector_bytes); }

} // namespace lathe::render
