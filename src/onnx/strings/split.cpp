// Strings to parts, and two to one.
#include <algorithm>
#include <string_view>

#include "onnx/strings/host_op.hpp"

namespace lathe::onnx {
namespace {

using Parts = std::vector<std::string_view>;

/// `cuts`: how many more there may be; negative for any number.
Parts split_at(std::string_view text, std::string_view delimiter, int64_t cuts) {
  Parts parts;
  size_t begin = 0;
  for (size_t end = 0; cuts != 0 && (end = text.find(delimiter, begin)) != std::string_view::npos; --cuts) {
    parts.push_back(text.substr(begin, end - begin));
    begin = end + delimiter.size();
  }
  parts.push_back(text.substr(begin));
  return parts;
}

constexpr std::string_view kSpace = " \t\n\v\f\r";

/// At runs of white space, which neither begin nor end a part: of the last part that `cuts` leaves, neither.
Parts split_at_space(std::string_view text, int64_t cuts) {
  Parts parts;
  for (size_t begin = text.find_first_not_of(kSpace); begin != std::string_view::npos; --cuts) {
    size_t end = cuts == 0 ? std::string_view::npos : text.find_first_of(kSpace, begin);
    if (end == std::string_view::npos) end = text.find_last_not_of(kSpace) + 1;
    parts.push_back(text.substr(begin, end - begin));
    begin = text.find_first_not_of(kSpace, end);
  }
  return parts;
}

} // namespace

std::vector<Value> host_split(const HostOp& op, const HostInputs& inputs) {
  const std::string& delimiter = op.texts.at(0);
  const int64_t cuts = op.integers.at(0);
  std::vector<Parts> all;
  std::vector<int64_t> counts;
  size_t most = 0;
  for (const std::string& text : inputs.at(0).texts()) {
    all.push_back(delimiter.empty() ? split_at_space(text, cuts) : split_at(text, delimiter, cuts));
    counts.push_back(static_cast<int64_t>(all.back().size()));
    most = std::max(most, all.back().size());
  }
  std::vector<std::string> texts;
  for (const Parts& parts : all) {
    texts.insert(texts.end(), parts.begin(), parts.end());
    texts.resize(texts.size() + most - parts.size());
  }
  Shape shape = inputs[0].shape();
  const Tensor counted = counts.empty() ? Tensor::zeros(shape, DType::I64) : Tensor::from(counts, shape);
  shape.push_back(Expr(static_cast<int64_t>(most)));
  return {Value::strings(std::move(texts), shape), counted};
}

std::vector<Value> host_concat(const HostOp& op, const HostInputs& inputs) {
  if (inputs.at(0).shape() != inputs.at(1).shape())
    throw Error(ErrorKind::Shape, op.name + " of " + type_text(inputs[0]) + " and " + type_text(inputs[1]) +
                                      ", expected equal shapes");
  const std::vector<std::string>&a = inputs.at(0).texts(), &b = inputs.at(1).texts();
  std::vector<std::string> texts;
  for (size_t k = 0; k < a.size(); ++k) texts.push_back(a[k] + b.at(k));
  return {Value::strings(std::move(texts), inputs[0].shape())};
}

} // namespace lathe::onnx
