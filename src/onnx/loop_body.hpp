// A Loop whose iterations are no recurrence and no known number: its body is a model of its own.
#pragma once
#include "onnx/graph.hpp"

namespace lathe::onnx {

struct Frame;

/// What a Loop node is given. Values are tensors of numbers; the first two may be left out.
struct LoopCall {
  std::string node;
  const GraphDef& body;
  const Frame& surroundings;
  Value trips, condition;
  std::vector<Value> states;
};

/// The body as a model: its inputs are the number of the iteration, the states, and after them `captured`,
/// what it reads of its surroundings.
struct LoopModel {
  std::shared_ptr<const Model::Impl> model;
  std::vector<Value> captured;
};

/// Whether the body reads numbers alone, so that it can be a model.
bool can_be_model(const LoopCall& loop);
/// Of a loop that can be. `model`: which it is part of. What depends on no input becomes an initialiser.
LoopModel model_of_body(const Model::Impl& model, const LoopCall& loop);

} // namespace lathe::onnx
