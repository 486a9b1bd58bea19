// The programs' operator new: mimalloc's own ends a program without a word where there is no memory. This one
// throws what says how much was asked for.
#include <cstdio>
#include <cstdlib>
#include <new>

namespace {

class OutOfMemory : public std::bad_alloc {
public:
  explicit OutOfMemory(size_t bytes) {
    std::snprintf(text_, sizeof text_, "out of memory: there are no %zu bytes to be had", bytes);
  }
  const char* what() const noexcept override { return text_; }

private:
  char text_[80];
};

void* checked(void* memory, size_t bytes) {
  if (!memory) throw OutOfMemory(bytes);
  return memory;
}

} // namespace

void* operator new(size_t bytes) { return checked(std::malloc(bytes ? bytes : 1), bytes); }
void* operator new(size_t bytes, std::align_val_t alignment) {
  const auto step = static_cast<size_t>(alignment);
  const size_t rounded = (bytes + step - 1) / step * step;
  return checked(rounded < bytes ? nullptr : std::aligned_alloc(step, rounded ? rounded : step), bytes);
}
// The forms for arrays are here too: those of mimalloc's library do not call the ones above.
void* operator new[](size_t bytes) { return operator new(bytes); }
void* operator new[](size_t bytes, std::align_val_t alignment) { return operator new(bytes, alignment); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }
