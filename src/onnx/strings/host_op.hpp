// What the host computes between two parts of a program: ops that make strings of strings, or read them, that
// sort all of their input, or that choose boxes.
#pragma once
#include <string>
#include <vector>

#include "lathe/onnx/value.hpp"

namespace lathe::onnx {

/// An op by its name in the table of host_op.cpp, with what it needs beside its inputs: a saved program holds
/// this.
struct HostOp {
  std::string name;
  std::vector<std::string> texts{};
  std::vector<int64_t> integers{};
  bool operator==(const HostOp&) const = default;
};

/// The outputs: strings with their texts, or tensors in memory. `inputs` are of fixed shapes, and strings
/// among them have their texts. Error(Value) naming the op for an op that is not there and for strings that
/// it can't take.
std::vector<Value> run_host_op(const HostOp& op, const std::vector<Value>& inputs);

// The ops, by file. Each takes what an importer of ops/strings.cpp, ops/cast.cpp,
// ops/select.cpp or ops/detection.cpp gives it.
using HostInputs = std::vector<Value>;

// normalise.cpp
/// texts: case change (NONE, LOWER, UPPER), then the stop words; integers: whether case counts.
std::vector<Value> host_normalise(const HostOp& op, const HostInputs& inputs);
// split.cpp
/// texts: the delimiter, "" for runs of white space; integers: the largest number of cuts, -1 for any.
std::vector<Value> host_split(const HostOp& op, const HostInputs& inputs);
std::vector<Value> host_concat(const HostOp& op, const HostInputs& inputs);
// match.cpp
/// texts: the pattern, in RE2's syntax.
std::vector<Value> host_match(const HostOp& op, const HostInputs& inputs);
// tokenise.cpp
enum class TokensAre { Characters, BetweenMatches, Matches };
/// texts: what fills the shorter rows, then the patterns; integers: TokensAre, the least number of a token's
/// characters, whether a row's beginning and end are marked.
std::vector<Value> host_tokenise(const HostOp& op, const HostInputs& inputs);
// numbers.cpp
/// integers: whether all digits before the point are written, and six behind it.
std::vector<Value> host_text_of_numbers(const HostOp& op, const HostInputs& inputs);
/// texts: the dtype.
std::vector<Value> host_numbers_of_text(const HostOp& op, const HostInputs& inputs);
// order.cpp
/// Of the distinct rows of a matrix: where each is first, which of them each row is, and how many are equal to
/// it. integers: whether they come in the order of a dictionary (strings by their bytes), not of the matrix.
std::vector<Value> host_distinct(const HostOp& op, const HostInputs& inputs);
// boxes.cpp
/// Boxes [B, N, 4], scores [B, C, N], the most boxes of a class, how much of their union boxes may share, and
/// the score that a box has to have more than, all f32 but the third, i64: the image, class and box of each
/// that is kept. integers: whether boxes are their centres and sizes, and whether there is a least score.
std::vector<Value> host_best_boxes(const HostOp& op, const HostInputs& inputs);

} // namespace lathe::onnx
