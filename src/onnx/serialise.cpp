#include "lathe/onnx/serialise.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <climits>

#include "lathe/detail/access.hpp"
#include "lathe_onnx.pb.h"
#include "onnx/write_model.hpp"

namespace lathe::onnx {
namespace {

/// The version of the format that brought what a model of this opset may hold.
int64_t ir_version_for(int opset) {
  return opset >= 23 ? 11 : opset >= 21 ? 10 : opset >= 19 ? 9 : opset >= 15 ? 8 : opset >= 13 ? 7 : 6;
}

} // namespace

std::string serialise(const Model& model) {
  const Model::Impl& impl = *detail::impl(model);
  TensorTable inside(TensorTable::Where::InMessages);
  lathe_onnx::ModelProto proto = write_model(impl, inside);
  int64_t version = ir_version_for(impl.opsets.count("") ? impl.opsets.at("") : 1);
  for (const auto& [key, value] : impl.metadata) {
    int64_t given = 0;
    if (key == "ir_version" &&
        std::from_chars(value.data(), value.data() + value.size(), given).ec == std::errc())
      version = std::max(version, given);
    if (key == "ir_version" || key == "producer") continue;
    auto& entry = *proto.add_metadata_props();
    entry.set_key(key);
    entry.set_value(value);
  }
  proto.set_ir_version(version);
  proto.set_producer_name("lathe");
  if (proto.graph().name().empty()) proto.mutable_graph()->set_name("graph"); // ONNX asks for one
  const size_t bytes = proto.ByteSizeLong();
  if (bytes > INT_MAX)
    throw Error(ErrorKind::File,
                fmt::format("{}: takes {} bytes as a file, expected less than protobuf's limit of 2^31",
                            impl.path, bytes));
  return proto.SerializeAsString();
}

} // namespace lathe::onnx
