#include "onnx/program/versions.hpp"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "lathe/detail/sizes.hpp"
#include "onnx/program/inputs.hpp"

namespace lathe::onnx {
namespace {

/// Calls visit(variable, value) for each size of a fed value that its port names.
template <class Visit>
void for_each_size(const std::vector<Port>& ports, const std::vector<Value>& fed, Visit&& visit) {
  for (size_t k = 0; k < ports.size(); ++k)
    for (size_t axis = 0; ports[k].shape && axis < ports[k].shape->size(); ++axis)
      if (const Expr named = (*ports[k].shape)[axis]; named.is_var() && fed[k].has_shape())
        visit(named, fed[k].shape()[axis].value());
}

/// Whether each size that the model names is one number. A model may give sizes one name that are not always
/// equal, and other runtimes take it.
bool names_hold(const Program::Impl& program, const std::vector<Value>& fed) {
  Sizes sizes;
  bool hold = true;
  for_each_size(program.model->inputs, fed, [&](Expr named, int64_t size) {
    hold &= sizes.emplace(named.name(), size).first->second == size;
  });
  return hold;
}

/// Sizes that are 0, of which the model says that they are more.
Sizes empty_sizes(const Program::Impl& program, const std::vector<Value>& fed) {
  Sizes sizes;
  for_each_size(program.model->inputs, fed, [&](Expr named, int64_t size) {
    if (size == 0 && named.lo() > 0) sizes.emplace(named.name(), 0);
  });
  return sizes;
}

std::set<std::string> names_of(const Sizes& sizes) {
  std::set<std::string> names;
  for (const auto& [name, size] : sizes) names.insert(name);
  return names;
}

/// Tells shapes and kinds of inputs apart.
std::string signature(const Value& value) {
  if (value.is_none()) return "none;";
  if (value.has_shape()) return to_string(value.shape()) + ";";
  if (value.is_map()) return fmt::format("{{{}{}}}", signature(value.keys()), signature(value.values()));
  std::string text = "(";
  for (const Value& element : value.elements()) text += signature(element);
  return text + ")";
}

/// The sizes of this call that versions fix.
Sizes version_sizes_of(const Program::Impl& program, const std::vector<Value>& fed) {
  Sizes sizes;
  for_each_size(program.model->inputs, fed, [&](Expr named, int64_t size) {
    if (program.version_sizes.count(named.name())) sizes.emplace(named.name(), size);
  });
  return sizes;
}

std::string key_of(const Sizes& sizes) {
  std::string key;
  for (const auto& [name, size] : sizes) key += fmt::format("{}{} = {}", key.empty() ? "" : ", ", name, size);
  return key;
}

/// Versions name their sizes; signatures do not.
bool is_version(const std::string& key) { return key.find('=') != std::string::npos; }

} // namespace

std::set<std::string> sizes_of_versions(const Program::Impl& program, const std::vector<Value>& results) {
  std::set<std::string> sizes;
  for_each_named_size(program.model->inputs, [&](Expr size) {
    if (!program.options.sizes.count(size.name())) sizes.insert(size.name());
  });
  std::vector<Tensor> computed;
  for (const Value& result : results)
    map_tensors(result, [&](const Tensor& tensor) {
      computed.push_back(tensor);
      return tensor;
    });
  for (const Expr count : detail::step_counts(computed)) sizes.erase(count.name());
  return sizes;
}

Sizes named_sizes(const Program::Impl& program, const std::vector<Value>& fed) {
  Sizes sizes;
  for_each_size(program.model->inputs, fed,
                [&](Expr named, int64_t size) { sizes.emplace(named.name(), size); });
  for (const auto& [name, step] : program.steps)
    if (const auto size = sizes.find(name); size != sizes.end())
      sizes.emplace(name_of_multiple(name, step), size->second / step);
  return sizes;
}

bool in_bounds(const Program::Impl& program, const std::vector<Value>& fed,
               const std::set<std::string>& fixed) {
  bool within = true;
  for_each_size(program.model->inputs, fed, [&](Expr named, int64_t size) {
    if (fixed.count(named.name())) return;
    const auto raised = program.smallest_sizes.find(named.name());
    const auto step = program.steps.find(named.name()), pinned = program.pinned.find(named.name());
    within &= step == program.steps.end() || size % step->second == 0;
    within &= pinned == program.pinned.end() || size == pinned->second;
    within &=
        size <= program.largest_size && (raised == program.smallest_sizes.end() || size >= raised->second);
  });
  return within;
}

void check_fixed_sizes(const Program::Impl& program, const std::vector<Value>& fed) {
  for (size_t k = 0; k < fed.size(); ++k)
    for_each_size({program.model->inputs[k]}, {fed[k]}, [&](Expr named, int64_t size) {
      const auto fixed = program.options.sizes.find(named.name());
      if (fixed != program.options.sizes.end() && fixed->second != size)
        throw Error(ErrorKind::Shape, fmt::format("input '{}' is {}, expected {} = {}, as the options fix it",
                                                  program.model->inputs[k].name, type_text(fed[k]),
                                                  named.name(), fixed->second));
    });
}

Way way_of_shapes(const std::vector<Value>& fed) {
  std::string key;
  for (const Value& value : fed) key += signature(value);
  return {Way::For::Shapes, key};
}

Way way_of_ranks(const std::vector<Value>& fed) {
  std::string key;
  for (const Value& value : fed) key += fmt::format("{};", value.rank());
  return {Way::For::Shapes, key};
}

std::vector<Scalar> sizes_of(const std::vector<Value>& fed) {
  std::vector<Scalar> sizes;
  for (const Value& value : fed)
    for (const int64_t size : static_sizes(value.shape())) sizes.push_back(Scalar::of_int(DType::I64, size));
  return sizes;
}

Way way_of(Program::Impl& program, const std::vector<Value>& fed) {
  const std::lock_guard lock(program.mutex);
  // A loaded program may come without the model of which another tree could be made.
  const bool can_trace = !program.model->graph.nodes.empty();
  if (can_trace && (!program.symbolic || !names_hold(program, fed))) return way_of_shapes(fed);
  if (const Sizes empty = empty_sizes(program, fed); can_trace && !empty.empty()) {
    Way way{Way::For::EmptySizes, "none of", empty};
    for (const auto& [name, size] : empty) way.key += " " + name;
    const bool has_tree = !program.without_tree.count(way.key) && in_bounds(program, fed, names_of(empty));
    return has_tree ? way : way_of_shapes(fed);
  }
  const Way all_sizes =
      can_trace && !in_bounds(program, fed) ? way_of_shapes(fed) : Way{Way::For::AllSizes, ""};
  if (!can_trace || program.version_sizes.empty()) return all_sizes;
  if (!in_bounds(program, fed, program.version_sizes)) return way_of_shapes(fed);

  Way version{Way::For::Sizes, "", version_sizes_of(program, fed)};
  version.key = key_of(version.sizes);
  const bool again = version.key == program.last_key;
  program.last_key = version.key;
  if (program.roots.count(version.key)) return version;
  const auto versions = std::count_if(program.roots.begin(), program.roots.end(),
                                      [](const auto& root) { return is_version(root.first); });
  const bool is_first = versions == 0 && !program.roots.count("");
  if (!is_first && (!again || versions >= program.options.versions)) return all_sizes;
  program.roots.emplace(version.key, std::make_unique<Segment>()); // so that calls at the same time count it
  return version;
}

} // namespace lathe::onnx
