// Value: what flows along the edges of an ONNX model: a tensor, a sequence of values, or nothing (an input left out, an
// empty optional; an optional that holds something is that thing). Cheap to copy; immutable.
//
//   Value v = Tensor::from({1.f, 2.f});
//   Value list = Value::sequence(DType::F32, {v, v});
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lathe/tensor.hpp"

namespace lathe::onnx {

class Value {
 public:
  enum class Kind { None, Tensor, Sequence };

  Value() = default;                         // None
  Value(lathe::Tensor tensor);
  /// Elements are tensors (or sequences) of any shapes; `dtype` is kept for a sequence of nothing.
  static Value sequence(DType dtype, std::vector<Value> elements);

  Kind kind() const { return kind_; }
  bool is_none() const { return kind_ == Kind::None; }
  bool is_tensor() const { return kind_ == Kind::Tensor; }
  bool is_sequence() const { return kind_ == Kind::Sequence; }
  bool is_empty() const;   ///< a tensor one of whose sizes is 0

  DType dtype() const { return dtype_; }       ///< of a tensor, or of a sequence's tensors
  const Shape& shape() const { return shape_; } ///< of a tensor
  int rank() const { return static_cast<int>(shape_.size()); }
  /// Error(Shape) for anything but a tensor.
  const lathe::Tensor& tensor() const;
  /// Error(Value) for anything but a sequence.
  const std::vector<Value>& elements() const;

  /// Of an integer or bool tensor, its elements in row-major order where the importer knows them: constants, sizes of other
  /// tensors (which may be symbolic), and what small arithmetic makes of those.
  const std::optional<std::vector<Expr>>& integers() const { return integers_; }
  Value with_integers(std::vector<Expr> integers) const;

 private:
  Kind kind_ = Kind::None;
  DType dtype_ = DType::F32;
  Shape shape_;
  std::optional<lathe::Tensor> tensor_;
  std::shared_ptr<const std::vector<Value>> elements_;
  std::optional<std::vector<Expr>> integers_;
};

/// Why a value is not what it should be. Kinds, dtypes and shapes have to be equal, integers exact, NaN where NaN is
/// expected, infinities equal; floats may differ by 1e-7 + tolerance * |expected|.
struct Difference {
  std::string why;   ///< "element 3 is 1, expected 2"; empty if there is none
  double worst = 0;  ///< the largest relative difference of floats that passed
};
/// Without a tolerance only kinds, dtypes and shapes are compared.
Difference compare(const Value& got, const Value& expected, std::optional<double> tolerance = 1e-3);

}  // namespace lathe::onnx
