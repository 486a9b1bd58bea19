// Sparse tensors of a model file are read as dense ones: kernels have no sparse form.
#include <cstring>

#include <fmt/format.h>

#include "lathe_onnx.pb.h"
#include "onnx/parse.hpp"

namespace lathe::onnx {
namespace {

constexpr int64_t kMostBytes = int64_t{1} << 30; // a file of few bytes may ask for any number

/// The place in row-major order that indices [entries] or [entries, axes] give each entry.
std::vector<int64_t> places_of(const Source& source, const Value& indices, const std::vector<int64_t>& sizes,
                               int64_t entries, int64_t count, const std::string& what) {
  const auto axes = static_cast<int64_t>(sizes.size());
  const bool flat = indices.is_tensor() && indices.shape() == Shape{entries};
  if (!indices.is_tensor() || indices.dtype() != DType::I64 ||
      (!flat && indices.shape() != Shape{entries, axes}))
    source.fail(fmt::format("{} has indices {}, expected i64[{}] or i64[{}, {}]", what, type_text(indices),
                            entries, entries, axes));
  const std::vector<int64_t> given =
      entries == 0 ? std::vector<int64_t>() : indices.tensor().to_vector<int64_t>();
  std::vector<int64_t> places;
  for (int64_t k = 0; k < entries; ++k) {
    int64_t place = 0;
    bool inside = true;
    for (int64_t axis = 0; axis < axes && !flat; ++axis) {
      const int64_t at = given[static_cast<size_t>(k * axes + axis)], size = sizes[static_cast<size_t>(axis)];
      inside &= at >= 0 && at < size;
      place = inside ? place * size + at : 0;
    }
    if (flat) place = given[static_cast<size_t>(k)];
    if (!inside || place < 0 || place >= count)
      source.fail(fmt::format("{} has an index out of range", what));
    places.push_back(place);
  }
  return places;
}

} // namespace

Value read_sparse_tensor(const Source& source, const lathe_onnx::SparseTensorProto& proto,
                         const std::string& what) {
  const Value values = read_tensor(source, proto.values(), what);
  const Value indices = read_tensor(source, proto.indices(), what + "'s indices");
  if (!values.is_tensor() || is_narrow(values.dtype()) || values.rank() != 1)
    source.fail(
        fmt::format("{} has values {}, expected numbers or bools with one axis", what, type_text(values)));
  const auto width = static_cast<int64_t>(size_of(values.dtype()));
  const std::vector<int64_t> sizes(proto.dims().begin(), proto.dims().end());
  int64_t bytes = width;
  for (const int64_t size : sizes)
    if (size < 1 || __builtin_mul_overflow(bytes, size, &bytes) || bytes > kMostBytes)
      source.fail(fmt::format("{} has size {}, expected at least 1 and {} bytes at most in all", what, size,
                              kMostBytes));
  const int64_t entries = values.shape()[0].value();
  const std::vector<int64_t> places = places_of(source, indices, sizes, entries, bytes / width, what);
  std::vector<char> given(static_cast<size_t>(entries * width)), all(static_cast<size_t>(bytes), 0);
  if (entries > 0) values.tensor().read(given.data(), values.dtype());
  for (size_t k = 0; k < places.size(); ++k)
    std::memcpy(all.data() + places[k] * width, given.data() + static_cast<int64_t>(k) * width,
                static_cast<size_t>(width));
  return Tensor::from_memory(all.data(), static_cast<size_t>(bytes / width), values.dtype(),
                             Shape(sizes.begin(), sizes.end()));
}

} // namespace lathe::onnx
