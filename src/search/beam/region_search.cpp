#include "search/beam/region_search.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <unordered_map>

#include "graph/widened.hpp"
#include "search/beam/joint_search.hpp"
#include "search/beam/pieces.hpp"
#include "search/beam/search.hpp"
#include "search/beam/unused_name.hpp"
#include "search/beam/whole_functions.hpp"
#include "search/cost/cost.hpp"
#include "search/cost/features.hpp"
#include "search/moves/draft.hpp"
#include "search/store/database.hpp"
#include "view/expr_scope.hpp"

namespace lathe::search {
namespace {

using graph::NodeRef;

constexpr size_t kLargeProgram = 256;     // stages; a larger program is searched by regions
constexpr size_t kLongProgram = 128;      // stages; in a larger program, fusion is decided quickly
constexpr size_t kLeast = 24, kMost = 64; // stages of a region

/// What the stage reads; last, and so next to it in the order, those that read inputs alone, such as weights
/// in a wider dtype.
std::vector<int> sources_in_order(const lower::Program& program, int stage) {
  std::vector<int> sources = program.stages[static_cast<size_t>(stage)].reads;
  std::stable_partition(sources.begin(), sources.end(),
                        [&](int s) { return !program.stages[static_cast<size_t>(s)].reads.empty(); });
  return sources;
}

/// The stages in an order with sources before users, and each source as near to its first user as possible.
std::vector<int> depth_first_order(const lower::Program& program) {
  std::vector<int> order;
  std::vector<bool> entered(program.stages.size());
  struct Visit {
    int stage;
    std::vector<int> sources;
    size_t next = 0;
  };
  for (const lower::Stage& root : program.stages) {
    if (!root.users.empty() || entered[static_cast<size_t>(root.id)]) continue;
    entered[static_cast<size_t>(root.id)] = true;
    std::vector<Visit> path{{root.id, sources_in_order(program, root.id)}};
    while (!path.empty()) {
      Visit& top = path.back();
      if (top.next == top.sources.size()) {
        // A recurrence's result is an input of the regions that read it: no move changes it.
        if (program.stages[static_cast<size_t>(top.stage)].recurrence < 0) order.push_back(top.stage);
        path.pop_back();
        continue;
      }
      const int source = top.sources[top.next++];
      if (entered[static_cast<size_t>(source)]) continue;
      entered[static_cast<size_t>(source)] = true;
      path.push_back({source, sources_in_order(program, source)});
    }
  }
  return order;
}

/// The cost of a cut before each position of the order: the bytes that flow over it. A cut between a sum and
/// its epilogue, or a cheap value and its only user, costs more: it forbids a fusion that nearly always pays.
/// A cut through a function (whole_functions.hpp) would cost digits. A cut behind a wider form would store
/// it.
std::vector<double> cut_costs(const lower::Program& program, const std::vector<int>& order) {
  constexpr double kSplitsEpilogue = 3, kSplitsInline = 1, kSplitsFunction = 1000, kSplitsWidened = 30;
  std::vector<size_t> position(program.stages.size(), order.size()); // of a recurrence's results: the end
  for (size_t p = 0; p < order.size(); ++p) position[static_cast<size_t>(order[p])] = p;
  std::vector<double> steps(order.size() + 2);
  const auto add = [&](size_t first, size_t last,
                       double bytes) { // to the cuts before positions first to last
    steps[first] += bytes;
    steps[last + 1] -= bytes;
  };
  for (size_t p = 0; p < order.size(); ++p) {
    const lower::Stage& stage = program.stages[static_cast<size_t>(order[p])];
    if (stage.users.empty()) continue;
    size_t first_use = order.size(), last_use = 0;
    bool has_epilogue = false, in_function = false;
    for (const int user : stage.users) {
      const lower::Stage& reader = program.stages[static_cast<size_t>(user)];
      has_epilogue |= !reader.is_reduction && !reader.is_transform;
      in_function |= is_piece_of_function(*stage.node, *reader.node);
      first_use = std::min(first_use, position[static_cast<size_t>(user)]);
      last_use = std::max(last_use, position[static_cast<size_t>(user)]);
    }
    double bytes = size_of(stage.buffer->dtype);
    for (const Expr size : stage.buffer->shape) bytes *= estimate(size);
    add(p + 1, last_use, bytes);
    const bool sums = stage.is_reduction || stage.is_transform;
    if (sums && has_epilogue) add(p + 1, first_use, kSplitsEpilogue * bytes);
    if (!sums && stage.users.size() == 1) add(p + 1, first_use, kSplitsInline * bytes);
    if (in_function) add(p + 1, last_use, kSplitsFunction * bytes);
    if (graph::is_widened(stage.node)) add(p + 1, last_use, kSplitsWidened * bytes);
  }
  std::vector<double> costs(order.size() + 1);
  double sum = 0;
  for (size_t p = 0; p < costs.size(); ++p) costs[p] = sum += steps[p];
  return costs;
}

/// A region as a program of its own, with the names of its buffers in the whole program.
struct Extracted {
  std::shared_ptr<const lower::Program> program;
  std::vector<std::pair<BufferHandle, BufferHandle>>
      names; // of a stage or an input: in the region, in the whole
  BufferHandle in_whole(BufferHandle part) const {
    for (const auto& [here, there] : names)
      if (here == part) return there;
    return part;
  }
};

class Extractor {
public:
  explicit Extractor(const lower::Program& whole) : whole_(whole) {
    for (const lower::Stage& stage : whole.stages) {
      stage_of_[stage.node.get()] = stage.id;
      if (NodeRef read = as_read(stage.node)) {
        stage_of_[read.get()] = stage.id;
        as_read_.push_back(std::move(read));
      }
    }
    std::vector<NodeRef> inputs;
    for (const lower::InputBuffer& input : whole.inputs) {
      input_of_[input.node.get()] = BufferHandle::of_input(input.buffer->name);
      inputs.push_back(input.node);
    }
    prefix_ = unused_prefix("flow", inputs);
  }

