#include "compile/saved/program_file.hpp"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>

#include <fmt/format.h>

#include "core/checksum.hpp"
#include "core/files.hpp"
#include "lathe/error.hpp"
#include "lathe/program_file.hpp"

namespace lathe {
namespace pipeline {
namespace {

constexpr char kMagic[8] = {'l', 'a', 't', 'h', 'e', 'p', 'r', 'g'};
constexpr uint64_t kVersion = 6;

struct Header {
  char magic[8];
  uint64_t version;
  char format[kLongestFormat];
  uint64_t manifest_bytes, file_bytes;
  uint64_t checksum; // of the fields before it and the manifest
};

std::string format_of(const Header& header) {
  return {header.format, strnlen(header.format, sizeof header.format)};
}

uint64_t checksum_of(const Header& header, std::string_view manifest) {
  char before[offsetof(Header, checksum)];
  std::memcpy(before, &header, sizeof before);
  return mix(checksum({before, sizeof before}), checksum(manifest));
}

class Writer {
public:
  void add(uint64_t number) { text_.append(reinterpret_cast<const char*>(&number), sizeof number); }
  void add(std::string_view text) {
    add(text.size());
    text_ += text;
  }
  void add(const std::vector<std::string>& texts) {
    add(texts.size());
    for (const std::string& text : texts) add(std::string_view(text));
  }
  const std::string& text() const { return text_; }

private:
  std::string text_;
};

class Reader {
public:
  explicit Reader(const std::string& path) : path_(path), in_(path, std::ios::binary) {
    std::error_code error;
    const uint64_t bytes = std::filesystem::file_size(path, error);
    if (!in_ || error) fail("can't be read", "a file that exists");
    Header header;
    if (bytes < sizeof header) fail(fmt::format("is {} bytes", bytes), "a saved program");
    in_.read(reinterpret_cast<char*>(&header), sizeof header);
    if (!in_ || std::memcmp(header.magic, kMagic, sizeof kMagic) != 0)
      fail("is no saved program", "a file that save() wrote");
    if (header.version != kVersion)
      fail(fmt::format("is of version {}", header.version), fmt::format("version {}", kVersion));
    if (header.file_bytes != bytes || header.manifest_bytes > bytes - sizeof header)
      fail(fmt::format("is {} bytes", bytes), fmt::format("{}, all that was written", header.file_bytes));
    manifest_.resize(header.manifest_bytes);
    in_.read(manifest_.data(), static_cast<std::streamsize>(manifest_.size()));
    if (!in_ || checksum_of(header, manifest_) != header.checksum) fail_damaged();
    left_ = bytes - sizeof header - manifest_.size();
    format_ = format_of(header);
  }

  const std::string& format() const { return format_; }

