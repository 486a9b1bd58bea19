#pragma once
#include <utility>
#include <vector>

class PlainStencil {
public:
  PlainStencil(int n, const std::vector<float>& plate)
      : n_(n), wide_(n + 2), now_(at(n + 2, 0)), then_(now_) {
    for (int y = 0; y < n; ++y)
      for (int x = 0; x < n; ++x) now_[at(y + 1, x + 1)] = plate[static_cast<size_t>(y) * n + x];
  }
  void step() {
    for (int y = 1; y <= n_; ++y)
      for (int x = 1; x <= n_; ++x) {
        const float* p = &now_[at(y, x)];
        then_[at(y, x)] = 0.5f * p[0] + 0.125f * (p[-wide_] + p[wide_] + p[-1] + p[1]);
      }
    std::swap(now_, then_);
  }
  std::vector<float> plate() const {
    std::vector<float> out;
    for (int y = 1; y <= n_; ++y) out.insert(out.end(), &now_[at(y, 1)], &now_[at(y, n_)] + 1);
    return out;
  }

private:
  size_t at(int y, int x) const { return static_cast<size_t>(y) * wide_ + x; }
  int n_, wide_;
  std::vector<float> now_, then_; // with a frame of zeros
};
