// A product of matrices scheduled by hand, a few moves at a time (docs/schedule.md explains them). Each
// schedule's result is compared with plain loops. With arguments it also times the schedules, in turns with
// the one that a search finds:
//
//   example_05_schedule_by_hand 512 20     matrices of 512 x 512, 20 seconds of search
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <lathe/lathe.hpp>
using lathe::Tensor;

namespace {

struct Schedule {
  std::string name;
  std::vector<std::string> moves;
};

std::vector<std::string> moves_of_vectors(int lanes) {
  return {"inline(t0)", "split(t1.i1, " + std::to_string(lanes) + ")",
          "reorder(t1.i0, t1.r2, t1.i1.o, t1.i1.i)", "vectorise(t1.i1.i)"};
}

/// f32 in a vector of this machine: more are refused.
int lanes_here(const lathe::NamedTensors& program) {
  for (int lanes : {16, 8}) try {
      lathe::compile(program, {.moves = moves_of_vectors(lanes)});
      return lanes;
    } catch (const lathe::Error&) {
    }
  return 4;
}

std::vector<Schedule> schedules(int lanes) {
  const std::vector<std::string> fused{"inline(t0)"};
  const std::vector<std::string> rows{"inline(t0)", "reorder(t1.i0, t1.r2, t1.i1)"};
  // A tile of 6 rows and two vectors of sums stays in registers while the loop over r2 adds to it.
  const std::vector<std::string> tiled{"inline(t0)", "split(t1.i1, " + std::to_string(2 * lanes) + ")",
                                       "split(t1.i1.i, " + std::to_string(lanes) + ")", "split(t1.i0, 6)",
                                       "reorder(t1.i1.o, t1.i0.o, t1.r2, t1.i0.i, t1.i1.i.o, t1.i1.i.i)"};
  const auto in_registers = [](std::vector<std::string> moves, const std::string& sums) {
    for (std::string move : {"accumulate(t1, t1.r2)", "vectorise(t1.i1.i.i)", "unroll(t1.i0.i)",
                             "unroll(t1.i1.i.o)", "vectorise(A.z2)", "unroll(A.z0)", "unroll(A.z1)",
                             "vectorise(A.w2)", "unroll(A.w0)", "unroll(A.w1)"}) {
      if (const size_t at = move.find('A'); at != std::string::npos) move.replace(at, 1, sums);
      moves.push_back(move);
    }
    return moves;
  };
  std::vector<std::string> packed = tiled;
  packed.insert(packed.end(), {"pack(t1, b, t1.i1.o, packed)", "vectorise(t1.p0.c2)"});
  std::vector<std::string> unrolled = in_registers(packed, "t1.a1");
  unrolled.insert(unrolled.end(), {"split(t1.r2, 2)", "unroll(t1.r2.i)"});
  return {{"fused", fused},
          {"rows of b", rows},
          {"vectors", moves_of_vectors(lanes)},
          {"sums in registers", in_registers(tiled, "t1.a0")},
          {"b packed", in_registers(packed, "t1.a1")},
          {"two terms a turn", unrolled}};
}

std::vector<float> random_numbers(int count, uint64_t seed) {
  return Tensor::rand({count}, seed).to_vector<float>();
}

/// Largest error of a product of n x n, in units of f32's rounding of the sum of the terms' sizes.
double worst_error(const std::vector<float>& a, const std::vector<float>& b, const std::vector<float>& y,
                   int n) {
  double worst = 0;
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < n; ++j) {
      double sum = 0, sizes = 0;
      for (int k = 0; k < n; ++k) {
        const double term = static_cast<double>(a[i * n + k]) * b[k * n + j];
        sum += term;
        sizes += std::abs(term);
      }
      const double error = std::abs(y[i * n + j] - sum) / (sizes * 0x1p-24);
      if (std::isnan(error)) return error;
      worst = std::max(worst, error);
    }
  return worst;
}

struct Contender {
  std::string name;
  lathe::Executable program;
  double seconds = 1e9; // the shortest run
};

} // namespace

int main(int argc, char** argv) {
  const int n = argc > 1 ? std::max(8, std::atoi(argv[1])) : 100;
  const double budget = argc > 2 ? std::atof(argv[2]) : 0;
  Tensor a = Tensor::input("a", {n, n}), b = Tensor::input("b", {n, n});
  const lathe::NamedTensors program{{"y", a.matmul(b)}};
  lathe::CompileOptions options;
  options.threads = 1;
  options.use_database = false;

  std::vector<Contender> contenders;
  for (const Schedule& schedule : schedules(lanes_here(program))) {
    options.moves = schedule.moves;
    contenders.push_back({schedule.name, lathe::compile(program, options)});
  }
  options.moves.clear();
  if (budget > 0) {
    lathe::TuneOptions how;
    how.budget_seconds = budget;
    contenders.push_back({"tuned", lathe::tune(program, how, options)});
  }

  const std::vector<float> x = random_numbers(n * n, 1), w = random_numbers(n * n, 2);
  std::vector<float> y(x.size());
  const auto run = [&](const Contender& c) {
    std::fill(y.begin(), y.end(), -1.f);
    const auto start = std::chrono::steady_clock::now();
    c.program.run({{"a", x.data()}, {"b", w.data()}}, {{"y", y.data()}});
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  for (const Contender& c : contenders) {
    run(c);
    if (worst_error(x, w, y, n) <= n) continue; // (n - 1) u: docs/numbers.md
    std::printf("%s: wrong\n", c.name.c_str());
    return 1;
  }
  std::printf("%zu schedules of %d x %d, all right\n", contenders.size(), n, n);

  if (budget <= 0) return 0;
  for (int round = 0; round < 2000; ++round) // in turns; those that are slow a few times only
    for (Contender& c : contenders)
      if (round * c.seconds < 3 || round < 3) c.seconds = std::min(c.seconds, run(c));
  const double best = contenders.back().seconds;
  for (const Contender& c : contenders)
    std::printf("%-18s %8.3f ms %7.1f GFLOP/s  %4.2f of the tuned speed\n", c.name.c_str(), c.seconds * 1e3,
                2.0 * n * n * n / c.seconds * 1e-9, best / c.seconds);
}
