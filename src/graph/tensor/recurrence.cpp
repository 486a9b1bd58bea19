#include "lathe/scan.hpp"

#include "graph/scan.hpp"
#include "graph/tensor_impl.hpp"

namespace lathe {
using namespace graph;
namespace {

Expr steps_of(const std::vector<Tensor>& scanned, const ScanOptions& options) {
  std::optional<Expr> steps = options.steps;
  if (!steps && scanned.empty())
    fail(ErrorKind::Value, "scan: nothing is scanned, expected the number of steps");
  for (const Tensor& t : scanned) {
    if (t.rank() == 0) fail(ErrorKind::Shape, "scan: scans {}, expected an axis of rows", text(t));
    if (!steps) steps = t.shape()[0];
    if (t.shape()[0] != *steps)
      fail(ErrorKind::Shape, "scan: scans {}, expected {} rows", text(t), to_string(*steps));
  }
  if (steps->lo() < 0) fail(ErrorKind::Value, "scan: {} steps, expected 0 or more", to_string(*steps));
  return *steps;
}

/// Error(DType) for narrow dtypes, whose elements have no places of their own.
void check_wide(const std::vector<Tensor>& tensors, std::string_view what) {
  for (const Tensor& t : tensors)
    if (is_narrow(t.dtype())) fail(ErrorKind::DType, "scan: {} is {}, expected a wider dtype", what, text(t));
}

void check_step(const std::vector<Tensor>& state, const ScanStep& made) {
  if (made.state.size() != state.size())
    fail(ErrorKind::Value, "scan: a step makes {} states of {}, expected as many", made.state.size(),
         state.size());
  for (size_t k = 0; k < state.size(); ++k) {
    const auto expected = [&](ErrorKind kind) {
      fail(kind, "scan: state {} of {} becomes {}, expected the same", k, text(state[k]),
           text(made.state[k]));
    };
    if (made.state[k].dtype() != state[k].dtype()) expected(ErrorKind::DType);
    if (made.state[k].shape() != state[k].shape()) expected(ErrorKind::Shape);
  }
}

/// One step, as a part of the program.
Scanned once(const ScanFunction& step, const std::vector<Tensor>& state, const std::vector<Tensor>& scanned) {
  std::vector<Tensor> rows;
  for (const Tensor& t : scanned) rows.push_back(t.index({IndexItem(0), Ellipsis{}}));
  const ScanStep made = step(state, rows);
  check_step(state, made);
  Scanned out{made.state, {}};
  for (const Tensor& row : made.rows) out.stacked.push_back(row.unsqueeze(0));
  return out;
}

} // namespace

Scanned scan(const ScanFunction& step, const std::vector<Tensor>& state, const std::vector<Tensor>& scanned,
             const ScanOptions& options) {
  check_wide(state, "a state");
  check_wide(scanned, "what is scanned");
  TracedScan traced;
  traced.steps = steps_of(scanned, options);
  if (traced.steps.is_const(1)) return once(step, state, scanned);
  std::vector<Tensor> states, rows;
  const auto add = [&](std::vector<Tensor>& to, const Tensor& like, Shape shape) {
    traced.parameters.push_back(placeholder(like.dtype(), shape));
    to.push_back(wrap(traced.parameters.back()));
  };
  for (const Tensor& t : state) {
    traced.states.push_back(node_of(t));
    add(states, t, t.shape());
  }
  for (const Tensor& t : scanned) {
    traced.scanned.push_back(node_of(t));
    add(rows, t, {t.shape().begin() + 1, t.shape().end()});
  }
  const ScanStep made = step(states, rows);
  check_step(state, made);
  check_wide(made.rows, "a row");
  Scanned out{state, {}};
  std::vector<size_t> change; // states that some step changes; the others are values that all steps read
  for (size_t k = state.size(); k-- > 0;) {
    if (node_of(made.state[k]) == traced.parameters[k]) {
      traced.parameters.erase(traced.parameters.begin() + static_cast<long>(k));
      traced.states.erase(traced.states.begin() + static_cast<long>(k));
    } else {
      change.insert(change.begin(), k);
    }
  }
  for (const size_t k : change) traced.results.push_back(node_of(made.state[k]));
  for (const Tensor& t : made.rows) traced.results.push_back(node_of(t));
  traced.backward.assign(scanned.size() + made.rows.size(), options.backward);

  Recurrence recurrence = close(traced);
  for (NodeRef& source : recurrence.sources)
    for (size_t k = 0; k < state.size(); ++k)
      if (source == node_of(states[k])) source = node_of(state[k]);
  if (!traced.steps.is_const(0))
    for (size_t k = 0; k < change.size(); ++k) out.state[change[k]] = wrap(recurrence.result(k));
  for (size_t k = 0; k < made.rows.size(); ++k)
    out.stacked.push_back(wrap(recurrence.result(change.size() + k)));
  return out;
}

} // namespace lathe
