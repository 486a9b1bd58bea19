#include "onnx/registry.hpp"

#include <map>
#include <mutex>

#include "onnx/graph.hpp"
#include "onnx/ops/tables.hpp"

namespace lathe::onnx {
namespace {

/// By domain and name, then by the version that brought it.
struct Registry {
  std::mutex mutex;
  std::map<std::pair<std::string, std::string>, std::map<int, std::shared_ptr<const OpImporter>>> ops;

  Registry() {
    for (const OpTable& table :
         {elementwise_ops(), activation_ops(),  logical_ops(), cast_ops(),      reduce_ops(),
          softmax_ops(),     norm_ops(),        linear_ops(),  quantise_ops(),  loss_ops(),
          optimiser_ops(),   gradient_ops(),    conv_ops(),    pool_ops(),      movement_ops(),
          layout_ops(),      gather_ops(),      select_ops(),  detection_ops(), resize_ops(),
          sample_ops(),      recurrent_ops(),   signal_ops(),  text_ops(),      generate_ops(),
          sequence_ops(),    control_flow_ops()})
      for (const OpRow& row : table)
        ops[{row.domain, row.name}][row.since] = std::make_shared<OpImporter>(row.import);
  }
};

Registry& registry() {
  static Registry made;
  return made;
}

} // namespace

std::shared_ptr<const OpImporter> find_op(const std::string& domain, const std::string& op, int opset) {
  Registry& r = registry();
  std::lock_guard lock(r.mutex);
  auto versions = r.ops.find({canonical_domain(domain), op});
  if (versions == r.ops.end()) return nullptr;
  auto next = versions->second.upper_bound(opset);
  return next == versions->second.begin() ? nullptr : std::prev(next)->second;
}

std::vector<RegisteredOp> registered_ops() {
  Registry& r = registry();
  std::lock_guard lock(r.mutex);
  std::vector<RegisteredOp> ops;
  for (const auto& [key, versions] : r.ops) {
    ops.push_back({key.first, key.second, {}});
    for (const auto& [since, import] : versions) ops.back().since.push_back(since);
  }
  return ops;
}

void register_op(const std::string& domain, const std::string& op, int since, OpImporter import) {
  Registry& r = registry();
  std::lock_guard lock(r.mutex);
  r.ops[{canonical_domain(domain), op}][since] = std::make_shared<OpImporter>(std::move(import));
}

} // namespace lathe::onnx
