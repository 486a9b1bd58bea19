#include "conformance/onnx_case.hpp"

#include <fmt/format.h>
#include <fnmatch.h>

#include <cmath>

#include "conformance/onnx_exceptions.hpp"
#include "lathe/onnx.hpp"
#include "onnx/graph.hpp"

namespace lathe::conformance {
namespace {

namespace fs = std::filesystem;

std::vector<Scalar> elements(const Tensor& tensor) {
  const auto width = static_cast<size_t>(size_of(tensor.dtype()));
  std::vector<unsigned char> bytes(static_cast<size_t>(tensor.element_count()) * width);
  tensor.read(bytes.data(), tensor.dtype());
  std::vector<Scalar> out;
  for (size_t at = 0; at < bytes.size(); at += width)
    out.push_back(Scalar::from_memory(tensor.dtype(), bytes.data() + at));
  return out;
}

bool close(const Scalar& got, const Scalar& expected) {
  if (!is_float(expected.dtype())) return got == expected;
  const double g = got.as_float(), e = expected.as_float();
  if (std::isnan(e) || std::isinf(e)) return std::isnan(e) ? std::isnan(g) : g == e;
  return std::abs(g - e) <= 1e-7 + 1e-3 * std::abs(e);
}

/// Why two values differ; "" if they don't.
std::string difference(const onnx::Value& got, const onnx::Value& expected, bool shapes_only) {
  if (got.kind() != expected.kind()) return "is of another kind";
  if (expected.is_none()) return "";
  if (expected.is_sequence()) {
    if (got.elements().size() != expected.elements().size())
      return fmt::format("has {} elements, expected {}", got.elements().size(), expected.elements().size());
    for (size_t k = 0; k < got.elements().size(); ++k)
      if (auto d = difference(got.elements()[k], expected.elements()[k], shapes_only); !d.empty())
        return fmt::format("element {} {}", k, d);
    return "";
  }
  const auto text = [](const onnx::Value& v) { return to_string(v.dtype()) + to_string(v.shape()); };
  if (text(got) != text(expected)) return fmt::format("is {}, expected {}", text(got), text(expected));
  if (got.is_empty() || shapes_only) return "";
  const std::vector<Scalar> g = elements(got.tensor()), e = elements(expected.tensor());
  for (size_t k = 0; k < g.size(); ++k)
    if (!close(g[k], e[k]))
      return fmt::format("element {} is {}, expected {}", k, to_string(g[k]), to_string(e[k]));
  return "";
}

onnx::Value read_value(const fs::path& file, const onnx::Port& port) {
  const onnx::Value value = onnx::load_value(file.string(), port);
  const bool stored_as_bits = port.dtype == DType::BF16 && value.is_tensor() && value.dtype() == DType::U16;
  return stored_as_bits ? onnx::Value(value.tensor().bitcast(DType::BF16)) : value;
}

std::string run_data_set(const onnx::Model& model, const onnx::Program& program, const fs::path& folder,
                         bool shapes_only) {
  onnx::NamedValues inputs;
  for (size_t k = 0; k < model.inputs().size(); ++k) {
    const fs::path file = folder / fmt::format("input_{}.pb", k);
    if (fs::exists(file)) inputs[model.inputs()[k].name] = read_value(file, model.inputs()[k]);
  }
  const onnx::NamedValues outputs = program(inputs);
  for (size_t k = 0; k < model.outputs().size(); ++k) {
    const fs::path file = folder / fmt::format("output_{}.pb", k);
    if (!fs::exists(file)) continue;
    const onnx::Port& port = model.outputs()[k];
    if (auto d = difference(outputs.at(port.name), read_value(file, port), shapes_only); !d.empty())
      return fmt::format("{}: output '{}' {}", folder.filename().string(), port.name, d);
  }
  return "";
}

void add_ops(const onnx::GraphDef& graph, std::set<OpName>& ops) {
  for (const onnx::NodeDef& node : graph.nodes) {
    ops.insert({node.domain, node.op});
    onnx::for_each_body(node, [&](const onnx::GraphDef& body) { add_ops(body, ops); });
  }
}

} // namespace

const Exception* exception_for(const std::string& test) {
  for (const Exception& exception : kExceptions)
    if (fnmatch(exception.pattern, test.c_str(), 0) == 0) return &exception;
  return nullptr;
}

std::set<OpName> ops_of(const fs::path& test) {
  std::set<OpName> ops;
  try {
    const onnx::Model model = onnx::load((test / "model.onnx").string());
    add_ops(model.impl()->graph, ops);
    for (const auto& [name, function] : model.impl()->functions) add_ops(function.body, ops);
    for (const auto& [name, function] : model.impl()->functions) ops.erase(name);
  } catch (const Error&) {
    return {};
  }
  return ops;
}

std::string run_test(const fs::path& test, const std::string& device) {
  try {
    const Exception* exception = exception_for(test.filename().string());
    const bool shapes_only = exception && exception->treatment == Treatment::Shapes;
    const onnx::Model model = onnx::load((test / "model.onnx").string());
    const onnx::Program program = model.compile({.compile = {.device = device, .threads = 1}});
    int sets = 0;
    for (const auto& entry : fs::directory_iterator(test)) {
      if (!entry.is_directory()) continue;
      ++sets;
      if (auto why = run_data_set(model, program, entry.path(), shapes_only); !why.empty()) return why;
    }
    return sets ? "" : "no data sets";
  } catch (const std::exception& error) {
    return error.what();
  }
}

} // namespace lathe::conformance
