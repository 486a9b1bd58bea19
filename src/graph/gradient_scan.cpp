#include "graph/gradient_scan.hpp"

#include <algorithm>

#include "graph/tensor_impl.hpp"
#include "lathe/gradient.hpp"

namespace lathe::graph {
namespace {

/// Builds the recurrence that goes back through another one.
class Backward {
public:
  Backward(const Recurrence& forward, const std::vector<Part>& cotangents, const std::vector<bool>& leads)
      : forward_(forward), body_(*forward.body), cotangents_(cotangents), leads_(leads) {
    traced_.steps = forward.steps;
  }

  /// By source of the forward recurrence.
  std::vector<Part> parts() {
    stand_in_for_parameters();
    const std::vector<Tensor> derivatives = of_one_step();
    std::vector<NodeRef> next, rows;
    for (size_t k = 0; k < wanted_.size(); ++k) {
      const size_t source = wanted_[k];
      if (is_row(source)) {
        rows.push_back(node_of(derivatives[k]));
        row_flags_.push_back(!body_.backward[source - body_.states]);
      } else if (source < body_.states) {
        next.push_back(node_of(derivatives[k]));
      } else {
        next.push_back(node_of(wrap(traced_.parameters[next.size()]) + derivatives[k]));
      }
    }
    const size_t states = next.size();
    traced_.results = std::move(next);
    traced_.results.insert(traced_.results.end(), rows.begin(), rows.end());
    traced_.parameters.insert(traced_.parameters.end(), row_parameters_.begin(), row_parameters_.end());
    traced_.backward.insert(traced_.backward.end(), row_flags_.begin(), row_flags_.end());
    if (body_.when) traced_.when = states + *body_.when; // stand-ins of states and rows are the first rows
    Recurrence back = close(traced_);
    for (NodeRef& source : back.sources)
      for (size_t k = body_.states + body_.scanned; k < stand_ins_.size(); ++k)
        if (source == stand_ins_[k]) source = forward_.sources[k];

    std::vector<Part> parts(forward_.sources.size());
    size_t state = 0, row = states;
    for (const size_t source : wanted_) {
      const Tensor part = wrap(back.result(is_row(source) ? row++ : state++));
      if (leads_[source]) parts[source] = part;
    }
    return parts;
  }

private:
  bool is_row(size_t source) const { return source >= body_.states && source < body_.states + body_.scanned; }

  NodeRef add_row(NodeRef scanned, const NodeRef& like, bool backward) {
    traced_.scanned.push_back(std::move(scanned));
    traced_.backward.push_back(backward);
    row_parameters_.push_back(placeholder(like->dtype, like->shape));
    return row_parameters_.back();
  }

  /// The state of each step: as large as the most steps that the user has allowed.
  NodeRef given_states(size_t state) const {
    Shape shape = body_.parameters[state]->shape;
    shape.insert(shape.begin(), forward_.steps);
    check_shape("gradients", shape, body_.parameters[state]->dtype);
    return forward_.result(body_.given_state(state));
  }

  /// What stands for the body's parameters: rows of the states that each step was given, rows of the scanned
  /// sources, and the values.
  void stand_in_for_parameters() {
    for (size_t k = 0; k < body_.parameters.size(); ++k) {
      const NodeRef& parameter = body_.parameters[k];
      if (k < body_.states)
        stand_ins_.push_back(add_row(given_states(k), parameter, true));
      else if (is_row(k))
        stand_ins_.push_back(add_row(forward_.sources[k], parameter, !body_.backward[k - body_.states]));
      else
        stand_ins_.push_back(placeholder(parameter->dtype, parameter->shape));
    }
  }

  /// Adds a state of the backward recurrence that begins with the cotangent, or with zeros.
  Tensor add_state(const NodeRef& like, const Part& first) {
    traced_.states.push_back(node_of(first ? *first : Tensor::zeros(like->shape, like->dtype)));
    traced_.parameters.push_back(placeholder(like->dtype, like->shape));
    return wrap(traced_.parameters.back());
  }

  /// The derivatives of a step's results, times their cotangents, by the stand-ins of wanted_.
  std::vector<Tensor> of_one_step() {
    const std::vector<NodeRef> results = results_at(body_, stand_ins_);
    Tensor sum = number(0, DType::F64);
    const auto add = [&](const NodeRef& result, const Tensor& cotangent) {
      sum = sum + (wrap(result) * cotangent).sum().cast(DType::F64);
    };
    for (size_t k = 0; k < body_.states; ++k) {
      if (!is_float(results[k]->dtype)) continue;
      wanted_.push_back(k);
      add(results[k], add_state(results[k], cotangents_[k]));
    }
    for (size_t k = body_.states; k < stand_ins_.size(); ++k) {
      if (!leads_[k] || !is_float(stand_ins_[k]->dtype)) continue;
      wanted_.push_back(k);
      if (!is_row(k)) (void)add_state(stand_ins_[k], {});
    }
    for (size_t k = body_.states; k < results.size(); ++k)
      if (cotangents_[k])
        add(results[k], wrap(add_row(node_of(*cotangents_[k]), results[k],
                                     !body_.backward[body_.scanned + k - body_.states])));
    std::vector<Tensor> xs;
    for (const size_t source : wanted_) xs.push_back(wrap(stand_ins_[source]));
    return gradients(sum, xs);
  }

  const Recurrence& forward_;
  const ScanBody& body_;
  const std::vector<Part>& cotangents_;
  const std::vector<bool>& leads_;
  TracedScan traced_;
  std::vector<NodeRef> stand_ins_;      // by parameter of the body
  std::vector<NodeRef> row_parameters_; // of the backward body
  std::vector<bool> row_flags_;         // of its stacked results
  std::vector<size_t> wanted_;          // sources whose derivatives a step makes: all states, and what leads
};

} // namespace

ScanCotangents::ScanCotangents(const std::vector<NodeRef>& order) {
  for (size_t i = 0; i < order.size(); ++i) {
    if (order[i]->op != Op::Scan) continue;
    NodeRef key = recurrence_of(order[i]).result(0);
    recurrences_.try_emplace(key.get(), Of{key, i});
  }
}

std::vector<Part> ScanCotangents::take(size_t position, const NodeRef& node, Part cotangent,
                                       const std::vector<bool>& leads) {
  const Recurrence recurrence = recurrence_of(node);
  Of& of = recurrences_.at(recurrence.result(0).get());
  of.cotangents.resize(recurrence.body->results.size());
  of.cotangents[static_cast<size_t>(std::get<ScanAttr>(node->attr).result)] = std::move(cotangent);
  const auto has_value = [](const Part& part) { return part.has_value(); };
  if (position != of.first || std::none_of(of.cotangents.begin(), of.cotangents.end(), has_value)) return {};
  return Backward(recurrence, of.cotangents, leads).parts();
}

} // namespace lathe::graph
