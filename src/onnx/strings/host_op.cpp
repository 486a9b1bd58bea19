#include "onnx/strings/host_op.hpp"

#include <map>

namespace lathe::onnx {
namespace {

struct Row {
  std::vector<Value> (*run)(const HostOp&, const HostInputs&);
  size_t inputs, texts, integers; // of texts the least
};

} // namespace

std::vector<Value> run_host_op(const HostOp& op, const std::vector<Value>& inputs) {
  static const std::map<std::string, Row> ops = {
      {"StringNormalizer", {host_normalise, 1, 1, 1}},
      {"StringSplit", {host_split, 1, 1, 1}},
      {"StringConcat", {host_concat, 2, 0, 0}},
      {"RegexFullMatch", {host_match, 1, 1, 0}},
      {"Tokenizer", {host_tokenise, 1, 1, 3}},
      {"text_of_numbers", {host_text_of_numbers, 1, 0, 1}},
      {"numbers_of_text", {host_numbers_of_text, 1, 1, 0}},
      {"distinct", {host_distinct, 1, 0, 1}},
      {"best_boxes", {host_best_boxes, 5, 0, 2}},
  };
  const auto found = ops.find(op.name);
  // A saved program may be another version's.
  if (found == ops.end() || inputs.size() != found->second.inputs || op.texts.size() < found->second.texts ||
      op.integers.size() != found->second.integers)
    throw Error(ErrorKind::Value,
                "'" + op.name + "' is no op of the host as this version has it, expected one that is");
  return found->second.run(op, inputs);
}

} // namespace lathe::onnx
