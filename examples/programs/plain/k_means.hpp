#pragma once
#include <limits>
#include <span>
#include <vector>

class PlainKMeans {
public:
  PlainKMeans(std::span<const float> points, std::vector<float> centres, int d)
      : points_(points), centres_(std::move(centres)), d_(static_cast<size_t>(d)) {}
  void step() {
    std::vector<float> sums(centres_.size()), counts(centres_.size() / d_);
    for (const float* p = points_.data(); p != points_.data() + points_.size(); p += d_) {
      const size_t to = nearest(p);
      for (size_t e = 0; e < d_; ++e) sums[to * d_ + e] += p[e];
      ++counts[to];
    }
    for (size_t j = 0; j < centres_.size(); ++j)
      if (counts[j / d_] > 0) centres_[j] = sums[j] / counts[j / d_];
  }
  const std::vector<float>& centres() const { return centres_; }

private:
  size_t nearest(const float* p) const {
    size_t best = 0;
    float least = std::numeric_limits<float>::infinity();
    for (size_t c = 0; c < centres_.size() / d_; ++c) {
      float distance = 0;
      for (size_t e = 0; e < d_; ++e) {
        const float difference = p[e] - centres_[c * d_ + e];
        distance += difference * difference;
      }
      if (distance < least) least = distance, best = c;
    }
    return best;
  }
  std::span<const float> points_;
  std::vector<float> centres_;
  size_t d_;
};
