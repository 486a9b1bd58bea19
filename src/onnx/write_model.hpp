// The way back from graph.hpp to protobuf, for saved programs: what parse.hpp reads as the same model.
#pragma once
#include <map>

#include "onnx/graph.hpp"

namespace lathe_onnx {
class ModelProto;
class ValueInfoProto;
} // namespace lathe_onnx

namespace lathe::onnx {

/// Tensors that stand beside the messages, which name them by their positions. Each is there once.
class TensorTable {
public:
  uint32_t add(const Tensor& tensor);
  std::vector<Tensor> take() { return std::move(tensors_); }

private:
  std::vector<Tensor> tensors_;
  std::map<const void*, uint32_t> positions_;
};

/// Without metadata. Tensors whose elements the importer may ask for are in the message, others in the table.
lathe_onnx::ModelProto write_model(const Model::Impl& model, TensorTable& tensors);
lathe_onnx::ValueInfoProto write_port(const Port& port);

} // namespace lathe::onnx
