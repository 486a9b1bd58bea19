#include "compile/measure/tensor_peaks.hpp"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include "ast/passes/prepare.hpp"
#include "compile/front/target.hpp"
#include "runtime/device.hpp"

namespace lathe::pipeline {
namespace {

constexpr int64_t kPeakRounds = 2000, kPeakSteps = 4; // over operands of so many steps of k

/// Sums of 2 x 2 tiles, or of 12 x 2 vectors, in registers; all operands are read again in each round.
std::string kernel_text(const InstructionInfo& row, int lanes) {
  const int64_t high = row.is_tile() ? 2 : 12, columns = row.n != 0 ? row.n : lanes,
                k_rows = row.k / row.pack;
  const std::string a = to_string(row.a), b = to_string(row.b), c = to_string(row.c);
  const std::string sums = row.is_tile() ? "s[i, j, m, n]" : "s[i, j, n]";
  const std::string to = row.is_tile() ? "c[i, j, m, n]" : "c[i, j, 0, n]";
  const auto over_tiles = [&](const std::string& store) {
    const std::string rows = row.is_tile() ? fmt::format("for m in {} {{ ", row.m) : "";
    return fmt::format(
        "for i in {} unroll {{ for j in 2 unroll {{ {}for n in {} vector({}) {{ {} }} }} }}{} ", high, rows,
        columns, columns, store, row.is_tile() ? " }" : "");
  };
  const std::string rows =
      row.is_tile() ? fmt::format("for m in {} tensor {{ for r in {} tensor {{ ", row.m, k_rows) : "";
  const std::string place = row.is_tile() ? "m, " : "0, ", k_row = row.is_tile() ? "r" : "0";
  const std::string product = fmt::format(
      "for i in {} unroll {{ for j in 2 unroll {{ {}for n in {} tensor {{ for k in {} tensor {{ {} += "
      "cast_{}(a[i, {}q * {} + {} * {} + k]) * cast_{}(b[q, j, {}, n, k]) }} }} }} }}{} ",
      high, rows, columns, row.pack, sums, c, place, row.k, k_row, row.pack, c, k_row,
      row.is_tile() ? " } }" : "");
  return fmt::format("kernel peak(a: {}[{}, {}, {}] in, b: {}[{}, 2, {}, {}, {}] in, c: {}[{}, 2, {}, {}] "
                     "out) {{ alloc s: {}[{}, 2, {}{}] "
                     "register {{ {}for t in {} {{ for q in {} {{ {} }} }} {}}} }}",
                     a, high, row.m, kPeakSteps * row.k, b, kPeakSteps, k_rows, columns, row.pack, c, high,
                     row.m, columns, c, high, row.is_tile() ? fmt::format("{}, ", row.m) : "", columns,
                     over_tiles(fmt::format("{} = 0:{}", sums, c)), kPeakRounds, kPeakSteps, product,
                     over_tiles(to + " = " + sums));
}

template <class F> double median_seconds(const F& run) {
  constexpr size_t kRuns = 9;
  std::vector<double> seconds;
  for (size_t i = 0; i < kRuns; ++i) {
    const auto start = std::chrono::steady_clock::now();
    run();
    seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  std::nth_element(seconds.begin(), seconds.begin() + kRuns / 2, seconds.end());
  return seconds[kRuns / 2];
}

double peak(runtime::Device& cpu, const InstructionInfo& row, int lanes) {
  const ast::Kernel kernel = ast::parse(kernel_text(row, lanes));
  const auto program = cpu.compile(ast::prepare(kernel), {});
  std::vector<std::unique_ptr<runtime::DeviceBuffer>> owned;
  std::vector<runtime::BufferSlice> slices;
  for (const ast::Param& p : kernel.params) {
    const auto bytes = static_cast<size_t>(num_elements(p.buffer->shape).value() * size_of(p.buffer->dtype));
    owned.push_back(cpu.allocate(bytes));
    const std::vector<unsigned char> zeros(bytes, 0);
    owned.back()->upload(0, zeros.data(), bytes);
    slices.push_back({owned.back().get(), 0, bytes});
  }
  const double seconds = median_seconds([&] { program->launch(slices, {}); });
  const double columns = row.n != 0 ? row.n : lanes, tiles = row.is_tile() ? 4 : 24;
  return 2.0 * kPeakRounds * kPeakSteps * tiles * row.m * columns * row.k / seconds;
}

} // namespace

std::vector<TensorPeak> tensor_peaks() {
  runtime::Device& cpu = runtime::device("cpu");
  std::vector<TensorPeak> peaks;
  for (const Instruction instruction : cpu.instructions("native"))
    peaks.push_back({std::string(info(instruction).name), is_float(info(instruction).c),
                     peak(cpu, info(instruction), vector_bytes_of("native") / size_of(DType::I32))});
  return peaks;
}

} // namespace lathe::pipeline
