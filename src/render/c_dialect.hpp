// What differs between C with vector extensions and OpenCL C in types and expressions; the printers are
// shared.
//
// A value of `lanes` 1 is a scalar. f16 and bf16 values are floats, rounded after every op; only memory holds
// their bits. A bool is 0 or 1 as a scalar; as a vector it is a mask: signed integers of some width, 0 or -1.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "ast/machine/forms.hpp"
#include "lathe/dtype.hpp"
#include "render/prefetch.hpp"

namespace lathe::render {

/// What only some languages do with lanes. Loads and stores of some: those from `lo` to before `hi`,
/// expressions that may lie outside of the vector. What is not loaded is 0.
class LaneAccess {
public:
  virtual ~LaneAccess() = default;
  virtual std::string load(const std::string& pointer, DType dtype, int lanes, const std::string& lo,
                           const std::string& hi) const = 0;
  virtual std::string store(const std::string& pointer, const std::string& value, DType dtype, int lanes,
                            int hi) const = 0;
  /// Whether there are the next two: lanes that lie apart, each by an offset of 32 bits in elements.
  virtual bool has_offsets(DType dtype, int lanes) const = 0;
  virtual std::string load_apart(const std::string& pointer, const std::vector<int64_t>& offsets, DType dtype,
                                 const std::string& lo, const std::string& hi) const = 0;
  virtual std::string store_apart(const std::string& pointer, const std::vector<int64_t>& offsets,
                                  const std::string& value, DType dtype, int hi) const = 0;
  /// f16 and bf16: floats from the bits that memory holds (a vector of u16), the bits of floats, rounded, and
  /// floats rounded. The argument is a name.
  virtual std::string half_values(const std::string& bits, DType dtype, int lanes) const = 0;
  virtual std::string half_bits(const std::string& values, DType dtype, int lanes) const = 0;
  virtual std::string half_rounded(const std::string& values, DType dtype, int lanes) const = 0;
};

class Dialect {
public:
  virtual ~Dialect() = default;

  virtual std::string type(DType dtype, int lanes) const = 0; // of a value in a local
  virtual std::string storage_type(DType dtype) const = 0;    // of an element in memory
  virtual std::string index_type() const = 0;                 // 64 bits, signed
  virtual std::string integer_suffix(DType dtype) const = 0;  // of a literal of 64 bits
  virtual std::string infinity(DType dtype) const = 0;
  virtual std::string nan(DType dtype) const = 0;

  virtual std::string splat(const std::string& scalar, DType dtype, int lanes) const = 0;
  virtual std::string from_lanes(const std::vector<std::string>& scalars, DType dtype) const = 0;
  virtual std::string lane(const std::string& vector, int index) const = 0;
  /// The first or the second half of the lanes of a vector of `lanes`.
  virtual std::string half(const std::string& vector, bool second, int lanes) const = 0;
  /// Lanes of a and b, numbered on from a's to b's.
  virtual std::string shuffle(const std::string& a, const std::string& b, const std::vector<int>& pick,
                              DType dtype) const = 0;
  virtual std::string convert(const std::string& value, DType from, DType to,
                              int lanes) const = 0; // in range of `to`
  /// The same bits, in parentheses.
  virtual std::string reinterpret(const std::string& value, DType from, DType to, int lanes) const = 0;
  /// Whether a mask of `bytes` wide integers has any lane set, as a condition of C.
  virtual std::string any(const std::string& mask, int bytes, int lanes) const = 0;
  /// By a mask as wide as the elements.
  virtual std::string select(const std::string& mask, const std::string& a, const std::string& b, DType dtype,
                             int lanes) const = 0;
  /// By a comparison (CmpLt, CmpNe) of x and y of `compared`, whose elements are as wide as those of `dtype`.
  virtual std::string select_compared(Op compare, DType compared, const std::string& x, const std::string& y,
                                      const std::string& a, const std::string& b, DType dtype,
                                      int lanes) const = 0;
  virtual std::string fma(const std::string& a, const std::string& b, const std::string& c, DType dtype,
                          int lanes) const = 0;
  /// y * 2^n of f32 and n a whole number, rounded once; only where has_scale.
  virtual std::string scale(const std::string&, const std::string&, int) const { return {}; }
  virtual bool has_scale() const { return false; }
  /// Floats: a > b ? a : b (larger) or a < b ? a : b, so b where either is NaN.
  virtual std::string extreme(bool larger, const std::string& a, const std::string& b, DType dtype,
                              int lanes) const = 0;
  /// The larger of two vectors, or a NaN if one is there.
  virtual std::string max(const std::string& a, const std::string& b, DType dtype, int lanes) const = 0;
  /// Sqrt, Trunc, Exp2, Log2, Sin; with lanes only where has_vector_function.
  virtual std::string function(Op op, const std::string& a, DType dtype, int lanes) const = 0;
  virtual bool has_vector_function(Op op) const = 0;

  /// `pointer` is an address of elements of storage_type.
  virtual std::string vector_load(const std::string& pointer, DType dtype, int lanes) const = 0;
  virtual std::string vector_store(const std::string& pointer, const std::string& value, DType dtype,
                                   int lanes, bool streaming) const = 0;
  /// Null if the language can't touch only some of a vector's lanes, and has no vectors of halves.
  virtual const LaneAccess* lane_access() const { return nullptr; }
  /// The statement that asks for the line at `pointer`.
  virtual std::string prefetch(const std::string& pointer, CacheLevel level) const = 0;
  /// f16 and bf16: element `buffer[index]` as a float, and the statement that stores one.
  std::string half_load(const std::string& buffer, const std::string& index, DType dtype) const;
  std::string half_store(const std::string& buffer, const std::string& index, const std::string& value,
                         DType dtype) const;
  /// Whether elements between those that are read may be loaded with them: they may never have been written.
  virtual bool loads_between() const { return false; }
  /// Widest vector in bytes; the lane counts that exist.
  virtual int vector_bytes() const = 0;
};

using ast::bytes_in_register;

/// The types of C, <stdint.h> included; halves are floats.
const char* c_scalar_name(DType dtype);
/// Sqrt, Trunc, Exp2, Log2, Sin and Cos as C, OpenCL C and CUDA C call them.
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
