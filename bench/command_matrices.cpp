// lathe-bench matrices: linear algebra and Fourier transforms in f64 beside Eigen, errors and times.
#include <Eigen/Dense>
#include <unsupported/Eigen/FFT>

#include <complex>
#include <numbers>

#include <fmt/format.h>

#include "commands.hpp"
#include "lathe/fft.hpp"
#include "lathe/linalg.hpp"
#include "timing.hpp"

namespace lathe::bench {

namespace {

using Matrix = ::Eigen::Matrix<double, ::Eigen::Dynamic, ::Eigen::Dynamic, ::Eigen::RowMajor>;
using Matrices = std::vector<Matrix>;

constexpr double kDigit = 0x1p-52;
constexpr int64_t kTransforms = 16; // of each size, as rows

/// A function of matrices, by lathe and by Eigen.
struct Problem {
  std::string name;
  Matrices inputs;             // "x0", "x1", ...
  std::vector<Tensor> outputs; // of inputs of these names
  std::function<Matrices()> peer;
  std::function<double(const Matrices&)> error; // of outputs, in rounding errors of the largest
};

Tensor input(size_t k, const Matrix& like) {
  return Tensor::input(fmt::format("x{}", k), {like.rows(), like.cols()}, DType::F64);
}
double largest(const Matrix& m) { return m.cwiseAbs().maxCoeff(); }
double from_identity(const Matrix& m) { return largest(m - Matrix::Identity(m.rows(), m.cols())); }

std::vector<Problem> factorisations(int64_t n) {
  const Matrix a = Matrix::Random(n, n), b = Matrix::Random(n, n);
  const Matrix positive = a * a.transpose() + static_cast<double>(n) * Matrix::Identity(n, n);
  const Tensor x = input(0, a), y = input(1, b);
  const QR made = qr(x);
  return {
      {"cholesky",
       {positive},
       {cholesky(x)},
       [=] { return Matrices{positive.llt().matrixL()}; },
       [=](const Matrices& m) { return largest(m[0] * m[0].transpose() - positive) / largest(positive); }},
      {"solve",
       {a, b},
       {solve(x, y)},
       [=] { return Matrices{a.partialPivLu().solve(b)}; },
       [=](const Matrices& m) { return largest(a * m[0] - b) / largest(a) / largest(m[0]); }},
      {"qr",
       {a},
       {made.q, made.r},
       [=] {
         const ::Eigen::HouseholderQR<Matrix> found(a);
         return Matrices{found.householderQ(), found.matrixQR().triangularView<::Eigen::Upper>()};
       },
       [=](const Matrices& m) {
         return std::max(largest(m[0] * m[1] - a) / largest(a), from_identity(m[0].transpose() * m[0]));
       }},
  };
}

std::vector<Problem> spectra(int64_t n) {
  const Matrix a = Matrix::Random(n, n), symmetric = a + a.transpose();
  const Tensor x = input(0, a);
  const EigenPairs pairs = eigh(x);
  const SVD parts = svd(x);
  const Tensor values = eigvalsh(x);
  const auto column = [](const Tensor& t) { return t.unsqueeze(1); };
  const Matrix exact =
      ::Eigen::SelfAdjointEigenSolver<Matrix>(symmetric, ::Eigen::EigenvaluesOnly).eigenvalues();
  return {
      {"eigh",
       {symmetric},
       {column(pairs.values), pairs.vectors},
       [=] {
         const ::Eigen::SelfAdjointEigenSolver<Matrix> found(symmetric);
         return Matrices{found.eigenvalues(), found.eigenvectors()};
       },
       [=](const Matrices& m) {
         const Matrix left = symmetric * m[1] - m[1] * m[0].col(0).asDiagonal();
         return std::max(largest(left) / largest(exact), from_identity(m[1].transpose() * m[1]));
       }},
      {"eigvalsh",
       {symmetric},
       {column(values)},
       [=] {
         return Matrices{
             ::Eigen::SelfAdjointEigenSolver<Matrix>(symmetric, ::Eigen::EigenvaluesOnly).eigenvalues()};
       },
       // The sums of the values and of their squares are the trace's and the norm's.
       [=](const Matrices& m) {
         return std::max(std::fabs(m[0].sum() - symmetric.trace()) / largest(exact),
                         std::fabs(m[0].norm() - symmetric.norm()) / largest(exact));
       }},
      {"svd",
       {a},
       {parts.u, column(parts.s), parts.vt},
       [=] {
         const ::Eigen::BDCSVD<Matrix> found(a, ::Eigen::ComputeThinU | ::Eigen::ComputeThinV);
         return Matrices{found.matrixU(), found.singularValues(), found.matrixV().transpose()};
       },
       [=](const Matrices& m) {
         const Matrix left = m[0] * m[1].col(0).asDiagonal() * m[2] - a;
         return std::max({largest(left) / m[1](0, 0), from_identity(m[0].transpose() * m[0]),
                          from_identity(m[2] * m[2].transpose())});
       }},
  };
}

/// The transforms of the rows by their definition, with exact multiples of the angle.
Matrices by_definition(const Matrix& real, const Matrix& imaginary) {
  const int64_t n = real.cols();
  Matrix cosine(n, n), sine(n, n);
  for (int64_t i = 0; i < n; ++i)
    for (int64_t k = 0; k < n; ++k) {
      const long double angle = -2 * std::numbers::pi_v<long double> * static_cast<long double>(i * k % n) /
                                static_cast<long double>(n);
      cosine(i, k) = static_cast<double>(std::cos(angle));
      sine(i, k) = static_cast<double>(std::sin(angle));
    }
  return {real * cosine - imaginary * sine, real * sine + imaginary * cosine};
}

Problem transforms(int64_t n) {
  const Matrix real = Matrix::Random(kTransforms, n), imaginary = Matrix::Random(kTransforms, n);
  const Complex made = fft(Complex{input(0, real), input(1, imaginary)});
  const Matrices want = by_definition(real, imaginary);
  const auto rows = [real, imaginary, fft = ::Eigen::FFT<double>()]() mutable {
    Matrices out{Matrix(real.rows(), real.cols()), Matrix(real.rows(), real.cols())};
    std::vector<std::complex<double>> in(static_cast<size_t>(real.cols())), to(in.size());
    for (int64_t row = 0; row < real.rows(); ++row) {
      for (size_t k = 0; k < in.size(); ++k) in[k] = {real(row, k), imaginary(row, k)};
      fft.fwd(to, in);
      for (size_t k = 0; k < in.size(); ++k) out[0](row, k) = to[k].real(), out[1](row, k) = to[k].imag();
    }
    return out;
  };
  return {fmt::format("fft, {} rows", kTransforms),
          {real, imaginary},
          {made.real, made.imaginary},
          rows,
          [=](const Matrices& m) {
            return std::max(largest(m[0] - want[0]), largest(m[1] - want[1])) /
                   std::max(largest(want[0]), largest(want[1]));
          }};
}

/// A problem's program with memory to run it on.
class Program {
public:
  Program(const Problem& problem, const CompileOptions& options)
      : inputs_(problem.inputs), executable_(compiled(problem, options)) {
    for (const Tensor& t : problem.outputs) outputs_.emplace_back(t.size(0).value(), t.size(1).value());
    for (size_t k = 0; k < inputs_.size(); ++k) from_[fmt::format("x{}", k)] = inputs_[k].data();
    for (size_t k = 0; k < outputs_.size(); ++k) to_[fmt::format("y{}", k)] = outputs_[k].data();
  }
  Program(const Program&) = delete;

