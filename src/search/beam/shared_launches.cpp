#include "search/beam/shared_launches.hpp"

#include <algorithm>

#include "search/moves/plan.hpp"

namespace lathe::search {
namespace {

class Launches {
public:
  explicit Launches(const Plan& plan)
      : plan_(plan), stages_(plan.program->stages), owner_(stages_.size()), readers_(stages_.size()) {
    for (const KernelPlanRef& kernel : plan.kernels) {
      for (const int s : kernel->stages) owner_[static_cast<size_t>(s)] = kernel.get();
      for (const int s : kernel->reads) ++readers_[static_cast<size_t>(s)];
    }
  }

  std::vector<Move> to_share() const {
    std::vector<Move> moves;
    for (const KernelPlanRef& kernel : plan_.kernels)
      for (const int read : kernel->reads) {
        const lower::Stage& stage = stages_[static_cast<size_t>(read)];
        if (!stage.is_output && readers_[static_cast<size_t>(read)] == 1 && is_of_one(read, *kernel))
          moves.push_back({MoveKind::FuseAt, {StageHandle(read), Place(), ast::Scope::Packed}});
      }
    return moves;
  }

private:
  bool is_transform(int stage) const { return stages_[static_cast<size_t>(stage)].is_transform; }

  bool is_transformed_in(int stage, const KernelPlan& kernel) const {
    const std::vector<int>& users = stages_[static_cast<size_t>(stage)].users;
    return std::any_of(users.begin(), users.end(), [&](int user) {
      return is_transform(user) && std::binary_search(kernel.stages.begin(), kernel.stages.end(), user);
    });
  }

  bool has_transform(const KernelPlan& kernel) const {
    return std::any_of(kernel.stages.begin(), kernel.stages.end(), [&](int s) { return is_transform(s); });
  }

  /// Whether the kernel computes sums that a transform reads.
  bool has_products(const KernelPlan& kernel) const {
    return std::any_of(kernel.stages.begin(), kernel.stages.end(), [&](int s) {
      const lower::Stage& stage = stages_[static_cast<size_t>(s)];
      return stage.is_reduction && std::any_of(stage.users.begin(), stage.users.end(),
                                               [&](int user) { return is_transform(user); });
    });
  }

  /// Whether the kernel that computes the stage and `reader` belong to the same convolution: data are
  /// transformed for products, products are transformed back, and the result gets its bias.
  bool is_of_one(int read, const KernelPlan& reader) const {
    if (is_transform(read)) return has_products(reader) || !has_transform(reader);
    const KernelPlan& maker = *owner_[static_cast<size_t>(read)];
    const bool of_transforms = has_transform(maker) || std::any_of(maker.reads.begin(), maker.reads.end(),
                                                                   [&](int s) { return is_transform(s); });
    return stages_[static_cast<size_t>(read)].is_reduction && of_transforms &&
           is_transformed_in(read, reader);
  }

  const Plan& plan_;
  const std::vector<lower::Stage>& stages_;
  std::vector<const KernelPlan*> owner_; // by stage: the kernel that computes it; null: inlined
  std::vector<int> readers_;             // by stage: number of kernels that read it
};

} // namespace

Plan with_shared_launches(const Plan& plan, const Target& target) {
  return target.groups ? plan : fuse_where_legal(plan, Launches(plan).to_share(), target);
}

} // namespace lathe::search
