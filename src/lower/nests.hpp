// The canonical nests of one stage.
#pragma once
#include <functional>

#include "lower/program.hpp"

namespace lathe::lower {

/// What the nests of a stage need to know of the other stages.
class StageContext {
public:
  virtual ~StageContext() = default;
  /// The buffer that holds `node`: an Input's or an earlier stage's. Notes that the stage reads this buffer.
  virtual ast::BufferRef read(const graph::NodeRef& node) = 0;
  /// Whether several places read the node, or it is an output and any place reads it.
  virtual bool is_shared(const graph::Node& node) const = 0;
  virtual Expr make_loop(const std::string& name, Expr extent) = 0;
};

/// Whether the node never has a stage. These are inputs and views, and nodes that cost less to compute at
/// each use than to load: constants, Iota, and integer comparisons (CmpLt) of these.
bool is_propagated(const graph::Node& node);
/// The node whose buffer a Gather may index flat: the source itself, or the node that the source is a plain
/// reshape of. Null if the elements don't lie in row-major order in any buffer.
graph::NodeRef flat_source(const graph::NodeRef& source);
/// Fills in nests, is_reduction and is_scatter of a stage whose id, node and buffer are set.
void build_nests(Stage& stage, StageContext& context);

} // namespace lathe::lower
