// Tensors of a model: in the file, or in files beside it.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>

#include "lathe_onnx.pb.h"
#include "onnx/mapped_file.hpp"
#include "onnx/parse.hpp"

namespace lathe::onnx {
namespace {

namespace fs = std::filesystem;
using lathe_onnx::TensorProto;

/// Elements of a shape; nothing if that does not fit 2^62 bytes.
std::optional<int64_t> count_of(const TensorProto& proto, int bytes_each) {
  int64_t count = 1;
  for (int64_t size : proto.dims())
    if (__builtin_mul_overflow(count, size, &count)) return {};
  if (count > (int64_t{1} << 62) / bytes_each) return {};
  return count;
}

Value read_strings(const Source& source, const TensorProto& proto, int64_t count, const Shape& shape,
                   const std::string& what) {
  if (proto.has_raw_data() || proto.data_location() == TensorProto::EXTERNAL)
    source.fail(fmt::format("{} has its strings as raw or external data, expected them listed", what));
  if (proto.string_data_size() != count)
    source.fail(fmt::format("{} has {} strings, expected {} for {}", what, proto.string_data_size(), count,
                            to_string(shape)));
  return Value::strings({proto.string_data().begin(), proto.string_data().end()}, shape);
}

/// A copy. Any byte but 0 is true in a file; in memory a bool is 0 or 1.
Tensor tensor_of(const char* data, int64_t count, DType dtype, const Shape& shape) {
  const auto n = static_cast<size_t>(count);
  if (dtype != DType::Bool) return Tensor::from_memory(data, n, dtype, shape);
  std::vector<uint8_t> flags(n);
  for (size_t k = 0; k < n; ++k) flags[k] = data[k] != 0;
  return Tensor::from_memory(flags.data(), n, dtype, shape);
}

int64_t number_in(const Source& source, const std::string& text, const std::string& what) {
  int64_t value = 0;
  const char* end = text.data() + text.size();
  auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || value < 0)
    source.fail(fmt::format("{}: '{}' in its external data, expected a number", what, text));
  return value;
}

/// The tensor of a saved program that stands at `location`.
Value saved_tensor(const Source& source, const std::string& location, DType dtype, const Shape& shape,
                   const std::string& what) {
  const auto position = static_cast<size_t>(number_in(source, location, what));
  if (position >= source.saved->size())
    source.fail(fmt::format("{} is tensor {}, and the file has {}", what, position, source.saved->size()));
  const Tensor& tensor = (*source.saved)[position];
  if (tensor.dtype() != dtype || tensor.shape() != shape)
    source.fail(fmt::format("{} is {}{}, expected {}{}", what, to_string(tensor.dtype()),
                            to_string(tensor.shape()), to_string(dtype), to_string(shape)));
  return tensor;
}

/// Whether the file is in the folder or below it. Both are without links.
bool lies_in(const fs::path& file, const fs::path& folder) {
  const auto [differs, rest] = std::mismatch(folder.begin(), folder.end(), file.begin(), file.end());
  return differs == folder.end() && rest != file.end();
}

/// The file that external data is in, without links. It is in the model's folder or, where the model is a
/// link, in that of the file it leads to: caches of downloads link to files that lie elsewhere. Else nothing.
std::optional<fs::path> external_file(const Source& source, const std::string& location) {
  const fs::path given = fs::path(location).lexically_normal();
  if (location.empty() || given.is_absolute() || *given.begin() == "..") return {};
  std::error_code ignored;
  const fs::path file = fs::weakly_canonical(fs::path(source.folder) / given, ignored);
  if (lies_in(file, fs::weakly_canonical(source.folder, ignored))) return file;
  const bool by_link = fs::is_symlink(source.name, ignored) &&
                       lies_in(file, fs::weakly_canonical(source.name, ignored).parent_path());
  return by_link ? std::optional(file) : std::nullopt;
}

Value read_external(const Source& source, const TensorProto& proto, DType dtype, int64_t count,
                    const Shape& shape, const std::string& what) {
  std::string location;
  int64_t offset = 0;
  std::optional<int64_t> length;
  for (const auto& entry : proto.external_data()) {
    if (entry.key() == "location") location = entry.value();
    if (entry.key() == "offset") offset = number_in(source, entry.value(), what);
    if (entry.key() == "length") length = number_in(source, entry.value(), what);
  }
  if (source.saved) return saved_tensor(source, location, dtype, shape, what);
  if (source.folder.empty())
    source.fail(
        fmt::format("{} has its data in '{}', but the model was not loaded from a folder", what, location));
  const std::optional<fs::path> path = external_file(source, location);
  if (!path)
    source.fail(
        fmt::format("{} has its data in '{}', expected a file in the model's folder", what, location));
  std::shared_ptr<const MappedFile>& file = source.weights[path->string()];
  if (!file) {
    std::optional<MappedFile> opened = MappedFile::open(path->string());
    if (!opened) source.fail(fmt::format("{} has its data in '{}', which can't be read", what, location));
    file = std::make_shared<const MappedFile>(std::move(*opened));
  }
  const int64_t bytes = bytes_of(dtype, count);
  if (length && *length != 0 && *length != bytes) // some writers leave it at 0
    source.fail(fmt::format("{} has {} bytes of external data, expected {}", what, *length, bytes));
  if (static_cast<size_t>(offset) > file->size() ||
      static_cast<size_t>(bytes) > file->size() - static_cast<size_t>(offset))
    source.fail(fmt::format("{} has its data at {}..{} of '{}', which has {} bytes", what, offset,
                            offset + bytes, location, file->size()));
  const char* data = file->data() + offset;
  if (dtype == DType::Bool) return tensor_of(data, count, dtype, shape);
  return Tensor::from_shared(std::shared_ptr<const void>(file, data), dtype, shape);
}

/// Elements that the file holds as a list of wider ones.
template <class Stored, class List> std::vector<Stored> narrowed(const List& list) {
  std::vector<Stored> out;
  out.reserve(static_cast<size_t>(list.size()));
  for (auto value : list) out.push_back(static_cast<Stored>(value));
  return out;
}

/// The typed list that holds this dtype, as the bytes of its elements.
std::string listed_bytes(const TensorProto& proto, DType dtype) {
  auto bytes = [](const auto& values) {
    return std::string(reinterpret_cast<const char*>(values.data()),
                       static_cast<size_t>(values.size()) * sizeof(values[0]));
  };
  if (is_narrow(dtype)) return bytes(narrowed<uint8_t>(proto.int32_data())); // a byte each, as in raw data
  switch (dtype) {
  case DType::F32: return bytes(proto.float_data());
  case DType::F64: return bytes(proto.double_data());
  case DType::I64: return bytes(proto.int64_data());
  case DType::U64: return bytes(proto.uint64_data());
  case DType::U32: return bytes(narrowed<uint32_t>(proto.uint64_data()));
  case DType::I32: return bytes(proto.int32_data());
  case DType::Bool:
  case DType::I8:
  case DType::U8: return bytes(narrowed<uint8_t>(proto.int32_data()));
  case DType::I16:
  case DType::U16:
  case DType::F16:
  case DType::BF16: return bytes(narrowed<uint16_t>(proto.int32_data()));
  default: break; // the narrow ones, above
  }
  return {};
}

/// Integers of a small tensor, for the importer's arithmetic with sizes.
std::optional<std::vector<Expr>> known_integers(const std::string& bytes, DType dtype) {
  if (is_float(dtype) || is_narrow(dtype) || bytes.size() > 4096) return {};
  std::vector<Expr> out;
  for (size_t at = 0; at < bytes.size(); at += static_cast<size_t>(size_of(dtype)))
    out.push_back(Expr(dtype == DType::Bool ? int64_t{bytes[at] != 0}
                                            : Scalar::from_memory(dtype, bytes.data() + at).as_int()));
  return out;
}

} // namespace

