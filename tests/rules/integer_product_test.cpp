// Products of quantised numbers become products of 8-bit integers: the rule applies where it may, its result
// has the one form that instructions compute, and the values are those of the sums as they were written.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <random>

#include "graph/integer_product.hpp"
#include "graph/tensor_impl.hpp"
#include "support/graph_eval.hpp"

using namespace lathe;
using namespace lathe::graph;

namespace {

using Integers = std::vector<int64_t>;

int64_t least(DType d) { return d == DType::I8 ? -128 : 0; }

/// Whole numbers of a dtype of 8 bits, the smallest and the largest among them.
Integers random_bytes(size_t count, DType d, uint64_t seed) {
  std::mt19937_64 random(seed * 7919 + 1);
  Integers values;
  for (size_t k = 0; k < count; ++k) {
    const uint64_t r = random() % 300;
    values.push_back(least(d) + static_cast<int64_t>(r < 256 ? r : r < 278 ? 0 : 255));
  }
  return values;
}

Tensor stored(const Integers& values, DType d, const Shape& shape) {
  std::vector<unsigned char> bytes(values.size());
  for (size_t k = 0; k < values.size(); ++k) Scalar::of_int(d, values[k]).to_memory(&bytes[k]);
  return Tensor::from_memory(bytes.data(), values.size(), d, shape);
}

std::vector<double> values_of(const NodeRef& node, const test::Bindings& b = {}) {
  const StorageRef data = test::evaluate_graph({node}, b)[0];
  const auto* bytes = static_cast<const unsigned char*>(data->data());
  int64_t count = 1;
  for (const Expr size : node->shape)
    count *= evaluate(size, [&](Expr var) { return b.sizes.at(var.name()); });
  std::vector<double> values;
  for (int64_t k = 0; k < count; ++k)
    values.push_back(Scalar::from_memory(node->dtype, bytes + k * size_of(node->dtype)).as_float());
  return values;
}

/// The node that an operand widens, behind views; null if it is not a Cast to i32 of 8 bits.
const Node* widened(const NodeRef& operand) {
  const Node* at = operand.get();
  while (at->op == Op::View) at = at->sources[0].get();
  if (at->op != Op::Cast || at->dtype != DType::I32) return nullptr;
  const DType from = at->sources[0]->dtype;
  return from == DType::I8 || from == DType::U8 ? at->sources[0].get() : nullptr;
}

struct Sums {
  int integer = 0, other = 0; // sums of products: of the form, and not
  std::vector<DType> dtypes;  // of the form's operands
};
Sums sums_of_products(const NodeRef& root) {
  Sums found;
  for (const NodeRef& n : topological_order({root})) {
    if (n->op != Op::Reduce || n->sources[0]->op != Op::Mul) continue;
    const Node *a = widened(n->sources[0]->sources[0]), *b = widened(n->sources[0]->sources[1]);
    if (!a || !b || n->dtype != DType::I32) {
      ++found.other;
      continue;
    }
    ++found.integer;
    found.dtypes = {a->dtype, b->dtype};
  }
  return found;
}

NodeRef simplified(const Tensor& t) {
  bool applied = false;
  const NodeRef before = node_of(t);
  const NodeRef after = simplify({before}, [&](std::string_view rule, const NodeRef&, const NodeRef&) {
    applied |= rule == "integer-product";
  })[0];
  CHECK(applied);
  const Sums sums = sums_of_products(after);
  CHECK(sums.integer == 1);
  CHECK(sums.other == 0);
  CHECK(simplify({after})[0] == after);
  return after;
}

/// The input "x" with these values, of 8 bits each.
test::Bindings bound(const Integers& values) {
  test::Bindings bindings;
  auto& bytes = bindings.inputs["x"];
  for (const int64_t v : values) bytes.push_back(static_cast<unsigned char>(v));
  return bindings;
}

/// Whether the rule leaves all of the graph as it is.
bool stays(const Tensor& t) {
  bool applied = false;
  simplify({node_of(t)}, [&](std::string_view rule, const NodeRef&, const NodeRef&) {
    applied |= rule == "integer-product";
  });
  return !applied;
}

Tensor centred(const Tensor& x, const std::optional<Tensor>& zero) {
  return zero ? x.cast(DType::I32) - zero->cast(DType::I32) : x.cast(DType::I32);
}
Tensor real(const Tensor& x, const std::optional<Tensor>& zero, const Tensor& scale) {
  return centred(x, zero).cast(DType::F32) * scale;
}

/// How a zero point is given: not at all, as a number, as a tensor for all, or as one for each row or column.
enum class Zero { None, Number, One, Each };
constexpr Zero kZeros[] = {Zero::None, Zero::Number, Zero::One, Zero::Each};

struct ZeroPoint {
  std::optional<Tensor> tensor;
  Integers values; // one for each row or column
};
ZeroPoint zero_point(Zero how, DType d, size_t count, const Shape& along, uint64_t seed) {
  Integers each = random_bytes(count, d, seed);
  if (how == Zero::None) return {{}, Integers(count, 0)};
  if (how != Zero::Each) each.assign(count, least(d) + 131);
  if (how == Zero::Number) return {Tensor::full({}, Scalar::of_int(d, each[0])), each};
  if (how == Zero::One) return {stored({each[0]}, d, {}), each};
  return {stored(each, d, along), each};
}

struct Sizes {
  size_t m, n, k;
};
constexpr Sizes kSizes[] = {{1, 1, 2}, {3, 5, 7}, {2, 3, 67}, {13, 1, 2}, {1, 11, 31}};

} // namespace

