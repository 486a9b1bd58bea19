// Layers are longest paths; the order inside a layer comes from barycentres, in sweeps down and up; the
// places from averages of neighbours, pushed apart.
#include "compile/view/layout.hpp"

#include <algorithm>
#include <numeric>

namespace lathe::view {
namespace {

constexpr int kSweeps = 12; // through all layers, for the order; crossings hardly fall after these
constexpr int kMoves = 8;   // through all layers, for the places

using Lists = std::vector<std::vector<int>>;

Lists users_of(const Lists& sources) {
  Lists users(sources.size());
  for (size_t n = 0; n < sources.size(); ++n)
    for (const int source : sources[n]) users[static_cast<size_t>(source)].push_back(static_cast<int>(n));
  return users;
}

std::vector<int> layers_of(const Lists& sources, const Lists& users) {
  std::vector<int> layers(sources.size(), 0);
  for (size_t n = 0; n < sources.size(); ++n)
    for (const int source : sources[n])
      layers[n] = std::max(layers[n], layers[static_cast<size_t>(source)] + 1);
  // A leaf stands just above the first of its users, not at the top.
  for (size_t n = 0; n < sources.size(); ++n) {
    if (!sources[n].empty() || users[n].empty()) continue;
    int first = layers[static_cast<size_t>(users[n][0])];
    for (const int user : users[n]) first = std::min(first, layers[static_cast<size_t>(user)]);
    layers[n] = std::max(0, first - 1);
  }
  return layers;
}

double mean_of(const std::vector<int>& neighbours, const std::vector<double>& at, double otherwise) {
  if (neighbours.empty()) return otherwise;
  double sum = 0;
  for (const int n : neighbours) sum += at[static_cast<size_t>(n)];
  return sum / static_cast<double>(neighbours.size());
}

class Layout {
public:
  Layout(const Layered& graph, double gap)
      : graph_(graph), gap_(gap), users_(users_of(graph.sources)), x_(graph.sources.size()) {
    places_.layers = layers_of(graph.sources, users_);
    const int count =
        places_.layers.empty() ? 0 : 1 + *std::max_element(places_.layers.begin(), places_.layers.end());
    rows_.resize(static_cast<size_t>(count));
    for (size_t n = 0; n < graph.sources.size(); ++n)
      rows_[static_cast<size_t>(places_.layers[n])].push_back(static_cast<int>(n));
  }

  Places run() {
    for (auto& row : rows_) pack(row);
    for (int sweep = 0; sweep < kSweeps; ++sweep) {
      const bool down = sweep % 2 == 0;
      walk(down, [&](std::vector<int>& row) {
        order(row, down ? graph_.sources : users_);
        pack(row);
      });
    }
    for (int move = 0; move < kMoves; ++move) {
      const bool down = move % 2 == 0;
      walk(down, [&](std::vector<int>& row) { pull(row, down ? graph_.sources : users_); });
    }
    double least = 0, most = 0;
    for (size_t n = 0; n < x_.size(); ++n) {
      least = std::min(least, x_[n] - graph_.widths[n] / 2);
      most = std::max(most, x_[n] + graph_.widths[n] / 2);
    }
    for (double& x : x_) x -= least;
    places_.width = most - least;
    places_.x = std::move(x_);
    return std::move(places_);
  }

private:
  template <class F> void walk(bool down, F&& at) {
    if (down)
      for (auto& row : rows_) at(row);
    else
      for (auto row = rows_.rbegin(); row != rows_.rend(); ++row) at(*row);
  }

  double width(int node) const { return graph_.widths[static_cast<size_t>(node)]; }
  double& x(int node) { return x_[static_cast<size_t>(node)]; }

  /// Side by side, around 0.
  void pack(const std::vector<int>& row) {
    double total = -gap_;
    for (const int n : row) total += width(n) + gap_;
    double at = -total / 2;
    for (const int n : row) {
      x(n) = at + width(n) / 2;
      at += width(n) + gap_;
    }
  }

  void order(std::vector<int>& row, const Lists& neighbours) {
    std::vector<std::pair<double, int>> keys;
    for (const int n : row) keys.emplace_back(mean_of(neighbours[static_cast<size_t>(n)], x_, x(n)), n);
    std::stable_sort(keys.begin(), keys.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    for (size_t k = 0; k < row.size(); ++k) row[k] = keys[k].second;
  }

  /// Moves each node towards its neighbours as far as the row's order allows: the middle between the places
  /// that the row takes when it is pushed to the right, and to the left.
  void pull(const std::vector<int>& row, const Lists& neighbours) {
    if (row.empty()) return;
    std::vector<double> wish, right(row.size()), left(row.size());
    for (const int n : row) wish.push_back(mean_of(neighbours[static_cast<size_t>(n)], x_, x(n)));
    const auto apart = [&](size_t a, size_t b) { return (width(row[a]) + width(row[b])) / 2 + gap_; };
    right[0] = wish[0];
    for (size_t k = 1; k < row.size(); ++k) right[k] = std::max(wish[k], right[k - 1] + apart(k - 1, k));
    left.back() = wish.back();
    for (size_t k = row.size() - 1; k-- > 0;) left[k] = std::min(wish[k], left[k + 1] - apart(k, k + 1));
    // Both keep the gaps between neighbours, and so does their middle.
    for (size_t k = 0; k < row.size(); ++k) x(row[k]) = (left[k] + right[k]) / 2;
  }

  const Layered& graph_;
  double gap_;
  Lists users_, rows_;
  std::vector<double> x_;
  Places places_;
};

} // namespace

Places lay_out(const Layered& graph, double gap) { return Layout(graph, gap).run(); }

} // namespace lathe::view
