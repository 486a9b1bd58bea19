#include "view/copy_view.hpp"

#include <cstring>

namespace lathe {

void copy_view(const View& view, size_t bytes, const void* from, void* to) {
  if (view.is_contiguous()) {
    const auto count = static_cast<size_t>(num_elements(view.shape()).value());
    std::memcpy(to, from, count * bytes);
    return;
  }
  const size_t rank = view.shape().size();
  std::vector<int64_t> sizes = static_sizes(view.shape()), strides(rank), begin(rank), end(rank),
                       index(rank, 0);
  for (size_t d = 0; d < rank; ++d) {
    strides[d] = view.strides()[d].value();
    begin[d] = view.mask()[d].begin.value();
    end[d] = view.mask()[d].end.value();
  }
  const auto* source = static_cast<const char*>(from);
  auto* out = static_cast<char*>(to);
  const int64_t count = num_elements(view.shape()).value();
  for (int64_t n = 0; n < count; ++n, out += bytes) {
    int64_t offset = view.offset().value();
    bool valid = true;
    for (size_t d = 0; d < rank; ++d) {
      offset += index[d] * strides[d];
      valid &= index[d] >= begin[d] && index[d] < end[d];
    }
    if (valid)
      std::memcpy(out, source + offset * static_cast<int64_t>(bytes), bytes);
    else
      std::memset(out, 0, bytes);
    for (size_t d = rank; d-- > 0 && ++index[d] == sizes[d];) index[d] = 0;
  }
}

} // namespace lathe
