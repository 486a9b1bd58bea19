// What a Call handle points to.
#pragma once
#include "onnx/tracer.hpp"

namespace lathe::onnx {

struct Call::Impl {
  Tracer& tracer;
  Frame& frame;
  const NodeDef& node;
  int opset;
  bool strings_as_ids = false; // for importers that only move elements
  mutable std::set<std::string, std::less<>> asked{};

  /// The attribute with references to the function's own resolved; null if it is not given.
  const Attribute* attribute(std::string_view name) const;
  static Impl& of(const Call& call) { return call.impl_; }
  /// Error unless every attribute of the node was asked for.
  void check_all_asked(const Call& call) const;
};

/// What a Loop node makes whose body is a program of its own: its last states, then its stacked outputs.
/// Nothing if it is to be unrolled. `is_counted`: whether the number of iterations is known.
std::optional<std::vector<Value>> run_loop_body(Call& call, const std::vector<Value>& states,
                                                bool is_counted);

} // namespace lathe::onnx