TEST_CASE("a negated zero point may be data, as folding constants leaves it") {
  const Tensor a = Tensor::input("a", {4, 32}, DType::U8);
  const Tensor b = stored(random_bytes(32 * 8, DType::I8, 5), DType::I8, {32, 8});
  const Tensor minus = Tensor::from<int32_t>({-7}).realise();
  const Tensor product = a.cast(DType::I32).matmul(b.cast(DType::I32) + minus);
  const NodeRef after = simplified(product);
  test::Bindings bindings;
  std::vector<unsigned char> bytes(4 * 32);
  for (size_t k = 0; k < bytes.size(); ++k) bytes[k] = static_cast<unsigned char>(k * 37);
  bindings.bind("a", bytes);
  CHECK(values_of(after, bindings) == values_of(node_of(product), bindings));
}

TEST_CASE("a product of centred integers becomes the plain one, to the bit") {
  set_realiser(&test::realise_by_evaluation);
  for (const auto& [m, n, k] : kSizes)
    for (const DType left : {DType::U8, DType::I8})
      for (const DType right : {DType::U8, DType::I8})
        for (const Zero row : kZeros)
          for (const Zero column : kZeros) {
            const Integers a = random_bytes(m * k, left, m), b = random_bytes(k * n, right, n + 50);
            const ZeroPoint za = zero_point(row, left, m, {m, 1}, 3),
                            zb = zero_point(column, right, n, {n}, 4);
            const Tensor x = Tensor::input("x", {m, k}, left), w = stored(b, right, {k, n});
            const Tensor y = centred(x, za.tensor).matmul(centred(w, zb.tensor));
            const bool is_plain = row == Zero::None && column == Zero::None && right == DType::I8;
            CHECK(stays(y) == is_plain);
            const NodeRef after = is_plain ? simplify({node_of(y)})[0] : simplified(y);
            CHECK(sums_of_products(after).dtypes == std::vector{left, DType::I8});
            const test::Bindings bindings = bound(a);
            const std::vector<double> got = values_of(after, bindings);
            for (size_t i = 0; i < m; ++i)
              for (size_t j = 0; j < n; ++j) {
                int64_t sum = 0;
                for (size_t t = 0; t < k; ++t)
                  sum += (a[i * k + t] - za.values[i]) * (b[t * n + j] - zb.values[j]);
                CHECK(got[i * n + j] == static_cast<double>(sum));
              }
          }
}

