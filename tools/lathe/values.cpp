#include "values.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "lathe/onnx/utf8.hpp"

namespace lathe::tool {
namespace {

const std::map<DType, std::string>& descriptors() {
  static const std::map<DType, std::string> all = {
      {DType::Bool, "|b1"}, {DType::I8, "|i1"},  {DType::I16, "<i2"}, {DType::I32, "<i4"},
      {DType::I64, "<i8"},  {DType::U8, "|u1"},  {DType::U16, "<u2"}, {DType::U32, "<u4"},
      {DType::U64, "<u8"},  {DType::F16, "<f2"}, {DType::F32, "<f4"}, {DType::F64, "<f8"}};
  return all;
}

[[noreturn]] void bad(const std::string& path, const std::string& why) {
  throw Error(ErrorKind::File, path + ": " + why);
}

/// What `convert` returns; its error names the file.
template <class Convert> auto naming_file(const std::string& path, Convert&& convert) {
  try {
    return convert();
  } catch (const Error& error) {
    bad(path, error.what());
  }
}

/// The text after 'key': in the header's dictionary.
std::string entry(const std::string& path, const std::string& header, const std::string& key) {
  const size_t at = header.find("'" + key + "':");
  if (at == std::string::npos) bad(path, "its header has no '" + key + "'");
  const size_t start = header.find_first_not_of(' ', at + key.size() + 3);
  if (start == std::string::npos) bad(path, "its header ends after '" + key + "'");
  return header.substr(start);
}

/// The dtype in which a narrow one is written: NumPy has none of these.
DType written_as(DType dtype) {
  if (!is_narrow(dtype)) return dtype == DType::BF16 ? DType::F32 : dtype;
  return is_float(dtype) ? DType::F32 : is_signed(dtype) ? DType::I8 : DType::U8;
}

/// The elements in the port's dtype, if that is a narrow one: numbers in the dtype in which they are written,
/// or the codes themselves, a byte each, as ml_dtypes writes its arrays.
Tensor narrowed(const std::string& path, const Tensor& given, DType to, bool is_codes) {
  if (!is_narrow(to) || (!is_codes && given.dtype() != written_as(to))) return given;
  if (is_codes) {
    const DType unsigned_codes = bits_of(to) == 8 ? DType::U8 : bits_of(to) == 4 ? DType::U4 : DType::U2;
    return given.cast(unsigned_codes).bitcast(to);
  }
  const Tensor made = given.cast(to), back = made.cast(given.dtype());
  const Tensor same = back == given, both_nan = (back != back) & (given != given);
  if (!(same | both_nan).all().item<bool>())
    bad(path, fmt::format("has numbers that no {} is, expected exact ones", to_string(to)));
  return made;
}

/// What a .npy file says of its elements, and where they are.
struct Npy {
  std::string bytes, descriptor;
  Shape shape;
  size_t start = 0, count = 1;
};

void read_shape(const std::string& path, const std::string& sizes, Npy& npy) {
  for (size_t at = 1; at < sizes.size() && sizes[at] != ')';) {
    char* end = nullptr;
    const long long size = std::strtoll(sizes.c_str() + at, &end, 10);
    const auto next = static_cast<size_t>(end - sizes.c_str());
    if (next == at || size < 0 || __builtin_mul_overflow(npy.count, static_cast<size_t>(size), &npy.count))
      bad(path, "has no shape that can be read");
    npy.shape.push_back(Expr(static_cast<int64_t>(size)));
    at = sizes.find_first_not_of(", ", next);
  }
}

Npy parse_npy(const std::string& path, const std::string& file) {
  Npy npy{file, "", {}};
  const std::string& bytes = npy.bytes;
  if (bytes.size() < 10 || bytes.compare(0, 6, "\x93NUMPY") != 0) bad(path, "is no .npy file");
  const bool first_version = bytes[6] == 1;
  size_t length =
      static_cast<unsigned char>(bytes[8]) | static_cast<size_t>(static_cast<unsigned char>(bytes[9])) << 8;
  if (!first_version && bytes.size() >= 12)
    length |= static_cast<size_t>(static_cast<unsigned char>(bytes[10])) << 16 |
              static_cast<size_t>(static_cast<unsigned char>(bytes[11])) << 24;
  npy.start = (first_version ? 10 : 12) + length;
  if (npy.start > bytes.size()) bad(path, "ends within its header");
  const std::string header = bytes.substr(first_version ? 10 : 12, length);
  const std::string descriptor = entry(path, header, "descr");
  npy.descriptor = descriptor.substr(1, descriptor.find('\'', 1) - 1);
  if (entry(path, header, "fortran_order").rfind("False", 0) != 0)
    bad(path, "is in Fortran order, expected C order");
  read_shape(path, entry(path, header, "shape"), npy);
  return npy;
}

void check_bytes(const std::string& path, const Npy& npy, size_t bytes_each) {
  size_t expected = 0;
  if (__builtin_mul_overflow(npy.count, bytes_each, &expected) || npy.bytes.size() - npy.start != expected)
    bad(path, fmt::format("has {} bytes of data, expected {} of {} for {}", npy.bytes.size() - npy.start,
                          npy.count, bytes_each, to_string(npy.shape)));
}

/// Of <U or |S and a width. Zeros fill up what is shorter.
onnx::Value read_strings(const std::string& path, const Npy& npy) {
  const bool wide = npy.descriptor[1] == 'U';
  size_t width = 0;
  const char* end = npy.descriptor.data() + npy.descriptor.size();
  const bool is_number = std::from_chars(npy.descriptor.data() + 2, end, width).ptr == end;
  if (!is_number || width < 1 ||
      width > (1u << 30)) // of width 0 a short file could have any number of elements
    bad(path, "has elements '" + npy.descriptor + "', expected a width of at least 1");
  check_bytes(path, npy, width * (wide ? 4 : 1));
  std::vector<std::string> texts;
  for (size_t k = 0; k < npy.count; ++k) {
    if (wide) {
      std::u32string text(width, U'\0');
      std::memcpy(text.data(), npy.bytes.data() + npy.start + k * width * 4, width * 4);
      texts.push_back(
          naming_file(path, [&] { return onnx::utf8(text.substr(0, text.find_last_not_of(U'\0') + 1)); }));
    } else {
      const std::string text = npy.bytes.substr(npy.start + k * width, width);
      texts.push_back(text.substr(0, text.find_last_not_of('\0') + 1));
    }
  }
  return onnx::Value::strings(std::move(texts), npy.shape);
}

bool ends_with(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

} // namespace

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream all;
  if (!in || !(all << in.rdbuf())) bad(path, "can't be read");
  return all.str();
}

onnx::Value npy_value(const std::string& path, const std::string& bytes, DType wanted) {
  const Npy npy = parse_npy(path, bytes);
  if (npy.descriptor.rfind("<U", 0) == 0 || npy.descriptor.rfind("|S", 0) == 0)
    return read_strings(path, npy);
  std::optional<DType> dtype;
  for (const auto& [known, text] : descriptors())
    if (text == npy.descriptor) dtype = known;
  const bool is_byte = npy.descriptor == "|V1" || npy.descriptor == "<V1" || npy.descriptor == "<f1";
  const bool is_codes = is_byte && is_narrow(wanted);
  if (is_codes) dtype = DType::U8;
  if (!dtype)
    bad(path, "has elements '" + npy.descriptor + "', expected numbers, bool or strings, little endian");
  check_bytes(path, npy, static_cast<size_t>(size_of(*dtype)));
  const char* data = npy.bytes.data() + npy.start;
  return narrowed(path, Tensor::from_memory(data, npy.count, *dtype, npy.shape), wanted, is_codes);
}

onnx::Value read_value(const std::string& path, const onnx::Port& port) {
  if (ends_with(path, ".npy")) return npy_value(path, read_file(path), port.dtype);
  if (ends_with(path, ".pb")) return onnx::load_value(path, port);
  bad(path, "expected a .npy or .pb file");
}

void write_file(const std::string& path, const std::string& bytes) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const fs::file_status status = fs::status(path, ignored);
  const bool is_stream = fs::exists(status) && !fs::is_regular_file(status); // a device or a pipe
  const fs::path linked = fs::is_symlink(path, ignored) ? fs::canonical(path, ignored) : fs::path();
  const std::string target = linked.empty() ? path : linked.string();
  const std::string made = is_stream ? path : fmt::format("{}.{}.part", target, getpid());
  std::FILE* file = std::fopen(made.c_str(), "wb");
  const bool written = file && std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size();
  const bool closed = file && std::fclose(file) == 0;
  if (written && closed && (is_stream || std::rename(made.c_str(), target.c_str()) == 0)) return;
  const std::string why = std::strerror(errno);
  if (!is_stream) std::remove(made.c_str());
  bad(path, "can't be written: " + why);
}

