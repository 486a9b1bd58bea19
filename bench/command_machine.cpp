// lathe-bench machine: measures the limits that the cost model computes with, and stores them.
#include <fmt/format.h>

#include "commands.hpp"
#include "compile/measure/tensor_peaks.hpp"
#include "search/machine/measure_machine.hpp"

namespace lathe::bench {

namespace {
std::string size(int64_t bytes) {
  if (bytes >= int64_t{1} << 40) return "memory";
  if (bytes >= 1 << 20) return fmt::format("{} MiB", bytes >> 20);
  return fmt::format("{} KiB", bytes >> 10);
}

std::string text(const search::MachineProfile& machine, const std::vector<pipeline::TensorPeak>& peaks) {
  std::string out = machine.fingerprint + "\n";
  for (int i = 0; i < 3; ++i)
    out += fmt::format("f32 FMA peak, {} bits     {:8.1f} GFLOP/s\n", 128 << i,
                       machine.flops_per_second[i] * 1e-9);
  for (const pipeline::TensorPeak& peak : peaks)
    out += fmt::format("{:<22} {:8.1f} {}/s\n", peak.instruction, peak.operations_per_second * 1e-9,
                       peak.adds_floats ? "GFLOP" : "GOP");
  for (const search::MachineProfile::Level& level : machine.levels)
    out +=
        fmt::format("read, up to {:<14} {:8.1f} GB/s, a single line {:5.2f} ns, of a page each {:5.2f}, in "
                    "columns {:5.2f}; by hints {:.1f} GB/s\n",
                    size(level.bytes), level.read_bytes_per_second * 1e-9, level.line_seconds * 1e9,
                    level.line_of_page_seconds * 1e9, level.line_of_column_seconds * 1e9,
                    level.hinted_bytes_per_second * 1e-9);
  out += fmt::format("hints come fastest in {} stream{}\n", machine.hint_streams,
                     machine.hint_streams == 1 ? "" : "s");
  out += fmt::format("write to memory            {:8.1f} GB/s\n", machine.write_bytes_per_second * 1e-9);
  out += fmt::format("streaming write to memory  {:8.1f} GB/s\n",
                     machine.streaming_write_bytes_per_second * 1e-9);
  out += fmt::format("launch {:.2f} us, fork {:.2f} us, barrier {:.2f} us, {} cores\n",
                     machine.launch_seconds * 1e6, machine.fork_seconds * 1e6, machine.barrier_seconds * 1e6,
                     machine.cores);
  out +=
      fmt::format("cycle {:.3f} ns, vector instructions in one {:.2f}, cycles of a division {:.1f} ({:.1f}, "
                  "{:.1f} of 256 and 128 bits)\n",
                  machine.cycle_seconds * 1e9, machine.mixed_per_cycle[2], machine.division_cycles[2],
                  machine.division_cycles[1], machine.division_cycles[0]);
  const search::Latency& l = machine.latency;
  out += fmt::format(
      "cycles to the next: add {:.1f}, multiply and add {:.1f}, maximum {:.1f}, stored and loaded {:.1f}\n",
      l.add, l.multiply_add, l.maximum, l.through_memory);
  out += fmt::format(
      "loops foreseen up to {:.0f} iterations, {:.0f} cycles beyond; {:.0f} % of reading shows beside "
      "computing\n",
      machine.predicted_trips, machine.mispredict_cycles, machine.late_share * 100);
  return out + "stored in " + search::machine_profile_path() + "\n";
}

Json json(const search::MachineProfile& machine, const std::vector<pipeline::TensorPeak>& peaks) {
  Json instructions = Json::object();
  for (const pipeline::TensorPeak& peak : peaks) instructions[peak.instruction] = peak.operations_per_second * 1e-9;
  Json levels = Json::array();
  for (const search::MachineProfile::Level& level : machine.levels)
    levels.push_back({{"bytes", level.bytes},
                      {"read_gbs", level.read_bytes_per_second * 1e-9},
                      {"line_ns", level.line_seconds * 1e9},
                      {"line_of_page_ns", level.line_of_page_seconds * 1e9},
                      {"line_of_column_ns", level.line_of_column_seconds * 1e9},
                      {"hinted_gbs", level.hinted_bytes_per_second * 1e-9}});
  return {{"fingerprint", machine.fingerprint},
          {"cores", machine.cores},
          {"gflops_128", machine.flops_per_second[0] * 1e-9},
          {"gflops_256", machine.flops_per_second[1] * 1e-9},
          {"gflops_512", machine.flops_per_second[2] * 1e-9},
          {"gops_of_instructions", instructions},
          {"levels", levels},
          {"hint_streams", machine.hint_streams},
          {"write_gbs", machine.write_bytes_per_second * 1e-9},
          {"streaming_write_gbs", machine.streaming_write_bytes_per_second * 1e-9},
          {"launch_us", machine.launch_seconds * 1e6},
          {"fork_us", machine.fork_seconds * 1e6},
          {"barrier_us", machine.barrier_seconds * 1e6},
          {"cycle_ns", machine.cycle_seconds * 1e9},
          {"mixed_per_cycle", machine.mixed_per_cycle},
          {"division_cycles", machine.division_cycles},
          {"predicted_trips", machine.predicted_trips},
          {"mispredict_cycles", machine.mispredict_cycles},
          {"late_share", machine.late_share},
          {"latency_cycles",
           {{"add", machine.latency.add},
            {"multiply_add", machine.latency.multiply_add},
            {"maximum", machine.latency.maximum},
            {"through_memory", machine.latency.through_memory}}},
          {"stored", search::machine_profile_path()}};
}
} // namespace

int machine_command(const Options& options) {
  search::MachineProfile machine = search::measure_machine();
  search::store_machine_profile(machine);
  const std::vector<pipeline::TensorPeak> peaks = pipeline::tensor_peaks();
  fmt::print("{}", options.json ? json(machine, peaks).dump(2) + "\n" : text(machine, peaks));
  return 0;
}

} // namespace lathe::bench
