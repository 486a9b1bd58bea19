// Products of matrices.
#include "onnx/ops/linear.hpp"

#include <algorithm>
#include <cctype>

#include "onnx/ops/broadcast.hpp"
#include "onnx/ops/tables.hpp"

namespace lathe::onnx {
namespace {

std::vector<Value> matmul(Call& call) { return {call.tensor(0).matmul(call.tensor(1))}; }

/// Integers are scaled as floats and rounded towards zero.
Tensor scaled(const Tensor& x, double factor) {
  return factor == 1.0 ? x : in_single(x, [&](const Tensor& t) { return (t * factor).cast(x.dtype()); });
}

} // namespace

Tensor general_product(Call& call) {
  call.ignore("broadcast"); // of opset 6; the shapes say whether to
  const bool transposes_a = call.integer("transA", 0) != 0, transposes_b = call.integer("transB", 0) != 0;
  const double alpha = call.number("alpha", 1.0), beta = call.number("beta", 1.0);
  const Tensor a = call.tensor(0), b = call.tensor(1);
  if (a.rank() != 2 || b.rank() != 2)
    call.fail(ErrorKind::Shape,
              "inputs " + to_string(a.shape()) + " and " + to_string(b.shape()) + ", expected matrices");
  const Tensor product = (transposes_a ? a.transpose() : a).matmul(transposes_b ? b.transpose() : b);
  const std::optional<Tensor> c = call.optional_tensor(2);
  if (!c || beta == 0.0) return scaled(product, alpha);
  return scaled(product, alpha) + scaled(*c, beta);
}

namespace {

std::vector<Value> gemm(Call& call) { return {general_product(call)}; }

std::vector<Value> einsum(Call& call) {
  std::string equation = call.text("equation");
  std::erase_if(equation, [](unsigned char c) { return std::isspace(c); });
  std::vector<Tensor> operands;
  for (size_t i = 0; i < call.input_count(); ++i) operands.push_back(call.tensor(i));
  return {lathe::einsum(equation, operands)};
}

// ---- determinants ----

/// Entry or part of the matrices in the last two axes.
Tensor part(const Tensor& matrices, IndexItem row, IndexItem column) {
  return matrices.index({Ellipsis{}, row, column});
}

struct Elimination {
  Tensor pivot; // [...]
  Tensor rest;  // [..., n - 1, n - 1]
};

/// One step on [..., n, n], n > 1: the row whose first entry is the largest takes the place of the first, and
/// is taken from the others so that their first entries vanish. `pivot` has the sign of the exchange.
Elimination eliminate(const Tensor& matrices) {
  const DType dtype = matrices.dtype();
  const int64_t n = matrices.size(-1).value();
  const Tensor zero = weak(0.0, dtype);
  const Tensor best = part(matrices, Slice{}, Slice{0, 1}).abs().argmax(-2, true); // [..., 1, 1]
  const Tensor chosen = Tensor::arange(n).reshape({n, 1}) == best;                 // [..., n, 1]
  const Tensor pivot_row = where(chosen, matrices, zero).sum(-2, true);
  const Tensor first_row = part(matrices, Slice{0, 1}, Slice{});
  const Tensor others = part(where(chosen, first_row, matrices), Slice{1, {}}, Slice{});
  const Tensor pivot = part(pivot_row, Slice{}, Slice{0, 1});
  // Where the pivot is 0 the whole column is.
  const Tensor factors = where(pivot == 0.0, zero, part(others, Slice{}, Slice{0, 1}) / pivot);
  const Tensor rest = part(others, Slice{}, Slice{1, {}}) - factors * part(pivot_row, Slice{}, Slice{1, {}});
  return {part(where(best == 0, pivot, -pivot), 0, 0), rest};
}

std::vector<Value> determinant(Call& call) {
  const Tensor input = call.tensor(0);
  if (input.rank() < 2 || input.size(-1) != input.size(-2) || !input.size(-1).is_const())
    call.fail(ErrorKind::Shape, "input " + to_string(input.shape()) + ", expected [..., M, M] of a fixed M");
  return {in_single(input, [](const Tensor& matrices) {
    Tensor rest = matrices;
    std::optional<Tensor> product;
    while (!rest.size(-1).is_const(1)) {
      const Elimination step = eliminate(rest);
      product = product ? *product * step.pivot : step.pivot;
      // Stored, since every entry of the next step reads many of this one's.
      rest = step.rest.contiguous();
    }
    const Tensor last = part(rest, 0, 0);
    return product ? *product * last : last;
  })};
}

const OpRow kLinearOps[] = {
    {"MatMul", 1, matmul},
    {"Gemm", 1, gemm},
    {"Einsum", 12, einsum},
    {"Det", 11, determinant},
};

} // namespace

OpTable linear_ops() { return kLinearOps; }

} // namespace lathe::onnx
