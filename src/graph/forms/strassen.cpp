#include "graph/forms/strassen.hpp"

#include <algorithm>

#include "graph/forms/strided.hpp"

namespace lathe::graph {
namespace {

/// Axes of the product, outermost first, through which both operands step as if they were one axis.
struct Role {
  std::vector<int> axes;
  int64_t size = 1;
  int innermost() const { return axes.empty() ? -1 : axes.back(); }
};

struct ProductReading {
  Operand left, right; // over [batch, row, term] and [batch, term, column]
  Role batch, row, column, term;
};

std::optional<ProductReading> matrix_reading_as(const NodeRef& sum, const NodeRef& left,
                                                const NodeRef& right) {
  auto a = operand_of(left), b = operand_of(right);
  if (!a || !b) return {};
  ProductReading r{std::move(*a), std::move(*b), {}, {}, {}, {}};
  const std::vector<int>& reduced = std::get<ReduceAttr>(sum->attr).axes;
  for (int k = 0; k < static_cast<int>(left->shape.size()); ++k) {
    const int64_t size = left->shape[static_cast<size_t>(k)].value();
    if (size == 1) continue;
    const bool is_term = std::binary_search(reduced.begin(), reduced.end(), k);
    const bool in_left = r.left.along(k) != 0, in_right = r.right.along(k) != 0;
    if (is_term ? !in_left || !in_right : !in_left && !in_right) return {};
    Role& role = is_term ? r.term : in_left && in_right ? r.batch : in_left ? r.row : r.column;
    for (const Operand* o : {&r.left, &r.right})
      if (!role.axes.empty() && o->along(role.innermost()) != size * o->along(k)) return {};
    role.axes.push_back(k);
    role.size *= size;
  }
  if (r.row.axes.empty() || r.column.axes.empty()) return {};
  return r;
}

std::optional<ProductReading> matrix_reading(const NodeRef& sum) {
  const NodeRef product = summed_floats(sum);
  if (!product) return {};
  auto r = matrix_reading_as(sum, product->sources[0], product->sources[1]);
  // If the columns come first in the result, the operands change roles, so that the rows do.
  return r && r->column.axes[0] < r->row.axes[0]
             ? matrix_reading_as(sum, product->sources[1], product->sources[0])
             : r;
}

constexpr int kProducts = 7, kBlocks = 4; // blocks: 11, 12, 21, 22

const SmallMatrix kLeft{kProducts, kBlocks, {1, 0, 0, 1, 0,  0, 1, 1, 1, 0, 0, 0, 0, 0, 0, 1, //
                                             1, 1, 0, 0, -1, 0, 1, 0, 0, 1, 0, -1}};
const SmallMatrix kRight{kProducts, kBlocks, {1, 0, 0, 1, 1, 0, 0, 0, 0, 1, 0, -1, -1, 0, 1, 0, //
                                              0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 1, 1}};
const SmallMatrix kResult{kBlocks, kProducts, {1, 0, 0, 1, -1, 0, 1, 0, 0,  1, 0, 1, 0, 0, //
                                               0, 1, 0, 1, 0,  0, 0, 1, -1, 1, 0, 0, 1, 0}};

MatrixProduct sizes_of(const ProductReading& r) {
  return {r.batch.size, r.row.size, r.column.size, r.term.size};
}

} // namespace

std::optional<MatrixProduct> read_product(const NodeRef& sum) {
  const auto r = matrix_reading(sum);
  if (!r) return {};
  return sizes_of(*r);
}

bool can_halve(const MatrixProduct& product, int levels) {
  return (product.rows | product.columns | product.terms) % (int64_t{1} << levels) == 0;
}

NodeRef strassen(const NodeRef& sum, int levels) {
  const auto reading = matrix_reading(sum);
  if (!reading || !can_halve(sizes_of(*reading), levels)) return {};
  const auto& [left, right, batch, row, column, term] = *reading;
  const int64_t b = batch.size, m = row.size / 2, n = column.size / 2, k = term.size / 2;

  // Even rows and odd rows are in different blocks. So the four results that the last transform makes of a
  // row are two rows of the result as they lie in memory.
  const int64_t left_row = left.along(row.innermost()), left_term = left.along(term.innermost());
  const NodeRef l = transform(
      view(strided(left.source, {b, 2, 2, m, k},
                   {left.along(batch.innermost()), left_row, k * left_term, 2 * left_row, left_term},
                   left.offset),
           View::contiguous({b, kBlocks, m, k})),
      {{1}, {kLeft}});
  const int64_t right_term = right.along(term.innermost()), right_column = right.along(column.innermost());
  const NodeRef r = transform(view(strided(right.source, {b, 2, 2, k, n},
                                           {right.along(batch.innermost()), k * right_term, n * right_column,
                                            right_term, right_column},
                                           right.offset),
                                   View::contiguous({b, kBlocks, k, n})),
                              {{1}, {kRight}});
  const NodeRef products = binary(Op::Mul, strided(l, {b * kProducts, m, n, k}, {m * k, k, 0, 1}),
                                  strided(r, {b * kProducts, m, n, k}, {k * n, 0, 1, n}));
  NodeRef sums = reduce(Op::Add, products, {3});
  if (levels > 1) sums = strassen(sums, levels - 1);
  const NodeRef y =
      transform(strided(sums, {b, m, kProducts, n}, {kProducts * m * n, n, m * n, 1}), {{2}, {kResult}});

  std::vector<int64_t> shape, strides(sum->shape.size(), 0);
  for (const Expr size : sum->shape) shape.push_back(size.value());
  const auto place = [&](const Role& role, int64_t stride) {
    for (auto axis = role.axes.rbegin(); axis != role.axes.rend(); ++axis) {
      strides[static_cast<size_t>(*axis)] = stride;
      stride *= shape[static_cast<size_t>(*axis)];
    }
  };
  place(column, 1);
  place(row, 2 * n);
  place(batch, 4 * m * n);
  return strided(y, shape, strides);
}

} // namespace lathe::graph
