// Eigen: expressions over maps of the inputs, compiled for this machine's vectors.
#include <Eigen/Core>

#include <cmath>

#include "peers/peers.hpp"

namespace lathe::bench {

namespace {
using MatrixF = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Map = Eigen::Map<MatrixF, Eigen::Aligned64>;
using ConstMap = Eigen::Map<const MatrixF, Eigen::Aligned64>;
using LooseMap = Eigen::Map<const MatrixF>; // a part of a tensor, aligned as it happens

ConstMap in(const Case& c, const std::string& name, int64_t rows, int64_t columns) {
  return ConstMap(c.inputs.at(name).as<float>(), rows, columns);
}
Map out(HostTensors& tensors, const char* name, int64_t rows, int64_t columns) {
  return Map(tensors.at(name).as<float>(), rows, columns);
}

std::function<void()> memory_bound(const Case& c, HostTensors& to) {
  int64_t rows = c.shape[0], columns = c.shape.size() > 1 ? c.shape[1] : 1;
  if (c.workload == "elementwise")
    return
        [a = in(c, "a", rows, 1), b = in(c, "b", rows, 1), k = in(c, "c", rows, 1), d = in(c, "d", rows, 1),
         y = out(to, "y", rows, 1)]() mutable { y = ((a + b).cwiseProduct(k).cwiseMax(0.0f) + d); };
  if (c.workload == "reduce")
    return [x = in(c, "x", rows, 1), y = out(to, "y", 1, 1)]() mutable { y(0, 0) = x.sum(); };
  if (c.workload == "transpose")
    return [x = in(c, "x", rows, columns), y = out(to, "y", columns, rows)]() mutable { y = x.transpose(); };
  if (c.workload == "gelu")
    return [x = in(c, "x", rows, 1), y = out(to, "y", rows, 1)]() mutable {
      auto v = x.array();
      y = 0.5f * v * (1 + (0.7978845608f * (v + 0.044715f * v * v * v)).tanh());
    };
  if (c.workload == "column-sums")
    return [x = in(c, "x", rows, columns), y = out(to, "y", 1, columns)]() mutable { y = x.colwise().sum(); };
  if (c.workload == "argmax")
    return [x = in(c, "x", rows, columns), y = out(to, "y", rows, 1)]() mutable {
      for (int64_t i = 0; i < x.rows(); ++i) {
        Eigen::Index best;
        x.row(i).maxCoeff(&best);
        y(i, 0) = static_cast<float>(best);
      }
    };
  if (c.workload == "softmax") // row by row, so that a row stays in the cache
    return [x = in(c, "x", rows, columns), y = out(to, "y", rows, columns)]() mutable {
      for (int64_t i = 0; i < x.rows(); ++i) {
        y.row(i) = (x.row(i).array() - x.row(i).maxCoeff()).exp();
        y.row(i) *= 1 / y.row(i).sum();
      }
    };
  return [x = in(c, "x", rows, columns), w = in(c, "weight", 1, columns), b = in(c, "bias", 1, columns),
          y = out(to, "y", rows, columns)]() mutable {
    for (int64_t i = 0; i < x.rows(); ++i) {
      float mean = x.row(i).mean();
      float variance = (x.row(i).array() - mean).square().mean();
      float scale = 1 / std::sqrt(variance + 1e-5f);
      y.row(i) = (x.row(i).array() - mean) * scale * w.row(0).array() + b.row(0).array();
    }
  };
}

std::function<void()> product(const Case& c, HostTensors& to) {
  int64_t m = c.shape.end()[-3], n = c.shape.end()[-2], k = c.shape.end()[-1];
  if (c.shape.size() == 3)
    return [a = in(c, "a", m, k), b = in(c, "b", k, n), y = out(to, "c", m, n)]() mutable {
      y.noalias() = a * b;
    };
  const float *a = c.inputs.at("a").as<float>(), *b = c.inputs.at("b").as<float>();
  float* y = to.at("c").as<float>();
  return [=, batch = c.shape[0]] {
    for (int64_t i = 0; i < batch; ++i)
      Eigen::Map<MatrixF>(y + i * m * n, m, n).noalias() =
          LooseMap(a + i * m * k, m, k) * LooseMap(b + i * k * n, k, n);
  };
}

std::function<void()> mlp(const Case& c, HostTensors& to) {
  int64_t batch = c.shape[0];
  auto h1 = std::make_shared<MatrixF>(batch, c.shape[2]), h2 = std::make_shared<MatrixF>(batch, c.shape[3]);
  auto weight = [&](const char* name, int layer) {
    return in(c, name, c.shape[static_cast<size_t>(layer)], c.shape[static_cast<size_t>(layer) + 1]);
  };
  auto bias = [&](const char* name, int layer) {
    return in(c, name, 1, c.shape[static_cast<size_t>(layer) + 1]);
  };
  return [=, x = in(c, "x", batch, c.shape[1]), w1 = weight("w_1", 1), w2 = weight("w_2", 2),
          w3 = weight("w_3", 3), b1 = bias("b_1", 1), b2 = bias("b_2", 2), b3 = bias("b_3", 3),
          y = out(to, "y", batch, c.shape[4])]() mutable {
    h1->noalias() = x * w1;
    *h1 = (h1->rowwise() + b1.row(0)).cwiseMax(0.0f);
    h2->noalias() = *h1 * w2;
    *h2 = (h2->rowwise() + b2.row(0)).cwiseMax(0.0f);
    y.noalias() = *h2 * w3;
    y.rowwise() += b3.row(0);
  };
}

std::function<void()> attention(const Case& c, HostTensors& to) {
  int64_t heads = c.shape[0], tokens = c.shape[1], features = c.shape[2], each = tokens * features;
  const float *q = c.inputs.at("q").as<float>(), *k = c.inputs.at("k").as<float>(),
              *v = c.inputs.at("v").as<float>();
  float* y = to.at("y").as<float>();
  auto scores = std::make_shared<MatrixF>(tokens, tokens);
  return [=, scale = 1 / std::sqrt(static_cast<float>(features))] {
    for (int64_t h = 0; h < heads; ++h) {
      scores->noalias() =
          LooseMap(q + h * each, tokens, features) * LooseMap(k + h * each, tokens, features).transpose();
      for (int64_t i = 0; i < tokens; ++i) {
        auto row = scores->row(i);
        row = ((row.array() - row.maxCoeff()) * scale).exp();
        row *= 1 / row.sum();
      }
      Eigen::Map<MatrixF>(y + h * each, tokens, features).noalias() =
          *scores * LooseMap(v + h * each, tokens, features);
    }
  };
}

std::function<void()> digits(const Case& c, HostTensors& to) {
  int64_t references = c.shape[0], queries = c.shape[1];
  auto distance = std::make_shared<MatrixF>(queries, references);
  const int32_t *labels = c.inputs.at("labels").as<int32_t>(), *truth = c.inputs.at("truth").as<int32_t>();
  int64_t *nearest = to.at("nearest").as<int64_t>(), *correct = to.at("correct").as<int64_t>();
  return [=, r = in(c, "references", references, 64), q = in(c, "queries", queries, 64)] {
    distance->noalias() = q * r.transpose();
    *distance *= -2.0f;
    distance->rowwise() += r.rowwise().squaredNorm().transpose();
    *correct = 0;
    for (int64_t i = 0; i < queries; ++i) {
      Eigen::Index best;
      distance->row(i).minCoeff(&best);
      nearest[i] = best;
      *correct += labels[best] == truth[i];
    }
  };
}

std::vector<Contender> contenders(const Case& c, const CompileOptions& plan) {
  if (c.dtype != DType::F32) return {};
  Eigen::setNbThreads(plan.threads);
  static const std::map<std::string, std::function<void()> (*)(const Case&, HostTensors&)> builders{
      {"elementwise", memory_bound},
      {"gelu", memory_bound},
      {"reduce", memory_bound},
      {"softmax", memory_bound},
      {"layernorm", memory_bound},
      {"transpose", memory_bound},
      {"column-sums", memory_bound},
      {"argmax", memory_bound},
      {"matmul", product},
      {"batched-matmul", product},
      {"linear", product},
      {"batched-linear", product},
      {"mlp", mlp},
      {"attention", attention},
      {"digits", digits}};
  auto build = builders.find(c.workload);
  if (build == builders.end()) return {};
  auto to = make_outputs(c);
  return {{"eigen", build->second(c, *to), nullptr, to}};
}
} // namespace

Peer eigen_peer() {
  return {"eigen", true,
          "Eigen " + std::to_string(EIGEN_WORLD_VERSION) + "." + std::to_string(EIGEN_MAJOR_VERSION) + "." +
              std::to_string(EIGEN_MINOR_VERSION) + ", " + Eigen::SimdInstructionSetsInUse(),
          contenders};
}

} // namespace lathe::bench