  std::optional<Extracted> extract(const std::vector<int>& region) {
    made_.clear();
    std::unordered_map<const graph::Node*, BufferHandle> fed; // inputs that stand for stages of other regions
    std::vector<bool> inside(whole_.stages.size());
    for (const int s : region) inside[static_cast<size_t>(s)] = true;
    std::vector<lower::NamedOutput> outputs;
    for (const int s : region) {
      const lower::Stage& stage = whole_.stages[static_cast<size_t>(s)];
      rebuild(stage.node, inside, fed);
      const bool leaves =
          stage.is_output || std::any_of(stage.users.begin(), stage.users.end(),
                                         [&](int user) { return !inside[static_cast<size_t>(user)]; });
      if (leaves) outputs.push_back({fmt::format("y{}", outputs.size()), made_.at(stage.node.get())});
    }
    Extracted out{std::make_shared<const lower::Program>(lower::lower(outputs, whole_.evaluate)), {}};
    std::unordered_map<const graph::Node*, int> made_as;
    for (const lower::Stage& stage : out.program->stages) made_as[stage.node.get()] = stage.id;
    if (made_as.size() != region.size()) return {};
    for (const int s : region) {
      const lower::Stage& stage = whole_.stages[static_cast<size_t>(s)];
      const auto found = made_as.find(made_.at(stage.node.get()).get());
      if (found == made_as.end()) return {};
      out.names.emplace_back(BufferHandle::of_stage(found->second), BufferHandle::of_stage(stage.id));
    }
    for (const lower::InputBuffer& input : out.program->inputs) {
      const auto stage = fed.find(input.node.get());
      const auto same = input_of_.find(input.node.get());
      if (stage == fed.end() && same == input_of_.end()) return {};
      out.names.emplace_back(BufferHandle::of_input(input.buffer->name),
                             stage != fed.end() ? stage->second : same->second);
    }
    return out;
  }

private:
  /// The Gather that others read where lowering has made this one, of a copy of its source. Null for other
  /// nodes.
  static NodeRef as_read(const NodeRef& made) {
    if (made->op != Op::Gather || made->sources[0]->op != Op::Contiguous) return {};
    return graph::with_sources(made, {made->sources[0]->sources[0], made->sources[1]});
  }

  /// Copies the node and its sources, with named inputs in place of stages of other regions.
  void rebuild(const NodeRef& root, const std::vector<bool>& inside,
               std::unordered_map<const graph::Node*, BufferHandle>& fed) {
    std::vector<std::pair<NodeRef, bool>> stack{{root, false}};
    while (!stack.empty()) {
      const auto [node, sources_made] = stack.back();
      stack.pop_back();
      if (made_.count(node.get())) continue;
      const auto stage = stage_of_.find(node.get());
      if (stage != stage_of_.end() && !inside[static_cast<size_t>(stage->second)]) {
        const NodeRef input =
            graph::input(fmt::format("{}{}", prefix_, fed.size()), node->dtype, node->shape);
        fed[input.get()] = BufferHandle::of_stage(stage->second);
        made_[node.get()] = input;
        continue;
      }
      if (stage != stage_of_.end())
        if (const NodeRef& computed = whole_.stages[static_cast<size_t>(stage->second)].node;
            computed != node) {
          if (const auto made = made_.find(computed.get()); made != made_.end()) {
            made_[node.get()] = made->second;
          } else {
            stack.emplace_back(node, false);
            stack.emplace_back(computed, false);
          }
          continue;
        }
      if (!sources_made) {
        stack.emplace_back(node, true);
        for (const NodeRef& source : node->sources) stack.emplace_back(source, false);
        continue;
      }
      std::vector<NodeRef> sources;
      for (const NodeRef& source : node->sources) sources.push_back(made_.at(source.get()));
      made_[node.get()] = sources.empty() ? node : graph::with_sources(node, std::move(sources));
    }
  }

