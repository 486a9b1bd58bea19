// k-means: each point belongs to the nearest of k centres, and each centre moves to the mean of its points.
#include <cstdlib>
#include <lathe/lathe.hpp>

#include "beside.hpp"
#include "plain/k_means.hpp"
using lathe::Tensor;

int main(int argc, char** argv) {
  const int n = argc > 1 ? std::atoi(argv[1]) : 100'000, d = 16, k = 32;
  const Tensor data = Tensor::rand({n, d}, /*seed=*/1).realise();
  const lathe::State centres("centres", data.shrink({{0, k}, {0, d}}));
  PlainKMeans plain(data.data<float>(), centres.read().to_vector<float>(), d);

  const Tensor points = Tensor::input("points", {n, d}), c = centres.value();
  const Tensor distances =
      c.square().sum(1) - 2.0 * points.matmul(c.transpose()); // less each point's own square
  const Tensor nearest = distances.argmin(1);
  const Tensor sums = Tensor::zeros({k, d}).scatter_add(0, nearest.unsqueeze(1).expand({n, d}), points);
  const Tensor counts = lathe::bincount(nearest, k).unsqueeze(1).cast(lathe::DType::F32);
  const lathe::Update move = centres.assign(where(counts > 0, sums / maximum(counts, 1.0), c));
  const lathe::Executable step = lathe::compile({}, {.threads = 1}, {move});

  beside("k-means", 9, [&] { step({{"points", data}}); }, [&] { plain.step(); });
  // A point that is as near to two centres may go to either.
  return agree(centres.read().to_vector<float>(), plain.centres(), 1e-2f) ? 0 : 1;
}