  void run() { executable_.run(from_, to_); }
  const Matrices& outputs() const { return outputs_; }

private:
  static Executable compiled(const Problem& problem, const CompileOptions& options) {
    NamedTensors outputs;
    for (size_t k = 0; k < problem.outputs.size(); ++k)
      outputs.emplace(fmt::format("y{}", k), problem.outputs[k]);
    return lathe::compile(outputs, options);
  }

  Matrices inputs_, outputs_;
  std::map<std::string, const void*> from_;
  std::map<std::string, void*> to_;
  Executable executable_;
};

} // namespace

int matrices_command(const Options& options) {
  ::Eigen::setNbThreads(options.threads);
  Json rows = Json::array();
  bool right = true;
  if (!options.json)
    fmt::print("{:<14} {:>5} {:>10} {:>10} {:>7} {:>12} {:>12}\n", "function", "n", "lathe", "eigen", "ratio",
               "lathe error", "eigen error");
  for (const int64_t n : options.sizes) {
    std::vector<Problem> problems = factorisations(n);
    for (Problem& p : spectra(n)) problems.push_back(std::move(p));
    problems.push_back(transforms(n));
    for (const Problem& p : problems) {
      Program program(p, compile_options(options));
      program.run();
      Matrices theirs = p.peer();
      const double error = p.error(program.outputs()) / kDigit, their_error = p.error(theirs) / kDigit;
      right &= error <= 8 * static_cast<double>(n + 16);
      const auto seconds = median_seconds({[&] { program.run(); }, [&] { theirs = p.peer(); }});
      rows.push_back({{"function", p.name},
                      {"n", n},
                      {"seconds", seconds[0]},
                      {"eigen_seconds", seconds[1]},
                      {"error", error},
                      {"eigen_error", their_error}});
      if (!options.json)
        fmt::print("{:<14} {:>5} {:>10} {:>10} {:>7.2f} {:>12.1f} {:>12.1f}\n", p.name, n,
                   duration(seconds[0]), duration(seconds[1]), seconds[0] / seconds[1], error, their_error);
      std::fflush(stdout);
    }
  }
  if (options.json) fmt::print("{}\n", rows.dump(2));
  if (!right) fmt::print(stderr, "lathe-bench: matrices: an error is beyond 8 (n + 16) digits\n");
  return right ? 0 : 1;
}

} // namespace lathe::bench
