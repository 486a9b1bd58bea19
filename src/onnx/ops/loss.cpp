// Losses.
#include "onnx/ops/broadcast.hpp"
#include "onnx/ops/tables.hpp"

namespace lathe::onnx {
namespace {

/// -weight[target] * x[n, target, ...], 0 where the target is ignored, and reduced as the node says.
Tensor negative_log_likelihood(Call& call, const Tensor& x, const Tensor& target,
                               const std::optional<Tensor>& weight) {
  const std::string reduction = call.text("reduction", "mean");
  const bool ignores = call.has_attribute("ignore_index");
  if (x.rank() < 2 || target.rank() != x.rank() - 1)
    call.fail(ErrorKind::Shape, "scores " + to_string(x.shape()) + " and labels " +
                                    to_string(target.shape()) + ", expected [N, C, ...] and [N, ...]");
  const Tensor likelihood = x.gather(1, target.unsqueeze(1)).squeeze(1);
  Tensor of_target = weight ? weight->take(target).cast(x.dtype()) : Tensor::ones(target.shape(), x.dtype());
  Tensor loss = -(likelihood * of_target);
  if (ignores) {
    const Tensor ignored = target == weak(call.integer("ignore_index"), target.dtype());
    const Tensor zero = weak(0.0, x.dtype());
    of_target = where(ignored, zero, of_target);
    loss = where(ignored, zero, loss);
  }
  if (reduction == "none") return loss;
  if (reduction == "sum") return loss.sum();
  if (reduction != "mean")
    call.fail(ErrorKind::Value, "reduction \"" + reduction + "\", expected \"none\", \"sum\" or \"mean\"");
  return weight || ignores ? loss.sum() / of_target.sum() : loss.mean();
}

std::vector<Value> nll_loss(Call& call) {
  const Tensor target = call.tensor(1);
  const std::optional<Tensor> weight = call.optional_tensor(2);
  return {in_single(call.tensor(0),
                    [&](const Tensor& x) { return negative_log_likelihood(call, x, target, weight); })};
}

std::vector<Value> softmax_cross_entropy_loss(Call& call) {
  const Tensor scores = call.tensor(0), target = call.tensor(1);
  const std::optional<Tensor> weight = call.optional_tensor(2);
  const DType dtype = scores.dtype();
  const Tensor log_probability = scores.cast(at_least_single(dtype)).log_softmax(1);
  const Tensor loss = negative_log_likelihood(call, log_probability, target, weight);
  std::vector<Value> outputs{loss.cast(dtype), log_probability.cast(dtype)};
  outputs.resize(call.output_count());
  return outputs;
}

const OpRow kLossOps[] = {
    {"NegativeLogLikelihoodLoss", 12, nll_loss},
    {"SoftmaxCrossEntropyLoss", 12, softmax_cross_entropy_loss},
};

} // namespace

OpTable loss_ops() { return kLossOps; }

} // namespace lathe::onnx
