// Explain: why a program's kernels begin and end where they do, what bounds each, and what would save most time.
//
//   const Executable program = compile({{"y", x.matmul(w).softmax(1)}});
//   for (const Saving& saving : explain(program).savings) std::cout << saving.what << " saves " << saving.seconds << " s\n";
#pragma once
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "lathe/executable.hpp"

namespace lathe {

/// Between a kernel and another whose result it reads: why the two are not one kernel.
struct KernelBorder {
  /// Who tried to fuse the two: the search that found the plan; explain(), if the plan comes from the database, a file or given moves;
  /// or nobody, because no proposal of the search would have fused them.
  enum class Tried { BySearch, Again, Never };

  std::string other;      ///< the kernel that computes what this one reads
  std::string stage;      ///< what it reads
  bool legal = false;     ///< whether the moves are legal; false if nobody tried
  std::string reason{};   ///< if not: why; or why nobody tried, if that is known
  std::string moves{};    ///< what was tried
  double apart = 0, together = 0;  ///< if legal and tried: predicted seconds of the kernels that the moves change, before and after
  Tried tried = Tried::Never;
  bool earlier = false;   ///< tried in an earlier plan, where the two kernels computed somewhat other stages
  bool at_least = false;  ///< `together` is what the new kernels need at least: the search saw that, and left their loops
};

struct KernelExplanation {
  std::string name;
  /// What the kernel computes, by the names of the program: of many stages the last six, and how many others; of a recurrence also how
  /// often it runs its kernels, and which of them takes longest.
  std::string stages;
  double predicted = 0, measured = 0;  ///< seconds; measured is 0 if it was not
  double limit = 0;        ///< seconds that the machine needs at least; 0 if a size is known only at run time
  std::string bound;       ///< of the limit: "compute" or "bandwidth"
  std::vector<std::pair<std::string, double>> terms{};  ///< of the cost model, in seconds
  std::vector<KernelBorder> borders{};
  std::string best_moves{};     ///< one more proposal that the model ranks first, and seconds that it predicts with it; empty: none helps
  double with_best_moves = 0;
  double seconds() const { return measured > 0 ? measured : predicted; }
};

/// Something that would save time.
struct Saving {
  double seconds;
  std::string what;  ///< begins with the kernel's name
};

struct Explanation {
  std::vector<KernelExplanation> kernels{};  ///< in the order of launches
  std::vector<Saving> savings{};             ///< at most five, the largest first
};

/// `measured`: seconds of a run's launches by kernel, summed up; kernels without one go by predictions. Borders say what the search
/// tried. Of a plan that no search of compile() found, fusions are tried here, by the cost model with a narrow search of loops.
Explanation explain(const Executable& program, const std::map<std::string, double>& measured = {});

/// What would save most of these kernels' time, five at most, the largest first.
std::vector<Saving> largest_savings(const std::vector<KernelExplanation>& kernels);

/// A few lines, each with its end: what `lathe explain`, `lathe view` and its page show.
std::string to_string(const KernelExplanation& kernel);
std::string to_string(const std::vector<Saving>& savings);
/// An array of JSON objects, for scripts and traces. Seconds that are not known are null.
std::string to_json(const std::vector<KernelExplanation>& kernels);
std::string to_json(const std::vector<Saving>& savings);

}  // namespace lathe
