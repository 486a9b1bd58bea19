// The programs' operator new, which is linked into this test: where there is no memory it says for how much.
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <new>
#include <string>

namespace {

template <class Allocate> std::string complaint(Allocate&& allocate) {
  try {
    static_cast<void>(allocate()); // what it gives is too large to exist
  } catch (const std::bad_alloc& e) {
    return e.what();
  }
  return "";
}

volatile std::size_t most = PTRDIFF_MAX, all = SIZE_MAX; // which no compiler knows

} // namespace

TEST_CASE("the size is in the message") {
  const std::string text = "out of memory: there are no 9223372036854775807 bytes to be had";
  CHECK(complaint([] { return ::operator new(most); }) == text);
  CHECK(complaint([] { return ::operator new[](most); }) == text);
  CHECK(complaint([] { return ::operator new(most, std::align_val_t{64}); }) == text);
  CHECK(complaint([] { return ::operator new(all, std::align_val_t{128}); }).find("18446744073709551615") !=
        std::string::npos); // rounding up must not wrap
}

TEST_CASE("what there is memory for") {
  for (const std::size_t bytes : {0, 1, 4097})
    for (const std::size_t alignment : {1, 64, 4096}) {
      void* memory = ::operator new(bytes, std::align_val_t{alignment});
      CHECK(reinterpret_cast<uintptr_t>(memory) % alignment == 0);
      ::operator delete(memory, std::align_val_t{alignment});
    }
}
