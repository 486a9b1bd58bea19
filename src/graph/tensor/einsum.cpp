// einsum: operands are contracted from left to right, each step one product and one sum.
#include <algorithm>
#include <cctype>
#include <map>

#include "graph/contract.hpp"
#include "graph/long_reduction.hpp"
#include "graph/tensor_impl.hpp"

namespace lathe {
using namespace graph;
namespace {

// A letter; or, for an axis of the ellipsis, kEllipsis + the axis' place counted from the right.
using Label = int;
using Labels = std::vector<Label>;
constexpr Label kEllipsis = 1000;

bool has(const Labels& labels, Label l) { return std::find(labels.begin(), labels.end(), l) != labels.end(); }

struct Term {
  Labels before, after; // letters around the ellipsis
  bool ellipsis = false;
};

Term parse_term(const std::string& equation, std::string_view text) {
  Term term;
  for (size_t i = 0; i < text.size(); ++i) {
    if (std::isalpha(static_cast<unsigned char>(text[i])))
      (term.ellipsis ? term.after : term.before).push_back(text[i]);
    else if (text.substr(i, 3) == "..." && !term.ellipsis)
      term.ellipsis = true, i += 2;
    else
      fail(ErrorKind::Syntax, "einsum: '{}' in \"{}\", expected letters and at most one '...' in a term",
           text[i], equation);
  }
  return term;
}

Labels expand_term(const Term& term, int ellipsis_rank) {
  Labels labels = term.before;
  if (term.ellipsis)
    for (int i = ellipsis_rank; i-- > 0;) labels.push_back(kEllipsis + i);
  labels.insert(labels.end(), term.after.begin(), term.after.end());
  return labels;
}

struct Factor {
  Tensor tensor;
  Labels labels; // distinct
};

// The operand with distinct labels. Axes of a label that stands twice become their diagonal.
Factor diagonal(const std::string& equation, const Tensor& t, const Labels& labels) {
  const std::vector<Expr> strides = row_major_strides(t.shape());
  Labels distinct;
  Shape shape;
  std::vector<Expr> summed;
  for (size_t i = 0; i < labels.size(); ++i) {
    const size_t at =
        static_cast<size_t>(std::find(distinct.begin(), distinct.end(), labels[i]) - distinct.begin());
    if (at == distinct.size()) {
      distinct.push_back(labels[i]);
      shape.push_back(t.shape()[i]);
      summed.push_back(strides[i]);
    } else if (shape[at] != t.shape()[i]) {
      fail(ErrorKind::Shape, "einsum: \"{}\" takes a diagonal of {}, expected equal sizes", equation,
           to_string(t.shape()));
    } else {
      summed[at] = summed[at] + strides[i];
    }
  }
  if (distinct.size() == labels.size()) return {t, distinct};
  return {view_op(t, View(shape, summed, 0, {})), distinct};
}

// The operand with its axes in `order`, size 1 where it lacks a label.
Tensor arrange(const Factor& o, const Labels& order) {
  Axes axes;
  Shape shape;
  for (Label l : order) {
    const auto it = std::find(o.labels.begin(), o.labels.end(), l);
    if (it == o.labels.end()) {
      shape.push_back(1);
    } else {
      axes.push_back(static_cast<int>(it - o.labels.begin()));
      shape.push_back(o.tensor.shape()[axes.back()]);
    }
  }
  return view_op(o.tensor.permute(axes), View::contiguous(shape));
}

std::vector<int> tail(size_t from, size_t to) {
  std::vector<int> axes;
  for (size_t i = from; i < to; ++i) axes.push_back(static_cast<int>(i));
  return axes;
}

Labels joined(Labels a, const Labels& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// Sums over the labels that are not kept.
Factor sum_away(const Factor& o, const Labels& kept) {
  Labels rest;
  std::vector<int> gone;
  for (size_t i = 0; i < o.labels.size(); ++i) {
    if (has(kept, o.labels[i]))
      rest.push_back(o.labels[i]);
    else
      gone.push_back(static_cast<int>(i));
  }
  if (gone.empty()) return o;
  const DType d = o.tensor.dtype();
  const Tensor terms = o.tensor.cast(wide(d));
  const Tensor sum = d == DType::Bool ? reduce_op(Op::Or, terms, gone) : sum_over(terms, gone);
  return {drop_axes(sum.cast(d), gone), rest};
}

Factor multiply(const Factor& a, const Factor& b, const Labels& kept) {
  Labels order, summed;
  for (Label l : joined(a.labels, b.labels))
    if (!has(order, l) && !has(summed, l)) (has(kept, l) ? order : summed).push_back(l);
  const Labels all = joined(order, summed);
  const Tensor x = arrange(a, all), y = arrange(b, all);
  const Shape full = broadcast_shape("einsum", {x.shape(), y.shape()});
  check_shape("einsum", full, promote(x.dtype(), y.dtype()));
  const std::vector<int> axes = tail(order.size(), all.size());
  return {drop_axes(contract(x, y, full, axes), axes), order};
}

struct Equation {
  std::vector<Labels> inputs;
  Labels output;
};

Equation parse_equation(const std::string& equation, const std::vector<Tensor>& operands) {
  std::string text;
  for (char c : equation)
    if (!std::isspace(static_cast<unsigned char>(c))) text += c;
  const size_t arrow = text.find("->");
  const std::string left = text.substr(0, arrow);
  std::vector<Term> terms;
  for (size_t start = 0; start <= left.size();) {
    const size_t comma = std::min(left.find(',', start), left.size());
    terms.push_back(parse_term(equation, std::string_view(left).substr(start, comma - start)));
    start = comma + 1;
  }
  if (terms.size() != operands.size())
    fail(ErrorKind::Value, "einsum: \"{}\" with {} operands, expected {}", equation, operands.size(),
         terms.size());

  int ellipsis_rank = 0;
  std::vector<int> ranks;
  for (size_t i = 0; i < terms.size(); ++i) {
    const int letters = static_cast<int>(terms[i].before.size() + terms[i].after.size()),
              rank = operands[i].rank();
    if (terms[i].ellipsis ? rank < letters : rank != letters)
      fail(ErrorKind::Shape, "einsum: operand {} of \"{}\" has shape {}, expected {}{} axes", i, equation,
           to_string(operands[i].shape()), terms[i].ellipsis ? "at least " : "", letters);
    ranks.push_back(rank - letters);
    if (terms[i].ellipsis) ellipsis_rank = std::max(ellipsis_rank, ranks.back());
  }
  Equation result;
  std::map<Label, int> occurrences;
  for (size_t i = 0; i < terms.size(); ++i) {
    result.inputs.push_back(expand_term(terms[i], ranks[i]));
    for (Label l : result.inputs.back()) ++occurrences[l];
  }
  if (arrow == std::string::npos) {
    for (int i = ellipsis_rank; i-- > 0;) result.output.push_back(kEllipsis + i);
    for (const auto& [label, count] : occurrences)
      if (label < kEllipsis && count == 1) result.output.push_back(label);
    return result;
  }
  result.output = expand_term(parse_term(equation, std::string_view(text).substr(arrow + 2)), ellipsis_rank);
  for (size_t i = 0; i < result.output.size(); ++i) {
    const Label l = result.output[i];
    if (!occurrences.count(l) ||
        has(Labels(result.output.begin(), result.output.begin() + static_cast<long>(i)), l))
      fail(ErrorKind::Value, "einsum: output of \"{}\", expected distinct labels of the operands", equation);
  }
  return result;
}

void check_sizes(const std::string& equation, const Equation& e, const std::vector<Tensor>& operands) {
  std::map<Label, Expr> sizes;
  for (size_t i = 0; i < operands.size(); ++i)
    for (size_t k = 0; k < e.inputs[i].size(); ++k) {
      const Expr size = operands[i].shape()[k];
      const auto [it, fresh] = sizes.emplace(e.inputs[i][k], size);
      if (fresh || it->second == size || size.is_const(1)) continue;
      if (!it->second.is_const(1))
        fail(ErrorKind::Shape, "einsum: \"{}\" has sizes {} and {} for one label, expected equal ones or 1",
             equation, to_string(it->second), to_string(size));
      it->second = size;
    }
}

} // namespace

Tensor einsum(const std::string& equation, const std::vector<Tensor>& operands) {
  if (operands.empty()) fail(ErrorKind::Value, "einsum: no operands, expected at least one");
  const Equation e = parse_equation(equation, operands);
  check_sizes(equation, e, operands);
  std::vector<Factor> parts;
  for (size_t i = 0; i < operands.size(); ++i) parts.push_back(diagonal(equation, operands[i], e.inputs[i]));
  // Labels of one operand alone, which the output lacks, are summed before any product.
  for (size_t i = 0; i < parts.size(); ++i) {
    Labels elsewhere = e.output;
    for (size_t k = 0; k < parts.size(); ++k)
      if (k != i) elsewhere = joined(elsewhere, parts[k].labels);
    parts[i] = sum_away(parts[i], elsewhere);
  }
  Factor result = parts[0];
  for (size_t i = 1; i < parts.size(); ++i) {
    Labels kept = e.output;
    for (size_t k = i + 1; k < parts.size(); ++k) kept = joined(kept, parts[k].labels);
    result = multiply(result, parts[i], kept);
  }
  return arrange(result, e.output);
}

} // namespace lathe
