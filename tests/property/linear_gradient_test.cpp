// Derivatives of Fourier transforms, against differences.
#include <doctest/doctest.h>

#include "lathe/fft.hpp"
#include "support/differences.hpp"

using namespace lathe;
using namespace lathe::test;

using Tensors = std::vector<Tensor>;

TEST_CASE("Fourier transforms") {
  const auto rfft_parts = [](const Tensors& x) { return view_as_real(rfft(x[0])); };
  for (const int64_t n : {6, 7, 32}) {
    CAPTURE(n);
    check_differences(
        {[](const Tensors& x) { return view_as_real(fft(Complex{x[0], x[1]})); }, {{2, n}, {2, n}}}, 1);
    check_differences({rfft_parts, {{2, n}}}, 2);
    const Shape bins{2, n / 2 + 1};
    check_differences({[&](const Tensors& x) { return irfft({x[0], x[1]}, {.n = n}); }, {bins, bins}}, 3);
  }
  check_differences({rfft_parts, {{131}}}, 4);
}
