// What the tables of functions share: parameters as lathe wants them, and as C++ text.
#pragma once
#include <string>

#include <fmt/format.h>

#include "net/program.hpp"

namespace lathe::net {

/// `size`, if not 0, is what shape_of() makes a Var, which is never below `least`.
struct Symbol {
  int64_t size = 0, least = 2;
};
inline Symbol& symbol() {
  static Symbol s;
  return s;
}
inline Expr size_of_axis(int64_t size) {
  return size == symbol().size && size != 0 ? Var("n", symbol().least, 40).expr() : Expr(size);
}
inline Shape shape_of(const std::vector<int64_t>& sizes) {
  Shape shape;
  for (int64_t s : sizes) shape.push_back(size_of_axis(s));
  return shape;
}
inline Axes axes_of(const std::vector<int64_t>& axes) { return std::vector<int>(axes.begin(), axes.end()); }

inline std::string dtype_text(DType d) {
  std::string name = to_string(d);
  for (char& c : name) c = static_cast<char>(std::toupper(c));
  return "DType::" + (d == DType::Bool ? std::string("Bool") : name);
}
inline std::string real_text(double v) {
  if (std::isnan(v)) return "NAN";
  if (std::isinf(v)) return v < 0 ? "-INFINITY" : "INFINITY";
  const std::string text = fmt::format("{}", v);
  return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
}
inline std::string list_text(const std::vector<int64_t>& values) {
  return fmt::format("{{{}}}", fmt::join(values, ", "));
}
inline std::string axes_text(const std::vector<int64_t>& axes) { return "Axes" + list_text(axes); }
inline const char* bool_text(bool b) { return b ? "true" : "false"; }

/// softmax or its logarithm over a row, computed in `wide` and rounded to `out`.
std::vector<Cell> softmax_cells(DType out, DType wide, const std::vector<Cell>& row, bool logarithm);

} // namespace lathe::net
