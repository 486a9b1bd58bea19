// Arithmetic with sizes, on the host and with symbols: what a model computes from the shapes of its tensors
// becomes known while it is imported. A fold declines (gives nothing) wherever it is not sure; the node is
// then computed like any other.
#include <algorithm>
#include <cmath>

#include "onnx/integers.hpp"
#include "onnx/ops/values.hpp"

namespace lathe::onnx {
namespace {

using Inputs = std::vector<Value>;
using Fold = std::optional<Integers> (*)(const NodeDef&, const Inputs&);

/// Larger tensors are data, not sizes.
constexpr size_t kMostElements = 1024;
/// Results stay far from where 64 bits wrap.
constexpr int64_t kLargest = INT32_MAX;
/// Whole numbers up to this are exact in f32.
constexpr int64_t kLargestSingle = int64_t{1} << 24;

int64_t attribute(const NodeDef& node, std::string_view name, int64_t otherwise) {
  auto found = node.attributes.find(name);
  const auto* value = found == node.attributes.end() ? nullptr : std::get_if<int64_t>(&found->second);
  return value ? *value : otherwise;
}

std::optional<Integers> known(const Value& value) {
  if (!value.is_tensor() || !value.integers() || !is_static(value.shape()) ||
      value.integers()->size() > kMostElements)
    return {};
  return Integers{value.dtype(), static_sizes(value.shape()), *value.integers()};
}

/// As numbers, if it is known and they are.
std::optional<std::vector<int64_t>> known_numbers(const Inputs& inputs, size_t which) {
  if (which >= inputs.size()) return {};
  auto integers = known(inputs[which]);
  if (!integers || !is_static(integers->elements)) return {};
  return static_sizes(integers->elements);
}

Integers vector_of(std::vector<Expr> elements, DType dtype = DType::I64) {
  return {dtype, {static_cast<int64_t>(elements.size())}, std::move(elements)};
}

std::optional<Integers> fold_shape(const NodeDef& node, const Inputs& inputs) {
  const Shape& shape = inputs[0].shape();
  const auto rank = static_cast<int64_t>(shape.size());
  auto bound = [&](std::string_view name, int64_t otherwise) {
    const int64_t axis = attribute(node, name, otherwise);
    return std::clamp<int64_t>(axis < 0 ? axis + rank : axis, 0, rank);
  };
  const int64_t start = bound("start", 0), end = std::max(start, bound("end", rank));
  return vector_of({shape.begin() + start, shape.begin() + end});
}

std::optional<Integers> fold_size(const NodeDef&, const Inputs& inputs) {
  return Integers{DType::I64, {}, {num_elements(inputs[0].shape())}};
}

std::optional<Integers> fold_gather(const NodeDef& node, const Inputs& inputs) {
  const auto data = known(inputs[0]);
  const auto indices = known_numbers(inputs, 1);
  if (!data || !indices || data->shape.size() != 1 || attribute(node, "axis", 0) > 0) return {};
  Integers out{data->dtype, static_sizes(inputs[1].shape()), {}};
  for (int64_t index : *indices) {
    if (index < 0) index += data->shape[0];
    if (index < 0 || index >= data->shape[0]) return {};
    out.elements.push_back(data->elements[static_cast<size_t>(index)]);
  }
  return out;
}

/// Of one axis, with starts, ends, axes and steps as inputs (opset 10) or attributes (before).
std::optional<Integers> fold_slice(const NodeDef& node, const Inputs& inputs) {
  const auto data = known(inputs[0]);
  if (!data || data->shape.size() != 1) return {};
  auto one = [&](size_t input, const char* name, int64_t otherwise) -> std::optional<int64_t> {
    if (auto found = node.attributes.find(name); found != node.attributes.end()) {
      const auto* list = std::get_if<std::vector<int64_t>>(&found->second);
      return list && list->size() == 1 ? std::optional((*list)[0]) : std::nullopt;
    }
    if (input >= inputs.size() || inputs[input].is_none()) return otherwise;
    const auto numbers = known_numbers(inputs, input);
    return numbers && numbers->size() == 1 ? std::optional((*numbers)[0]) : std::nullopt;
  };
  const auto start = one(1, "starts", 0), end = one(2, "ends", 0), step = one(4, "steps", 1);
  if (!start || !end || !step || *step < 1) return {};
  const int64_t size = data->shape[0];
  auto clamped = [&](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + size : at, 0, size); };
  std::vector<Expr> out;
  for (int64_t k = clamped(*start); k < clamped(*end); k += *step)
    out.push_back(data->elements[static_cast<size_t>(k)]);
  return vector_of(std::move(out), data->dtype);
}

std::optional<Integers> fold_concat(const NodeDef& node, const Inputs& inputs) {
  std::vector<Expr> out;
  for (const Value& input : inputs) {
    const auto part = known(input);
    if (!part || part->shape.size() != 1 || attribute(node, "axis", 0) > 0) return {};
    out.insert(out.end(), part->elements.begin(), part->elements.end());
  }
  return vector_of(std::move(out), inputs[0].dtype());
}

/// Between a scalar and a vector of one; Unsqueeze and Squeeze say which way by themselves.
std::optional<Integers> fold_unsqueeze(const NodeDef& node, const Inputs& inputs) {
  auto data = known(inputs[0]);
  const auto axes = known_numbers(inputs, 1);
  auto listed = node.attributes.find("axes");
  const auto* list =
      listed == node.attributes.end() ? nullptr : std::get_if<std::vector<int64_t>>(&listed->second);
  if (!data || !data->shape.empty() || (axes ? axes->size() : list ? list->size() : 0) != 1) return {};
  data->shape = {1};
  return data;
}

std::optional<Integers> fold_squeeze(const NodeDef&, const Inputs& inputs) {
  auto data = known(inputs[0]);
  if (!data || data->shape != std::vector<int64_t>{1}) return {};
  if (inputs.size() > 1 && inputs[1].is_empty()) return {}; // an empty list of axes
  data->shape = {};
  return data;
}

std::optional<Integers> fold_reshape(const NodeDef&, const Inputs& inputs) {
  auto data = known(inputs[0]);
  auto target = known_numbers(inputs, 1);
  if (!data || !target || target->size() > 1) return {};
  const auto count = static_cast<int64_t>(data->elements.size());
  if (target->empty() ? count != 1 : (*target)[0] != -1 && (*target)[0] != count) return {};
  data->shape = target->empty() ? std::vector<int64_t>{} : std::vector{count};
  return data;
}

std::optional<Integers> fold_cast(const NodeDef& node, const Inputs& inputs) {
  auto data = known(inputs[0]);
  const auto to = dtype_of_onnx(static_cast<int>(attribute(node, "to", 0)));
  if (!data || !to) return {};
  if (data->dtype == *to) return data;
  if (!is_static(data->elements)) {
    // A comparison is no size. A size may be compared as a float, where all its values are exact.
    const auto is_exact = [](Expr e) { return e.lo() >= 0 && e.hi() <= kLargestSingle; };
    if (data->dtype == DType::Bool) return {};
    if (*to == DType::F32 && std::all_of(data->elements.begin(), data->elements.end(), is_exact)) {
      data->dtype = *to;
      return data;
    }
  }
  if (*to != DType::I64 && *to != DType::I32) return {};
  data->dtype = *to;
  return data;
}

/// As known(); also a constant in f32 that is a whole number.
std::optional<Integers> known_or_whole(const Value& value) {
  if (auto integers = known(value)) return integers;
  const std::optional<int64_t> number = whole_number(value);
  if (!number) return {};
  return Integers{DType::F32, static_sizes(value.shape()), {Expr(*number)}};
}

/// Of two equal shapes, or with one of them a single element. In f32 as well if `of_floats`: models scale
/// sizes so.
std::optional<Integers> fold_binary(const Inputs& inputs, std::optional<Expr> (*combine)(Expr, Expr),
                                    bool of_floats = true) {
  if (inputs.size() != 2) return {};
  const auto a = known_or_whole(inputs[0]), b = known_or_whole(inputs[1]);
  if (!a || !b || a->dtype != b->dtype) return {};
  if (a->dtype != DType::I64 && a->dtype != DType::I32 && (a->dtype != DType::F32 || !of_floats)) return {};
  const int64_t largest = a->dtype == DType::F32 ? kLargestSingle : kLargest;
  const bool spread_a = a->elements.size() == 1 && a->shape.size() <= b->shape.size();
  const bool spread_b = b->elements.size() == 1 && b->shape.size() <= a->shape.size();
  if (a->shape != b->shape && !spread_a && !spread_b) return {};
  Integers out = spread_b ? *a : *b;
  for (size_t k = 0; k < out.elements.size(); ++k) {
    const Expr x = a->elements[a->elements.size() == 1 ? 0 : k],
               y = b->elements[b->elements.size() == 1 ? 0 : k];
    if (std::max({-x.lo(), x.hi(), -y.lo(), y.hi()}) > largest) return {};
    const std::optional<Expr> value = combine(x, y);
    if (!value || std::max(-value->lo(), value->hi()) > largest) return {};
    out.elements[k] = *value;
  }
  return out;
}

std::optional<Integers> fold_add(const NodeDef&, const Inputs& inputs) {
  return fold_binary(inputs, [](Expr a, Expr b) { return std::optional(a + b); });
}
std::optional<Integers> fold_sub(const NodeDef&, const Inputs& inputs) {
  return fold_binary(inputs, [](Expr a, Expr b) { return std::optional(a - b); });
}
std::optional<Integers> fold_mul(const NodeDef&, const Inputs& inputs) {
  return fold_binary(inputs, [](Expr a, Expr b) { return std::optional(a * b); });
}
std::optional<Integers> fold_div(const NodeDef&, const Inputs& inputs) {
  // Rounds towards zero, which is the floor where nothing is negative.
  return fold_binary(
      inputs,
      [](Expr a, Expr b) -> std::optional<Expr> {
        if (a.lo() < 0 || b.lo() < 1) return {};
        return floordiv(a, b);
      },
      false);
}
std::optional<Integers> fold_min(const NodeDef&, const Inputs& inputs) {
  return fold_binary(inputs, [](Expr a, Expr b) { return std::optional(min(a, b)); });
}
std::optional<Integers> fold_max(const NodeDef&, const Inputs& inputs) {
  return fold_binary(inputs, [](Expr a, Expr b) { return std::optional(max(a, b)); });
}

std::optional<Integers> fold_neg(const NodeDef&, const Inputs& inputs) {
  auto data = known(inputs[0]);
  if (!data || is_unsigned(data->dtype)) return {};
  for (Expr& element : data->elements) {
    if (std::max(-element.lo(), element.hi()) > kLargest) return {};
    element = -element;
  }
  return data;
}

/// Floor, Ceil and Round of whole numbers.
std::optional<Integers> fold_rounding(const NodeDef&, const Inputs& inputs) { return known(inputs[0]); }

std::optional<Integers> fold_compare(const Inputs& inputs, Expr (*compare)(Expr, Expr)) {
  if (inputs.size() != 2) return {};
  const auto a = known_or_whole(inputs[0]), b = known_or_whole(inputs[1]);
  if (!a || !b || a->shape != b->shape || a->dtype != b->dtype) return {};
  Integers out{DType::Bool, a->shape, {}};
  for (size_t k = 0; k < a->elements.size(); ++k)
    out.elements.push_back(compare(a->elements[k], b->elements[k]));
  return out;
}

std::optional<Integers> fold_equal(const NodeDef&, const Inputs& inputs) { return fold_compare(inputs, eq); }
std::optional<Integers> fold_less(const NodeDef&, const Inputs& inputs) { return fold_compare(inputs, lt); }
std::optional<Integers> fold_less_or_equal(const NodeDef&, const Inputs& inputs) {
  return fold_compare(inputs, le);
}
std::optional<Integers> fold_greater(const NodeDef&, const Inputs& inputs) {
  return fold_compare(inputs, [](Expr a, Expr b) { return lt(b, a); });
}
std::optional<Integers> fold_greater_or_equal(const NodeDef&, const Inputs& inputs) {
  return fold_compare(inputs, [](Expr a, Expr b) { return le(b, a); });
}
std::optional<Integers> fold_and(const NodeDef&, const Inputs& inputs) { return fold_compare(inputs, land); }
std::optional<Integers> fold_not(const NodeDef&, const Inputs& inputs) {
  auto data = known(inputs[0]);
  if (!data) return {};
  for (Expr& element : data->elements) {
    switch (element.kind()) {
    case ExprKind::Const: element = Expr(int64_t{element.is_const(0)}); break;
    case ExprKind::Lt: element = le(element.rhs(), element.lhs()); break;
    case ExprKind::Le: element = lt(element.rhs(), element.lhs()); break;
    default: return {};
    }
  }
  return data;
}

std::optional<Integers> fold_where(const NodeDef&, const Inputs& inputs) {
  if (inputs.size() != 3) return {};
  const auto condition = known_numbers(inputs, 0);
  const auto a = known(inputs[1]), b = known(inputs[2]);
  if (!condition || !a || !b || a->dtype != b->dtype || a->shape != b->shape ||
      condition->size() != a->elements.size())
    return {};
  Integers out = *a;
  for (size_t k = 0; k < out.elements.size(); ++k)
    if (!(*condition)[k]) out.elements[k] = b->elements[k];
  return out;
}

std::optional<Integers> fold_reduce_prod(const NodeDef& node, const Inputs& inputs) {
  const auto data = known(inputs[0]);
  if (!data || data->shape.size() != 1 || (inputs.size() > 1 && !inputs[1].is_none())) return {};
  if (attribute(node, "noop_with_empty_axes", 0)) return {};
  Expr product = 1;
  for (Expr element : data->elements) {
    if (element.lo() < 0 || element.hi() > kLargest || product.hi() > kLargest) return {};
    product = product * element;
  }
  Integers out{data->dtype, {}, {product}};
  if (attribute(node, "keepdims", 1)) out.shape = {1};
  return out;
}

/// A vector filled with one size, such as the one that Expand takes.
std::optional<Integers> fold_constant_of_shape(const NodeDef& node, const Inputs& inputs) {
  const auto target = known_numbers(inputs, 0);
  auto found = node.attributes.find("value");
  const auto* fill = found == node.attributes.end() ? nullptr : std::get_if<Value>(&found->second);
  if (!target || target->size() != 1 || !fill || !fill->integers()) return {};
  if ((*target)[0] < 0 || (*target)[0] > static_cast<int64_t>(kMostElements)) return {};
  return vector_of(std::vector<Expr>(static_cast<size_t>((*target)[0]), fill->integers()->at(0)),
                   fill->dtype());
}

const std::map<std::string_view, Fold> kFolds = {
    {"Shape", fold_shape},
    {"Size", fold_size},
    {"Gather", fold_gather},
    {"Slice", fold_slice},
    {"Concat", fold_concat},
    {"Unsqueeze", fold_unsqueeze},
    {"Squeeze", fold_squeeze},
    {"Reshape", fold_reshape},
    {"Cast", fold_cast},
    {"Add", fold_add},
    {"Sub", fold_sub},
    {"Mul", fold_mul},
    {"Div", fold_div},
    {"Neg", fold_neg},
    {"Floor", fold_rounding},
    {"Ceil", fold_rounding},
    {"Round", fold_rounding},
    {"Min", fold_min},
    {"Max", fold_max},
    {"Equal", fold_equal},
    {"Less", fold_less},
    {"LessOrEqual", fold_less_or_equal},
    {"Greater", fold_greater},
    {"GreaterOrEqual", fold_greater_or_equal},
    {"And", fold_and},
    {"Not", fold_not},
    {"Where", fold_where},
    {"ReduceProd", fold_reduce_prod},
    {"ConstantOfShape", fold_constant_of_shape},
};

} // namespace

