// What an option is worth that pays how far the mean of a random price ends above its start, by simulation.
#include <cmath>
#include <cstdlib>
#include <lathe/lathe.hpp>

#include "beside.hpp"
#include "plain/monte_carlo.hpp"
using lathe::Tensor;

int main(int argc, char** argv) {
  const int paths = argc > 1 ? std::atoi(argv[1]) : 100'000, days = 64;
  const double spread = 0.2 / std::sqrt(days), drift = 0.05 / days - spread * spread / 2;
  // The seed is an input, so that each call draws fresh numbers.
  const Tensor seed = Tensor::input("seed", {}, lathe::DType::I64);
  const Tensor moves = Tensor::randn({paths, days}, seed) * spread + drift;
  const Tensor mean = moves.cumsum(1).exp().mean(1);
  const lathe::Executable simulate = lathe::compile({{"value", relu(mean - 1.0).mean()}}, {.threads = 1});

  constexpr int kRounds = 9;
  int64_t round = 0;
  double ours = 0, plain = 0;
  PlainMonteCarlo loops(static_cast<float>(spread), static_cast<float>(drift));
  beside(
      "monte carlo", kRounds,
      [&] { ours += simulate({{"seed", Tensor::scalar(++round)}}).at("value").item<double>() / kRounds; },
      [&] { plain += loops.value(paths, days) / kRounds; });
  std::printf("             %.4f and %.4f\n", ours, plain);
  const double deviation = 0.1 / std::sqrt(kRounds * static_cast<double>(paths)); // of either, roughly
  return std::abs(ours - plain) < 6 * deviation && ours > 0.05 ? 0 : 1;
}
