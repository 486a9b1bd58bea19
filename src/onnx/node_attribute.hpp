// Attributes of a node, by type.
#pragma once
#include <optional>
#include <string_view>

#include "onnx/graph.hpp"

namespace lathe::onnx {

/// Nothing if the node has no such attribute, or one of another type.
template <class T> std::optional<T> attribute(const NodeDef& node, std::string_view name) {
  auto found = node.attributes.find(name);
  const T* value = found == node.attributes.end() ? nullptr : std::get_if<T>(&found->second);
  return value ? std::optional(*value) : std::nullopt;
}

} // namespace lathe::onnx
