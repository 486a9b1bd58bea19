// Which fusions a search tried and left: what explain() says of the border between two kernels.
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "search/moves/plan.hpp"

namespace lathe::search {

/// What a search tried to make one kernel of two kernels of the plan that it found.
struct TriedFusion {
  std::vector<int> reader, producer; // the stages that the two kernels compute
  std::vector<Move> moves;           // of the proposal
  bool legal = false;
  std::string reason{}; // if not: why
  double apart = 0,
         together = 0;   // if legal: predicted seconds of the kernels that it changes, before and after
  bool at_least = false; // `together` is what the new kernels need at least; their loops were not searched
  bool earlier = false;  // of two kernels that had somewhat other stages when it was tried
  friend bool operator==(const TriedFusion&, const TriedFusion&) = default;
};

/// A fusion as a line of text, which begins with this word, and back. Error(Syntax).
constexpr std::string_view kFusionLine = "fusion\t";
std::string line_of(const TriedFusion& fusion);
TriedFusion parse_fusion(std::string_view line);

/// The same in the names of another program, which calls the stage or input b `root(b)`.
TriedFusion in_terms_of(const TriedFusion& fusion, const std::function<BufferHandle(BufferHandle)>& root);

/// The fusions that one search tries, as it tries them. They cost a few hundred bytes for each two kernels.
class FusionLog {
public:
  /// A proposal that makes new kernels of those of `from` at `replaced`.
  void made(const Plan& from, const std::vector<size_t>& replaced, const std::vector<Move>& moves,
            double apart, double together, bool at_least);
  /// A proposal for the kernel of `from` at `reader` that is not legal.
  void refused(const Plan& from, size_t reader, const std::vector<Move>& moves, const std::string& reason);

  /// Of each two kernels of the plan found that a fusion was tried of: the best, or why none was legal. In
  /// the order of the readers.
  std::vector<TriedFusion> of(const Plan& found) const;

private:
  struct Try {
    TriedFusion fusion;
    size_t kernels; // that the proposal changes
  };
  static bool is_better(const Try& tried, const Try& known);
  void add(const Plan& from, const std::vector<size_t>& changed, const Try& tried);

  std::unordered_map<int, std::vector<Try>> tried_; // by the stage that one kernel reads of the other
};

} // namespace lathe::search
