// Values of tensors by the whole library, on the device that LATHE_TEST_DEVICE names.
#include <cstdlib>

#include "support/moved_elements.hpp"

namespace lathe::test {

constinit const bool kCompiled = true;

namespace {
const bool registered = (set_default_device(std::getenv("LATHE_TEST_DEVICE")), true);
}

Tensor run_at(const Tensor& program, const Tensor& x, int64_t) {
  return compile({{"y", program}}, {.device = std::getenv("LATHE_TEST_DEVICE")})({{"x", x}}).at("y");
}

} // namespace lathe::test