TEST_CASE("a product of scaled integers is rounded once") {
  set_realiser(&test::realise_by_evaluation);
  const float row_scale = 0.0371f;
  for (const auto& [m, n, k] : kSizes)
    for (const Zero row : {Zero::None, Zero::One})
      for (const Zero column : kZeros) {
        const Integers a = random_bytes(m * k, DType::U8, m), b = random_bytes(k * n, DType::I8, n);
        const ZeroPoint za = zero_point(row, DType::U8, m, {m, 1}, 3),
                        zb = zero_point(column, DType::I8, n, {n}, 4);
        std::vector<float> scales;
        for (size_t j = 0; j < n; ++j) scales.push_back(0.002f + 0.0007f * static_cast<float>(j));
        const Tensor x = Tensor::input("x", {m, k}, DType::U8), w = stored(b, DType::I8, {k, n});
        const Tensor y = real(x, za.tensor, Tensor::from(std::vector<float>{row_scale}, {}))
                             .matmul(real(w, zb.tensor, Tensor::from(scales)));
        const NodeRef after = simplified(y);
        CHECK(after->dtype == DType::F32);
        const test::Bindings bindings = bound(a);
        const std::vector<double> got = values_of(after, bindings);
        for (size_t i = 0; i < m; ++i)
          for (size_t j = 0; j < n; ++j) {
            double sum = 0;
            for (size_t t = 0; t < k; ++t)
              sum += static_cast<double>((a[i * k + t] - za.values[i]) * (b[t * n + j] - zb.values[j]));
            const double expected = sum * double(row_scale) * double(scales[j]);
            CHECK(std::abs(got[i * n + j] - expected) <= 3 * 0x1p-24 * std::abs(expected));
          }
      }
}

TEST_CASE("numbers that are scaled twice, and sums in f64") {
  set_realiser(&test::realise_by_evaluation);
  const Integers a = random_bytes(3 * 7, DType::U8, 1), b = random_bytes(7 * 2, DType::I8, 2);
  const Tensor x = Tensor::input("x", {3, 7}, DType::U8), w = stored(b, DType::I8, {7, 2}),
               one = stored({1}, DType::U8, {});
  const Tensor twice = real(x, one, Tensor::input("s", {})) * 0.5f;
  const Tensor columns = Tensor::from(std::vector<float>{0.25f, 4.0f});
  test::Bindings bindings;
  bindings.bind("x", std::vector<uint8_t>(a.begin(), a.end()));
  bindings.bind("s", std::vector<float>{0.125f});
  for (const DType d : {DType::F32, DType::F64}) {
    const Tensor y = twice.cast(d).matmul(real(w, {}, columns).cast(d));
    CHECK(values_of(simplified(y), bindings) == values_of(node_of(y), bindings));
  }
}

TEST_CASE("sums of both operands at run time, transposed and in batches") {
  set_realiser(&test::realise_by_evaluation);
  const Integers a = random_bytes(2 * 3 * 5, DType::U8, 1), b = random_bytes(2 * 7 * 5, DType::U8, 2);
  const Tensor x = Tensor::input("x", {2, 3, 5}, DType::U8), w = Tensor::input("w", {2, 7, 5}, DType::U8);
  const Tensor y = centred(x, Tensor::full({}, Scalar::of_int(DType::U8, 9)))
                       .matmul(centred(w, Tensor::input("z", {}, DType::U8)).transpose());
  const NodeRef after = simplified(y);
  CHECK(sums_of_products(after).dtypes == std::vector{DType::U8, DType::U8});
  test::Bindings bindings;
  bindings.bind("x", std::vector<uint8_t>(a.begin(), a.end()));
  bindings.bind("w", std::vector<uint8_t>(b.begin(), b.end()));
  bindings.bind("z", std::vector<uint8_t>{250});
  CHECK(values_of(after, bindings) == values_of(node_of(y), bindings));
}

