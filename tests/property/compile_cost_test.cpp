// compile() ends soon and takes little memory, whatever the graph and however large its tensors: random graphs of up to 60 ops
// and 2^31 elements a tensor are compiled, not run. LATHE_GRAPHS says how many, LATHE_GRAPHS_SEED where to begin.
#include <doctest/doctest.h>

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <random>

#include <fmt/format.h>

#include "lathe/lathe.hpp"
#include "support/patience.hpp"

using namespace lathe;
namespace fs = std::filesystem;

namespace {

constexpr double kMostSeconds = 2 * kPatience; // of processor time
constexpr double kMostMegabytes = 500 * kPatience;
constexpr int64_t kMostElements = int64_t{1} << 31;

int64_t elements(const Tensor& t) { return t.element_count(); }

class Generator {
public:
  explicit Generator(uint64_t seed) : random_(seed) {}

  NamedTensors graph() {
    const int inputs = below(3) + 1, ops = below(60) + 1;
    for (int i = 0; i < inputs; ++i) values_.push_back(leaf(i));
    for (int i = 0; i < ops; ++i) {
      Tensor made = op();
      if (elements(made) <= kMostElements) values_.push_back(std::move(made));
    }
    NamedTensors outputs{{"y", values_.back()}};
    if (below(3) == 0) outputs.emplace("z", any());
    if (below(6) == 0) outputs = {{"g", gradients(values_.back().cast(DType::F32).sum(), {values_[0]})[0]}};
    return outputs;
  }

private:
  int below(int n) { return static_cast<int>(random_() % static_cast<uint64_t>(n)); }
  const Tensor& any() { // more often a late one
    const int n = static_cast<int>(values_.size());
    return values_[static_cast<size_t>(std::max(below(n), below(n)))];
  }
  int axis_of(const Tensor& t) { return below(t.rank()); }

  Shape shape() {
    static constexpr int64_t kSizes[] = {1, 2, 3, 7, 16, 17, 64, 1000, 4096, 65536, 1 << 20, kMostElements};
    Shape out;
    int64_t left = below(2) ? kMostElements : 1 << 20;
    for (int axes = below(4) + 1; axes > 0; --axes) {
      const int64_t size = std::min(kSizes[below(std::size(kSizes))], left);
      left /= size;
      out.push_back(size);
    }
    return out;
  }
  Tensor leaf(int i) {
    const Shape s = shape();
    switch (i == 0 ? 0 : below(5)) {
    case 1: return Tensor::ones(s);
    case 2: return Tensor::iota(s, 0).cast(DType::F32);
    case 3: return Tensor::rand(s, random_());
    default: return Tensor::input(fmt::format("x{}", i), s);
    }
  }
  /// Two tensors of which the second broadcasts to the first.
  Tensor beside(const Tensor& x) {
    for (int tries = 0; tries < 8; ++tries) {
      const Tensor& y = any();
      bool fits = y.rank() <= x.rank();
      for (int a = 1; fits && a <= y.rank(); ++a) fits = y.size(-a) == x.size(-a) || y.size(-a) == Expr(1);
      if (fits) return y;
    }
    return x.rank() ? x.max(axis_of(x), true) : x;
  }

  Tensor op() {
    const Tensor x = any();
    if (x.rank() == 0) return x.expand(shape());
    switch (below(22)) {
    case 0: return x.sin();
    case 1: return (x * 0.5).exp();
    case 2: return x.square() + 1.0;
    case 3: return x + beside(x);
    case 4: return x * beside(x);
    case 5: return maximum(x, beside(x));
    case 6: return where(x < beside(x), x, -x);
    case 7: return x.sum(axis_of(x), below(2) == 0);
    case 8: return x.max(Axes{axis_of(x)}, below(2) == 0);
    case 9: return x.mean(axis_of(x), true) + x;
    case 10: return x.softmax(axis_of(x));
    case 11: return x.transpose(axis_of(x), axis_of(x));
    case 12: return regrouped(x);
    case 13: return padded(x);
    case 14: return cut(x);
    case 15: return x.flip(axis_of(x));
    case 16: return x.roll(below(5), axis_of(x));
    case 17: return elements(x) < kMostElements / 4 ? concat({x, x.flip(axis_of(x)), x}, axis_of(x)) : x.tanh();
    case 18: return x.rank() >= 2 && elements(x) < 1 << 24 ? x.matmul(x.transpose()) : x.sigmoid();
    case 19: return elements(x) < 1 << 26 ? x.cumsum(axis_of(x)) : x.abs();
    case 20: return x.cast(below(2) ? DType::F16 : DType::I32).cast(DType::F32);
    default: return x.unsqueeze(0).expand(expanded(x));
    }
  }
  Tensor regrouped(const Tensor& x) { // all elements in other axes, which rarely divide
    const int64_t n = elements(x), divisor[] = {1, 2, 3, 4, 5, 7, 16}, d = divisor[below(7)];
    return n % d ? x.reshape({n}) : x.reshape({n / d, d});
  }
  Tensor padded(const Tensor& x) {
    std::vector<std::pair<int64_t, int64_t>> by;
    for (int a = 0; a < x.rank(); ++a) by.emplace_back(below(3), below(3));
    return x.pad(by, below(2));
  }
  Tensor cut(const Tensor& x) {
    const int axis = axis_of(x);
    const int64_t n = x.size(axis).value();
    if (n < 2) return x.sqrt();
    std::vector<IndexItem> items(static_cast<size_t>(axis), Slice{});
    items.push_back(below(2) ? Slice{1, {}, 1} : Slice{{}, {}, 2});
    return x.index(items);
  }
  Shape expanded(const Tensor& x) {
    Shape s = x.shape();
    s.insert(s.begin(), elements(x) < kMostElements / 64 ? 64 : 1);
    return s;
  }

