// Ops that ONNX tried and withdrew. ONNX Runtime has them still, in ONNX's domain.
#include "onnx/ops/attributes.hpp"
#include "onnx/ops/microsoft/tables.hpp"
#include "onnx/ops/values.hpp"

namespace lathe::onnx {
namespace {

/// An attribute as a number of x's dtype.
Tensor number(const Call& call, const char* name, double otherwise, const Tensor& x) {
  return weak(call.number(name, otherwise), x.dtype());
}

/// alpha * function(beta * x); both numbers have to be there.
std::vector<Value> scaled(Call& call, Tensor (Tensor::*function)() const) {
  const Tensor x = call.tensor(0), y = ((x * weak(call.number("beta"), x.dtype())).*function)();
  return {y * weak(call.number("alpha"), x.dtype())};
}

std::vector<Value> affine(Call& call) {
  const Tensor x = call.tensor(0);
  return {x * number(call, "alpha", 1, x) + number(call, "beta", 0, x)};
}

std::vector<Value> scale(Call& call) {
  const Tensor x = call.tensor(0);
  return {x * number(call, "scale", 1, x)};
}

/// [batch, channels, height, width]
Tensor images(const Call& call) {
  const Tensor x = call.tensor(0);
  if (x.rank() != 4)
    call.fail(ErrorKind::Shape,
              "shape " + to_string(x.shape()) + ", expected [batch, channels, height, width]");
  return x;
}

std::vector<Value> image_scaler(Call& call) {
  const Tensor x = images(call);
  const std::vector<double> bias = call.numbers("bias", {});
  if (!x.size(1).is_const(static_cast<int64_t>(bias.size())))
    call.fail(ErrorKind::Value, "a bias of " + std::to_string(bias.size()) + " numbers for " +
                                    to_string(x.size(1)) + " channels, expected one for each");
  return {x * number(call, "scale", 1, x) + Tensor::from(bias).cast(x.dtype()).reshape({x.size(1), 1, 1})};
}

/// border: left, top, right and bottom; scale: height and width, in place of the last two.
std::vector<Value> crop(Call& call) {
  const Tensor x = images(call);
  const std::vector<int64_t> border = call.integers("border"),
                             size = call.integers("scale", std::vector<int64_t>{});
  if (border.size() != 4 || (!size.empty() && size.size() != 2))
    call.fail(ErrorKind::Value, "border and scale of " + std::to_string(border.size()) + " and " +
                                    std::to_string(size.size()) + " numbers, expected 4, and 2 or none");
  const auto part = [&](int axis, int64_t before, int64_t behind, size_t which) {
    const Expr all = x.size(axis), end = size.empty() ? all - behind : Expr(before + size[which]);
    if (before < 0 || behind < 0 || !proves_le(end, all) || !proves_le(before + 1, end))
      call.fail(ErrorKind::Value, "elements " + std::to_string(before) + " to " + to_string(end) + " of " +
                                      to_string(all) + ", expected a part");
    return std::pair<Expr, Expr>(before, end);
  };
  return {x.shrink(
      {{0, x.size(0)}, {0, x.size(1)}, part(2, border[1], border[3], 0), part(3, border[0], border[2], 1)})};
}

const OpRow kWithdrawnOps[] = {
    {"Affine", 1, affine, "", 1},
    {"Crop", 1, crop, "", 1},
    {"ImageScaler", 1, image_scaler, "", 1},
    {"ParametricSoftplus", 1, [](Call& call) { return scaled(call, &Tensor::softplus); }, "", 1},
    {"Scale", 1, scale, "", 1},
    {"ScaledTanh", 1, [](Call& call) { return scaled(call, &Tensor::tanh); }, "", 1},
};

} // namespace

OpTable withdrawn_ops() { return kWithdrawnOps; }

} // namespace lathe::onnx
