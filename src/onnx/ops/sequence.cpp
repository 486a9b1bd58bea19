// Sequences and optionals: lists that exist while a model is imported, so that their ops cost nothing when it
// runs.
#include "onnx/graph.hpp"
#include "onnx/ops/attributes.hpp"
#include "onnx/ops/tables.hpp"
#include "onnx/ops/values.hpp"

namespace lathe::onnx {
namespace {

std::vector<Value> construct(Call& call) {
  std::vector<Value> elements;
  for (size_t i = 0; i < call.input_count(); ++i) elements.push_back(call.value(i));
  if (elements.empty()) call.fail(ErrorKind::Value, "no inputs, expected at least one tensor");
  return {Value::sequence(elements[0].dtype(), elements)};
}

std::vector<Value> construct_empty(Call& call) {
  const bool strings = call.has_attribute("dtype") && call.integer("dtype") == kOnnxString;
  return {Value::sequence(strings ? DType::F32 : call.dtype("dtype", DType::F32), {})};
}

/// The position that an input gives, in [0, limit); negative ones count from `limit`.
int64_t position_in(Call& call, size_t input, int64_t limit) {
  const int64_t at = call.integer_at(input);
  if (at < -limit || at >= limit)
    call.fail(ErrorKind::Value,
              "position " + std::to_string(at) + ", expected one of " + std::to_string(limit));
  return at < 0 ? at + limit : at;
}

std::vector<Value> insert(Call& call) {
  const Value sequence = call.value(0), element = call.value(1);
  std::vector<Value> elements = sequence.elements();
  const int64_t count = static_cast<int64_t>(elements.size());
  int64_t at = count;
  if (call.has(2)) {
    at = call.integer_at(2);
    if (at < -count || at > count)
      call.fail(ErrorKind::Value, "position " + std::to_string(at) + " in a sequence of " +
                                      std::to_string(count) + ", expected to be in it or at its end");
    if (at < 0) at += count;
  }
  elements.insert(elements.begin() + at, element);
  return {Value::sequence(count == 0 ? element.dtype() : sequence.dtype(), std::move(elements))};
}

std::vector<Value> erase(Call& call) {
  const Value sequence = call.value(0);
  std::vector<Value> elements = sequence.elements();
  if (elements.empty()) call.fail(ErrorKind::Value, "an empty sequence, expected an element to erase");
  const int64_t count = static_cast<int64_t>(elements.size());
  elements.erase(elements.begin() + (call.has(1) ? position_in(call, 1, count) : count - 1));
  return {Value::sequence(sequence.dtype(), std::move(elements))};
}

std::vector<Value> at(Call& call) {
  const Value sequence = call.value(0);
  const std::vector<Value>& elements = sequence.elements();
  return {elements[position_in(call, 1, static_cast<int64_t>(elements.size()))]};
}

std::vector<Value> length(Call& call) {
  return {known_integer(static_cast<int64_t>(call.value(0).elements().size()))};
}

/// The sizes of the pieces along the axis, which must add up to it unless its size is symbolic.
std::vector<int64_t> piece_sizes(Call& call, const Value& whole, int axis) {
  if (call.has(1) && call.value(1).rank() == 1) {
    const std::vector<int64_t> sizes = call.integers(1);
    int64_t sum = 0;
    for (int64_t size : sizes) {
      if (size < 0)
        call.fail(ErrorKind::Value, "split holds " + std::to_string(size) + ", expected sizes of at least 0");
      if (__builtin_add_overflow(sum, size, &sum))
        call.fail(ErrorKind::Limit, "split adds up to more than 2^63");
    }
    const Expr size = whole.shape()[axis];
    if (size.is_const() && !size.is_const(sum))
      call.fail(ErrorKind::Shape,
                "split adds up to " + std::to_string(sum) + ", expected the axis' size " + to_string(size));
    return sizes;
  }
  const int64_t piece = call.has(1) ? call.integer_at(1) : 1;
  if (piece < 1)
    call.fail(ErrorKind::Value, "split " + std::to_string(piece) + ", expected a size of at least 1");
  std::vector<int64_t> sizes;
  const int64_t size = fixed_size(call, whole, axis);
  if (size / piece > kMaxUnrolled)
    call.fail(ErrorKind::Limit, std::to_string(size) + " in pieces of " + std::to_string(piece) +
                                    ", expected at most " + std::to_string(kMaxUnrolled) + " pieces");
  for (int64_t left = size; left > 0; left -= piece) sizes.push_back(std::min(piece, left));
  return sizes;
}

std::vector<Value> split_to_sequence(Call& call) {
  const Value whole = call.value(0);
  const int axis = normalise_axis(call, call.integer("axis", 0), whole.rank());
  const bool keep_axis = call.integer("keepdims", 1) != 0 || call.has(1);
  std::vector<Value> pieces;
  int64_t begin = 0;
  for (int64_t size : piece_sizes(call, whole, axis)) {
    Value piece = slices(whole, axis, begin, size);
    if (!keep_axis) {
      Shape shape = piece.shape();
      shape.erase(shape.begin() + axis);
      piece = piece.tensor().reshape(shape);
    }
    pieces.push_back(piece);
    begin += size;
  }
  return {Value::sequence(whole.dtype(), std::move(pieces))};
}

std::vector<Value> concat_from_sequence(Call& call) {
  const Value sequence = call.value(0);
  const std::vector<Value>& elements = sequence.elements();
  const int64_t axis = call.integer("axis");
  const bool new_axis = call.integer("new_axis", 0) != 0;
  if (elements.empty()) call.fail(ErrorKind::Value, "an empty sequence, expected at least one tensor");
  const int rank = elements[0].rank();
  return {new_axis ? stack_values(call, elements, normalise_axis(call, axis, rank + 1))
                   : concat_values(call, elements, normalise_axis(call, axis, rank))};
}

/// An optional that holds something is that thing.
std::vector<Value> optional(Call& call) {
  call.ignore("type");
  return {call.has(0) ? call.value(0) : Value()};
}

std::vector<Value> has_element(Call& call) {
  return {known_integer(call.has(0) && !call.value(0).is_none() ? 1 : 0, DType::Bool)};
}

std::vector<Value> get_element(Call& call) {
  if (!call.has(0)) call.fail(ErrorKind::Value, "an empty optional, expected one that holds something");
  return {call.value(0)};
}

const OpRow kSequenceOps[] = {
    {"SequenceConstruct", 11, construct},
    {"SequenceEmpty", 11, construct_empty},
    {"SequenceInsert", 11, insert},
    {"SequenceErase", 11, erase},
    {"SequenceAt", 11, at},
    {"SequenceLength", 11, length},
    {"SplitToSequence", 11, split_to_sequence},
    {"ConcatFromSequence", 11, concat_from_sequence},
    {"Optional", 15, optional},
    {"OptionalHasElement", 15, has_element},
    {"OptionalGetElement", 15, get_element},
};

} // namespace

OpTable sequence_ops() { return kSequenceOps; }

} // namespace lathe::onnx