TEST_CASE("constant weights on the left, and an operand by itself") {
  set_realiser(&test::realise_by_evaluation);
  const Tensor w = stored(random_bytes(3 * 5, DType::U8, 1), DType::U8, {3, 5}),
               x = Tensor::input("x", {5, 4}, DType::U8);
  const Tensor zero = stored({200}, DType::U8, {});
  const Tensor y = centred(w, stored({128}, DType::U8, {})).matmul(centred(x, zero));
  const NodeRef after = simplified(y);
  CHECK(sums_of_products(after).dtypes == std::vector{DType::I8, DType::U8});
  test::Bindings bindings;
  const Integers b = random_bytes(20, DType::U8, 2);
  bindings.bind("x", std::vector<uint8_t>(b.begin(), b.end()));
  CHECK(values_of(after, bindings) == values_of(node_of(y), bindings));
  const Tensor c = centred(x, zero), squares = wrap(reduce(Op::Add, node_of(c * c), {0}));
  CHECK(values_of(simplified(squares), bindings) == values_of(node_of(squares), bindings));
}

TEST_CASE("a zero point of 0 vanishes, and that of 128 of constant weights of u8") {
  set_realiser(&test::realise_by_evaluation);
  const auto reductions = [](const NodeRef& root) {
    int count = 0;
    for (const NodeRef& n : topological_order({root})) count += n->op == Op::Reduce;
    return count;
  };
  const Tensor x = Tensor::input("x", {3, 5}, DType::U8), none = stored({0}, DType::U8, {});
  const Tensor w = stored(random_bytes(10, DType::U8, 1), DType::U8, {5, 2});
  for (const Integers& zeros : {Integers{128}, {128, 128}}) {
    const Tensor zero = stored(zeros, DType::U8, {Expr(static_cast<int64_t>(zeros.size()))});
    const Tensor y = centred(x, none).matmul(centred(w, zero));
    const NodeRef after = simplified(y);
    CHECK(reductions(after) == 1);
    test::Bindings bindings;
    const Integers a = random_bytes(15, DType::U8, 2);
    bindings.bind("x", std::vector<uint8_t>(a.begin(), a.end()));
    CHECK(values_of(after, bindings) == values_of(node_of(y), bindings));
  }
  CHECK(reductions(simplified(centred(x, none).matmul(centred(w, stored({128, 127}, DType::U8, {2}))))) == 2);
}

TEST_CASE("no terms, and as many as a shape variable says") {
  set_realiser(&test::realise_by_evaluation);
  const Tensor none =
      centred(Tensor::input("x", {3, 0}, DType::U8), Tensor::full({}, Scalar::of_int(DType::U8, 9)))
          .matmul(centred(Tensor::input("w", {0, 2}, DType::U8), {}));
  CHECK(values_of(simplify({node_of(none)})[0]) == std::vector<double>(6, 0.0));

  const Var k("k", 1, 4096);
  const Tensor y =
      centred(Tensor::input("x", {3, k.expr()}, DType::U8), Tensor::full({}, Scalar::of_int(DType::U8, 9)))
          .matmul(centred(Tensor::input("w", {k.expr(), 2}, DType::I8),
                          Tensor::full({}, Scalar::of_int(DType::I8, -7))));
  const NodeRef after = simplified(y);
  for (const size_t terms : {1, 2, 13}) {
    test::Bindings bindings;
    bindings.sizes["k"] = static_cast<int64_t>(terms);
    const Integers a = random_bytes(3 * terms, DType::U8, terms),
                   b = random_bytes(terms * 2, DType::I8, terms);
    bindings.bind("x", std::vector<uint8_t>(a.begin(), a.end()));
    bindings.bind("w", std::vector<int8_t>(b.begin(), b.end()));
    CHECK(values_of(after, bindings) == values_of(node_of(y), bindings));
  }
}

