// The canonical nests of one stage.
#pragma once
#include <functional>

#include "lower/program.hpp"

namespace lathe::lower {

/// What the nests of a stage need to know of the others.
class StageContext {
public:
  virtual ~StageContext() = default;
  /// The buffer that holds `node`: an Input's or an earlier stage's. Reading it is noted.
  virtual ast::BufferRef read(const graph::NodeRef& node) = 0;
  /// Whether it is read in several places, or is an output and read.
  virtual bool is_shared(const graph::Node& node) const = 0;
  virtual Expr make_loop(const std::string& name, Expr extent) = 0;
};

/// True of what never has a stage: inputs, views, and what costs less to compute wherever it is read than to
/// load: constants, Iota, and comparisons of them by order.
bool is_propagated(const graph::Node& node);
/// The node whose buffer a Gather may index flat: the source itself or what a plain reshape of it stands on;
/// null if the elements don't lie in row-major order in any buffer.
graph::NodeRef flat_source(const graph::NodeRef& source);
/// Fills in nests, is_reduction and is_scatter of a stage whose id, node and buffer are set.
void build_nests(Stage& stage, StageContext& context);

} // namespace lathe::lower
