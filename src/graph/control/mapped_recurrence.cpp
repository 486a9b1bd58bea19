// A recurrence along an axis is one recurrence, of the states of all elements. Where each element says by
// itself which steps run, the steps run that any element needs, and the others keep their states.
#include "graph/control/mapping.hpp"
#include "graph/tensor_impl.hpp"

namespace lathe::graph {
namespace {

/// [steps, size, ...] of [size, steps, ...], and back.
NodeRef exchanged(const NodeRef& rows) { return node_of(wrap(rows).transpose(0, 1)); }

class Mapper {
public:
  Mapper(const Recurrence& given, const std::vector<Mapped>& sources, Expr size)
      : given_(given), body_(*given.body), sources_(sources), size_(size) {
    for (const Mapped& source : sources) has_axis_.push_back(source.has_axis);
  }

  MappedRecurrence run() {
    // A state has the axis, too, if a step makes it from what has it.
    while (!trace_body()) {
    }
    MappedRecurrence mapped{close(traced())};
    mapped.added = mapped.recurrence.body->states - body_.states; // the state of whether any element goes on
    for (size_t k = 0; k < body_.given_state(0); ++k) mapped.has_axis.push_back(made_[k].has_axis);
    mapped.has_axis.insert(mapped.has_axis.end(), has_axis_.begin(),
                           has_axis_.begin() + static_cast<long>(body_.states));
    return mapped;
  }

private:
  bool is_row(size_t k) const { return k >= body_.states && k < body_.states + body_.scanned; }
  /// Whether elements differ in the steps that run.
  bool differs() const { return body_.when && has_axis_[*body_.when]; }

  /// Traces the body. Returns whether what is known of the states was right.
  bool trace_body() {
    if (differs()) std::fill_n(has_axis_.begin(), body_.states, true);
    Mapping inside(size_);
    parameters_.clear();
    for (size_t k = 0; k < body_.parameters.size(); ++k) {
      const NodeRef& parameter = body_.parameters[k];
      if (k >= body_.states + body_.scanned) {
        inside.set(parameter, sources_[k]);
        continue;
      }
      Shape shape = parameter->shape;
      if (has_axis_[k]) shape.insert(shape.begin(), size_);
      parameters_.push_back(placeholder(parameter->dtype, shape));
      inside.set(parameter, {parameters_.back(), has_axis_[k]});
    }
    made_ = inside.of(body_.results);
    bool is_known = true;
    for (size_t k = 0; k < body_.states; ++k) {
      is_known = is_known && has_axis_[k] >= made_[k].has_axis;
      has_axis_[k] = has_axis_[k] || made_[k].has_axis;
    }
    return is_known;
  }

  TracedScan traced() {
    const Mapping mapping(size_);
    TracedScan traced;
    traced.steps = given_.steps;
    traced.parameters = parameters_;
    traced.when = body_.when;
    traced.backward.assign(body_.backward.begin(), body_.backward.end() - static_cast<long>(body_.states));
    for (size_t k = 0; k < body_.states; ++k)
      traced.states.push_back(has_axis_[k] ? mapping.along(sources_[k]) : sources_[k].node);
    for (size_t k = body_.states; k < body_.states + body_.scanned; ++k)
      traced.scanned.push_back(has_axis_[k] ? exchanged(sources_[k].node) : sources_[k].node);
    for (size_t k = 0; k < body_.given_state(0); ++k) {
      const bool has_axis = body_.is_state(k) ? has_axis_[k] : differs() || made_[k].has_axis;
      traced.results.push_back(has_axis ? mapping.along(made_[k]) : made_[k].node);
      made_[k].has_axis = has_axis;
    }
    if (differs()) let_any_decide(traced);
    return traced;
  }

  void let_any_decide(TracedScan& traced) const {
    const size_t when = *body_.when;
    traced.results = results_where(parameters_[when], body_, traced.results, parameters_);
    const auto insert_at = [](auto& all, size_t position, const auto& value) {
      all.insert(all.begin() + static_cast<long>(position), value);
    };
    const auto any_along = [](const NodeRef& flags, int axis) { return node_of(wrap(flags).any(axis)); };
    const NodeRef any = placeholder(DType::Bool, {});
    if (is_row(when)) {
      traced.when = body_.states + body_.scanned;
      traced.scanned.push_back(any_along(traced.scanned[when - body_.states], 1));
      traced.parameters.push_back(any);
      insert_at(traced.backward, body_.scanned, traced.backward[when - body_.states]);
    } else {
      traced.when = body_.states;
      traced.states.push_back(any_along(traced.states[when], 0));
      insert_at(traced.parameters, body_.states, any);
      insert_at(traced.results, body_.states, any_along(traced.results[when], 0));
    }
  }

  const Recurrence& given_;
  const ScanBody& body_;
  const std::vector<Mapped>& sources_;
  const Expr size_;
  std::vector<bool> has_axis_;      // by source
  std::vector<NodeRef> parameters_; // states and rows of the new body
  std::vector<Mapped> made_;        // by result
};

} // namespace

Mapped MappedRecurrence::result(size_t position) const {
  const bool is_state = position < recurrence.body->states - added;
  const NodeRef node = recurrence.result(is_state ? position : position + added);
  return {has_axis[position] && !is_state ? exchanged(node) : node, has_axis[position]};
}

MappedRecurrence mapped_recurrence(const Recurrence& given, const std::vector<Mapped>& sources, Expr size) {
  return Mapper(given, sources, size).run();
}

} // namespace lathe::graph