TEST_CASE("a convolution's padding stands for the zero point") {
  set_realiser(&test::realise_by_evaluation);
  struct Case {
    int64_t padding, stride, dilation, groups;
  };
  for (const auto& [padding, stride, dilation, groups] :
       {Case{0, 1, 1, 1}, {1, 1, 1, 1}, {2, 2, 1, 1}, {1, 1, 2, 2}, {3, 3, 2, 4}})
    for (const DType weights : {DType::U8, DType::I8})
      for (const Zero zero : {Zero::None, Zero::Number, Zero::One})
        for (const bool scales : {false, true}) {
          const Integers a = random_bytes(2 * 4 * 7 * 6, DType::U8, 5);
          const Tensor w = stored(random_bytes(static_cast<size_t>(8 * (4 / groups) * 9), weights, 6),
                                  weights, {8, 4 / groups, 3, 3});
          const ZeroPoint zx = zero_point(zero, DType::U8, 1, {}, 0),
                          zw = zero_point(zero, weights, 1, {}, 0);
          const Tensor x = Tensor::input("x", {2, 4, 7, 6}, DType::U8);
          const ConvOptions options{
              .stride = {stride}, .padding = {padding}, .dilation = {dilation}, .groups = groups};
          // A power of two keeps the sums of floats exact.
          const Tensor scale = Tensor::from(std::vector<float>{0.25f}, {});
          const Tensor left = scales ? real(x, zx.tensor, scale) : centred(x, zx.tensor);
          const Tensor right = scales ? real(w, zw.tensor, scale) : centred(w, zw.tensor);
          const Tensor y = left.conv2d(right, {}, options);
          // Integers that are centred by nothing are products of integers already.
          const bool is_plain = zero == Zero::None && weights == DType::I8 && !scales;
          CHECK(stays(y) == is_plain);
          const NodeRef after = is_plain ? simplify({node_of(y)})[0] : simplified(y);
          CHECK(sums_of_products(after).dtypes == std::vector{DType::U8, DType::I8});
          test::Bindings bindings;
          bindings.bind("x", std::vector<uint8_t>(a.begin(), a.end()));
          CHECK(values_of(after, bindings) == values_of(node_of(y), bindings));
        }
}

TEST_CASE("scales and zero points of blocks: a sum of integers for each block") {
  set_realiser(&test::realise_by_evaluation);
  constexpr size_t m = 3, n = 2, blocks = 5, length = 4, k = blocks * length;
  const Integers a = random_bytes(m * k, DType::U8, 1), b = random_bytes(k * n, DType::I8, 2),
                 zeros = random_bytes(blocks * n, DType::I8, 3);
  std::vector<float> scales;
  for (size_t i = 0; i < blocks * n; ++i) scales.push_back(0.25f * static_cast<float>(1 + i % 7));
  const auto repeated = [&](const Tensor& t) {
    return t.unsqueeze(1).expand({blocks, length, n}).reshape({k, n});
  };
  const Tensor x = Tensor::input("x", {m, k}, DType::U8);
  for (const bool along_columns : {false, true}) {
    const Tensor scale = repeated(Tensor::from(scales, {blocks, n})),
                 zero = repeated(stored(zeros, DType::I8, {blocks, n})),
                 w = real(stored(b, DType::I8, {k, n}), zero, scale);
    const Tensor left = real(x, stored({9}, DType::U8, {}), Tensor::from(std::vector<float>{0.5f}, {}));
    const Tensor y = along_columns ? left.matmul(w.transpose().contiguous().transpose()) : left.matmul(w);
    bool applied = false;
    const NodeRef after = simplify({node_of(y)}, [&](std::string_view rule, const NodeRef&, const NodeRef&) {
      applied |= rule == "integer-product";
    })[0];
    CHECK(applied);
    CHECK(sums_of_products(after).integer == 1);
    CHECK(sums_of_products(after).other == 1); // of the blocks' sums, in floats
    test::Bindings bindings;
    bindings.bind("x", std::vector<uint8_t>(a.begin(), a.end()));
    CHECK(values_of(after, bindings) == values_of(node_of(y), bindings)); // exact in f32
  }
  // A last block that is shorter than the others.
  const Tensor shorter = real(stored(Integers(b.begin(), b.end() - 2), DType::I8, {k - 1, n}), {},
                              repeated(Tensor::from(scales, {blocks, n})).index({Slice{0, k - 1}}));
  CHECK(stays(real(x.index({Slice{}, Slice{0, k - 1}}), {}, Tensor::from(std::vector<float>{0.5f}, {}))
                  .matmul(shorter)));
}

