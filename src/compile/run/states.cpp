#include "compile/run/states.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "compile/run/executable_impl.hpp"
#include "lathe/detail/access.hpp"
#include "lathe/error.hpp"

namespace lathe::pipeline {

StatesOfCall::StatesOfCall(const Executable::Impl& impl, const NamedStates& handed, const char* function)
    : placed_(impl.states) {
  for (const PlacedState& state : placed_) buffers_.push_back(state.buffer.get());
  hand_over(handed, function);
  lock();
}

void StatesOfCall::hand_over(const NamedStates& handed, const char* function) {
  for (const auto& [name, state] : handed) {
    const auto at = std::find_if(placed_.begin(), placed_.end(),
                                 [&, &n = name](const PlacedState& p) { return p.buffer->name == n; });
    if (at == placed_.end()) {
      std::string names;
      for (const PlacedState& p : placed_) names += (names.empty() ? "" : ", ") + p.buffer->name;
      throw Error(ErrorKind::Name, fmt::format("{}: there is no state \"{}\", expected {}", function, name,
                                               names.empty() ? "none" : names));
    }
    if (state.dtype() != at->buffer->dtype || state.shape() != at->buffer->shape)
      throw Error(state.dtype() != at->buffer->dtype ? ErrorKind::DType : ErrorKind::Shape,
                  fmt::format("{}: state \"{}\" is {}{}, expected {}{}", function, name,
                              to_string(state.dtype()), to_string(state.shape()),
                              to_string(at->buffer->dtype), to_string(at->buffer->shape)));
    buffers_[static_cast<size_t>(at - placed_.begin())] = detail::impl(state)->buffer.get();
  }
  for (size_t k = 0; k < buffers_.size(); ++k)
    for (size_t i = 0; i < k; ++i)
      if (buffers_[i] == buffers_[k])
        throw Error(ErrorKind::Value,
                    fmt::format("{}: states \"{}\" and \"{}\" are one state, expected two", function,
                                placed_[i].buffer->name, placed_[k].buffer->name));
}

/// All calls lock in the order of addresses, so that none waits for another that waits for it.
void StatesOfCall::lock() {
  std::vector<size_t> order(buffers_.size());
  for (size_t k = 0; k < order.size(); ++k) order[k] = k;
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return std::less<>()(buffers_[a], buffers_[b]); });
  for (const size_t k : order) {
    if (placed_[k].output >= 0)
      alone_.emplace_back(buffers_[k]->in_use);
    else
      shared_.emplace_back(buffers_[k]->in_use);
  }
}

void StatesOfCall::bind(std::vector<const void*>& inputs, std::vector<void*>& outputs) {
  for (size_t k = 0; k < placed_.size(); ++k) {
    const PlacedState& state = placed_[k];
    graph::StateBuffer& buffer = *buffers_[k];
    if (state.input >= 0) inputs[static_cast<size_t>(state.input)] = buffer.values->data();
    if (state.output < 0) continue;
    if (!state.in_place && state.taken_from < 0 && !buffer.spare)
      buffer.spare = Storage::allocate(buffer.bytes);
    outputs[static_cast<size_t>(state.output)] = state.in_place          ? buffer.values->data()
                                                 : state.taken_from >= 0 ? nullptr
                                                                         : buffer.spare->data();
  }
}

void StatesOfCall::update() {
  std::vector<StorageRef> next(placed_.size());
  for (size_t k = 0; k < placed_.size(); ++k) {
    const PlacedState& state = placed_[k];
    if (state.output < 0 || state.in_place) continue;
    next[k] = state.taken_from < 0 ? std::move(buffers_[k]->spare)
                                   : buffers_[static_cast<size_t>(state.taken_from)]->values;
  }
  std::vector<StorageRef> left; // old values that no state takes
  for (size_t k = 0; k < placed_.size(); ++k) {
    if (!next[k]) continue;
    if (std::find(next.begin(), next.end(), buffers_[k]->values) == next.end())
      left.push_back(std::move(buffers_[k]->values));
  }
  for (size_t k = 0; k < placed_.size(); ++k) {
    if (!next[k]) continue;
    graph::StateBuffer& buffer = *buffers_[k];
    buffer.values = std::move(next[k]);
    if (placed_[k].taken_from >= 0) continue;
    const auto fits = std::find_if(left.begin(), left.end(), [&](const StorageRef& memory) {
      return memory && memory->bytes() == buffer.bytes;
    });
    if (fits != left.end()) buffer.spare = std::move(*fits);
  }
}

} // namespace lathe::pipeline
