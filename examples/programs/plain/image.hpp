#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

/// h and w: of the result.
inline void plain_image(const uint8_t* photo, int h, int w, uint8_t* out) {
  const int stride = w + 2;
  std::vector<uint8_t> luma(static_cast<size_t>(h + 2) * stride); // with a frame
  for (int y = 0; y < h; ++y) {
    uint8_t* to = &luma[static_cast<size_t>(y + 1) * stride];
    for (int x = 0; x < w; ++x) {
      const uint8_t* a = photo + (static_cast<size_t>(2 * y) * 2 * w + 2 * x) * 3;
      const uint8_t* b = a + static_cast<size_t>(2 * w) * 3;
      int half[3];
      for (int c = 0; c < 3; ++c) half[c] = (a[c] + a[c + 3] + b[c] + b[c + 3] + 2) >> 2;
      to[x + 1] = static_cast<uint8_t>((half[0] * 77 + half[1] * 150 + half[2] * 29) >> 8);
    }
    to[0] = to[1];
    to[w + 1] = to[w];
  }
  std::copy_n(&luma[static_cast<size_t>(stride)], stride, &luma[0]);
  std::copy_n(&luma[static_cast<size_t>(h) * stride], stride, &luma[static_cast<size_t>(h + 1) * stride]);
  for (int y = 0; y < h; ++y)
    for (int x = 0; x < w; ++x) {
      const uint8_t *a = &luma[static_cast<size_t>(y) * stride + x], *b = a + stride, *c = b + stride;
      const int sum = a[0] + 2 * a[1] + a[2] + 2 * (b[0] + 2 * b[1] + b[2]) + c[0] + 2 * c[1] + c[2];
      out[static_cast<size_t>(y) * w + x] = static_cast<uint8_t>((sum + 8) >> 4);
    }
}
