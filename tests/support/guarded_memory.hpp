// Memory that ends, or begins, where the process has none: who touches an element outside of it stops.
#pragma once
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <stdexcept>

namespace lathe::test {

class GuardedMemory {
public:
  GuardedMemory(size_t bytes, bool ends_there) : bytes_(bytes) {
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    const size_t inside = (bytes + page - 1) / page * page;
    mapped_ = inside + 2 * page;
    base_ =
        static_cast<unsigned char*>(mmap(nullptr, mapped_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (base_ == MAP_FAILED || mprotect(base_ + page, inside, PROT_READ | PROT_WRITE) != 0)
      throw std::runtime_error("guarded memory: mmap failed");
    data_ = base_ + page + (ends_there ? inside - bytes : 0);
  }
  ~GuardedMemory() { munmap(base_, mapped_); }
  GuardedMemory(const GuardedMemory&) = delete;
  GuardedMemory& operator=(const GuardedMemory&) = delete;

  unsigned char* data() const { return data_; }
  size_t size() const { return bytes_; }
  void fill(int byte) { std::memset(data_, byte, bytes_); }

private:
  size_t bytes_, mapped_ = 0;
  unsigned char *base_ = nullptr, *data_ = nullptr;
};

} // namespace lathe::test
