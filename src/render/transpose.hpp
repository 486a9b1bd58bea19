// Transposes a square of vectors by shuffles of two vectors. Each shuffle is one instruction if registers
// consist of pieces of 16 bytes. The shuffles first work inside the pieces, then move whole pieces.
#pragma once
#include <vector>

namespace lathe::render {

/// The transposed rows: lane i of result j is lane j of rows[i]. There are as many rows as lanes, a power of
/// two. `piece` is the number of lanes in 16 bytes, at most all lanes. shuffle(x, y, pick) makes a vector of
/// the lanes `pick` of x and y; the lanes of y are numbered after those of x.
template <class T, class Shuffle>
std::vector<T> transposed(std::vector<T> rows, int piece, const Shuffle& shuffle) {
  const int lanes = static_cast<int>(rows.size()), pieces = lanes / piece;
  std::vector<T> next(rows.size());
  std::vector<int> pick;
  // The lower (or upper) halves of all pieces of x and y, with alternating lanes of x and y.
  const auto interleaved = [&](const T& x, const T& y, bool upper) {
    pick.clear();
    for (int start = upper ? piece / 2 : 0; start < lanes; start += piece)
      for (int i = 0; i < piece / 2; ++i) pick.insert(pick.end(), {start + i, lanes + start + i});
    return shuffle(x, y, pick);
  };
  // Every second piece of x, then every second piece of y.
  const auto alternate = [&](const T& x, const T& y, bool odd) {
    pick.clear();
    for (int start = odd ? piece : 0; start < 2 * lanes; start += 2 * piece)
      for (int i = 0; i < piece; ++i) pick.push_back(start + i);
    return shuffle(x, y, pick);
  };
  for (int round = 1; round < piece; round *= 2) {
    for (int group = 0; group < lanes; group += piece)
      for (int i = 0; i < piece / 2; ++i)
        for (bool upper : {false, true})
          next[group + 2 * i + upper] = interleaved(rows[group + i], rows[group + i + piece / 2], upper);
    rows.swap(next);
  }
  // Piece k of rows[g * piece + j] is now piece g of column k * piece + j.
  for (int round = 1; round < pieces; round *= 2) {
    for (int i = 0; i < pieces / 2; ++i)
      for (int j = 0; j < piece; ++j)
        for (bool odd : {false, true})
          next[(i + odd * pieces / 2) * piece + j] =
              alternate(rows[2 * i * piece + j], rows[(2 * i + 1) * piece + j], odd);
    rows.swap(next);
  }
  return rows;
}

} // namespace lathe::render
