#include "compile/export/weights_file.hpp"

#include <bit>
#include <cstring>

#include "core/hash.hpp"

namespace lathe::pipeline {
namespace {

static_assert(std::endian::native == std::endian::little, "constants are copied as they lie in memory");

uint64_t checksum(const char* bytes, size_t count) {
  uint64_t hash = count;
  for (size_t k = 0; k < count; k += sizeof hash) {
    uint64_t word = 0;
    std::memcpy(&word, bytes + k, sizeof word);
    hash = mix(hash, word);
  }
  return hash;
}

} // namespace

WeightsFile pack_weights(const std::vector<ProgramLayout::Constant>& constants) {
  WeightsFile file;
  size_t end = WeightsFile::kHeaderBytes;
  for (const ProgramLayout::Constant& constant : constants) {
    const ast::Buffer& buffer = *constant.buffer;
    const auto bytes = static_cast<size_t>(num_elements(buffer.shape).value() * size_of(buffer.dtype));
    file.offsets.push_back(end);
    end += (bytes + kPlaceAlignment - 1) / kPlaceAlignment * kPlaceAlignment;
  }
  file.bytes.assign(end, '\0');
  for (size_t k = 0; k < constants.size(); ++k) {
    const ast::Buffer& buffer = *constants[k].buffer;
    std::memcpy(file.bytes.data() + file.offsets[k], constants[k].data->data(),
                static_cast<size_t>(num_elements(buffer.shape).value() * size_of(buffer.dtype)));
  }
  const uint64_t size = end;
  const uint64_t sum =
      checksum(file.bytes.data() + WeightsFile::kHeaderBytes, end - WeightsFile::kHeaderBytes);
  std::memcpy(file.bytes.data(), "lathe-w2", 8);
  std::memcpy(file.bytes.data() + 8, &size, sizeof size);
  std::memcpy(file.bytes.data() + 16, &sum, sizeof sum);
  return file;
}

} // namespace lathe::pipeline