  std::mt19937_64 random_;
  std::vector<Tensor> values_;
};

struct Cost {
  double seconds = 0;
  long megabytes = 0;
  int status = 0;
};

/// Of compiling the graph, in a process of its own with an empty cache.
Cost cost_of(const std::string& name, const std::function<NamedTensors()>& graph) {
  const fs::path cache = fs::path(std::getenv("LATHE_CACHE_DIR")) / name;
  fs::remove_all(cache);
  const pid_t child = fork();
  if (child == 0) {
    setenv("LATHE_CACHE_DIR", cache.c_str(), 1);
    alarm(60);
    try {
      CompileOptions options;
      options.threads = 1;
      (void)compile(graph(), options);
    } catch (const std::exception& e) {
      fmt::print(stderr, "{}: {}\n", name, e.what());
      _exit(3);
    }
    _exit(0);
  }
  Cost cost;
  rusage usage{};
  wait4(child, &cost.status, 0, &usage);
  fs::remove_all(cache);
  const auto seconds = [](const timeval& t) { return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec); };
  cost.seconds = seconds(usage.ru_utime) + seconds(usage.ru_stime);
  cost.megabytes = usage.ru_maxrss / 1024;
  return cost;
}
Cost cost_of_seed(int64_t seed) {
  return cost_of(fmt::format("seed{}", seed), [&] { return Generator(static_cast<uint64_t>(seed)).graph(); });
}

int64_t number(const char* name, int64_t otherwise) {
  const char* text = std::getenv(name);
  return text ? std::atoll(text) : otherwise;
}

} // namespace

TEST_CASE("the time and memory of compile() are bounded") {
  const int64_t count = number("LATHE_GRAPHS", 40), first = number("LATHE_GRAPHS_SEED", 1);
  Cost worst;
  int64_t over = 0;
  std::vector<int64_t> seeds;
  if (!std::getenv("LATHE_GRAPHS_SEED")) seeds = {1067, 1305, 1778, 1860}; // of graphs that took long, or failed
  for (int64_t seed = first; seed < first + count; ++seed) seeds.push_back(seed);
  for (const int64_t seed : seeds) {
    Cost cost = cost_of_seed(seed);
    // A loaded machine makes processor time longer, too.
    if (cost.seconds > kMostSeconds) cost.seconds = std::min(cost.seconds, cost_of_seed(seed).seconds);
    const bool good = cost.status == 0 && cost.seconds <= kMostSeconds && static_cast<double>(cost.megabytes) <= kMostMegabytes;
    over += !good;
    const std::string text = fmt::format("seed {}: status {}, {:.2f} s, {} MB", seed, cost.status, cost.seconds, cost.megabytes);
    CHECK_MESSAGE(good, text);
    worst.seconds = std::max(worst.seconds, cost.seconds);
    worst.megabytes = std::max(worst.megabytes, cost.megabytes);
  }
  const std::string text = fmt::format("{} graphs, {} over; most {:.2f} s, {} MB", seeds.size(), over, worst.seconds, worst.megabytes);
  MESSAGE(text);
}

TEST_CASE("the gradient of a recurrence takes time in proportion to its steps") {
  const auto logistic = [](int steps) {
    const Tensor r = Tensor::input("r", {1});
    Tensor x = Tensor::input("x", {4096});
    for (int i = 0; i < steps; ++i) x = r * x * (1.0f - x);
    return NamedTensors{{"g", gradients(x.sum(), {r})[0]}};
  };
  // Some 2 s of processor time; it was 82 s while each stage was inlined into all that had been made so far.
  const Cost cost = cost_of("logistic320", [&] { return logistic(320); });
  CHECK(cost.status == 0);
  CHECK(cost.seconds < 15);
}
