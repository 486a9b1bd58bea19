// Heat spreads over a plate, which is a state: each call takes it one step further in time.
#include <cstdlib>
#include <lathe/lathe.hpp>

#include "beside.hpp"
#include "plain/stencil.hpp"
using lathe::Tensor;

int main(int argc, char** argv) {
  const int n = argc > 1 ? std::atoi(argv[1]) : 2048, steps = 100;
  const lathe::State plate("plate", Tensor::rand({n, n}, /*seed=*/1));
  PlainStencil plain(n, plate.read().to_vector<float>());

  const Tensor around = plate.value().pad({{1, 1}, {1, 1}});
  const auto moved = [&](int y, int x) { return around.shrink({{1 + y, n + 1 + y}, {1 + x, n + 1 + x}}); };
  const Tensor next = 0.5 * plate.value() + 0.125 * (moved(-1, 0) + moved(1, 0) + moved(0, -1) + moved(0, 1));
  const lathe::Executable step = lathe::compile({}, {.threads = 1}, {plate.assign(next)});

  beside("stencil", steps, [&] { step({}); }, [&] { plain.step(); });
  return agree(plate.read().to_vector<float>(), plain.plate(), 1e-6f) ? 0 : 1;
}
