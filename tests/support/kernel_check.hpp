// Runs one kernel on a device and in the interpreter, on the same random inputs and poisoned outputs, and
// compares.
#pragma once
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "ast/ast.hpp"
#include "lathe/error.hpp"
#include "runtime/device.hpp"

namespace lathe::test {

using Contents = std::vector<std::vector<unsigned char>>; // one per parameter

/// What is worth trying of a dtype: small numbers, and every edge of it.
inline Scalar sample(DType dtype, std::mt19937_64& random, bool edges) {
  const uint64_t r = random();
  if (dtype == DType::Bool) return Scalar::of_int(dtype, r & 1);
  if (is_float(dtype)) {
    constexpr double inf = std::numeric_limits<double>::infinity();
    constexpr double special[] = {0.0,
                                  -0.0,
                                  inf,
                                  -inf,
                                  std::numeric_limits<double>::quiet_NaN(),
                                  1.0,
                                  -1.0,
                                  1e30,
                                  -1e30,
                                  3e9,
                                  -3e9,
                                  255.5,
                                  1e-30,
                                  2147483648.0,
                                  -2147483648.0,
                                  1.8446744073709552e19};
    if (edges && r % 3 == 0) return Scalar::of_float(dtype, special[(r >> 8) % std::size(special)]);
    return Scalar::of_float(dtype, std::uniform_real_distribution<double>(-4, 4)(random));
  }
  const int bits = 8 * size_of(dtype);
  if (!edges) return Scalar::of_int(dtype, static_cast<int64_t>(r % 7));
  const int64_t special[] = {0,
                             1,
                             -1,
                             2,
                             7,
                             bits - 1,
                             bits,
                             bits + 1,
                             std::numeric_limits<int64_t>::min() >> (64 - bits),
                             std::numeric_limits<int64_t>::max() >> (64 - bits)};
  return Scalar::of_int(dtype,
                        r % 3 ? special[(r >> 8) % std::size(special)] : static_cast<int64_t>(random()));
}

inline size_t bytes_of(const ast::Buffer& buffer, const ast::Kernel& kernel,
                       const std::vector<int64_t>& shape_values) {
  const int64_t n = evaluate(num_elements(buffer.shape), [&](Expr var) {
    for (size_t i = 0; i < kernel.shape_vars.size(); ++i)
      if (kernel.shape_vars[i] == var) return shape_values[i];
    throw InternalError("no value for " + var.name());
  });
  return static_cast<size_t>(n) * size_of(buffer.dtype);
}

inline Contents sample_contents(const ast::Kernel& kernel, const std::vector<int64_t>& shape_values,
                                bool edges, uint64_t seed) {
  std::mt19937_64 random(seed);
  Contents contents;
  for (const ast::Param& p : kernel.params) {
    std::vector<unsigned char> bytes(bytes_of(*p.buffer, kernel, shape_values), 0xA5);
    if (!p.written)
      for (size_t i = 0; i < bytes.size(); i += size_of(p.buffer->dtype))
        sample(p.buffer->dtype, random, edges).to_memory(&bytes[i]);
    contents.push_back(std::move(bytes));
  }
  return contents;
}

inline void interpret(const ast::Kernel& kernel, Contents& contents,
                      const std::vector<int64_t>& shape_values) {
  std::vector<ast::Bytes> buffers;
  for (auto& c : contents) buffers.push_back({c.data(), c.size()});
  ast::interpret(kernel, buffers, shape_values);
}

inline void run_on(runtime::Device& device, const runtime::Program& program, Contents& contents,
                   const std::vector<int64_t>& shape_values) {
  std::vector<std::unique_ptr<runtime::DeviceBuffer>> owned;
  std::vector<runtime::BufferSlice> slices;
  for (auto& c : contents) {
    owned.push_back(device.allocate(c.size() + 256)); // at an offset, as slices of an arena are
    owned.back()->upload(128, c.data(), c.size());
    slices.push_back({owned.back().get(), 128, c.size()});
  }
  program.launch(slices, shape_values);
  device.finish();
  for (size_t i = 0; i < contents.size(); ++i)
    owned[i]->download(128, contents[i].data(), contents[i].size());
}

/// The first difference of a written buffer; empty if there is none. Floats may differ by `tolerance` of the
/// value (or of 1, for sums that cancel).
inline std::string first_difference(const ast::Kernel& kernel, const Contents& got, const Contents& want,
                                    double tolerance) {
  for (size_t b = 0; b < kernel.params.size(); ++b) {
    const ast::Buffer& buffer = *kernel.params[b].buffer;
    for (size_t i = 0; i < want[b].size(); i += size_of(buffer.dtype)) {
      const Scalar g = Scalar::from_memory(buffer.dtype, &got[b][i]),
                   w = Scalar::from_memory(buffer.dtype, &want[b][i]);
      if (g == w) continue;
      const double x = g.as_float(), y = w.as_float();
      if (is_float(buffer.dtype) && ((std::isnan(x) && std::isnan(y)) || x == y ||
                                     std::abs(x - y) <= tolerance * std::max(1.0, std::abs(y))))
        continue;
      return buffer.name + "[" + std::to_string(i / size_of(buffer.dtype)) + "] is " + to_string(g) +
             ", expected " + to_string(w);
    }
  }
  return {};
}

/// Empty if the device agrees with the interpreter.
inline std::string compare(runtime::Device& device, const ast::Kernel& kernel,
                           const std::vector<int64_t>& shape_values = {}, double tolerance = 0,
                           bool edges = false, int threads = 2) {
  ast::verify(kernel);
  const auto program = device.compile(kernel, {.threads = threads});
  Contents want = sample_contents(kernel, shape_values, edges, 1), got = want;
  interpret(kernel, want, shape_values);
  run_on(device, *program, got, shape_values);
  return first_difference(kernel, got, want, tolerance);
}

} // namespace lathe::test
