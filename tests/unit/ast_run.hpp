// Runs kernels, given as text, on random data with the interpreter.
#pragma once
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "ast/ast.hpp"

namespace lathe::ast::test {

using Memory = std::vector<uint8_t>;

inline ValueRef f32(double v) { return constant(Scalar::of_float(DType::F32, v)); }

inline int64_t count(const Buffer& buffer, const Kernel& k, const std::vector<int64_t>& shape_values) {
  int64_t n = 1;
  for (Expr e : buffer.shape)
    n *= evaluate(e, [&](Expr var) {
      for (size_t i = 0; i < k.shape_vars.size(); ++i)
        if (k.shape_vars[i] == var) return shape_values[i];
      return int64_t{0};
    });
  return n;
}

/// Small integers and halves: sums of a few thousand are exact in f32, so that any order gives the same bits.
inline Memory random_memory(DType dtype, int64_t elements, uint32_t seed) {
  std::mt19937 engine(seed);
  std::uniform_int_distribution<int> pick(-8, 8);
  Memory out(static_cast<size_t>(elements * size_of(dtype)));
  for (int64_t i = 0; i < elements; ++i) {
    const int v = pick(engine);
    const Scalar s = is_float(dtype) ? Scalar::of_float(dtype, v * 0.5) : Scalar::of_int(dtype, std::abs(v));
    s.to_memory(out.data() + i * size_of(dtype));
  }
  return out;
}

/// All buffers after a run whose inputs come from `seed`; what is written starts as random data too.
inline std::vector<Memory> run(const Kernel& k, const std::vector<int64_t>& shape_values = {},
                               uint32_t seed = 1) {
  std::vector<Memory> memory;
  std::vector<Bytes> bytes;
  for (const Param& p : k.params)
    memory.push_back(random_memory(p.buffer->dtype, count(*p.buffer, k, shape_values), seed++));
  for (Memory& m : memory) bytes.push_back({m.data(), m.size()});
  interpret(k, bytes, shape_values);
  return memory;
}

template <class T> std::vector<T> as(const Memory& m) {
  std::vector<T> out(m.size() / sizeof(T));
  if (!m.empty()) std::memcpy(out.data(), m.data(), m.size());
  return out;
}

} // namespace lathe::ast::test
