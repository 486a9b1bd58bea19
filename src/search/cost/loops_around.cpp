#include "search/cost/loops_around.hpp"

#include <algorithm>
#include <cmath>

#include "ast/computed_index.hpp"
#include "search/cost/constants.hpp"

namespace lathe::search {
namespace {

bool has_division(Expr e) {
  if (e.is_const() || e.is_var()) return false;
  return e.kind() == ExprKind::FloorDiv || e.kind() == ExprKind::Mod || has_division(e.lhs()) ||
         has_division(e.rhs());
}

} // namespace

double estimate(Expr e) {
  try {
    return static_cast<double>(evaluate(e, [](Expr var) { return var.typical(); }));
  } catch (const std::exception&) {
    return 256; // a division by a size of 0, or an overflow
  }
}

void LoopsAround::find_stores(const ast::Block& block) {
  for (const ast::Stmt& stmt : block) {
    if (const auto* loop = std::get_if<ast::For>(&stmt.node)) {
      open_.push_back(loop->var.id());
      find_stores(loop->body);
      open_.pop_back();
    } else if (const auto* alloc = std::get_if<ast::Alloc>(&stmt.node)) {
      find_stores(alloc->body);
    } else if (const auto* store = std::get_if<ast::Store>(&stmt.node)) {
      changes_[store->buffer->id].push_back(open_);
    }
  }
}

size_t LoopsAround::changed_within(const ast::Buffer& buffer) const {
  const auto it = changes_.find(buffer.id);
  if (it == changes_.end()) return 0;
  size_t most = 0;
  for (const std::vector<int>& loops : it->second) {
    size_t d = 0;
    while (d < std::min(size(), loops.size()) && (*this)[d].loop->var.id() == loops[d]) ++d;
    most = std::max(most, d);
  }
  return most;
}

double LoopsAround::executions() const {
  double n = 1;
  for (size_t d = 0; d < size(); ++d) n *= (*this)[d].extent;
  return n;
}

int LoopsAround::depth_of(Expr var) const {
  for (size_t d = size(); d-- > 0;)
    if ((*this)[d].loop->var == var) return static_cast<int>(d);
  return -1;
}

template <class Where> double LoopsAround::value_where(Expr e, const Where& at) const {
  const auto left = [&] { return value_where(e.lhs(), at); };
  const auto right = [&] { return value_where(e.rhs(), at); };
  switch (e.kind()) {
  case ExprKind::Const: return static_cast<double>(e.value());
  case ExprKind::Var: {
    if (e.id() < 0) return static_cast<double>(e.typical());
    const int d = depth_of(e);
    if (d < 0 || at(d) == At::First) return 0;
    // Of a ragged loop in its last execution.
    const Expr extent = (*this)[static_cast<size_t>(d)].loop->extent;
    const double last = std::max(0.0, value(extent, At::Last) - 1);
    return at(d) == At::Middle ? std::floor(last / 2) : last;
  }
  case ExprKind::Add: return left() + right();
  case ExprKind::Mul: return left() * right();
  case ExprKind::FloorDiv: return std::floor(left() / std::max(1.0, right()));
  case ExprKind::Mod: {
    const double divisor = std::max(1.0, right()), a = left();
    return a - divisor * std::floor(a / divisor);
  }
  case ExprKind::Min: return std::min(left(), right());
  case ExprKind::Max: return std::max(left(), right());
  case ExprKind::Lt: return left() < right();
  case ExprKind::Le: return left() <= right();
  case ExprKind::Eq: return left() == right();
  case ExprKind::And: return left() != 0 && right() != 0;
  }
  return 0;
}

double LoopsAround::value(Expr e, At at) const {
  return value_where(e, [at](int) { return at; });
}

double LoopsAround::average_of_corners(Expr e, uint64_t mask) const {
  constexpr size_t kMost = 4;
  std::vector<int> moving;
  for (size_t d = size(); d-- > 0 && moving.size() < kMost;)
    if (mask >> std::min<size_t>(d, 63) & 1) moving.push_back(static_cast<int>(d));
  double sum = 0;
  const unsigned corners = 1u << moving.size();
  for (unsigned corner = 0; corner < corners; ++corner)
    sum += std::max(0.0, value_where(e, [&](int depth) {
                      const auto at = std::find(moving.begin(), moving.end(), depth);
                      return at != moving.end() && corner >> (at - moving.begin()) & 1 ? At::Last : At::First;
                    }));
  return sum / corners;
}

bool LoopsAround::varies(Expr e) const {
  if (e.is_const()) return false;
  if (e.is_var()) return e.id() >= 0;
  return varies(e.lhs()) || varies(e.rhs());
}

void LoopsAround::add_strides(Expr e, double scale, double* coefficients) const {
  switch (e.kind()) {
  case ExprKind::Const: return;
  case ExprKind::Var:
    if (const int d = depth_of(e); d >= 0) coefficients[d] += scale;
    return;
  case ExprKind::Add:
    add_strides(e.lhs(), scale, coefficients);
    add_strides(e.rhs(), scale, coefficients);
    return;
  case ExprKind::Mul:
    if (!varies(e.lhs())) return add_strides(e.rhs(), scale * value(e.lhs(), At::First), coefficients);
    if (!varies(e.rhs())) return add_strides(e.lhs(), scale * value(e.rhs(), At::First), coefficients);
    add_strides(e.lhs(), scale * std::max(1.0, value(e.rhs(), At::Last)), coefficients);
    add_strides(e.rhs(), scale * std::max(1.0, value(e.lhs(), At::Last)), coefficients);
    return;
  case ExprKind::FloorDiv:
    return add_strides(e.lhs(), scale / std::max(1.0, value(e.rhs(), At::Last)), coefficients);
  default:
    add_strides(e.lhs(), scale, coefficients);
    if (e.kind() != ExprKind::Mod) add_strides(e.rhs(), scale, coefficients);
    return;
  }
}

void LoopsAround::add_cuts(Expr e, double scale) {
  switch (e.kind()) {
  case ExprKind::Add:
    add_cuts(e.lhs(), scale);
    add_cuts(e.rhs(), scale);
    return;
  case ExprKind::Mul:
    if (!varies(e.lhs())) return add_cuts(e.rhs(), scale * value(e.lhs(), At::First));
    if (!varies(e.rhs())) return add_cuts(e.lhs(), scale * value(e.rhs(), At::First));
    return;
  case ExprKind::FloorDiv:
  case ExprKind::Mod: break;
  default: return;
  }
  const double divisor = std::max(1.0, value(e.rhs(), At::First));
  const bool is_regular = !varies(e.rhs()) && !has_division(e.lhs());
  slopes_.assign(size(), 0.0);
  add_strides(e.lhs(), 1, slopes_.data());
  for (size_t d = 0; d < size(); ++d) {
    if (slopes_[d] == 0) continue;
    Cut& cut = cuts_[d];
    const double steps = divisor / std::abs(slopes_[d]);
    cut.is_regular &= is_regular && (cut.steps == 0 || cut.steps == steps);
    cut.steps = steps;
    if (e.kind() == ExprKind::Mod)
      cut.remainder += scale * slopes_[d];
    else
      cut.quotient += scale * slopes_[d] / divisor;
  }
}

void LoopsAround::find_runs(AccessInfo& access) {
  for (size_t d = 0; d < size(); ++d) {
    const Cut& cut = cuts_[d];
    if (cut.steps <= 1 || !cut.is_regular) continue;
    double& stride = features_.strides[access.strides + d];
    const double linear = stride - cut.remainder - cut.quotient;
    const double within = linear + cut.remainder, average = linear + cut.quotient;
    if (cut.steps >= (*this)[d].extent) {
      stride = within;
      continue;
    }
    stride = average;
    features_.runs.push_back({static_cast<int>(d), cut.steps, within, average * cut.steps});
  }
}

uint64_t LoopsAround::dependence(Expr e) const {
  uint64_t loops = 0;
  for (size_t d = 0; d < size(); ++d)
    if (depends_on(e, (*this)[d].loop->var)) loops |= uint64_t{1} << std::min<size_t>(d, 63);
  return loops;
}

size_t LoopsAround::made_at(const ast::Buffer& buffer) const {
  const auto it = made_at_.find(buffer.id);
  return it == made_at_.end() ? 0 : it->second;
}

int LoopsAround::buffer_index(const ast::Buffer* buffer) {
  for (size_t i = 0; i < features_.buffers.size(); ++i)
    if (features_.buffers[i].buffer == buffer) return static_cast<int>(i);
  double elements = 1;
  for (const Expr& e : buffer->shape) elements *= std::max(1.0, value(e, At::First));
  features_.buffers.push_back({buffer, elements, size_of(buffer->dtype)});
  return static_cast<int>(features_.buffers.size()) - 1;
}

double LoopsAround::offset(const ast::Buffer& buffer, const std::vector<Expr>& index) const {
  double sum = 0, row = 1;
  for (size_t d = index.size(); d-- > 0;) {
    sum += row * value(index[d], At::First);
    row *= std::max(1.0, value(buffer.shape[d], At::First));
  }
  return sum;
}

uint64_t LoopsAround::add_access(const ast::Buffer* buffer, const std::vector<Expr>& index, AccessInfo access,
                                 const ast::Value* computed) {
  access.buffer = buffer_index(buffer);
  access.loop = innermost();
  access.offset = offset(*buffer, index);
  access.strides = static_cast<uint32_t>(features_.strides.size());
  features_.strides.resize(features_.strides.size() + stack_.size(), 0.0);
  uint64_t mask = 0;
  double row = 1;
  cuts_.assign(size(), {});
  for (size_t d = index.size(); d-- > 0;) {
    add_strides(index[d], row, features_.strides.data() + access.strides);
    if (has_division(index[d])) add_cuts(index[d], row);
    mask |= dependence(index[d]);
    row *= std::max(1.0, value(buffer->shape[d], At::First));
  }
  for (size_t d = 0; computed && d < stack_.size(); ++d)
    if (const auto step = ast::computed_step(*computed, (*this)[d].loop->var))
      features_.strides[access.strides + d] = static_cast<double>(*step);
  access.runs = static_cast<uint32_t>(features_.runs.size());
  find_runs(access);
  access.end_runs = static_cast<uint32_t>(features_.runs.size());
  features_.accesses.push_back(access);
  return mask;
}

} // namespace lathe::search
