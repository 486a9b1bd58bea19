// A Dialect holds the types and expressions that differ between C with vector extensions, OpenCL C and CUDA
// C. These languages share the printers.
//
// A value of `lanes` 1 is a scalar. f16 and bf16 values are floats, rounded after every op; only memory holds
// their bits. A bool is 0 or 1 as a scalar; as a vector it is a mask: signed integers of some width, 0 or -1.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "ast/machine/forms.hpp"
#include "core/instruction.hpp"
#include "lathe/dtype.hpp"
#include "render/prefetch.hpp"

namespace lathe::render {

/// Vector operations that only some languages have. load and store touch only the lanes in [lo, hi). `lo` and
/// `hi` are expressions whose values may lie outside of the vector. Lanes that are not loaded are 0.
class LaneAccess {
public:
  virtual ~LaneAccess() = default;
  virtual std::string load(const std::string& pointer, DType dtype, int lanes, const std::string& lo,
                           const std::string& hi) const = 0;
  virtual std::string store(const std::string& pointer, const std::string& value, DType dtype, int lanes,
                            int hi) const = 0;
  /// Whether load_apart and store_apart exist for this type. Their lanes lie at `offsets`, in elements.
  virtual bool has_offsets(DType dtype, int lanes) const = 0;
  virtual std::string load_apart(const std::string& pointer, const std::vector<int64_t>& offsets, DType dtype,
                                 const std::string& lo, const std::string& hi) const = 0;
  virtual std::string store_apart(const std::string& pointer, const std::vector<int64_t>& offsets,
                                  const std::string& value, DType dtype, int hi) const = 0;
  /// f16 and bf16: half_values makes floats from the bits in memory (a vector of u16), half_bits rounds
  /// floats to such bits, and half_rounded rounds floats to floats. The first argument is a name.
  virtual std::string half_values(const std::string& bits, DType dtype, int lanes) const = 0;
  virtual std::string half_bits(const std::string& values, DType dtype, int lanes) const = 0;
  virtual std::string half_rounded(const std::string& values, DType dtype, int lanes) const = 0;
};

class Dialect {
public:
  virtual ~Dialect() = default;

  virtual std::string type(DType dtype, int lanes) const = 0; // of a local variable
  virtual std::string storage_type(DType dtype) const = 0;    // of an element in memory
  virtual std::string index_type() const = 0;                 // 64 bits, signed
  virtual std::string integer_suffix(DType dtype) const = 0;  // of a 64-bit literal
  virtual std::string infinity(DType dtype) const = 0;
  virtual std::string nan(DType dtype) const = 0;

  virtual std::string splat(const std::string& scalar, DType dtype, int lanes) const = 0;
  virtual std::string from_lanes(const std::vector<std::string>& scalars, DType dtype) const = 0;
  virtual std::string lane(const std::string& vector, int index) const = 0;
  /// The first or the second half of a vector of `lanes` lanes.
  virtual std::string half(const std::string& vector, bool second, int lanes) const = 0;
  /// The lanes `pick` of a and b; the lanes of b are numbered after those of a.
  virtual std::string shuffle(const std::string& a, const std::string& b, const std::vector<int>& pick,
                              DType dtype) const = 0;
  virtual std::string convert(const std::string& value, DType from, DType to,
                              int lanes) const = 0; // the value is in range of `to`
  /// The same bits as another dtype, in parentheses.
  virtual std::string reinterpret(const std::string& value, DType from, DType to, int lanes) const = 0;
  /// A C condition: whether any lane of the mask is set. The mask's integers are `bytes` wide.
  virtual std::string any(const std::string& mask, int bytes, int lanes) const = 0;
  /// a where the mask is set, else b. The mask's integers are as wide as the elements.
  virtual std::string select(const std::string& mask, const std::string& a, const std::string& b, DType dtype,
                             int lanes) const = 0;
  /// a where the comparison (CmpLt, CmpNe) of x and y holds, else b. The elements of `compared`, the dtype of
  /// x and y, are as wide as those of `dtype`.
  virtual std::string select_compared(Op compare, DType compared, const std::string& x, const std::string& y,
                                      const std::string& a, const std::string& b, DType dtype,
                                      int lanes) const = 0;
  virtual std::string fma(const std::string& a, const std::string& b, const std::string& c, DType dtype,
                          int lanes) const = 0;
  /// y * 2^n, rounded once, for f32 and a whole number n. Only if has_scale.
  virtual std::string scale(const std::string&, const std::string&, int) const { return {}; }
  virtual bool has_scale() const { return false; }
  /// Floats: a > b ? a : b (larger) or a < b ? a : b, which is b if either is NaN.
  virtual std::string extreme(bool larger, const std::string& a, const std::string& b, DType dtype,
                              int lanes) const = 0;
  /// The larger of two vectors, lane by lane; NaN if either lane is NaN.
  virtual std::string max(const std::string& a, const std::string& b, DType dtype, int lanes) const = 0;
  /// Sqrt, Trunc, Exp2, Log2, Sin, Cos. With lanes only if has_vector_function.
  virtual std::string function(Op op, const std::string& a, DType dtype, int lanes) const = 0;
  virtual bool has_vector_function(Op op) const = 0;

  /// `pointer` is an address of elements of storage_type.
  virtual std::string vector_load(const std::string& pointer, DType dtype, int lanes) const = 0;
  virtual std::string vector_store(const std::string& pointer, const std::string& value, DType dtype,
                                   int lanes, bool streaming) const = 0;
  /// Null if the language can't touch some lanes of a vector; then it has no vectors of halves either.
  virtual const LaneAccess* lane_access() const { return nullptr; }
  /// The statement that prefetches the cache line at `pointer`.
  virtual std::string prefetch(const std::string& pointer, CacheLevel level) const = 0;
  /// f16 and bf16: element `buffer[index]` as a float, and the statement that stores one.
  std::string half_load(const std::string& buffer, const std::string& index, DType dtype) const;
  std::string half_store(const std::string& buffer, const std::string& index, const std::string& value,
                         DType dtype) const;
  /// Whether loads may also read the elements between those of the lanes, which may be uninitialised.
  virtual bool loads_between() const { return false; }
  /// Bytes of the widest vector.
  virtual int vector_bytes() const = 0;

  /// The rows of the instruction table that add_products can write: instructions on vectors of i32.
  virtual Instructions tensor_instructions() const { return {}; }
  /// The bytes of an operand as add_products takes them, a vector of i32: in each lane as many elements as
  /// the row adds products. `all_lanes`: the same ones, which lie at `pointer`; else each lane has its own.
  virtual std::string product_operand(Instruction, DType, const std::string&, int, bool) const { return {}; }
  /// `sum` plus the products of the lanes' elements. All three are names.
  virtual std::string add_products(Instruction, const std::string&, const std::string&, const std::string&,
                                   int) const {
    return {};
  }
};

using ast::bytes_in_register;

/// The C type of a scalar, from <stdint.h> for integers; halves are floats.
const char* c_scalar_name(DType dtype);
/// The name of Sqrt, Trunc, Exp2, Log2, Sin or Cos in C, OpenCL C and CUDA C.
const char* function_of(Op op);
/// Name of lathe's own helper for a dtype: lathe_<what>_<dtype>.
std::string helper(const char* what, DType dtype);
std::string parens(const std::string& text);
/// The unsigned (signed) integer dtype of `bytes`.
DType unsigned_of(int bytes);
DType signed_of(int bytes);

std::unique_ptr<Dialect> make_c_dialect(int vector_bytes);
std::unique_ptr<Dialect> make_opencl_dialect();

} // namespace lathe::render
