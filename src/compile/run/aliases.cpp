#include "compile/run/aliases.hpp"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "lathe/error.hpp"

namespace lathe::pipeline {
namespace {

using Impl = Executable::Impl;

constexpr size_t kPairs = 1024; // pairs of buffers to compare one by one; beyond, buffers are sorted first

struct Span {
  const char* begin;
  size_t bytes;
  size_t index; // among the program's inputs or outputs
  bool is_output;
};

Span input_span(const Impl::Frame& frame, size_t k) {
  return {static_cast<const char*>(frame.inputs[k]), frame.input_bytes[k], k, false};
}
Span output_span(const Impl::Frame& frame, size_t k) {
  return {static_cast<const char*>(frame.outputs[k]), frame.output_bytes[k], k, true};
}

/// The positions of outputs that overlap an input, each once. States are left out: no other memory overlaps
/// theirs.
class Overlaps {
public:
  Overlaps(const Impl& impl, const Impl::Frame& frame) : impl_(impl) {
    const size_t inputs = impl.given_inputs.size(), outputs = impl.given_outputs.size();
    if (outputs * (inputs + outputs) <= kPairs)
      compare_pairs(frame);
    else
      sweep(frame);
  }
  const std::vector<size_t>& outputs() const { return found_; }

private:
  void compare_pairs(const Impl::Frame& frame) {
    for (const size_t k : impl_.given_outputs) {
      const Span output = output_span(frame, k);
      for (const size_t i : impl_.given_inputs) meet(input_span(frame, i), output);
      for (const size_t i : impl_.given_outputs)
        if (i < k) meet(output_span(frame, i), output);
    }
  }
  /// Compares each buffer, in the order of addresses, with the earlier ones that reach beyond its begin.
  /// These are few, because overlaps are rare.
  void sweep(const Impl::Frame& frame) {
    std::vector<Span> spans, open;
    for (const size_t k : impl_.given_inputs) spans.push_back(input_span(frame, k));
    for (const size_t k : impl_.given_outputs) spans.push_back(output_span(frame, k));
    std::sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) { return a.begin < b.begin; });
    for (const Span& span : spans) {
      std::erase_if(open, [&](const Span& s) { return s.begin + s.bytes <= span.begin; });
      // Many inputs may share memory, so a pair of inputs is not compared.
      for (const Span& other : open)
        if (span.is_output || other.is_output) meet(other, span);
      open.push_back(span);
    }
  }
  void meet(const Span& a, const Span& b) {
    if (!overlap(a.begin, a.bytes, b.begin, b.bytes)) return;
    if (a.is_output && b.is_output) {
      const auto name = [&](const Span& s) { return impl_.outputs[s.index].declared.name; };
      throw Error(ErrorKind::Value,
                  fmt::format("run: the memory of output \"{}\" overlaps that of output \"{}\", expected "
                              "memory of its own for each",
                              name(a), name(b)));
    }
    const size_t output = a.is_output ? a.index : b.index, input = a.is_output ? b.index : a.index;
    if (a.begin == b.begin && impl_.outputs[output].over_input == static_cast<int>(input)) return;
    if (std::find(found_.begin(), found_.end(), output) == found_.end()) found_.push_back(output);
  }

  const Impl& impl_;
  std::vector<size_t> found_;
};

} // namespace

/// Returns false if no output overlaps an input or another output; nearly all calls end here. A buffer
/// outside the address range of all outputs so far takes one comparison. Beyond kPairs comparisons the result
/// is true.
bool PrivateOutputs::may_overlap(const Impl& impl, const Impl::Frame& frame) {
  uintptr_t low = UINTPTR_MAX, high = 0;
  size_t pairs = 0;
  const auto meets = [&](const void* data, size_t bytes, size_t outputs) { // the first outputs
    const auto begin = reinterpret_cast<uintptr_t>(data);
    if (begin >= high || begin + bytes <= low) return false;
    if ((pairs += outputs) > kPairs) return true;
    for (size_t i = 0; i < outputs; ++i) {
      const size_t k = impl.given_outputs[i];
      if (overlap(data, bytes, frame.outputs[k], frame.output_bytes[k])) return true;
    }
    return false;
  };
  for (size_t i = 0; i < impl.given_outputs.size(); ++i) {
    const size_t k = impl.given_outputs[i];
    if (meets(frame.outputs[k], frame.output_bytes[k], i)) return true;
    const auto begin = reinterpret_cast<uintptr_t>(frame.outputs[k]);
    low = std::min(low, begin);
    high = std::max(high, begin + frame.output_bytes[k]);
  }
  for (const size_t k : impl.given_inputs)
    if (meets(frame.inputs[k], frame.input_bytes[k], impl.given_outputs.size())) return true;
  return false;
}

void PrivateOutputs::move_apart(const Impl& impl, Impl::Frame& frame) {
  const Overlaps overlaps(impl, frame);
  for (const size_t k : overlaps.outputs()) {
    const size_t bytes = frame.output_bytes[k];
    copies_.push_back({frame.outputs[k], Storage::allocate(bytes), bytes});
    frame.outputs[k] = copies_.back().from->data();
  }
}

void PrivateOutputs::copy_all() const {
  for (const Copy& copy : copies_) std::memcpy(copy.to, copy.from->data(), copy.bytes);
}

} // namespace lathe::pipeline
