#include "lathe/scan.hpp"

#include "graph/scan.hpp"
#include "graph/tensor_impl.hpp"

namespace lathe {
using namespace graph;
namespace {

/// What scan() and while_loop() say of their loops.
struct Loop {
  std::string_view op; // begins the errors
  Expr steps;
  bool backward = false;
  LoopCondition condition{}; // null: all steps run
};

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
  return *steps;
}

/// Error(DType) for narrow dtypes, whose elements have no places of their own.
void check_wide(const Loop& loop, const std::vector<Tensor>& tensors, std::string_view what) {
  for (const Tensor& t : tensors)
    if (is_narrow(t.dtype()))
      fail(ErrorKind::DType, "{}: {} is {}, expected a wider dtype", loop.op, what, text(t));
}

void check_step(const Loop& loop, const std::vector<Tensor>& state, const ScanStep& made) {
  if (made.state.size() != state.size())
    fail(ErrorKind::Value, "{}: a step makes {} states of {}, expected as many", loop.op, made.state.size(),
         state.size());
  for (size_t k = 0; k < state.size(); ++k) {
    const auto expected = [&](ErrorKind kind) {
      fail(kind, "{}: state {} of {} becomes {}, expected the same", loop.op, k, text(state[k]),
           text(made.state[k]));
    };
    if (made.state[k].dtype() != state[k].dtype()) expected(ErrorKind::DType);
    if (made.state[k].shape() != state[k].shape()) expected(ErrorKind::Shape);
  }
}

/// The condition of a state, without axes.
NodeRef goes_on(const Loop& loop, const std::vector<Tensor>& state) {
  const Tensor condition = loop.condition(state);
  if (condition.dtype() != DType::Bool)
    fail(ErrorKind::DType, "{}: the condition is {}, expected a bool", loop.op, text(condition));
  if (!num_elements(condition.shape()).is_const(1))
    fail(ErrorKind::Shape, "{}: the condition is {}, expected one element", loop.op, text(condition));
  return node_of(condition.reshape({}));
}

/// One step, as a part of the program.
Scanned once(const Loop& loop, const ScanFunction& step, const std::vector<Tensor>& state,
             const std::vector<Tensor>& scanned) {
  std::vector<Tensor> rows;
  for (const Tensor& t : scanned) rows.push_back(t.index({IndexItem(0), Ellipsis{}}));
  const ScanStep made = step(state, rows);
  check_step(loop, state, made);
  Scanned out{made.state, {}};
  for (const Tensor& row : made.rows) out.stacked.push_back(row.unsqueeze(0));
  return out;
}

/// Takes the states that no step changes out of the recurrence; steps read them as values. Returns the
/// others.
std::vector<size_t> take_out_unchanged(TracedScan& traced, const ScanStep& made) {
  std::vector<size_t> change;
  for (size_t k = made.state.size(); k-- > 0;) {
    if (node_of(made.state[k]) == traced.parameters[k]) {
      traced.parameters.erase(traced.parameters.begin() + static_cast<long>(k));
      traced.states.erase(traced.states.begin() + static_cast<long>(k));
    } else {
      change.insert(change.begin(), k);
    }
  }
  return change;
}

/// Adds the state that says whether the next step runs.
void add_condition(TracedScan& traced, const Loop& loop, const std::vector<Tensor>& first,
                   const std::vector<Tensor>& next) {
  const size_t position = traced.states.size();
  traced.when = position;
  traced.states.push_back(goes_on(loop, first));
  traced.parameters.insert(traced.parameters.begin() + static_cast<long>(position),
                           placeholder(DType::Bool, {}));
  traced.results.push_back(goes_on(loop, next));
}

Scanned repeated(const Loop& loop, const ScanFunction& step, const std::vector<Tensor>& state,
                 const std::vector<Tensor>& scanned) {
  check_wide(loop, state, "a state");
  check_wide(loop, scanned, "what is scanned");
  if (loop.steps.lo() < 0)
    fail(ErrorKind::Value, "{}: {} steps, expected 0 or more", loop.op, to_string(loop.steps));
  if (loop.steps.is_const(1) && !loop.condition) return once(loop, step, state, scanned);
  TracedScan traced;
  traced.steps = loop.steps;
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
  check_step(loop, state, made);
  check_wide(loop, made.rows, "a row");
  const std::vector<size_t> change = take_out_unchanged(traced, made);
  for (const size_t k : change) traced.results.push_back(node_of(made.state[k]));
  if (loop.condition) add_condition(traced, loop, state, made.state);
  const size_t made_states = traced.results.size();
  for (const Tensor& t : made.rows) traced.results.push_back(node_of(t));
  traced.backward.assign(scanned.size() + made.rows.size(), loop.backward);

  Recurrence recurrence = close(traced);
  for (NodeRef& source : recurrence.sources)
    for (size_t k = 0; k < state.size(); ++k)
      if (source == node_of(states[k])) source = node_of(state[k]);
  Scanned out{state, {}};
  if (!traced.steps.is_const(0))
    for (size_t k = 0; k < change.size(); ++k) out.state[change[k]] = wrap(recurrence.result(k));
  for (size_t k = 0; k < made.rows.size(); ++k)
    out.stacked.push_back(wrap(recurrence.result(made_states + k)));
  return out;
}

} // namespace

Scanned scan(const ScanFunction& step, const std::vector<Tensor>& state, const std::vector<Tensor>& scanned,
             const ScanOptions& options) {
  if (!step) fail(ErrorKind::Value, "scan: no function, expected one for a step");
  return repeated({"scan", steps_of(scanned, options), options.backward}, step, state, scanned);
}

std::vector<Tensor> while_loop(const LoopCondition& condition, const LoopBody& body,
                               const std::vector<Tensor>& state, Expr most_steps) {
  if (!condition || !body) fail(ErrorKind::Value, "while_loop: no function, expected a condition and a body");
  const auto step = [&](const std::vector<Tensor>& given, const std::vector<Tensor>&) -> ScanStep {
    return {body(given), {}};
  };
  return repeated({"while_loop", most_steps, false, condition}, step, state, {}).state;
}

} // namespace lathe
