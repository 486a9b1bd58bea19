// The way back from graph.hpp to protobuf, for saved programs and model files: what parse.hpp reads as the
// same model.
#pragma once
#include <map>

#include "onnx/graph.hpp"

namespace lathe_onnx {
class ModelProto;
class ValueInfoProto;
} // namespace lathe_onnx

namespace lathe::onnx {

/// Tensors that stand beside the messages, which name them by their positions. Each is there once. A table
/// may leave all of them to the messages.
class TensorTable {
public:
  enum class Where { Beside, InMessages };

  explicit TensorTable(Where where = Where::Beside) : where_(where) {}
  Where where() const { return where_; }
  uint32_t add(const Tensor& tensor);
  std::vector<Tensor> take() { return std::move(tensors_); }

private:
  Where where_;
  std::vector<Tensor> tensors_;
  std::map<const void*, uint32_t> positions_;
};

/// Without metadata. Tensors whose elements the importer may ask for are in the message, others in the table.
lathe_onnx::ModelProto write_model(const Model::Impl& model, TensorTable& tensors);
lathe_onnx::ValueInfoProto write_port(const Port& port);

} // namespace lathe::onnx
