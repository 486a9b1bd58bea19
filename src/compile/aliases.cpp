#include "compile/aliases.hpp"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "lathe/error.hpp"

namespace lathe::pipeline {
namespace {

using Impl = Executable::Impl;

constexpr size_t kPairs = 1024; // compared one by one; more buffers are sorted first

struct Span {
  const char* begin;
  size_t bytes;
  size_t index; // of Impl::inputs or Impl::outputs
  bool is_output;
};

size_t bytes_of(const KernelParam& moved) {
  return static_cast<size_t>(num_elements(moved.shape).value() * size_of(moved.dtype));
}

Span input_span(const Impl& impl, const Impl::Frame& frame, size_t k) {
  const Impl::Input& input = impl.inputs[k];
  size_t bytes = 0; // of one that no kernel and no moved output reads
  if (input.slot >= 0)
    bytes = frame.bytes[static_cast<size_t>(input.slot)];
  else if (std::any_of(impl.outputs.begin(), impl.outputs.end(),
                       [&](const auto& output) { return output.moved_input == static_cast<int>(k); }))
    bytes = bytes_of(input.declared);
  return {static_cast<const char*>(frame.inputs[k]), bytes, k, false};
}
Span output_span(const Impl& impl, const Impl::Frame& frame, size_t k) {
  const Impl::Output& output = impl.outputs[k];
  const size_t bytes = output.moved ? bytes_of(output.declared) : frame.bytes[output.slot];
  return {static_cast<const char*>(frame.outputs[k]), bytes, k, true};
}

/// The positions of outputs that overlap an input, each once.
class Overlaps {
public:
  Overlaps(const Impl& impl, const Impl::Frame& frame) : impl_(impl) {
    const size_t inputs = impl.inputs.size(), outputs = impl.outputs.size();
    if (outputs * (inputs + outputs) <= kPairs)
      compare_pairs(frame, inputs, outputs);
    else
      sweep(frame, inputs, outputs);
  }
  const std::vector<size_t>& outputs() const { return found_; }

private:
  void compare_pairs(const Impl::Frame& frame, size_t inputs, size_t outputs) {
    for (size_t k = 0; k < outputs; ++k) {
      const Span output = output_span(impl_, frame, k);
      for (size_t i = 0; i < inputs; ++i) meet(input_span(impl_, frame, i), output);
      for (size_t i = 0; i < k; ++i) meet(output_span(impl_, frame, i), output);
    }
  }
  /// In the order of their addresses, each against those that have not ended yet: overlaps are rare.
  void sweep(const Impl::Frame& frame, size_t inputs, size_t outputs) {
    std::vector<Span> spans, open;
    for (size_t k = 0; k < inputs; ++k) spans.push_back(input_span(impl_, frame, k));
    for (size_t k = 0; k < outputs; ++k) spans.push_back(output_span(impl_, frame, k));
    std::sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) { return a.begin < b.begin; });
    for (const Span& span : spans) {
      std::erase_if(open, [&](const Span& s) { return s.begin + s.bytes <= span.begin; });
      // Inputs may share memory, and many may: only one that is written, or that meets one, is compared.
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
    const size_t output = a.is_output ? a.index : b.index;
    if (std::find(found_.begin(), found_.end(), output) == found_.end()) found_.push_back(output);
  }

  const Impl& impl_;
  std::vector<size_t> found_;
};

} // namespace

PrivateOutputs::PrivateOutputs(const Impl& impl, Impl::Frame& frame) {
  const Overlaps overlaps(impl, frame);
  for (const size_t k : overlaps.outputs()) {
    const size_t bytes = output_span(impl, frame, k).bytes;
    copies_.push_back({frame.outputs[k], Storage::allocate(bytes), bytes});
    frame.outputs[k] = copies_.back().from->data();
  }
}

void PrivateOutputs::copy_all() const {
  for (const Copy& copy : copies_) std::memcpy(copy.to, copy.from->data(), copy.bytes);
}

} // namespace lathe::pipeline
