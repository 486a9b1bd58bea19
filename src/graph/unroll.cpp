#include "graph/unroll.hpp"

#include <map>

#include "graph/scan.hpp"
#include "graph/tensor_impl.hpp"
#include "lathe/functions.hpp"

namespace lathe::graph {
namespace {

constexpr int64_t kMostUnrolledSteps = 4096;

/// All results of the recurrence.
std::vector<NodeRef> written_out(const Recurrence& recurrence, std::string_view what) {
  const ScanBody& body = *recurrence.body;
  const Expr count = recurrence.steps;
  if (!count.is_const() || count.value() > kMostUnrolledSteps)
    fail(ErrorKind::Limit, "{}: a recurrence of {} steps, expected a fixed number, at most {}", what,
         to_string(count), kMostUnrolledSteps);
  std::vector<NodeRef> values = recurrence.sources;
  std::vector<std::vector<Tensor>> rows(body.stacked(), std::vector<Tensor>(count.value()));
  for (int64_t step = 0; step < count.value(); ++step) {
    const auto position = [&](size_t flag) { return body.backward[flag] ? count.value() - 1 - step : step; };
    for (size_t j = 0; j < body.scanned; ++j)
      values[body.states + j] =
          node_of(wrap(recurrence.sources[body.states + j]).index({IndexItem(position(j)), Ellipsis{}}));
    std::vector<NodeRef> made = results_at(body, values);
    if (body.when) made = results_where(values[*body.when], body, made, values);
    // Read by every later step: without a place of its own it would be computed anew by each reader.
    for (size_t i = 0; i < body.states; ++i) values[i] = contiguous(made[i]);
    for (size_t j = 0; j < rows.size(); ++j)
      rows[j][position(body.scanned + j)] = wrap(made[body.states + j]);
  }
  std::vector<NodeRef> results(values.begin(), values.begin() + static_cast<long>(body.states));
  for (size_t j = 0; j < rows.size(); ++j)
    results.push_back(rows[j].empty() ? recurrence.result(body.states + j) : node_of(stack(rows[j], 0)));
  return results;
}

} // namespace

std::vector<NodeRef> unrolled(const std::vector<NodeRef>& outputs, std::string_view what) {
  std::map<const Node*, std::vector<NodeRef>> known; // results by the node of result 0
  std::vector<NodeRef> held;                         // whose addresses are keys
  return rebuild(outputs, [&](const NodeRef&, NodeRef rebuilt) {
    if (rebuilt->op != Op::Scan) return rebuilt;
    const Recurrence recurrence = recurrence_of(rebuilt);
    const NodeRef key = recurrence.result(0);
    auto found = known.find(key.get());
    if (found == known.end()) {
      held.push_back(key);
      found = known.emplace(key.get(), unrolled(written_out(recurrence, what), what)).first;
    }
    return found->second[static_cast<size_t>(std::get<ScanAttr>(rebuilt->attr).result)];
  });
}

} // namespace lathe::graph
