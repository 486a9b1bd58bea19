// A layer of a decoder: each call takes a token, appends its key and value to the cache, and looks back at
// all so far.
#include <cmath>
#include <cstdlib>
#include <lathe/lathe.hpp>

#include "beside.hpp"
#include "plain/decoder.hpp"
using lathe::Tensor;

int main(int argc, char** argv) {
  const int n = argc > 1 ? std::atoi(argv[1]) : 512, d = 512, heads = 8, size = d / heads;
  std::vector<Tensor> w; // of queries, keys, values, what was looked up, and two layers after that
  for (const auto& [in, out] : {std::pair(d, d), {d, d}, {d, d}, {d, d}, {d, 4 * d}, {4 * d, d}})
    w.push_back((Tensor::randn({in, out}, w.size()) / std::sqrt(in)).realise());

  const lathe::State keys("keys", {n, heads, size}), values("values", {n, heads, size});
  const lathe::Var length("length", 1, n); // with the token of this call
  const Tensor x = Tensor::input("x", {1, d});
  const lathe::Update key = keys.assign_at({length - 1}, x.matmul(w[1]).reshape({1, heads, size}));
  const lathe::Update value = values.assign_at({length - 1}, x.matmul(w[2]).reshape({1, heads, size}));
  const auto so_far = [&](const Tensor& cache) {
    return cache.shrink({{0, length}, {0, heads}, {0, size}}).permute({1, 0, 2});
  };
  const Tensor query = x.matmul(w[0]).reshape({heads, 1, size});
  const Tensor found = scaled_dot_product_attention(query, so_far(key.value), so_far(value.value));
  const Tensor middle = x + found.reshape({1, d}).matmul(w[3]);
  const Tensor y = middle + middle.matmul(w[4]).relu().matmul(w[5]);
  const lathe::Executable step = lathe::compile({{"y", y}}, {.threads = 1}, {key, value});

  std::vector<float> token(d, 0.5f), ours(d), plain(d);
  PlainDecoder loops(n, d, heads, w);
  int64_t tokens = 0;
  beside(
      "decoder", n, [&] { step.run({{"x", token.data()}}, {{"y", ours.data()}}, {{"length", ++tokens}}); },
      [&] { plain = loops.step(token); });
  return agree(ours, plain, 1e-4f) ? 0 : 1;
}
