#include "onnx/program/run_loop.hpp"

#include <algorithm>
#include <limits>

namespace lathe::onnx {
namespace {

/// Tensors of one shape as one, along a new first axis.
Tensor stacked(const std::string& name, const std::vector<Tensor>& parts) {
  const Tensor& first = parts.front();
  for (const Tensor& part : parts)
    if (part.shape() != first.shape())
      throw Error(ErrorKind::Shape, "output '" + name + "' is " + to_string(part.shape()) +
                                        " in one iteration and " + to_string(first.shape()) +
                                        " in another, expected equal shapes");
  if (is_narrow(first.dtype())) return stack(parts, 0).realise();
  const auto bytes = static_cast<size_t>(first.element_count() * size_of(first.dtype()));
  const auto memory = std::make_shared<std::vector<unsigned char>>(bytes * parts.size());
  for (size_t k = 0; k < parts.size(); ++k) parts[k].read(memory->data() + k * bytes, first.dtype());
  Shape shape = first.shape();
  shape.insert(shape.begin(), Expr(static_cast<int64_t>(parts.size())));
  return Tensor::from_shared(std::shared_ptr<const void>(memory, memory->data()), first.dtype(), shape);
}

bool is_true(const Value& condition) {
  if (!condition.is_tensor() || condition.tensor().element_count() != 1)
    throw Error(ErrorKind::Shape,
                "a condition of " + type_text(condition) + ", expected one element of numbers");
  return condition.tensor().cast(DType::Bool).reshape({}).item<bool>();
}

/// Calls the body, whose outputs are the condition, the states and a part of each stacked output.
class Iterations {
public:
  Iterations(Program::Impl& program, const std::vector<Value>& inputs)
      : program_(program), ports_(program.model->inputs) {
    for (size_t k = 1; k < ports_.size(); ++k) fed_[ports_[k].name] = inputs.at(1 + k);
  }

  /// Makes what the body makes of the present states.
  NamedValues run(int64_t iteration) {
    fed_[ports_[0].name] = Tensor::full({}, iteration).realise();
    return call_program(program_, fed_);
  }

  void set_state(size_t k, const Value& value) {
    const Port& port = ports_.at(1 + k);
    if (!value.is_tensor() || value.dtype() != port.dtype)
      throw Error(ErrorKind::DType, "state '" + port.name + "' becomes " + type_text(value) + ", expected " +
                                        to_string(port.dtype));
    fed_[port.name] = value;
  }
  const Value& state(size_t k) const { return fed_.at(ports_.at(1 + k).name); }

private:
  Program::Impl& program_;
  const std::vector<Port>& ports_;
  NamedValues fed_;
};

/// Each with the shape that an iteration would give it. Where none can run, sizes that the body does not
/// declare are 0.
std::vector<Value> stacks_of_nothing(Iterations& body, const std::vector<Port>& ports) {
  NamedValues made;
  try {
    made = body.run(0);
  } catch (const Error&) {
    for (const Port& port : ports)
      if (port.kind != Value::Kind::Tensor || !port.shape) throw;
  }
  std::vector<Value> all;
  for (const Port& port : ports) {
    const auto part = made.find(port.name);
    Shape shape = part == made.end() ? *port.shape : part->second.shape();
    for (Expr& size : shape)
      if (!size.is_const()) size = 0;
    shape.insert(shape.begin(), Expr(0));
    all.emplace_back(Tensor::zeros(shape, part == made.end() ? port.dtype : part->second.dtype()));
  }
  return all;
}

std::vector<Value> run_body(Program::Impl& program, size_t states, const std::vector<Value>& inputs) {
  const std::vector<Port>& outputs = program.model->graph.outputs;
  const size_t stacks = outputs.size() - 1 - states;
  const auto part = [&](const NamedValues& made, size_t stack) -> const Value& {
    return made.at(outputs[1 + states + stack].name);
  };
  const int64_t trips = inputs.at(0).is_none() ? std::numeric_limits<int64_t>::max()
                                               : host_elements(inputs[0].tensor()).at(0).as_int();
  bool goes_on = trips > 0 && (inputs.at(1).is_none() || is_true(inputs[1]));
  std::vector<std::vector<Tensor>> parts(stacks);
  Iterations body(program, inputs);
  for (int64_t k = 0; k < trips && goes_on; ++k) {
    const NamedValues made = body.run(k);
    goes_on = is_true(made.at(outputs[0].name));
    for (size_t i = 0; i < states; ++i) body.set_state(i, made.at(outputs[1 + i].name));
    for (size_t i = 0; i < stacks; ++i) parts[i].push_back(part(made, i).tensor().realise());
  }
  std::vector<Value> results;
  for (size_t i = 0; i < states; ++i) results.push_back(body.state(i));
  if (stacks > 0 && parts[0].empty()) { // what an iteration would make tells the shapes of nothing
    const std::vector<Value> none =
        stacks_of_nothing(body, {outputs.begin() + 1 + static_cast<long>(states), outputs.end()});
    results.insert(results.end(), none.begin(), none.end());
    return results;
  }
  for (size_t i = 0; i < stacks; ++i) results.emplace_back(stacked(outputs[1 + states + i].name, parts[i]));
  return results;
}

} // namespace

std::vector<Value> run_loop(const HostStep& loop, const std::vector<Value>& inputs) {
  try {
    return run_body(*loop.loop_body, static_cast<size_t>(loop.op.integers.at(0)), inputs);
  } catch (const Error& error) {
    throw Error(error.kind(), "Loop (node '" + loop.op.texts.at(0) + "'): " + error.what());
  }
}

} // namespace lathe::onnx
