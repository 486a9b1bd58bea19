// Which versions of ONNX's own ops the importers follow. An op of another version means something that nobody
// here has read about: it is refused, never computed by an older rule.
#pragma once
#include <span>
#include <string_view>

namespace lathe::onnx {

/// The newest opset whose changes the importers were held against. tests/conformance/onnx_versions.py
/// compares the table with the history that the Python package onnx knows.
inline constexpr int kNewestOpset = 28;
/// The same of a domain, where "" is ONNX's own.
int newest_opset(std::string_view domain);

inline constexpr int kMany = 1 << 30;

struct OpVersion {
  int since;       // the opset that brought it; it serves until the next one
  int most_inputs; // kMany: any number
};

/// By opset; empty for ops that are not in the table.
std::span<const OpVersion> versions_of(std::string_view op);
/// The version of the op that a model of `opset` means; null for ops that are not in the table.
const OpVersion* version_at(std::string_view op, int opset);

} // namespace lathe::onnx
