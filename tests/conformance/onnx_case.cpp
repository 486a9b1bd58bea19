#include "conformance/onnx_case.hpp"

#include <fmt/format.h>
#include <fnmatch.h>

#include "conformance/onnx_exceptions.hpp"
#include "lathe/detail/access.hpp"
#include "lathe/onnx.hpp"
#include "onnx/graph.hpp"

namespace lathe::conformance {
namespace {

namespace fs = std::filesystem;

onnx::Value read_value(const fs::path& file, const onnx::Port& port) {
  const onnx::Value value = onnx::load_value(file.string(), port);
  const bool stored_as_bits = port.dtype == DType::BF16 && value.is_tensor() && value.dtype() == DType::U16;
  return stored_as_bits ? onnx::Value(value.tensor().bitcast(DType::BF16)) : value;
}

std::string run_data_set(const onnx::Program& program, const fs::path& folder,
                         std::optional<double> tolerance) {
  onnx::NamedValues inputs;
  for (size_t k = 0; k < program.inputs().size(); ++k) {
    const fs::path file = folder / fmt::format("input_{}.pb", k);
    if (fs::exists(file)) inputs[program.inputs()[k].name] = read_value(file, program.inputs()[k]);
  }
  const onnx::NamedValues outputs = program(inputs);
  for (size_t k = 0; k < program.outputs().size(); ++k) {
    const fs::path file = folder / fmt::format("output_{}.pb", k);
    if (!fs::exists(file)) continue;
    const onnx::Port& port = program.outputs()[k];
    const std::string why = onnx::compare(outputs.at(port.name), read_value(file, port), tolerance).why;
    if (!why.empty()) return fmt::format("{}: output '{}' {}", folder.filename().string(), port.name, why);
  }
  return "";
}

std::string run_data_sets(const onnx::Program& program, const fs::path& test,
                          std::optional<double> tolerance) {
  int sets = 0;
  for (const auto& entry : fs::directory_iterator(test)) {
    if (!entry.is_directory()) continue;
    ++sets;
    if (auto why = run_data_set(program, entry.path(), tolerance); !why.empty()) return why;
  }
  return sets ? "" : "no data sets";
}

void add_ops(const onnx::GraphDef& graph, std::set<OpName>& ops) {
  for (const onnx::NodeDef& node : graph.nodes) {
    ops.insert({node.domain, node.op});
    onnx::for_each_body(node, [&](const onnx::GraphDef& body) { add_ops(body, ops); });
  }
}

} // namespace

const Exception* exception_for(const std::string& set, const std::string& test) {
  for (const Exception& exception : kExceptions)
    if ((!*exception.set || exception.set == set) && fnmatch(exception.pattern, test.c_str(), 0) == 0)
      return &exception;
  return nullptr;
}

std::set<OpName> ops_of(const fs::path& test) {
  std::set<OpName> ops;
  try {
    const onnx::Model model = onnx::load((test / "model.onnx").string());
    add_ops(detail::impl(model)->graph, ops);
    for (const auto& [name, function] : detail::impl(model)->functions) add_ops(function.body, ops);
    for (const auto& [name, function] : detail::impl(model)->functions) ops.erase(name);
  } catch (const Error&) {
    return {};
  }
  return ops;
}

std::string run_test(const fs::path& test, const std::string& device, bool shapes_only,
                     const SavedPrograms& saved) {
  try {
    const std::string name = test.filename().string();
    std::optional<double> tolerance = 1e-3;
    if (shapes_only) tolerance.reset();
    const auto file = [&](const fs::path& folder, const char* when) {
      return (folder / fmt::format("{}.{}.lathe", name, when)).string();
    };
    if (!saved.load.empty()) {
      for (const char* when : {"before", "after"})
        if (auto why = run_data_sets(onnx::load_program(file(saved.load, when)), test, tolerance);
            !why.empty())
          return why;
      return "";
    }
    const onnx::Model model = onnx::load((test / "model.onnx").string());
    const onnx::Program program = model.compile({.compile = {.device = device, .threads = 1}});
    if (!saved.save.empty()) onnx::save(program, file(saved.save, "before"));
    const std::string why = run_data_sets(program, test, tolerance);
    if (!saved.save.empty()) onnx::save(program, file(saved.save, "after"));
    return why;
  } catch (const std::exception& error) {
    return error.what();
  }
}

} // namespace lathe::conformance
