// Printing values: all of a small tensor, the edges of a large one.
#include <ostream>

#include "graph/narrow.hpp"

namespace lathe {
using namespace graph;
namespace {

constexpr int64_t kMostPrinted = 1000; // elements of a tensor that is printed whole, as in NumPy
constexpr int64_t kEdge = 3;           // elements at each end of an axis of a larger one

std::string number_text(DType dtype, const unsigned char* element) {
  const Scalar s = Scalar::from_memory(dtype, element);
  if (is_float(dtype)) return fmt::format("{:.6g}", s.as_float());
  return dtype == DType::U64 ? fmt::format("{}", s.bits()) : fmt::format("{}", s.as_int());
}

class Printer {
public:
  Printer(DType dtype, std::vector<int64_t> sizes, bool whole)
      : dtype_(dtype), sizes_(std::move(sizes)), whole_(whole), bytes_(sizes_.size() + 1, size_of(dtype)) {
    for (size_t axis = sizes_.size(); axis-- > 0;) bytes_[axis] = bytes_[axis + 1] * sizes_[axis];
  }

  /// The part of the tensor from `axis` on that begins at `from`.
  std::string text(size_t axis, const unsigned char* from) const {
    if (axis == sizes_.size()) return number_text(dtype_, from);
    // Elements stand in a row, rows below each other; a blank line parts matrices.
    const size_t inner = sizes_.size() - axis;
    const char* between = inner == 1 ? " " : inner == 2 ? "\n" : "\n\n";
    const bool shortened = !whole_ && sizes_[axis] > 2 * kEdge;
    std::string all;
    for (int64_t i = 0; i < sizes_[axis]; ++i) {
      if (i > 0) all += between;
      if (shortened && i == kEdge) {
        all += "...";
        i = sizes_[axis] - kEdge - 1;
      } else {
        all += text(axis + 1, from + i * bytes_[axis + 1]);
      }
    }
    return all;
  }

private:
  DType dtype_;
  std::vector<int64_t> sizes_;
  bool whole_;
  std::vector<int64_t> bytes_; // of the part of the tensor from an axis on
};

} // namespace

std::ostream& operator<<(std::ostream& out, const Tensor& t) {
  if (is_narrow(t.dtype())) return out << t.cast(read_as(t.dtype()));
  const NodeRef node = detail::impl(t)->realise("operator<<");
  const auto* first = static_cast<const unsigned char*>(std::get<InputAttr>(node->attr).data->data());
  return out << Printer(t.dtype(), static_sizes(t.shape()), t.element_count() <= kMostPrinted).text(0, first);
}

} // namespace lathe
