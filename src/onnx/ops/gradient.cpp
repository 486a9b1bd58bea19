// Gradient: derivatives of one value of the graph by others, at values of their own.
#include <fmt/format.h>

#include <atomic>

#include "lathe/gradient.hpp"
#include "lathe/substitute.hpp"
#include "onnx/graph.hpp"
#include "onnx/ops/tables.hpp"

namespace lathe::onnx {
namespace {

/// The part of the graph between what is given and y is run once more, with an input of its own in place of
/// each of xs: that has an identity whatever the value is, and equal values stay apart.
std::vector<Value> gradient(Call& call) {
  const size_t xs = call.texts("xs").size(), zs = call.texts("zs", {}).size();
  call.ignore("y");
  if (xs + zs != call.input_count())
    call.fail(ErrorKind::Value,
              fmt::format("{} inputs, expected {} for xs and {} for zs", call.input_count(), xs, zs));
  static std::atomic<uint64_t> next{0};
  const uint64_t id = next++;
  std::vector<Value> arguments;
  std::vector<Tensor> stand_ins;
  std::map<std::string, Tensor> given;
  for (size_t k = 0; k < xs + zs; ++k) {
    if (k >= xs) {
      arguments.push_back(call.value(k));
      continue;
    }
    const Tensor x = call.tensor(k);
    const std::string name = fmt::format("gradient_{}_by_{}", id, k);
    stand_ins.push_back(Tensor::input(name, x.shape(), x.dtype()));
    given.emplace(name, x);
    arguments.push_back(stand_ins.back());
  }
  const Value y = call.run_body(kGradientBody, arguments, Looks::Refused).at(0);
  if (!y.is_tensor()) call.fail(ErrorKind::Value, "y is no tensor");
  std::vector<Value> derivatives;
  for (Tensor& derivative : substitute(gradients(y.tensor(), stand_ins), given))
    derivatives.push_back(std::move(derivative));
  return derivatives;
}

const OpRow kGradientOps[] = {{"Gradient", 1, gradient, kTrainingDomain}};

} // namespace

OpTable gradient_ops() { return kGradientOps; }

} // namespace lathe::onnx
