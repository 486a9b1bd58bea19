// A square of vectors transposed by shuffles of two, each of which is one instruction where registers are
// made of pieces of 16 bytes: first inside those, then piece by piece.
#pragma once
#include <vector>

namespace lathe::render {

/// `rows` are as many as they have lanes, a power of two; `piece` is how many lanes 16 bytes hold, at most
/// all. Lane i of the result's j is lane j of the argument's i. shuffle(x, y, pick) makes a vector of lanes
/// of x and y, numbered on from x's to y's.
template <class T, class Shuffle>
std::vector<T> transposed(std::vector<T> rows, int piece, const Shuffle& shuffle) {
  const int lanes = static_cast<int>(rows.size()), pieces = lanes / piece;
  std::vector<T> next(rows.size());
  std::vector<int> pick;
  // The lower (or upper) halves of all pieces of x and y, their lanes in turn.
  const auto interleaved = [&](const T& x, const T& y, bool upper) {
    pick.clear();
    for (int start = upper ? piece / 2 : 0; start < lanes; start += piece)
      for (int i = 0; i < piece / 2; ++i) pick.insert(pick.end(), {start + i, lanes + start + i});
    return shuffle(x, y, pick);
  };
  // Every second piece of x, then of y.
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
