#include "search/correction.hpp"

#include <Eigen/Dense>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace lathe::search {
namespace {

constexpr double kRidge = 1.0;     // weight of the penalty, in observations
constexpr double kMostFactor = 10; // a correction is not to take the model's place
constexpr size_t kFewest = 32;     // observations

Eigen::VectorXd shares(const std::vector<double>& terms) {
  const double sum = std::accumulate(terms.begin(), terms.end(), 0.0);
  Eigen::VectorXd x(static_cast<Eigen::Index>(terms.size()) + 1);
  for (size_t i = 0; i < terms.size(); ++i) x[static_cast<Eigen::Index>(i)] = sum > 0 ? terms[i] / sum : 0;
  x[static_cast<Eigen::Index>(terms.size())] = 1;
  return x;
}

double log_ratio(const Observation& o) {
  return std::log(o.measured / std::accumulate(o.terms.begin(), o.terms.end(), 0.0));
}

struct Problem {
  Eigen::MatrixXd x;
  Eigen::VectorXd y;
};
Problem problem_of(const std::vector<Observation>& observations) {
  const auto n = static_cast<Eigen::Index>(observations.size());
  Problem p{Eigen::MatrixXd(n, static_cast<Eigen::Index>(observations[0].terms.size()) + 1), Eigen::VectorXd(n)};
  for (Eigen::Index i = 0; i < n; ++i) {
    p.x.row(i) = shares(observations[static_cast<size_t>(i)].terms).transpose();
    p.y[i] = log_ratio(observations[static_cast<size_t>(i)]);
  }
  return p;
}

Eigen::LDLT<Eigen::MatrixXd> factorised(const Problem& p) {
  const Eigen::Index n = p.x.cols();
  return (p.x.transpose() * p.x + kRidge * Eigen::MatrixXd::Identity(n, n)).ldlt();
}

} // namespace

double Correction::factor(const std::vector<double>& terms) const {
  if (weights.size() != terms.size() + 1) return 1;
  const Eigen::Map<const Eigen::VectorXd> w(weights.data(), static_cast<Eigen::Index>(weights.size()));
  return std::clamp(std::exp(w.dot(shares(terms))), 1 / kMostFactor, kMostFactor);
}

Correction fit_correction(const std::vector<Observation>& observations) {
  if (observations.size() < kFewest) return {};
  const Problem p = problem_of(observations);
  const Eigen::VectorXd w = factorised(p).solve(p.x.transpose() * p.y);
  return {{w.begin(), w.end()}};
}

CorrectionError leave_one_out(const std::vector<Observation>& observations) {
  if (observations.empty()) return {};
  const Problem p = problem_of(observations);
  const auto factors = factorised(p);
  const Eigen::VectorXd w = factors.solve(p.x.transpose() * p.y);
  double without = 0, with = 0;
  for (Eigen::Index i = 0; i < p.y.size(); ++i) {
    // The residual of a fit without row i follows from the fit with it and the row's leverage.
    const double leverage = p.x.row(i).dot(factors.solve(p.x.row(i).transpose()));
    const double residual = (p.y[i] - p.x.row(i).dot(w)) / std::max(1e-9, 1 - leverage);
    without += std::abs(p.y[i]);
    with += std::abs(residual);
  }
  const auto n = static_cast<double>(p.y.size());
  return {std::exp(without / n), std::exp(with / n)};
}

} // namespace lathe::search
