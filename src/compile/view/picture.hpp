// What the pictures show, as data: text and page are made of the same.
#pragma once
#include <string>
#include <vector>

#include "compile/explain/duration.hpp"
#include "compile/view/reader.hpp"

namespace lathe::view {

/// A node of the program's graph as it was compiled.
struct PictureNode {
  std::string op, type, attr, origin; // origin: what the user calls the value, or the one that it is part of
  std::vector<int> sources;           // nodes, each of a smaller number
  int kernel = -1;                    // that computes it; -1: an input, a constant, or not known
  bool is_stage = false, is_output = false;
};
/// A program without kernels' records is one whose compilation was cut off: no node has a kernel.
struct GraphPicture {
  std::vector<PictureNode> nodes;
};
GraphPicture graph_picture(const Compilation& of);

/// One step from graph to graph: a rule's application, or the end of a pass.
struct RewriteStep {
  std::string name;
  int before = -1, after = -1;         // positions in RewritePicture::nodes; -1: a pass
  std::vector<int> added{}, removed{}; // of the live nodes
  std::vector<std::pair<int, std::vector<int>>>
      rewired{}; // nodes that read others now, with all that they read
};
struct RewritePicture {
  std::vector<PictureNode> nodes; // all that are live after any step, as they are at first
  std::vector<int> live;          // at first
  std::vector<RewriteStep> steps;
};
/// Rules are applied to the graph one after the other. A pass then ends with the graph that was recorded.
RewritePicture rewrite_picture(const Compilation& of);

using pipeline::duration;

/// Of the kernel's launches; 0 if it never ran.
double median_seconds(const Compilation& of, size_t kernel);
/// Why the kernels are as they are, with the times of the runs recorded. No kernels if the trace does not
/// say.
Explanation explanation(const Compilation& of);
std::string bytes_text(double bytes);
/// The state's own moves, joined.
std::string moves_text(const std::vector<std::string>& moves);
/// Why a state went no further: rejected when measured, by the search's own words, or by rank.
std::string fate(const Compilation& of, const StateRecord& state);
/// The states measured so far that are better than all before, in order.
std::vector<int64_t> improvements(const Compilation& of);

} // namespace lathe::view
