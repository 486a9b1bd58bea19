// libxsmm: its generated kernels under loops over tiles, with the tile sizes that are the fastest for a case;
// B in place, or packed ahead in panels of its columns.
#include <libxsmm.h>
#include <omp.h>

#include <algorithm>
#include <chrono>

#include "peers/peers.hpp"

namespace lathe::bench {

namespace {
using Kernel = libxsmm_smmfunction_reducebatch_strd;

struct Tiles {
  int64_t m, n, k; ///< k divides K
};

/// C[M, N] = A[M, K] B[K, N], row-major; `batch` times. To libxsmm, which thinks in columns, B is the left
/// operand.
class Product {
public:
  Product(int64_t batch, int64_t m, int64_t n, int64_t k, const float* a, const float* b, float* c, bool pack,
          const Tiles& tiles, int threads)
      : batch_(batch), m_(m), n_(n), k_(k), tiles_(tiles), threads_(threads), a_(a), b_(b), c_(c) {
    if (pack) {
      pack_panels();
      b_ = packed_->as<float>();
    }
    for (int tail_m = 0; tail_m < 2; ++tail_m)
      for (int tail_n = 0; tail_n < 2; ++tail_n) {
        auto rows = static_cast<int>(tail_m ? m % tiles.m : tiles.m);
        auto columns = static_cast<int>(tail_n ? n % tiles.n : tiles.n);
        if (rows == 0 || columns == 0) continue;
        // A packed panel is as wide as its columns.
        int ldb = pack ? columns : static_cast<int>(n), lda = static_cast<int>(k), ldc = static_cast<int>(n);
        float one = 1, zero = 0;
        auto bytes = [](int64_t elements) { return static_cast<int>(elements * 4); };
        kernels_[tail_m][tail_n] = libxsmm_smmdispatch_reducebatch_strd(
            columns, rows, static_cast<int>(tiles.k), bytes(tiles.k * ldb), bytes(tiles.k), &ldb, &lda, &ldc,
            &one, &zero, nullptr, nullptr);
        if (!kernels_[tail_m][tail_n])
          throw Error(ErrorKind::Device, "libxsmm has no kernel for this processor");
      }
  }

  void run() const {
    int64_t down = (m_ + tiles_.m - 1) / tiles_.m, across = (n_ + tiles_.n - 1) / tiles_.n;
    if (threads_ == 1) {
      for (int64_t i = 0; i < batch_ * across * down; ++i) tile(i, down, across);
      return;
    }
#pragma omp parallel for num_threads(threads_) schedule(static)
    for (int64_t i = 0; i < batch_ * across * down; ++i) tile(i, down, across);
  }

private:
  void tile(int64_t i, int64_t down, int64_t across) const {
    int64_t row = i % down * tiles_.m, column = i / down % across * tiles_.n, which = i / down / across;
    unsigned long long count = static_cast<unsigned long long>(k_ / tiles_.k);
    const float* panel = b_ + which * k_ * n_ + (packed_ ? column * k_ : column);
    kernels_[row + tiles_.m > m_][column + tiles_.n > n_](panel, a_ + which * m_ * k_ + row * k_,
                                                          c_ + which * m_ * n_ + row * n_ + column, &count);
  }

  void pack_panels() {
    packed_ = std::make_shared<HostTensor>(DType::F32, Sizes{batch_, k_, n_});
    float* to = packed_->as<float>();
    for (int64_t which = 0; which < batch_; ++which)
      for (int64_t column = 0; column < n_; column += tiles_.n)
        for (int64_t row = 0; row < k_; ++row) {
          const float* from = b_ + (which * k_ + row) * n_;
          to = std::copy(from + column, from + std::min(column + tiles_.n, n_), to);
        }
  }

  int64_t batch_, m_, n_, k_;
  Tiles tiles_;
  int threads_;
  const float *a_, *b_;
  float* c_;
  std::shared_ptr<HostTensor> packed_;
  Kernel kernels_[2][2] = {};
};

/// Sizes worth trying, each at most the whole.
std::vector<Tiles> candidates(int64_t m, int64_t n, int64_t k) {
  std::vector<Tiles> found;
  for (int64_t tile_n : {n, int64_t{64}, int64_t{128}, int64_t{256}})
    for (int64_t tile_m : {m, int64_t{64}, int64_t{256}})
      for (int64_t tile_k : {k, int64_t{256}, int64_t{512}})
        if ((tile_n == n || tile_n < n) && (tile_m == m || tile_m < m) && k % tile_k == 0 &&
            (tile_k == k || tile_k < k))
          found.push_back({tile_m, tile_n, tile_k});
  return found;
}

/// Of a few runs; of one if that is far from the best so far.
double best_seconds(const Product& product, double so_far) {
  double best = 1e8;
  for (int i = 0; i < 4 && best < 2 * so_far; ++i) {
    auto begin = std::chrono::steady_clock::now();
    product.run();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return best;
}

Contender contender(const Case& c, bool pack, int threads) {
  int64_t batch = c.shape.size() == 4 ? c.shape[0] : 1;
  int64_t m = c.shape.end()[-3], n = c.shape.end()[-2], k = c.shape.end()[-1];
  auto to = make_outputs(c);
  std::shared_ptr<Product> best;
  double best_time = 1e9;
  for (const Tiles& tiles : candidates(m, n, k)) {
    auto product =
        std::make_shared<Product>(batch, m, n, k, c.inputs.at("a").as<float>(), c.inputs.at("b").as<float>(),
                                  to->at("c").as<float>(), pack, tiles, threads);
    double seconds = best_seconds(*product, best_time);
    if (seconds < best_time) best = product, best_time = seconds;
  }
  return {pack ? "libxsmm-packed" : "libxsmm", [best] { best->run(); }, nullptr, to};
}

std::vector<Contender> contenders(const Case& c, const CompileOptions& plan) {
  if (c.dtype != DType::F32 || !c.program.count("c")) return {}; // it has matrix products only
  return {contender(c, c.constants.count("b") != 0, plan.threads)};
}
} // namespace

Peer libxsmm_peer() {
  libxsmm_init();
  return {"libxsmm", true,
          std::string("libxsmm ") + LIBXSMM_VERSION + ", kernels for " + libxsmm_get_target_arch(),
          contenders};
}

} // namespace lathe::bench
