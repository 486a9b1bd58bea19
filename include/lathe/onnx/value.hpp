// Value: what flows along the edges of an ONNX model: a tensor, a tensor of strings, a sequence of values, a map, or nothing
// (an input left out, an empty optional; an optional that holds something is that thing). Cheap to copy; immutable.
//
//   Value v = Tensor::from({1.f, 2.f});
//   Value list = Value::sequence(DType::F32, {v, v});
//   Value words = Value::strings({"to", "be"});
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lathe/tensor.hpp"

namespace lathe::onnx {

class Value {
 public:
  /// MapRows: a matrix each of whose rows becomes a map. It occurs only while a model is imported: a program hands over a Sequence of Maps.
  enum class Kind { None, Tensor, Sequence, Strings, Map, MapRows };

  Value() = default;                         // None
  Value(lathe::Tensor tensor);
  /// Elements are tensors (or sequences) of any shapes; `dtype` is kept for a sequence of nothing.
  static Value sequence(DType dtype, std::vector<Value> elements);
  /// A tensor of strings, which may hold any bytes, in row-major order. Error(Shape) for another number than the shape has elements.
  static Value strings(std::vector<std::string> texts, const Shape& shape);
  static Value strings(std::vector<std::string> texts);   ///< with one axis
  /// Strings that the importer does not know: `ids`, of i64, names them in the table of the program that is made.
  static Value strings(lathe::Tensor ids);
  /// `keys` are a vector, of strings or i64, and `values` another of as many elements. Error(Shape) or Error(DType) if they aren't.
  static Value map(Value keys, Value values);
  /// For each row of `rows`, a map from `keys` to that row.
  static Value map_rows(Value keys, lathe::Tensor rows);

  Kind kind() const { return kind_; }
  bool is_none() const { return kind_ == Kind::None; }
  bool is_tensor() const { return kind_ == Kind::Tensor; }
  bool is_sequence() const { return kind_ == Kind::Sequence; }
  bool is_strings() const { return kind_ == Kind::Strings; }
  bool is_map() const { return kind_ == Kind::Map; }
  bool is_map_rows() const { return kind_ == Kind::MapRows; }
  bool has_shape() const { return is_tensor() || is_strings(); }
  bool is_empty() const;   ///< a tensor, of strings perhaps, one of whose sizes is 0

  DType dtype() const { return dtype_; }       ///< of a tensor, or of a sequence's tensors
  const Shape& shape() const { return shape_; } ///< of a tensor, of strings perhaps
  int rank() const { return static_cast<int>(shape_.size()); }
  /// Error(Shape) for anything but a tensor of numbers or bools.
  const lathe::Tensor& tensor() const;
  /// Of a tensor of strings. Error(Value) for anything else, and for strings that the importer does not know.
  const std::vector<std::string>& texts() const;
  const std::optional<lathe::Tensor>& ids() const { return tensor_; }  ///< of strings that the importer does not know
  /// Of a map or MapRows: the keys, and their values or rows of them. Error(Value) for anything else.
  const Value& keys() const;
  const Value& values() const;
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
  const std::vector<Value>& map_parts() const;

  std::optional<lathe::Tensor> tensor_;  // of strings that the importer does not know: their ids
  std::shared_ptr<const std::vector<Value>> elements_;  // of a map: keys and values
  std::shared_ptr<const std::vector<std::string>> texts_;
  std::optional<std::vector<Expr>> integers_;
};

/// "f32[2, 3]", "str[2]", "seq(f32)", "map(str, f32)", "nothing".
std::string type_text(const Value& value);

/// Why a value is not what it should be. Kinds, dtypes and shapes have to be equal, integers and strings exact, maps equal in any
/// order, NaN where NaN is expected, infinities equal; floats may differ by 1e-7 + tolerance * |expected|.
struct Difference {
  std::string why;   ///< "element 3 is 1, expected 2"; empty if there is none
  double worst = 0;  ///< the largest relative difference of floats that passed
};
/// Without a tolerance only kinds, dtypes and shapes are compared.
Difference compare(const Value& got, const Value& expected, std::optional<double> tolerance = 1e-3);

}  // namespace lathe::onnx
