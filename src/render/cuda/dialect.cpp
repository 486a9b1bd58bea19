// The CUDA C dialect: C++ with a vector type of our own, since CUDA's vector types have no arithmetic.
#include <fmt/format.h>

#include "lathe/error.hpp"
#include "render/cuda/cuda.hpp"

namespace lathe::render {
namespace {

class CudaDialect : public Dialect {
public:
  std::string type(DType dtype, int lanes) const override {
    return lanes == 1 ? c_scalar_name(dtype) : fmt::format("lathe_vec<{}, {}>", c_scalar_name(dtype), lanes);
  }
  std::string storage_type(DType dtype) const override {
    return is_half(dtype) ? "uint16_t" : c_scalar_name(dtype);
  }
  std::string index_type() const override { return "int64_t"; }
  std::string integer_suffix(DType dtype) const override { return dtype == DType::U64 ? "ULL" : "LL"; }
  std::string infinity(DType dtype) const override { return helper("infinity", dtype); }
  std::string nan(DType dtype) const override { return helper("nan", dtype); }

  std::string splat(const std::string& scalar, DType dtype, int lanes) const override {
    return fmt::format("lathe_splat<{}, {}>({})", c_scalar_name(dtype), lanes, scalar);
  }
  std::string from_lanes(const std::vector<std::string>& scalars, DType dtype) const override {
    return fmt::format("lathe_lanes<{}>({})", c_scalar_name(dtype), fmt::join(scalars, ", "));
  }
  std::string lane(const std::string& vector, int index) const override {
    return fmt::format("{}.e[{}]", vector, index);
  }
  std::string half(const std::string& vector, bool second, int) const override {
    return fmt::format("lathe_half<{}>({})", second ? 1 : 0, vector);
  }
  std::string shuffle(const std::string& a, const std::string& b, const std::vector<int>& pick,
                      DType) const override {
    return fmt::format("lathe_pick<{}>({}, {})", fmt::join(pick, ", "), a, b);
  }
  std::string convert(const std::string& value, DType, DType to, int lanes) const override {
    return lanes == 1 ? fmt::format("({}){}", type(to, 1), value)
                      : fmt::format("lathe_convert<{}>({})", c_scalar_name(to), value);
  }
  std::string reinterpret(const std::string& value, DType from, DType to, int lanes) const override {
    const bool from_half = is_half(from), to_half = is_half(to);
    const std::string bits = from_half ? fmt::format("{}({})", helper("bits", from), value)
                             : to_half ? fmt::format("(uint16_t){}", value)
                                       : value;
    if (to_half) return fmt::format("{}({})", helper("value", to), bits);
    return fmt::format("lathe_as<{}>({})", type(to, lanes), bits);
  }
  std::string any(const std::string& mask, int, int) const override {
    return fmt::format("lathe_any({})", mask);
  }
  std::string select(const std::string& mask, const std::string& a, const std::string& b, DType,
                     int) const override {
    return fmt::format("lathe_where({}, {}, {})", mask, a, b);
  }
  std::string select_compared(Op compare, DType, const std::string& x, const std::string& y,
                              const std::string& a, const std::string& b, DType, int) const override {
    return fmt::format("lathe_where({} {} {}, {}, {})", x, compare == Op::CmpLt ? "<" : "!=", y, a, b);
  }
  std::string fma(const std::string& a, const std::string& b, const std::string& c, DType,
                  int lanes) const override {
    return fmt::format("{}fma({}, {}, {})", lanes == 1 ? "" : "lathe_", a, b, c);
  }
  std::string extreme(bool larger, const std::string& a, const std::string& b, DType,
                      int lanes) const override {
    const char* op = larger ? ">" : "<";
    return lanes == 1 ? fmt::format("({0} {2} {1} ? {0} : {1})", a, b, op)
                      : fmt::format("lathe_where({0} {2} {1}, {0}, {1})", a, b, op);
  }
  std::string max(const std::string& a, const std::string& b, DType dtype, int lanes) const override {
    const std::string larger = extreme(true, a, b, dtype, lanes);
    return is_float(dtype) ? fmt::format("lathe_where({0} != {0}, {0}, {1})", a, larger) : larger;
  }
  std::string function(Op op, const std::string& a, DType, int lanes) const override {
    return fmt::format("{}{}({})", lanes == 1 ? "" : "lathe_", function_of(op), a);
  }
  bool has_vector_function(Op) const override { return true; }

  std::string vector_load(const std::string& pointer, DType dtype, int lanes) const override {
    return fmt::format("lathe_load<{}, {}>({})", c_scalar_name(dtype), lanes, pointer);
  }
  std::string vector_store(const std::string& pointer, const std::string& value, DType, int,
                           bool) const override {
    return fmt::format("lathe_store({}, {});", pointer, value);
  }
  std::string prefetch(const std::string& pointer, CacheLevel) const override {
    return fmt::format("lathe_prefetch({});", pointer);
  }
  int vector_bytes() const override { return 16; }
};

} // namespace

std::unique_ptr<Dialect> make_cuda_dialect() { return std::make_unique<CudaDialect>(); }

} // namespace lathe::render
