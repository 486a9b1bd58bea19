#pragma once
#include <algorithm>
#include <cmath>
#include <random>

class PlainMonteCarlo {
public:
  PlainMonteCarlo(float spread, float drift) : spread_(spread), drift_(drift) {}
  double value(int paths, int days) {
    double sum = 0;
    for (int path = 0; path < paths; ++path) {
      float logarithm = 0, total = 0;
      for (int day = 0; day < days; ++day) {
        logarithm += spread_ * normal_(random_) + drift_;
        total += std::exp(logarithm);
      }
      sum += std::max(0.0f, total / static_cast<float>(days) - 1);
    }
    return sum / paths;
  }

private:
  float spread_, drift_;
  std::mt19937 random_{1};
  std::normal_distribution<float> normal_;
};
