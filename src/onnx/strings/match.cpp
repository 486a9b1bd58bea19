// Regular expressions, by RE2: its syntax is what ONNX asks for, and its time is linear in the text.
#include "onnx/strings/host_op.hpp"

#ifdef LATHE_HAS_RE2
#include <re2/re2.h>

#include <memory>
#endif

namespace lathe::onnx {

#ifdef LATHE_HAS_RE2
namespace {

std::unique_ptr<re2::RE2> compiled(const std::string& pattern) {
  re2::RE2::Options options;
  options.set_log_errors(false);
  auto made = std::make_unique<re2::RE2>(pattern, options);
  if (!made->ok())
    throw Error(ErrorKind::Value, "pattern '" + pattern + "': " + made->error() + ", expected RE2's syntax");
  return made;
}

} // namespace

void check_pattern(const std::string& pattern) { compiled(pattern); }

std::vector<Value> host_match(const HostOp& op, const HostInputs& inputs) {
  const std::unique_ptr<re2::RE2> pattern = compiled(op.texts.at(0));
  std::vector<uint8_t> matches;
  for (const std::string& text : inputs.at(0).texts()) matches.push_back(re2::RE2::FullMatch(text, *pattern));
  if (matches.empty()) return {Tensor::zeros(inputs[0].shape(), DType::Bool)};
  return {Tensor::from_memory(matches.data(), matches.size(), DType::Bool, inputs[0].shape())};
}
#else
void check_pattern(const std::string&) {
  throw Error(ErrorKind::Value, "this lathe was built without RE2, expected one that has it");
}

std::vector<Value> host_match(const HostOp& op, const HostInputs&) {
  check_pattern(op.texts.at(0));
  return {};
}
#endif

} // namespace lathe::onnx