Value read_tensor(const Source& source, const TensorProto& proto, const std::string& what) {
  const std::optional<DType> dtype = dtype_of_onnx(proto.data_type());
  const bool strings = proto.data_type() == kOnnxString;
  if (!dtype && !strings)
    source.fail(
        fmt::format("{} has element type {}, expected numbers, bool or strings", what, proto.data_type()));
  if (proto.has_segment()) source.fail(fmt::format("{} is in segments, which is not supported", what));
  Shape shape;
  for (int64_t size : proto.dims()) {
    if (size < 0) source.fail(fmt::format("{} has size {}, expected none below 0", what, size));
    shape.push_back(Expr(size));
  }
  const std::optional<int64_t> count = count_of(proto, strings ? 1 : size_of(*dtype));
  if (!count) source.fail(fmt::format("{} has more elements than there can be: {}", what, to_string(shape)));
  if (strings) return read_strings(source, proto, *count, shape, what);
  if (*count == 0) return Value(Tensor::zeros(shape, *dtype)).with_integers({});
  if (proto.data_location() == TensorProto::EXTERNAL)
    return read_external(source, proto, *dtype, *count, shape, what);
  std::string listed;
  if (!proto.has_raw_data()) listed = listed_bytes(proto, *dtype);
  const std::string& bytes = proto.has_raw_data() ? proto.raw_data() : listed;
  if (bytes.size() != static_cast<size_t>(bytes_of(*dtype, *count)))
    source.fail(fmt::format("{} has {} bytes, expected {} for {}{}", what, bytes.size(),
                            bytes_of(*dtype, *count), to_string(*dtype), to_string(shape)));
  Value value = tensor_of(bytes.data(), *count, *dtype, shape);
  if (auto integers = known_integers(bytes, *dtype)) return value.with_integers(std::move(*integers));
  return value;
}

} // namespace lathe::onnx
