#include "onnx/ops/activations.hpp"

#include <algorithm>
#include <cctype>

namespace lathe::onnx {
namespace {

const ActivationRow activation_rows[] = {
    {"relu", 0, 0, false, false, [](const Tensor& x, double, double) { return x.relu(); }},
    {"tanh", 0, 0, false, false, [](const Tensor& x, double, double) { return x.tanh(); }},
    {"sigmoid", 0, 0, false, false, [](const Tensor& x, double, double) { return x.sigmoid(); }},
    {"softsign", 0, 0, false, false, [](const Tensor& x, double, double) { return x / (x.abs() + 1); }},
    {"softplus", 0, 0, false, false, [](const Tensor& x, double, double) { return x.softplus(); }},
    {"affine", 1, 0, true, true, [](const Tensor& x, double a, double b) { return x * a + b; }},
    {"leakyrelu", 0.01, 0, true, false, [](const Tensor& x, double a, double) { return x.leaky_relu(a); }},
    {"elu", 1, 0, true, false, [](const Tensor& x, double a, double) { return x.elu(a); }},
    {"thresholdedrelu", 1, 0, true, false,
     [](const Tensor& x, double a, double) { return where(x > a, x, weak(0.0, x.dtype())); }},
    {"scaledtanh", 1, 1, true, true, [](const Tensor& x, double a, double b) { return (x * b).tanh() * a; }},
    {"hardsigmoid", 0.2, 0.5, true, true,
     [](const Tensor& x, double a, double b) { return (x * a + b).clamp(0, 1); }},
};

} // namespace

const ActivationRow& find_activation(const Call& call, std::string name) {
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  for (const ActivationRow& row : activation_rows)
    if (name == row.name) return row;
  call.fail(ErrorKind::Value, "activation \"" + name + "\", expected one of ONNX's activations");
}

} // namespace lathe::onnx
