// Times a program beside plain loops that compute the same, in turns.
#pragma once
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <functional>
#include <span>
#include <vector>

/// Runs both `rounds` times, and prints their median times and how many times as fast the first is.
inline void beside(const char* name, int rounds, const std::function<void()>& ours,
                   const std::function<void()>& plain) {
  const auto milliseconds = [](const std::function<void()>& run) {
    const auto start = std::chrono::steady_clock::now();
    run();
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  };
  const auto median = [](std::vector<double>& all) {
    std::nth_element(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2), all.end());
    return all[all.size() / 2];
  };
  std::vector<double> a, b;
  for (int k = 0; k < rounds; ++k) {
    a.push_back(milliseconds(ours));
    b.push_back(milliseconds(plain));
  }
  std::printf("%-12s lathe %9.3f ms, plain loops %9.3f ms: %.2f times as fast\n", name, median(a), median(b),
              median(b) / median(a));
}

/// Whether the largest difference is at most `most`, which it prints. NaN is no small difference.
inline bool agree(std::span<const float> a, std::span<const float> b, float most) {
  float largest = 0;
  bool same_size = a.size() == b.size();
  for (size_t i = 0; same_size && i < a.size(); ++i) {
    const float difference = std::abs(a[i] - b[i]);
    if (!(difference <= largest)) largest = difference;
  }
  std::printf("             largest difference %g\n", static_cast<double>(largest));
  return same_size && largest <= most;
}