  const lower::Program& whole_;
  std::string prefix_; // of the names of inputs that stand for stages
  std::unordered_map<const graph::Node*, int> stage_of_;
  std::vector<NodeRef> as_read_; // keeps those in `stage_of_`
  std::unordered_map<const graph::Node*, BufferHandle> input_of_;
  std::unordered_map<const graph::Node*, NodeRef> made_;
};

} // namespace

bool has_regions(const lower::Program& program) { return program.stages.size() > kLargeProgram; }
bool is_long(const lower::Program& program) { return program.stages.size() > kLongProgram; }

std::vector<std::vector<int>> regions_of(const lower::Program& program) {
  const std::vector<int> order = depth_first_order(program);
  const std::vector<double> costs = cut_costs(program, order);
  std::vector<std::vector<int>> regions;
  size_t start = 0;
  while (start < order.size()) {
    size_t end = order.size();
    if (end - start > kMost) {
      end = start + kLeast;
      for (size_t p = end; p <= start + kMost; ++p)
        if (costs[p] <= costs[end]) end = p;
    }
    regions.emplace_back(order.begin() + static_cast<long>(start), order.begin() + static_cast<long>(end));
    std::sort(regions.back().begin(), regions.back().end());
    start = end;
  }
  return regions;
}

namespace {

/// A region's search, which other regions of its structure share.
struct RegionSearch {
  std::shared_ptr<const lower::Program> program;
  std::vector<Move> moves;
  int64_t proposed = 0, rejected = 0;
  Rejections rejections;
  std::shared_ptr<const std::vector<TriedFusion>> fusions{};
};

/// Searches each in a scope of its own, of which the moves are free.
void run(std::vector<RegionSearch>& searches, const Plan& start, CostModel& model,
         const SearchOptions& options) {
  SearchOptions alone = options;
  alone.log.clear();
  alone.progress = nullptr;
  alone.keep_outputs = true;
  if (alone.whole_seconds == 0) alone.whole_seconds = least_seconds(start, model);
  search_pieces(searches.size(), options, [&](size_t k, SearchTrace* trace) {
    const InExprScope own(new_expr_scope());
    RegionSearch& region = searches[k];
    SearchOptions how = alone;
    how.trace = trace;
    SearchResult found = search(initial_plan(region.program), model, how);
    region.moves = found.plan.moves();
    region.proposed = found.proposed;
    region.rejected = found.rejected;
    region.rejections = std::move(found.rejections);
    region.fusions = std::move(found.fusions);
  });
}

} // namespace

std::optional<SearchResult> search_regions(const Plan& start, CostModel& model,
                                           const SearchOptions& options) {
  const lower::Program& whole = *start.program;
  Extractor extractor(whole);
  std::vector<Extracted> regions;
  std::vector<size_t> search_of; // by region: its place in `searches`
  std::vector<RegionSearch> searches;
  std::map<uint64_t, size_t> known; // by the region's structure: its place in `searches`
  for (const std::vector<int>& region : regions_of(whole)) {
    std::optional<Extracted> extracted = extractor.extract(region);
    if (!extracted) return {};
    const auto [at, is_new] = known.emplace(program_hash(*extracted->program), searches.size());
    if (is_new) searches.push_back({extracted->program, {}, 0, 0, {}, {}});
    search_of.push_back(at->second);
    regions.push_back(std::move(*extracted));
  }
  run(searches, start, model, options);
  SearchResult result;
  for (RegionSearch& region : searches) {
    result.proposed += region.proposed;
    result.rejected += region.rejected;
    for (const auto& [why, count] : region.rejections) result.rejections[why] += count;
  }
  std::vector<Move> moves; // of all regions
  auto fusions = std::make_shared<std::vector<TriedFusion>>();
  for (size_t r = 0; r < regions.size(); ++r) {
    const auto in_whole = [&](BufferHandle part) { return regions[r].in_whole(part); };
    const RegionSearch& search = searches[search_of[r]];
    for (const Move& move : search.moves) moves.push_back(in_terms_of(move, in_whole));
    if (search.fusions)
      for (const TriedFusion& tried : *search.fusions) fusions->push_back(in_terms_of(tried, in_whole));
  }
  result.fusions = std::move(fusions);
  Applied applied = apply(start, moves, model.target());
  if (!applied.plan) return {};
  result.plan = std::move(*applied.plan);
  return result;
}

} // namespace lathe::search
