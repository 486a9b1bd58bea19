// The OpenCL C 1.2 dialect: its own vector types, conversions and vector functions. It converts halves by
// their bits, since cl_khr_fp16 is rare on CPUs.
#include <fmt/format.h>

#include "lathe/error.hpp"
#include "render/c_dialect.hpp"

namespace lathe::render {
namespace {

const char* scalar_name(DType dtype) {
  constexpr const char* names[kDTypeCount] = {"uchar", "char",  "short", "int",   "long",  "uchar", "ushort",
                                              "uint",  "ulong", "float", "float", "float", "double"};
  return names[static_cast<int>(dtype)];
}

class OpenClDialect : public Dialect {
public:
  std::string type(DType dtype, int lanes) const override {
    return lanes == 1 ? scalar_name(dtype) : fmt::format("{}{}", scalar_name(dtype), lanes);
  }
  std::string storage_type(DType dtype) const override {
    return is_half(dtype) ? "ushort" : scalar_name(dtype);
  }
  std::string index_type() const override { return "long"; }
  std::string integer_suffix(DType dtype) const override { return dtype == DType::U64 ? "UL" : "L"; }
  std::string infinity(DType dtype) const override {
    return dtype == DType::F64 ? "((double)INFINITY)" : "INFINITY";
  }
  std::string nan(DType dtype) const override { return dtype == DType::F64 ? "((double)NAN)" : "NAN"; }

  std::string splat(const std::string& scalar, DType dtype, int lanes) const override {
    return fmt::format("(({})({}))", type(dtype, lanes), scalar);
  }
  std::string from_lanes(const std::vector<std::string>& scalars, DType dtype) const override {
    return fmt::format("(({})({}))", type(dtype, static_cast<int>(scalars.size())), fmt::join(scalars, ", "));
  }
  std::string lane(const std::string& vector, int index) const override {
    return fmt::format("{}.s{:x}", vector, index);
  }
  std::string half(const std::string& vector, bool second, int) const override {
    return fmt::format("{}.{}", vector, second ? "hi" : "lo");
  }
  std::string shuffle(const std::string& a, const std::string& b, const std::vector<int>& pick,
                      DType dtype) const override {
    const std::string mask = type(unsigned_of(size_of(dtype)), static_cast<int>(pick.size()));
    return fmt::format("shuffle2({}, {}, ({})({}))", a, b, mask, fmt::join(pick, ", "));
  }
  std::string convert(const std::string& value, DType, DType to, int lanes) const override {
    return lanes == 1 ? fmt::format("({}){}", type(to, 1), value)
                      : fmt::format("convert_{}({})", type(to, lanes), value);
  }
  std::string reinterpret(const std::string& value, DType from, DType to, int lanes) const override {
    if (lanes == 1 && !is_float(from) && !is_float(to)) return fmt::format("(({})({}))", type(to, 1), value);
    const bool from_half = size_of(from) == 2 && is_float(from), to_half = size_of(to) == 2 && is_float(to);
    if (from_half || to_half) {
      const std::string bits =
          from_half ? fmt::format("{}({})", helper("bits", from), value) : fmt::format("(ushort){}", value);
      return to_half ? fmt::format("{}({})", helper("value", to), bits)
                     : fmt::format("(({}){})", type(to, 1), bits);
    }
    return fmt::format("as_{}({})", type(to, lanes), value);
  }
  std::string select(const std::string& mask, const std::string& a, const std::string& b, DType,
                     int) const override {
    return fmt::format("select({}, {}, {})", b, a, mask);
  }
  std::string select_compared(Op compare, DType, const std::string& x, const std::string& y,
                              const std::string& a, const std::string& b, DType, int) const override {
    return fmt::format("select({}, {}, {} {} {})", b, a, x, compare == Op::CmpLt ? "<" : "!=", y);
  }
  std::string any(const std::string& mask, int, int) const override { return fmt::format("any({})", mask); }
  std::string fma(const std::string& a, const std::string& b, const std::string& c, DType,
                  int) const override {
    return fmt::format("fma({}, {}, {})", a, b, c);
  }
  std::string extreme(bool larger, const std::string& a, const std::string& b, DType,
                      int lanes) const override {
    const char* op = larger ? ">" : "<";
    return lanes == 1 ? fmt::format("({0} {2} {1} ? {0} : {1})", a, b, op)
                      : fmt::format("select({1}, {0}, {0} {2} {1})", a, b, op);
  }
  std::string max(const std::string& a, const std::string& b, DType dtype, int lanes) const override {
    if (!is_float(dtype)) return fmt::format("max({}, {})", a, b);
    return fmt::format("select({}, {}, {} != {})", extreme(true, a, b, dtype, lanes), a, a, a);
  }
  std::string function(Op op, const std::string& a, DType, int) const override {
    return fmt::format("{}({})", function_of(op), a);
  }
  bool has_vector_function(Op) const override { return true; }

  std::string vector_load(const std::string& pointer, DType, int lanes) const override {
    return fmt::format("vload{}(0, {})", lanes, pointer);
  }
  std::string vector_store(const std::string& pointer, const std::string& value, DType, int lanes,
                           bool) const override {
    return fmt::format("vstore{}({}, 0, {});", lanes, value, pointer);
  }
  std::string prefetch(const std::string& pointer, CacheLevel) const override {
    return fmt::format("prefetch({}, 1);", pointer);
  }
  int vector_bytes() const override { return 64; }
};

} // namespace

std::unique_ptr<Dialect> make_opencl_dialect() { return std::make_unique<OpenClDialect>(); }

} // namespace lathe::render
