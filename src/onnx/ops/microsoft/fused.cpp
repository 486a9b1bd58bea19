// Products and convolutions with what ONNX Runtime's optimiser moves into them, activations with a bias.
#include "onnx/ops/activations.hpp"
#include "onnx/ops/attributes.hpp"
#include "onnx/ops/broadcast.hpp"
#include "onnx/ops/linear.hpp"
#include "onnx/ops/microsoft/tables.hpp"
#include "onnx/ops/spatial.hpp"

namespace lathe::onnx {
namespace {

// ---- products ----

/// The first axis moved to the last but one, then the last two swapped, as far as asked for. A vector stays.
Tensor arranged(const Tensor& x, bool batch, bool matrix) {
  if (x.rank() < 2) return x;
  Tensor result = x;
  if (batch) {
    Axes order;
    for (int axis = 1; axis < x.rank() - 1; ++axis) order.push_back(axis);
    order.insert(order.end(), {0, x.rank() - 1});
    result = x.permute(order);
  }
  return matrix ? result.transpose() : result;
}

std::vector<Value> fused_matmul(Call& call) {
  const double alpha = call.number("alpha", 1.0);
  const auto operand = [&](size_t input, const char* batch, const char* matrix) {
    return arranged(call.tensor(input), call.integer(batch, 0) != 0, call.integer(matrix, 0) != 0);
  };
  const Tensor a = operand(0, "transBatchA", "transA"), b = operand(1, "transBatchB", "transB");
  if (alpha == 1.0) return {a.matmul(b)};
  return {in_single(a, [&](const Tensor& rows) { return rows.matmul(b.cast(rows.dtype())) * alpha; })};
}

std::optional<double> optional_number(const Call& call, const char* name) {
  return call.has_attribute(name) ? std::optional(call.number(name)) : std::nullopt;
}

std::vector<Value> fused_gemm(Call& call) {
  const Tensor product = general_product(call);
  const std::string name = call.text("activation", "");
  const auto alpha = optional_number(call, "activation_alpha"),
             beta = optional_number(call, "activation_beta");
  if (name.empty()) return {product};
  return {in_single(product, find_activation(call, name).with(alpha, beta))};
}

/// The activation of a FusedConv: its parameters are a list. Without one the result stays.
Activation conv_activation(const Call& call) {
  const std::string name = call.text("activation", "");
  const std::vector<double> parameters = call.numbers("activation_params");
  const auto parameter = [&](size_t which) {
    return which < parameters.size() ? std::optional(parameters[which]) : std::nullopt;
  };
  if (name.empty()) return [](const Tensor& x) { return x; };
  if (name != "Clip") return find_activation(call, name).with(parameter(0), parameter(1));
  if (parameters.size() != 2)
    call.fail(ErrorKind::Value, "activation_params of Clip has " + std::to_string(parameters.size()) +
                                    " numbers, expected the lower and the upper bound");
  return [=](const Tensor& x) { return x.clamp(parameters[0], parameters[1]); };
}

std::vector<Value> fused_conv(Call& call) {
  const Tensor sums = convolve(call, call.tensor(0), call.tensor(1), call.optional_tensor(2));
  const std::optional<Tensor> addend = call.optional_tensor(3);
  return {in_single(addend ? sums + *addend : sums, conv_activation(call))};
}

// ---- activations ----

/// An activation of input 0 plus input 1, which may be left out.
template <class Function> std::vector<Value> of_sum(Call& call, Function&& function) {
  const std::optional<Tensor> bias = call.optional_tensor(1);
  return {in_single(call.tensor(0),
                    [&](const Tensor& x) { return function(bias ? x + bias->cast(x.dtype()) : x); })};
}

std::vector<Value> bias_gelu(Call& call) {
  return of_sum(call, [](const Tensor& x) { return x.gelu(); });
}

std::vector<Value> fast_gelu(Call& call) {
  return of_sum(call, [](const Tensor& x) { return x.gelu(true); });
}

std::vector<Value> quick_gelu(Call& call) {
  const double alpha = call.number("alpha", 1.702f);
  return {in_single(call.tensor(0), [&](const Tensor& x) { return x * (x * alpha).sigmoid(); })};
}

/// The left half of the features times an activation of the right half.
std::vector<Value> bias_split_gelu(Call& call) {
  const Tensor x = call.tensor(0);
  if (x.rank() < 1 || !mod(x.size(-1), 2).is_const(0))
    call.fail(ErrorKind::Shape, "input " + to_string(x.shape()) + ", expected an even number of features");
  const Expr half = floordiv(x.size(-1), 2);
  return of_sum(call, [&](const Tensor& sum) {
    Shape halves = sum.shape();
    halves.back() = half;
    halves.insert(halves.end() - 1, Expr(2));
    const Tensor split = sum.reshape(halves);
    return split.index({Ellipsis{}, 0, Slice{}}) * split.index({Ellipsis{}, 1, Slice{}}).gelu();
  });
}

std::vector<Value> bias_add(Call& call) {
  const Tensor skip = call.tensor(2);
  return of_sum(call, [&](const Tensor& sum) { return sum + skip.cast(sum.dtype()); });
}

/// The softmax goes over all axes from `axis` on.
std::vector<Value> bias_softmax(Call& call) {
  call.ignore("is_inner_broadcast"); // the shapes say how the bias lies
  const int axis = axis_attribute(call, 1, call.tensor(0).rank());
  return of_sum(call, [&](const Tensor& sum) { return sum.flatten(axis).softmax(-1).reshape(sum.shape()); });
}

const OpRow kMicrosoftFusedOps[] = {
    {"FusedMatMul", 1, fused_matmul, kMicrosoft, 2}, {"TransposeMatMul", 1, fused_matmul, kMicrosoft, 2},
    {"FusedGemm", 1, fused_gemm, kMicrosoft, 3},     {"FusedConv", 1, fused_conv, kMicrosoft, 4},
    {"BiasGelu", 1, bias_gelu, kMicrosoft, 2},       {"FastGelu", 1, fast_gelu, kMicrosoft, 2},
    {"QuickGelu", 1, quick_gelu, kMicrosoft, 1},     {"BiasSplitGelu", 1, bias_split_gelu, kMicrosoft, 2},
    {"BiasAdd", 1, bias_add, kMicrosoft, 3},         {"BiasSoftmax", 1, bias_softmax, kMicrosoft, 2},
};

} // namespace

OpTable microsoft_fused_ops() { return kMicrosoftFusedOps; }

} // namespace lathe::onnx
