// What a State handle points to: the memory, and who may use it now.
#pragma once
#include <shared_mutex>
#include <string>

#include "core/storage.hpp"
#include "graph/node.hpp"
#include "lathe/state.hpp"

namespace lathe::graph {

struct StateBuffer {
  StateBuffer(std::string state_name, DType of, Shape static_shape);

  const std::string name;
  const DType dtype;
  const Shape shape; // static
  const size_t bytes;
  const uint64_t id = fresh_input_id(); // of the Input nodes that stand for it
  /// Held for the whole of a run, shared by those that only read. Guards what follows.
  std::shared_mutex in_use;
  StorageRef values;
  StorageRef spare; // what an update that can't be made in place writes to; null until one does
};

} // namespace lathe::graph

namespace lathe {

struct State::Impl {
  explicit Impl(std::shared_ptr<graph::StateBuffer> of);
  const std::shared_ptr<graph::StateBuffer> buffer;
  const Tensor value;
};

} // namespace lathe
