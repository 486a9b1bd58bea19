// Whole programs: attention, mlp, encoder-block, digits.
#include "digits.hpp"
#include "reference.hpp"

namespace lathe::bench {

void build_attention(Case& c) {
  int64_t heads = c.shape[0], tokens = c.shape[1], features = c.shape[2];
  Tensor q = c.input("q", {heads, tokens, features}, 1), k = c.input("k", {heads, tokens, features}, 2);
  Tensor v = c.input("v", {heads, tokens, features}, 3);
  c.output("y", scaled_dot_product_attention(q, k, v));
  c.flops = static_cast<double>(heads * tokens * tokens) * (4.0 * static_cast<double>(features) + 5.0);
  c.tolerance = sum_tolerance(c.dtype, features + tokens);
  c.reference = [=](const HostTensors& in) {
    std::vector<double> out;
    for (int64_t h = 0; h < heads; ++h) {
      auto head = [&](const char* name) {
        return matrix(in.at(name), tokens, features, h * tokens * features);
      };
      append(out, attention(head("q"), head("k"), head("v")));
    }
    return Reference{{"y", out}};
  };
}

namespace {
/// [in, out] weights scaled so that activations keep their size, and a bias.
Tensor linear(Case& c, const Tensor& x, const std::string& name, int64_t in, int64_t out, uint64_t seed) {
  double scale = std::sqrt(3.0 / static_cast<double>(in));
  Tensor w = c.constant("w_" + name, {in, out}, seed, -scale, scale);
  Tensor b = c.constant("b_" + name, {out}, seed + 1);
  return x.matmul(w) + b;
}

Matrix linear(const HostTensors& inputs, const Matrix& x, const std::string& name) {
  const HostTensor &w = inputs.at("w_" + name), &b = inputs.at("b_" + name);
  Matrix y = x * matrix(w, w.shape()[0], w.shape()[1]);
  y.rowwise() += matrix(b, 1, b.count()).row(0);
  return y;
}
} // namespace

void build_mlp(Case& c) {
  int64_t batch = c.shape[0], in = c.shape[1], hidden1 = c.shape[2], hidden2 = c.shape[3], out = c.shape[4];
  Tensor x = c.input("x", {batch, in}, 1);
  Tensor h = linear(c, x, "1", in, hidden1, 10).relu();
  h = linear(c, h, "2", hidden1, hidden2, 20).relu();
  c.output("y", linear(c, h, "3", hidden2, out, 30));
  c.flops = 2.0 * static_cast<double>(batch * (in * hidden1 + hidden1 * hidden2 + hidden2 * out));
  c.tolerance = sum_tolerance(c.dtype, in + hidden1 + hidden2);
  c.reference = [=](const HostTensors& inputs) {
    Matrix h = linear(inputs, matrix(inputs.at("x"), batch, in), "1").cwiseMax(0);
    h = linear(inputs, h, "2").cwiseMax(0);
    return Reference{{"y", flat(linear(inputs, h, "3"))}};
  };
}

void build_encoder_block(Case& c) {
  int64_t tokens = c.shape[0], d = c.shape[1], heads = c.shape[2], hidden = c.shape[3];
  if (d % heads != 0)
    throw Error(ErrorKind::Value, "encoder-block: " + std::to_string(heads) + " heads don't divide " +
                                      std::to_string(d) + " features, expected a divisor");
  int64_t each = d / heads;
  Tensor x = c.input("x", {tokens, d}, 1);
  auto norm = [&](const Tensor& t, const std::string& name, uint64_t seed) {
    Tensor weight = c.constant("weight_" + name, {d}, seed, 0.5, 1.5),
           bias = c.constant("bias_" + name, {d}, seed + 1);
    return t.layer_norm({-1}, weight, bias);
  };
  Tensor n = norm(x, "attention", 2);
  auto split_heads = [&](const char* name, uint64_t seed) {
    return linear(c, n, name, d, d, seed).reshape({tokens, heads, each}).permute({1, 0, 2});
  };
  Tensor q = split_heads("q", 10), k = split_heads("k", 20), v = split_heads("v", 30);
  Tensor mixed = scaled_dot_product_attention(q, k, v).permute({1, 0, 2}).reshape({tokens, d});
  Tensor h = x + linear(c, mixed, "out", d, d, 40);
  Tensor f = linear(c, norm(h, "network", 4), "up", d, hidden, 50).gelu();
  c.output("y", h + linear(c, f, "down", hidden, d, 60));
  c.flops =
      2.0 * static_cast<double>(tokens) * static_cast<double>(4 * d * d + 2 * d * hidden + 2 * tokens * d);
  c.tolerance = sum_tolerance(c.dtype, 4 * d + hidden);
  c.reference = [=](const HostTensors& in) {
    Matrix x = matrix(in.at("x"), tokens, d);
    auto norm = [&](const Matrix& m, const std::string& name) {
      return layer_norm_rows(m, matrix(in.at("weight_" + name), 1, d), matrix(in.at("bias_" + name), 1, d));
    };
    Matrix n = norm(x, "attention");
    Matrix q = linear(in, n, "q"), k = linear(in, n, "k"), v = linear(in, n, "v"), mixed(tokens, d);
    for (int64_t head = 0; head < heads; ++head) {
      auto part = [&](Matrix& m) { return m.middleCols(head * each, each); };
      part(mixed) = attention(part(q), part(k), part(v));
    }
    Matrix h = x + linear(in, mixed, "out");
    return Reference{{"y", flat(h + linear(in, gelu(linear(in, norm(h, "network"), "up")), "down"))}};
  };
}

void build_digits(Case& c) {
  int64_t references = c.shape[0], queries = c.shape[1];
  const Digits& data = digits();
  if (references + queries > data.rows())
    throw Error(ErrorKind::Value, "digits: " + std::to_string(references) + " references and " +
                                      std::to_string(queries) + " queries are too many, expected at most " +
                                      std::to_string(data.rows()) + " together");
  if (size_of(c.dtype) < 4)
    throw Error(ErrorKind::DType, std::string("digits: distances are not exact in ") +
                                      lathe::to_string(c.dtype) + ", expected f32 or f64");
  HostTensor known(c.dtype, {references, 64}), asked(c.dtype, {queries, 64});
  HostTensor labels(DType::I32, {references}), truth(DType::I32, {queries});
  for (int64_t i = 0; i < known.count(); ++i) known.set(i, data.pixels[static_cast<size_t>(i)]);
  for (int64_t i = 0; i < asked.count(); ++i)
    asked.set(i, data.pixels[static_cast<size_t>(references * 64 + i)]);
  for (int64_t i = 0; i < references; ++i) labels.set(i, data.labels[static_cast<size_t>(i)]);
  for (int64_t i = 0; i < queries; ++i) truth.set(i, data.labels[static_cast<size_t>(references + i)]);

  Tensor r = c.input("references", std::move(known)), q = c.input("queries", std::move(asked));
  Tensor label = c.input("labels", std::move(labels)), expected = c.input("truth", std::move(truth));
  // |q - r|^2 without |q|^2, which is the same for every reference. Exact: pixels are small integers.
  Tensor distance = r.square().sum({-1}) - 2 * q.matmul(r.transpose());
  Tensor nearest = distance.argmin(-1);
  c.output("nearest", nearest);
  c.output("correct", (label.take(nearest) == expected).sum());
  c.flops = 2.0 * 64 * static_cast<double>(references) * static_cast<double>(queries);
  c.reference = [=](const HostTensors& in) {
    Matrix known = matrix(in.at("references"), references, 64), asked = matrix(in.at("queries"), queries, 64);
    std::vector<double> nearest;
    double correct = 0;
    for (int64_t i = 0; i < queries; ++i) {
      Eigen::Index best = 0;
      (known.rowwise() - asked.row(i)).rowwise().squaredNorm().minCoeff(&best);
      nearest.push_back(static_cast<double>(best));
      correct += in.at("labels").get(best) == in.at("truth").get(i);
    }
    if (references == 1000 && queries == 797 && correct != 767)
      throw Error(ErrorKind::File, "digits: the plain search gets " + std::to_string(correct) +
                                       " right, expected 767; the data is damaged");
    return Reference{{"nearest", nearest}, {"correct", {correct}}};
  };
}

} // namespace lathe::bench
