// A correction of the cost model, fitted to measurements: how far the sum of the terms is off, from the share
// that each has in it. Measured and predicted times span six orders of magnitude, so it is a ridge regression
// on the logarithm of their ratio.
#pragma once
#include "search/search.hpp"

namespace lathe::search {

struct Observation {
  std::vector<double> terms; // cost_terms()
  double measured;           // seconds
};

/// No weights if there are too few observations.
Correction fit_correction(const std::vector<Observation>& observations);

/// Typical factors (the geometric mean of max(p / m, m / p)) by which predictions are off.
struct CorrectionError {
  double without = 1, with = 1; // `with`: each observation predicted by a fit to all the others
};
CorrectionError leave_one_out(const std::vector<Observation>& observations);

} // namespace lathe::search