TEST_CASE("what is no product of quantised numbers stays, and what might not fit i32 in floats") {
  set_realiser(&test::realise_by_evaluation);
  const Tensor x = Tensor::input("x", {4, 6}, DType::U8),
               w = stored(random_bytes(24, DType::I8, 1), DType::I8, {6, 4});
  const Tensor scale = Tensor::from(std::vector<float>{0.5f}, {}), zero = stored({3}, DType::U8, {});
  CHECK_FALSE(stays(real(x, zero, scale).matmul(real(w, {}, scale))));
  // A scale or a zero point that differs from term to term.
  const Tensor scales = Tensor::from(std::vector<float>{1, 2, 3, 4, 5, 6}, {6, 1});
  CHECK(stays(real(x, zero, scale).matmul(real(w, {}, scales))));
  const Tensor zeros = stored({1, 2, 3, 4, 5, 6}, DType::I8, {6, 1});
  CHECK(stays(centred(x, zero).matmul(centred(w, zeros))));
  // Numbers of other dtypes, numbers that are rounded after they are scaled, and zero points of more than 8
  // bits.
  CHECK(stays(real(x, zero, scale).matmul(Tensor::input("f", {6, 4}))));
  CHECK(stays(real(x, zero, scale).matmul(real(Tensor::input("i", {6, 4}, DType::I16), {}, scale))));
  CHECK(stays(real(x, zero, scale).cast(DType::F16).cast(DType::F32).matmul(real(w, {}, scale))));
  CHECK(stays(real(x, zero, scale).cast(DType::I32).matmul(centred(w, {}))));
  CHECK(stays(centred(x, Tensor::input("z", {}, DType::I32)).matmul(centred(w, {}))));
  CHECK(stays(centred(x, Tensor::full({}, Scalar::of_int(DType::I32, 256))).matmul(centred(w, {}))));
  // Two zero points; numbers that are scaled in f64 and rounded to f32; a scale that is 0 for some terms.
  CHECK(stays((centred(x, zero) - zero.cast(DType::I32)).matmul(centred(w, {}))));
  const Tensor in_double = (centred(x, zero).cast(DType::F64) * scale.cast(DType::F64)).cast(DType::F32);
  CHECK(stays(in_double.matmul(real(w, {}, scale))));
  const Tensor padded_scale = Tensor::input("s", {1, 1}).expand({4, 1}).pad({{1, 1}, {0, 0}});
  CHECK(stays(real(x, zero, scale).matmul(real(w, {}, padded_scale))));
  // Constant weights of u8 that are padded: 0 stands for 0, not for 128.
  const Tensor bytes = stored(random_bytes(16, DType::U8, 1), DType::U8, {4, 4});
  CHECK(stays(centred(x, {}).matmul(centred(bytes, {}).pad({{1, 1}, {0, 0}}))));
  // 255 * 255 * 33025 is the largest sum that fits. Sums in i32 wrap in either form.
  for (const int64_t terms : {33025, 33026}) {
    const Tensor left = Tensor::input("l", {2, terms}, DType::U8),
                 right = Tensor::input("r", {terms, 3}, DType::U8);
    CHECK(stays(left.cast(DType::F32).matmul(right.cast(DType::F32))) == (terms == 33026));
    CHECK_FALSE(stays(centred(left, zero).matmul(centred(right, zero))));
  }
}

TEST_CASE("a sum of integers that wraps, wraps in either form") {
  set_realiser(&test::realise_by_evaluation);
  const size_t terms = 70000;
  const Tensor x = Tensor::input("x", {1, terms}, DType::U8),
               w = stored(Integers(terms, 255), DType::U8, {terms, 1});
  const Tensor y = centred(x, stored({7}, DType::U8, {})).matmul(centred(w, {}));
  test::Bindings bindings;
  bindings.bind("x", std::vector<uint8_t>(terms, 255));
  const double wrapped = static_cast<double>(static_cast<int32_t>(uint32_t{248} * 255 * 70000));
  CHECK(values_of(simplified(y), bindings) == std::vector<double>{wrapped});
}