  uint64_t number() {
    uint64_t value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  std::string text() {
    const uint64_t size = number();
    return std::string(take(size));
  }
  DType dtype() {
    try {
      return parse_dtype(text());
    } catch (const Error&) {
      fail_damaged();
    }
  }
  /// Returns the number of entries that follow, each of at least eight bytes.
  uint64_t count() {
    const uint64_t count = number();
    if (count > manifest_.size() / 8) fail_damaged();
    return count;
  }
  std::vector<std::string> texts() {
    std::vector<std::string> out(count());
    for (std::string& text : out) text = this->text();
    return out;
  }

  /// Returns the data of the next tensor. The stream is at its first byte: tensors are read in the manifest's
  /// order.
  StorageRef data() {
    const uint64_t bytes = number(), sum = number();
    if (bytes > left_) fail_damaged();
    left_ -= bytes;
    StorageRef data = Storage::allocate(bytes);
    char* to = static_cast<char*>(data->data());
    in_.read(to, static_cast<std::streamsize>(bytes));
    if (!in_ || checksum({to, bytes}) != sum) fail_damaged();
    return data;
  }

  [[noreturn]] void fail(const std::string& what, const std::string& expected) const {
    throw Error(ErrorKind::File, fmt::format("{}: {}, expected {}", path_, what, expected));
  }
  [[noreturn]] void fail_damaged() const { fail("is damaged", "a file as save() wrote it"); }

private:
  std::string_view take(uint64_t bytes) {
    if (bytes > manifest_.size() - at_) fail_damaged();
    const std::string_view taken = std::string_view(manifest_).substr(at_, bytes);
    at_ += bytes;
    return taken;
  }

  const std::string& path_;
  std::ifstream in_;
  std::string manifest_, format_;
  size_t at_ = 0;
  uint64_t left_ = 0;
};

std::string_view bytes_of(const ProgramFile::Constant& constant) {
  int64_t count = 1;
  for (const int64_t size : constant.sizes) count *= size;
  return {static_cast<const char*>(constant.data->data()),
          static_cast<size_t>(bytes_of(constant.dtype, count))};
}

/// The data of a file's tensors. Memory that several tensors share is listed once.
class DataTable {
public:
  uint64_t add(std::string_view bytes) {
    const auto [known, is_new] = positions_.emplace(std::pair(bytes.data(), bytes.size()), all_.size());
    if (is_new) all_.push_back(bytes);
    return known->second;
  }
  const std::vector<std::string_view>& all() const { return all_; }

private:
  std::map<std::pair<const char*, size_t>, uint64_t> positions_;
  std::vector<std::string_view> all_;
};

void write_constant(Writer& out, const ProgramFile::Constant& constant, DataTable& data) {
  out.add(to_string(constant.dtype));
  out.add(constant.sizes.size());
  for (const int64_t size : constant.sizes) out.add(static_cast<uint64_t>(size));
  out.add(data.add(bytes_of(constant)));
}

void write_constants(Writer& out, const std::vector<ProgramFile::Constant>& constants, DataTable& data) {
  out.add(constants.size());
  for (const ProgramFile::Constant& constant : constants) write_constant(out, constant, data);
}

ProgramFile::Constant read_constant(Reader& in, const std::vector<StorageRef>& data) {
  ProgramFile::Constant constant{in.dtype(), {}, nullptr};
  for (uint64_t axes = in.count(); axes > 0; --axes)
    constant.sizes.push_back(static_cast<int64_t>(in.number()));
  const uint64_t position = in.number();
  if (position >= data.size()) in.fail_damaged();
  constant.data = data[position];
  return constant;
}

std::vector<ProgramFile::Constant> read_constants(Reader& in, const std::vector<StorageRef>& data) {
  std::vector<ProgramFile::Constant> constants;
  for (uint64_t left = in.count(); left > 0; --left) constants.push_back(read_constant(in, data));
  return constants;
}

void write_program(Writer& out, const ProgramFile::Program& program, DataTable& data) {
  out.add(program.options.device);
  out.add(static_cast<uint64_t>(program.options.threads));
  out.add(program.options.cpu);
  out.add(static_cast<uint64_t>(program.options.winograd));
  out.add(static_cast<uint64_t>(program.options.strassen));
  out.add(program.options.donated.size());
  for (const auto& [output, input] : program.options.donated) {
    out.add(output);
    out.add(input);
  }
  out.add(static_cast<uint64_t>(program.tuned));
  out.add(program.graph);
  out.add(program.outputs);
  out.add(program.narrow_outputs);
  out.add(program.graph_moves);
  out.add(program.moves);
  out.add(program.body_moves.size());
  for (const std::vector<std::string>& moves : program.body_moves) out.add(moves);
  write_constants(out, program.constants, data);
  out.add(program.states.size());
  for (const ProgramFile::State& state : program.states) {
    out.add(state.name);
    out.add(state.output);
    write_constant(out, state.values, data);
  }
}

ProgramFile::Program read_program(Reader& in, const std::vector<StorageRef>& data) {
  ProgramFile::Program program;
  program.options.device = in.text();
  program.options.threads = static_cast<int>(in.number());
  program.options.cpu = in.text();
  program.options.winograd = static_cast<int>(in.number());
  program.options.strassen = static_cast<int>(in.number());
  for (uint64_t left = in.count(); left > 0; --left) {
    std::string output = in.text(), input = in.text();
    program.options.donated.emplace(std::move(output), std::move(input));
  }
  program.tuned = in.number() != 0;
  program.graph = in.text();
  program.outputs = in.texts();
  program.narrow_outputs = in.texts();
  program.graph_moves = in.texts();
  program.moves = in.texts();
  program.body_moves.resize(in.count());
  for (std::vector<std::string>& moves : program.body_moves) moves = in.texts();
  program.constants = read_constants(in, data);
  for (uint64_t left = in.count(); left > 0; --left) {
    std::string name = in.text(), output = in.text();
    program.states.push_back({std::move(name), std::move(output), read_constant(in, data)});
  }
  return program;
}

} // namespace

void write_program_file(const ProgramFile& file, const std::string& path) {
  Writer parts;
  DataTable data;
  parts.add(file.text);
  parts.add(file.programs.size());
  for (const ProgramFile::Program& program : file.programs) write_program(parts, program, data);
  write_constants(parts, file.tensors, data);
  parts.add(file.objects.size());
  for (const auto& [id, object] : file.objects) {
    parts.add(id);
    parts.add(object);
  }
  Writer table; // comes first, so that the reader has the data when a part refers to it
  table.add(data.all().size());
  for (const std::string_view bytes : data.all()) {
    table.add(bytes.size());
    table.add(checksum(bytes));
  }
  const std::string manifest = table.text() + parts.text();

  Header header{};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.version = kVersion;
  std::memcpy(header.format, file.format.data(), std::min(file.format.size(), sizeof header.format));
  header.manifest_bytes = manifest.size();
  header.file_bytes = sizeof header + header.manifest_bytes;
  for (const std::string_view bytes : data.all()) header.file_bytes += bytes.size();
  header.checksum = checksum_of(header, manifest);
  write_to_path(path, [&](std::ostream& out) {
    out.write(reinterpret_cast<const char*>(&header), sizeof header);
    out << manifest;
    for (const std::string_view bytes : data.all()) out << bytes;
  });
}

ProgramFile read_program_file(const std::string& path) {
  Reader in(path);
  ProgramFile file;
  file.format = in.format();
  std::vector<StorageRef> data;
  for (uint64_t left = in.count(); left > 0; --left) data.push_back(in.data());
  file.text = in.text();
  for (uint64_t left = in.count(); left > 0; --left) file.programs.push_back(read_program(in, data));
  file.tensors = read_constants(in, data);
  for (uint64_t left = in.count(); left > 0; --left) {
    const uint64_t id = in.number();
    file.objects.emplace(id, in.text());
  }
  return file;
}

} // namespace pipeline

std::optional<std::string> program_file_format(const std::string& path) {
  pipeline::Header header{};
  std::ifstream(path, std::ios::binary).read(reinterpret_cast<char*>(&header), sizeof header);
  if (std::memcmp(header.magic, pipeline::kMagic, sizeof pipeline::kMagic) != 0) return {};
  return pipeline::format_of(header);
}

} // namespace lathe
