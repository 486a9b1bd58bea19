// Programs that update states, each beside the plain program of the same values: states as inputs, the next
// ones as outputs.
#pragma once
#include <string>
#include <vector>

#include "lathe/lathe.hpp"

namespace lathe::test {

struct StateProgram {
  std::string name;
  NamedTensors outputs;
  std::vector<Update> updates;
  std::vector<std::string> in_place; // states that are written over themselves when nothing is scheduled

  /// The outputs, and the next value of each state under its name.
  NamedTensors functional() const {
    NamedTensors all = outputs;
    for (const Update& update : updates) all.emplace(update.state.name(), update.value);
    return all;
  }
};

/// A state of small whole numbers, of which sums and products are exact.
inline State whole_state(const std::string& name, const Shape& shape) {
  const Tensor order = Tensor::iota({num_elements(shape)}, 0, DType::F32).reshape(shape);
  return State(name, order % 7.0 - 3.0);
}

inline std::vector<StateProgram> state_programs() {
  const auto in = [](const char* name, Shape shape, DType dtype = DType::F32) {
    return Tensor::input(name, shape, dtype);
  };
  std::vector<StateProgram> out;
  {
    const State w = whole_state("w", {5, 13});
    out.push_back({"elementwise", {}, {w.assign(w.value() - 2.0 * in("x", {5, 13}))}, {"w"}});
    out.push_back(
        {"an old value beside it", {{"y", w.value().sum(0)}}, {w.assign(w.value() * in("x", {13}))}, {"w"}});
    out.push_back({"what is not read", {}, {w.assign(in("x", {13}) + 1.0)}, {"w"}});
    out.push_back({"an input", {}, {w.assign(in("x", {5, 13}))}, {}});
    out.push_back({"itself", {{"y", w.value()}}, {w.assign(w.value())}, {}});
    out.push_back({"neighbours", {}, {w.assign(w.value() + w.value().roll(1, 1))}, {}});
    out.push_back({"all of it", {}, {w.assign(w.value() - w.value().max())}, {}});
    out.push_back({"sums in front", {}, {w.assign(w.value().cumsum(1) - 2.0 * w.value())}, {}});
    const Tensor next = w.value() + in("x", {13});
    out.push_back({"the new value, too", {{"y", next}, {"z", next.max(1)}}, {w.assign(next)}, {"w"}});
    out.push_back({"a product",
                   {},
                   {w.assign(w.value() - in("a", {4, 5}).transpose().matmul(in("b", {4, 13})))},
                   {"w"}});
    out.push_back({"a view of it", {{"y", w.value().transpose()}}, {w.assign(w.value() + 1.0)}, {}});
  }
  {
    const State w = whole_state("w", {7, 7});
    out.push_back({"transposed", {}, {w.assign(w.value().transpose() - w.value())}, {}});
    out.push_back({"a square", {}, {w.assign(w.value().matmul(w.value()) % 5.0)}, {}});
    const State v = whole_state("v", {7, 7});
    const Tensor moment = v.value() + in("x", {7, 7});
    out.push_back({"moments", {}, {v.assign(moment), w.assign(w.value() - moment)}, {"v", "w"}});
    out.push_back({"exchanged", {}, {v.assign(w.value()), w.assign(v.value())}, {}});
    out.push_back(
        {"shifted along", {}, {v.assign(w.value()), w.assign(w.value() + v.value().roll(1, 0))}, {}});
    out.push_back({"a half exchange", {}, {v.assign(w.value()), w.assign(w.value() + 1.0)}, {}});
    out.push_back({"only read", {{"y", w.value().sum(1)}}, {v.assign(v.value() + w.value())}, {"v"}});
  }
  {
    const State cache = whole_state("cache", {11, 6});
    const Update append = cache.assign_at({in("at", {}, DType::I64)}, in("row", {2, 6}));
    out.push_back({"rows", {}, {append}, {"cache"}});
    out.push_back({"rows, and what they make", {{"y", append.value.sum(1)}}, {append}, {"cache"}});
    out.push_back({"rows, and what was", {{"y", cache.value().sum(1)}}, {append}, {"cache"}});
    const Update moved = cache.assign_at({in("at", {}, DType::I64)}, cache.value().shrink({{0, 3}, {0, 6}}));
    out.push_back({"rows of its own", {}, {moved}, {}});
    const State counts = whole_state("counts", {9});
    out.push_back({"counts",
                   {},
                   {counts.assign(counts.value().scatter_add(0, in("i", {12}, DType::I64), in("s", {12})))},
                   {"counts"}});
  }
  return out;
}

} // namespace lathe::test
