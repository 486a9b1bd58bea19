#include "onnx/registry.hpp"

#include <fmt/format.h>

#include <map>
#include <mutex>

#include "onnx/graph.hpp"
#include "onnx/op_versions.hpp"
#include "onnx/ops/microsoft/tables.hpp"
#include "onnx/ops/tables.hpp"

namespace lathe::onnx {
namespace {

struct Entry {
  std::shared_ptr<const OpImporter> import;
  bool own; // the library's, not a user's
  int most_inputs;
};

/// By domain and name, then by the version that brought it.
struct Registry {
  std::mutex mutex;
  std::map<std::pair<std::string, std::string>, std::map<int, Entry>> ops;

  Registry() {
    for (const OpTable& table :
         {elementwise_ops(), activation_ops(), logical_ops(),      cast_ops(),        reduce_ops(),
          softmax_ops(),     norm_ops(),       linear_ops(),       quantise_ops(),    loss_ops(),
          optimiser_ops(),   gradient_ops(),   conv_ops(),         pool_ops(),        movement_ops(),
          layout_ops(),      gather_ops(),     select_ops(),       detection_ops(),   resize_ops(),
          sample_ops(),      image_ops(),      recurrent_ops(),    signal_ops(),      text_ops(),
          generate_ops(),    sequence_ops(),   control_flow_ops(), transformer_ops(), ml_tree_ops(),
          ml_linear_ops(),   ml_svm_ops(),     ml_feature_ops(),   ml_label_ops(),    ml_map_ops(),
          string_ops()})
      add(table);
    for (const OpTable& table : microsoft_ops()) add(table);
  }

  void add(const OpTable& table) {
    for (const OpRow& row : table)
      ops[{row.domain, row.name}][row.since] = {std::make_shared<OpImporter>(row.import), true,
                                                row.most_inputs};
  }
};

/// Why an op is missing, where more can be said than that.
std::string missing_op(const std::string& domain, const std::string& op) {
  if (domain == "com.microsoft.nchwc")
    return "ONNX Runtime saves such ops at its optimisation level ALL, for the machine it runs on; save the "
           "model at level EXTENDED";
  static const std::map<std::pair<std::string, std::string>, const char*> known = {
      {{"", "ImageDecoder"}, "image files are not decoded"},
  };
  const auto found = known.find({domain, op});
  return found == known.end() ? "there is no such op" : found->second;
}

Registry& registry() {
  static Registry made;
  return made;
}

} // namespace

FoundOp find_op(const std::string& domain, const std::string& op, int opset) {
  const std::string owner = canonical_domain(domain);
  Registry& r = registry();
  std::lock_guard lock(r.mutex);
  auto versions = r.ops.find({owner, op});
  if (versions == r.ops.end()) return {nullptr, 0, missing_op(owner, op)};
  auto next = versions->second.upper_bound(opset);
  if (next == versions->second.begin())
    return {nullptr, 0, fmt::format("expected opset {} or later", next->first)};
  const Entry& found = std::prev(next)->second;
  if (!found.own) return {found.import, kMany, {}};
  const int newest = newest_opset(owner);
  if (opset > newest)
    return {nullptr, 0,
            fmt::format("expected opset {} or earlier: what it means since is not known", newest)};
  const OpVersion* version = owner.empty() ? version_at(op, opset) : nullptr;
  return {found.import, version ? version->most_inputs : found.most_inputs, {}};
}

std::vector<RegisteredOp> registered_ops() {
  Registry& r = registry();
  std::lock_guard lock(r.mutex);
  std::vector<RegisteredOp> ops;
  for (const auto& [key, forms] : r.ops) {
    RegisteredOp op{key.first, key.second, {}};
    const auto versions = key.first.empty() ? versions_of(key.second) : std::span<const OpVersion>();
    for (const OpVersion& version : versions)
      if (version.since >= forms.begin()->first) op.since.push_back(version.since);
    if (versions.empty())
      for (const auto& [since, entry] : forms) op.since.push_back(since);
    ops.push_back(std::move(op));
  }
  return ops;
}

void register_op(const std::string& domain, const std::string& op, int since, OpImporter import) {
  Registry& r = registry();
  std::lock_guard lock(r.mutex);
  r.ops[{canonical_domain(domain), op}][since] = {std::make_shared<OpImporter>(std::move(import)), false,
                                                  kMany};
}

} // namespace lathe::onnx
