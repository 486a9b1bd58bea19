#include "onnx/mapped_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace lathe::onnx {

std::optional<MappedFile> MappedFile::open(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return {};
  struct stat info {};
  if (fstat(file, &info) != 0 || !S_ISREG(info.st_mode)) {
    ::close(file);
    return {};
  }
  const auto size = static_cast<size_t>(info.st_size);
  void* data = size > 0 ? mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0) : nullptr;
  ::close(file); // the mapping stays
  if (data == MAP_FAILED) return {};
  return MappedFile(data, size);
}

MappedFile::~MappedFile() {
  if (data_) munmap(data_, size_);
}

} // namespace lathe::onnx
