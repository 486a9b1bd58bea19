// Borders: a stage whose value is 0 outside a box of its loops, such as a padded copy.
#pragma once
#include <optional>
#include <vector>

#include "ast/ast.hpp"

namespace lathe::search {

/// A canonical elementwise nest, taken apart.
struct Border {
  struct Side {
    const ast::For* loop;
    int64_t begin, end; // of the iterations inside the box
  };
  std::vector<Side> sides; // per loop, outermost first
  const ast::Store* store;
};
/// The box of a nest with constant extents, serial loops and one plain store. Nothing if all iterations are
/// inside the box, or if those inside do not form a box.
std::optional<Border> read_border(const ast::Stmt& nest);

} // namespace lathe::search
