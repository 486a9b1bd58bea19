#include "lathe/error.hpp"
#include "lathe/expr.hpp"

namespace lathe {

std::string to_string(const Shape& shape) {
  std::string out = "[";
  for (size_t i = 0; i < shape.size(); i++) out += (i ? ", " : "") + to_string(shape[i]);
  return out + "]";
}

Expr num_elements(const Shape& shape) {
  Expr n = 1;
  for (Expr size : shape) n = n * size;
  return n;
}

bool is_static(const Shape& shape) {
  for (Expr size : shape)
    if (!size.is_const()) return false;
  return true;
}

std::vector<int64_t> static_sizes(const Shape& shape) {
  std::vector<int64_t> sizes;
  for (Expr size : shape) {
    if (!size.is_const()) throw InternalError("static_sizes of " + to_string(shape));
    sizes.push_back(size.value());
  }
  return sizes;
}

} // namespace lathe
