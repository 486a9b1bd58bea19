#pragma once
#include <algorithm>
#include <cmath>
#include <lathe/lathe.hpp>
#include <span>
#include <vector>

class PlainDecoder {
public:
  using Vector = std::vector<float>;
  PlainDecoder(int n, int d, int heads, const std::vector<lathe::Tensor>& w)
      : d_(static_cast<size_t>(d)), size_(d_ / static_cast<size_t>(heads)), w_(w) {
    keys_.reserve(static_cast<size_t>(n) * d_);
    values_.reserve(keys_.capacity());
  }

  Vector step(const Vector& x) {
    const Vector query = product(x, w_[0]), key = product(x, w_[1]), value = product(x, w_[2]);
    keys_.insert(keys_.end(), key.begin(), key.end());
    values_.insert(values_.end(), value.begin(), value.end());
    Vector found(d_);
    for (size_t head = 0; head < d_; head += size_) look(query, head, found);
    const Vector middle = sum(x, product(found, w_[3]));
    Vector wide = product(middle, w_[4]);
    for (float& f : wide) f = std::max(f, 0.0f);
    return sum(middle, product(wide, w_[5]));
  }

private:
  static Vector product(const Vector& x, const lathe::Tensor& matrix) {
    const std::span<const float> m = matrix.data<float>();
    Vector y(m.size() / x.size());
    for (size_t i = 0; i < x.size(); ++i)
      for (size_t j = 0; j < y.size(); ++j) y[j] += x[i] * m[i * y.size() + j];
    return y;
  }
  static Vector sum(const Vector& a, Vector b) {
    for (size_t i = 0; i < a.size(); ++i) b[i] += a[i];
    return b;
  }
  void look(const Vector& query, size_t head, Vector& found) const {
    Vector scores(keys_.size() / d_);
    float total = 0;
    for (size_t t = 0; t < scores.size(); ++t) {
      for (size_t i = head; i < head + size_; ++i) scores[t] += query[i] * keys_[t * d_ + i];
      total += scores[t] = std::exp(scores[t] / std::sqrt(static_cast<float>(size_)));
    }
    for (size_t t = 0; t < scores.size(); ++t)
      for (size_t i = head; i < head + size_; ++i) found[i] += scores[t] / total * values_[t * d_ + i];
  }

  size_t d_, size_;
  std::vector<lathe::Tensor> w_;
  Vector keys_, values_;
};
