// The fitted correction of the cost model: it learns a term that is too dear, and says how well on what it has not seen.
#include <doctest/doctest.h>

#include <cmath>
#include <random>

#include "search/correction.hpp"

using namespace lathe::search;

namespace {
/// Kernels of four terms, of which the second takes only a third of what the model says.
std::vector<Observation> observed(int count, double noise) {
  std::mt19937_64 random(5);
  std::uniform_real_distribution<double> share(0, 1);
  std::vector<Observation> all;
  for (int i = 0; i < count; ++i) {
    const double scale = std::exp(10 * share(random) - 14);
    Observation o;
    for (int t = 0; t < 4; ++t) o.terms.push_back(scale * share(random));
    o.measured = (o.terms[0] + o.terms[1] / 3 + o.terms[2] + o.terms[3]) * std::exp(noise * (share(random) - 0.5));
    all.push_back(o);
  }
  return all;
}
double sum(const Observation& o) { return o.terms[0] + o.terms[1] + o.terms[2] + o.terms[3]; }
} // namespace

TEST_CASE("a term that is too dear is corrected") {
  const auto all = observed(300, 0.05);
  const Correction c = fit_correction(all);
  REQUIRE(c.weights.size() == 5);
  CHECK(c.weights[1] < c.weights[0] - 0.3);
  CHECK(c.factor({0, 1e-3, 0, 0}) < 0.6);
  const CorrectionError e = leave_one_out(all);
  CHECK(e.without > 1.15);
  CHECK(e.with < 1.08);
}

TEST_CASE("leaving one out is what fitting to all others gives") {
  const auto all = observed(60, 0.5);
  double total = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    auto others = all;
    others.erase(others.begin() + static_cast<long>(i));
    const double corrected = sum(all[i]) * fit_correction(others).factor(all[i].terms);
    total += std::abs(std::log(all[i].measured / corrected));
  }
  CHECK(leave_one_out(all).with == doctest::Approx(std::exp(total / static_cast<double>(all.size()))).epsilon(1e-6));
}

TEST_CASE("too few observations correct nothing") {
  CHECK(fit_correction(observed(8, 0)).weights.empty());
  CHECK(fit_correction({}).weights.empty());
  CHECK(leave_one_out({}).with == 1);
  CHECK(Correction{}.factor({1, 2, 3, 4}) == 1);
}
