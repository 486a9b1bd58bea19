// Floats like those of trained weights.
#pragma once
#include <random>
#include <vector>

namespace lathe::test {

inline std::vector<float> normal(size_t count, unsigned seed, float width = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<float> draw(0, width);
  std::vector<float> values(count);
  for (float& value : values) value = draw(random);
  return values;
}

} // namespace lathe::test