std::optional<int64_t> whole_number(const Value& value) {
  const bool is_one = value.is_tensor() && value.dtype() == DType::F32 && is_static(value.shape()) &&
                      num_elements(value.shape()).is_const(1) && is_constant(value.tensor());
  if (!is_one) return {};
  const float number = value.tensor().to_vector<float>()[0];
  if (!(std::fabs(number) <= static_cast<float>(kLargestSingle)) || number != std::trunc(number)) return {};
  return static_cast<int64_t>(number);
}

std::optional<Integers> fold_integers(const NodeDef& node, const Inputs& inputs) {
  if (!node.domain.empty() || inputs.empty() || !inputs[0].has_shape()) return {};
  for (const auto& [name, attribute] : node.attributes)
    if (std::holds_alternative<AttributeRef>(attribute)) return {};
  auto fold = kFolds.find(node.op);
  return fold == kFolds.end() ? std::nullopt : fold->second(node, inputs);
}

std::optional<Value> constant_of(const Integers& integers) {
  if (!is_static(integers.elements)) return {};
  const Shape shape(integers.shape.begin(), integers.shape.end());
  if (integers.elements.empty()) return Value(Tensor::zeros(shape, integers.dtype)).with_integers({});
  const auto width = static_cast<size_t>(size_of(integers.dtype));
  std::vector<unsigned char> bytes(integers.elements.size() * width);
  for (size_t k = 0; k < integers.elements.size(); ++k)
    Scalar::of_int(integers.dtype, integers.elements[k].value()).to_memory(bytes.data() + k * width);
  return Value(Tensor::from_memory(bytes.data(), integers.elements.size(), integers.dtype, shape))
      .with_integers(integers.elements);
}

} // namespace lathe::onnx