namespace {

/// A header of NumPy's version 1 for elements of this kind.
std::string npy_header(const std::string& descriptor, const Shape& sizes) {
  std::string shape;
  for (Expr size : sizes) shape += fmt::format("{},", size.value());
  std::string header =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", descriptor, shape);
  header.append(63 - (10 + header.size()) % 64, ' ');
  header += '\n';
  std::string bytes = "\x93NUMPY\x01";
  bytes += '\0';
  bytes += static_cast<char>(header.size() & 255);
  bytes += static_cast<char>(header.size() >> 8);
  return bytes + header;
}

std::string strings_as_npy(const std::string& path, const onnx::Value& value) {
  std::vector<std::u32string> texts;
  size_t width = 1; // NumPy's own least
  for (const std::string& text : value.texts()) {
    texts.push_back(naming_file(path, [&] { return onnx::characters(text); }));
    if (!text.empty() && text.back() == '\0') bad(path, "a string ends in a zero, which .npy does not hold");
    width = std::max(width, texts.back().size());
  }
  std::string bytes = npy_header(fmt::format("<U{}", width), value.shape());
  for (std::u32string& text : texts) {
    text.resize(width, U'\0');
    bytes.append(reinterpret_cast<const char*>(text.data()), width * 4);
  }
  return bytes;
}

} // namespace

void write_npy(const std::string& path, const onnx::Value& value) {
  if (value.is_strings()) return write_file(path, strings_as_npy(path, value));
  if (!value.is_tensor()) bad(path, "only tensors are written as .npy");
  const DType dtype = written_as(value.dtype());
  std::string bytes = npy_header(descriptors().at(dtype), value.shape());
  const Tensor tensor = value.tensor().cast(dtype);
  const size_t start = bytes.size();
  bytes.resize(start + static_cast<size_t>(tensor.element_count()) * static_cast<size_t>(size_of(dtype)));
  tensor.read(bytes.data() + start, dtype);
  write_file(path, bytes);
}

} // namespace lathe::tool
