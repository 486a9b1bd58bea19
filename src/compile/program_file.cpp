#include "compile/program_file.hpp"

#include <cstring>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>

#include "core/cache_dir.hpp"
#include "core/checksum.hpp"
#include "lathe/error.hpp"
#include "lathe/program_file.hpp"

namespace lathe {
namespace pipeline {
namespace {

constexpr char kMagic[8] = {'l', 'a', 't', 'h', 'e', 'p', 'r', 'g'};
constexpr uint64_t kVersion = 1;

struct Header {
  char magic[8];
  uint64_t version, manifest_bytes, file_bytes;
  uint64_t checksum; // of what stands before it and the manifest
};

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
  /// Bytes that follow the manifest, in the order in which they are added.
  void add_blob(std::string_view bytes) {
    add(bytes.size());
    add(checksum(bytes));
    blobs_.push_back(bytes);
  }
  const std::string& text() const { return text_; }
  const std::vector<std::string_view>& blobs() const { return blobs_; }

private:
  std::string text_;
  std::vector<std::string_view> blobs_;
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
  }

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
  /// How many entries follow, each of at least eight bytes.
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

  /// The next blob, into the memory that `make(bytes)` gives. The stream stands where it begins: blobs are
  /// read in the order of the manifest.
  template <class Make> void blob(Make&& make) {
    const uint64_t bytes = number(), sum = number();
    if (bytes > left_) fail_damaged();
    left_ -= bytes;
    char* to = make(bytes);
    in_.read(to, static_cast<std::streamsize>(bytes));
    if (!in_ || checksum({to, bytes}) != sum) fail_damaged();
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
  std::string manifest_;
  size_t at_ = 0;
  uint64_t left_ = 0;
};

} // namespace

void write_program_file(const ProgramFile& file, const std::string& path) {
  Writer manifest;
  manifest.add(file.options.device);
  manifest.add(static_cast<uint64_t>(file.options.threads));
  manifest.add(file.options.cpu);
  manifest.add(static_cast<uint64_t>(file.options.winograd));
  manifest.add(static_cast<uint64_t>(file.tuned));
  manifest.add(file.graph);
  manifest.add(file.outputs);
  manifest.add(file.graph_moves);
  manifest.add(file.moves);
  manifest.add(file.constants.size());
  for (const ProgramFile::Constant& constant : file.constants) {
    manifest.add(constant.id);
    manifest.add(to_string(constant.dtype));
    manifest.add(constant.sizes.size());
    uint64_t bytes = static_cast<uint64_t>(size_of(constant.dtype));
    for (const int64_t size : constant.sizes) {
      manifest.add(static_cast<uint64_t>(size));
      bytes *= static_cast<uint64_t>(size);
    }
    manifest.add_blob({static_cast<const char*>(constant.data->data()), bytes});
  }
  manifest.add(file.objects.size());
  for (const auto& [id, object] : file.objects) {
    manifest.add(id);
    manifest.add_blob(object);
  }

  Header header{};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.version = kVersion;
  header.manifest_bytes = manifest.text().size();
  header.file_bytes = sizeof header + header.manifest_bytes;
  for (const std::string_view blob : manifest.blobs()) header.file_bytes += blob.size();
  header.checksum = checksum_of(header, manifest.text());
  write_atomically(path, [&](std::ostream& out) {
    out.write(reinterpret_cast<const char*>(&header), sizeof header);
    out << manifest.text();
    for (const std::string_view blob : manifest.blobs()) out << blob;
  });
}

ProgramFile read_program_file(const std::string& path) {
  Reader in(path);
  ProgramFile file;
  file.options.device = in.text();
  file.options.threads = static_cast<int>(in.number());
  file.options.cpu = in.text();
  file.options.winograd = static_cast<int>(in.number());
  file.tuned = in.number() != 0;
  file.graph = in.text();
  file.outputs = in.texts();
  file.graph_moves = in.texts();
  file.moves = in.texts();
  for (uint64_t left = in.count(); left > 0; --left) {
    const uint64_t id = in.number();
    ProgramFile::Constant constant{id, in.dtype(), {}, nullptr};
    for (uint64_t axes = in.count(); axes > 0; --axes)
      constant.sizes.push_back(static_cast<int64_t>(in.number()));
    in.blob([&](uint64_t bytes) {
      constant.data = Storage::allocate(bytes);
      return static_cast<char*>(constant.data->data());
    });
    file.constants.push_back(std::move(constant));
  }
  for (uint64_t left = in.count(); left > 0; --left) {
    std::string& object = file.objects[in.number()];
    in.blob([&](uint64_t bytes) {
      object.resize(bytes);
      return object.data();
    });
  }
  return file;
}

} // namespace pipeline

bool is_program_file(const std::string& path) {
  char magic[sizeof pipeline::kMagic] = {};
  std::ifstream(path, std::ios::binary).read(magic, sizeof magic);
  return std::memcmp(magic, pipeline::kMagic, sizeof magic) == 0;
}

} // namespace lathe
