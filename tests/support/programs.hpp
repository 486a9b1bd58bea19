// Small programs of every shape that fusion and scheduling meet, at odd sizes, for walks and cross-device
// comparisons.
#pragma once
#include <string>
#include <vector>

#include "lathe/lathe.hpp"

namespace lathe::test {

struct NamedProgram {
  std::string name;
  NamedTensors outputs;
  int64_t reduction_length; // the longest chain of sums: the tolerance's unit
  bool whole = false;       // to be run on small whole numbers, and compared bit by bit
};

inline std::vector<NamedProgram> small_programs() {
  const auto in = [](const char* name, Shape shape, DType dtype = DType::F32) {
    return Tensor::input(name, shape, dtype);
  };
  std::vector<NamedProgram> out;
  {
    Tensor a = in("a", {37}), b = in("b", {37}), c = in("c", {37}), d = in("d", {37});
    out.push_back({"elementwise", {{"y", ((a + b) * c).relu() + d}}, 1});
  }
  out.push_back({"matmul", {{"y", in("a", {13, 17}).matmul(in("b", {17, 19}))}}, 17});
  out.push_back({"matmul-bias-relu",
                 {{"y", (in("a", {11, 16}).matmul(in("b", {16, 33})) + in("c", {33})).relu()}},
                 16});
  out.push_back({"softmax", {{"y", in("a", {7, 35}).softmax(-1)}}, 35});
  out.push_back({"layernorm", {{"y", in("a", {5, 31}).layer_norm({-1}, in("w", {31}), in("b", {31}))}}, 31});
  out.push_back({"cumsum", {{"y", in("a", {5, 75}).cumsum(1)}}, 75});
  out.push_back({"transpose", {{"y", in("a", {9, 17}).transpose().contiguous()}}, 1});
  out.push_back({"transpose-add", {{"y", in("a", {9, 17}).transpose() + in("b", {17, 9})}}, 1});
  out.push_back({"conv2d",
                 {{"y", in("x", {1, 3, 9, 8}).conv2d(in("w", {5, 3, 3, 3}), in("b", {5}), {.padding = {1}})}},
                 27});
  {
    const Tensor inside = in("x", {1, 3, 5, 7}).conv2d(in("w", {4, 3, 1, 1}), in("b", {4})).relu();
    out.push_back({"padded", {{"y", inside.pad({{0, 0}, {0, 0}, {1, 2}, {3, 0}}).contiguous() * 2.0}}, 3});
  }
  out.push_back(
      {"max-pool", {{"y", in("x", {1, 2, 9, 9}).max_pool2d({3, 3}, {.stride = {2}, .padding = {1}})}}, 1});
  out.push_back(
      {"integers", {{"y", (in("a", {6, 21}, DType::I32) * 3 + in("b", {21}, DType::I32)).sum(1)}}, 21});
  out.push_back({"argmin", {{"y", in("a", {8, 23}).argmin(1)}}, 1});
  out.push_back({"take", {{"y", in("a", {10, 6}).take(in("i", {7}, DType::I64)) * 2.0}}, 1});
  out.push_back({"scatter-add",
                 {{"y", in("a", {9}).scatter_add(0, in("i", {12}, DType::I64), in("s", {12})) + 1.0}},
                 12});
  {
    Tensor x = in("x", {6, 18});
    out.push_back({"two-outputs", {{"mean", x.mean(1)}, {"centred", x - x.mean(1, true)}}, 18});
  }
  {
    Tensor q = in("q", {2, 5, 8}), k = in("k", {2, 7, 8}), v = in("v", {2, 7, 8});
    out.push_back({"attention", {{"y", scaled_dot_product_attention(q, k, v)}}, 16});
  }
  const auto constant = [](const Shape& shape) {
    std::vector<float> values;
    for (int64_t i = 0; i < num_elements(shape).value(); ++i)
      values.push_back(static_cast<float>(i * 37 % 101) / 64 - 0.75f);
    return Tensor::from(values, shape);
  };
  out.push_back(
      {"linear", {{"y", (in("a", {5, 13}).matmul(constant({13, 21})) + constant({21})).relu()}}, 13});
  out.push_back(
      {"conv2d of constants",
       {{"y", in("x", {1, 3, 7, 6}).conv2d(constant({10, 3, 3, 2}), constant({10}), {.padding = {1}})}},
       18});
  out.push_back({"half", {{"y", (in("a", {3, 19}, DType::F16) + in("b", {19}, DType::F16)).relu()}}, 1});
  return out;
}

/// Those that moves can rewrite: convolutions for Winograd's filtering, products for Strassen's algorithm,
/// sums over blocks for products of bytes, values in between that may be stored in another order.
inline std::vector<NamedProgram> rewritable_programs() {
  const auto in = [](const char* name, Shape shape) { return Tensor::input(name, shape); };
  std::vector<NamedProgram> out;
  {
    const Tensor x = in("x", {1, 4, 6, 8});
    const Tensor y = x.conv2d(in("v", {6, 4, 3, 3}), in("b", {6}), {.padding = {1}}).relu();
    // The filtering's own rounding is some times that of the direct sums.
    out.push_back(
        {"two convolutions", {{"y", y.conv2d(in("w", {3, 6, 3, 3}), {}, {.padding = {1}})}}, 8 * 90});
    const Tensor z = (x * in("s", {4, 1, 1}) + in("t", {4, 1, 1})).relu();
    out.push_back({"a convolution between maps",
                   {{"y", (z.conv2d(in("w", {5, 4, 1, 1}), in("c", {5})).relu() * 2.0).mean(Axes{2, 3})}},
                   48});
  }
  {
    const Tensor product = in("a", {12, 8}).matmul(in("b", {8, 20}));
    out.push_back({"halves", {{"y", (product + in("c", {20})).matmul(in("d", {20, 4}))}}, 20, true});
  }
  {
    std::vector<uint8_t> bytes(70 * 3 * 8);
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(i * 37 % 251);
    const Tensor numbers =
        (Tensor::from(bytes, {1, 70, 3, 8}) & Tensor::full({}, uint8_t{15})).cast(DType::F32);
    const Tensor blocks = (in("x", {2, 1, 3, 8}) * numbers).sum({3}) * in("s", {70, 3});
    // The rounding of x in bytes is some times that of the direct sums.
    out.push_back({"blocks of small integers", {{"y", blocks.sum({2})}}, 8 * 24});
  }
  return out;
}

/// Sums of 10^5 terms, exact: a term too many or too few, or a block of them, shows.
inline std::vector<NamedProgram> long_sums() {
  constexpr int64_t n = 100'003;
  const auto in = [](const char* name, Shape shape, DType dtype = DType::F32) {
    return Tensor::input(name, shape, dtype);
  };
  std::vector<NamedProgram> out;
  out.push_back({"long sum", {{"y", in("x", {n}).sum()}}, n, true});
  out.push_back({"long sum of products", {{"y", in("a", {2, n}).matmul(in("b", {n}))}}, n, true});
  out.push_back({"long columns", {{"y", (in("a", {n, 3}, DType::F64) + 1.0).sum(Axes{0})}}, n, true});
  out.push_back({"long sum of bytes", {{"y", in("a", {n}, DType::U8).sum()}}, n, true});
  return out;
}

/// Products that instructions on tensors can compute.
inline std::vector<NamedProgram> narrow_products() {
  std::vector<NamedProgram> out;
  const auto product = [&](const char* name, DType a, DType b, DType sum, int64_t m, int64_t k, int64_t n) {
    const Tensor left = Tensor::input("a", {m, k}, a).cast(sum),
                 right = Tensor::input("b", {k, n}, b).cast(sum);
    out.push_back({name, {{"y", left.matmul(right)}}, k, true});
  };
  product("bytes", DType::U8, DType::I8, DType::I32, 19, 71, 50);
  product("signed bytes", DType::I8, DType::I8, DType::I32, 36, 64, 48);
  product("bf16", DType::BF16, DType::BF16, DType::F32, 33, 40, 35);
  const Tensor numbers =
      (Tensor::input("b", {40, 33}, DType::U8) & Tensor::full({}, uint8_t{15})).cast(DType::I32);
  out.push_back({"unpacked bytes",
                 {{"y", Tensor::input("a", {5, 33}, DType::I8).cast(DType::I32).matmul(numbers.transpose())}},
                 33,
                 true});
  return out;
}

/// Elementwise functions, padded rows cut anew, sums and maxima of each dtype.
inline std::vector<NamedProgram> programs_of_all_dtypes() {
  std::vector<NamedProgram> out;
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    const Tensor a = Tensor::input("a", {7, 19}, dtype), b = Tensor::input("b", {19}, dtype);
    const Tensor mixed = dtype == DType::Bool ? (a ^ b) | a.flip(Axes{0}) : a * b + a.flip(Axes{0});
    const Tensor cut = mixed.pad({{1, 0}, {0, 0}}).reshape({19, 8});
    const std::string name = std::string("all of ") + to_string(dtype);
    out.push_back({name, {{"sum", cut.sum(Axes{0})}, {"max", cut.max(Axes{1})}}, 19, true});
  }
  return out;
}

} // namespace lathe::test
