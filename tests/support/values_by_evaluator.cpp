// Values of tensors by the tests' own evaluator: only what the Tensor builds is on trial.
#include "graph/tensor_impl.hpp"
#include "support/graph_eval.hpp"
#include "support/moved_elements.hpp"

namespace lathe::test {

constinit const bool kCompiled = false;

namespace {
const bool registered = (graph::set_realiser(&realise_by_evaluation), true);
}

Tensor run_at(const Tensor& program, const Tensor& x, int64_t n) {
  Bindings bindings;
  bindings.sizes["n"] = n;
  bindings.inputs["x"] = bytes_of(x);
  const StorageRef y = evaluate_graph({graph::node_of(program)}, bindings)[0];
  Shape shape;
  for (Expr size : program.shape()) shape.push_back(evaluate(size, [&](Expr) { return n; }));
  return Tensor::from_memory(y->data(), static_cast<size_t>(num_elements(shape).value()), program.dtype(),
                             shape);
}

} // namespace lathe::test
