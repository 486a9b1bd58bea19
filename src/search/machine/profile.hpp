// The machine as the cost model knows it, and the least time that a computation takes on it.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace lathe::search {

/// Cycles from one f32 operation to the next that uses its result.
struct Latency {
  double add = 4, multiply_add = 4;
  double maximum = 8;        // as renderers write it: a NaN goes through
  double through_memory = 5; // from a store to a load of the same address
};

/// Numbers that `lathe-bench machine` measures, once per machine; defaults: a typical recent x86 server.
struct MachineProfile {
  double flops_per_second[3] = {45e9, 96e9, 179e9}; // f32 FMA on one core with 128, 256, 512-bit vectors
  struct Level {
    int64_t bytes;
    double read_bytes_per_second;
    double line_seconds = 2 * 64 / read_bytes_per_second; // a single line that no prefetcher foresees
    double line_of_page_seconds = line_seconds;           // a line that lies one page after the last
    double line_of_column_seconds = line_seconds; // a line read one number at a time, in turns with others
    double hinted_bytes_per_second = read_bytes_per_second; // data that only prefetches ask for
  };
  /// Innermost first; the last is main memory.
  std::vector<Level> levels{
      {48 << 10, 360e9},
      {2 << 20, 141e9},
      {.bytes = 32 << 20, .read_bytes_per_second = 30e9, .hinted_bytes_per_second = 13.5e9},
      {.bytes = int64_t{1} << 40, .read_bytes_per_second = 16e9, .hinted_bytes_per_second = 13.5e9}};
  int hint_streams = 4; // a contiguous run is prefetched fastest in so many parts that take turns
  double write_bytes_per_second = 12e9; // of ordinary stores to main memory, one core
  double streaming_write_bytes_per_second = 20e9;
  double launch_seconds = 0.2e-6, fork_seconds = 1.0e-6, barrier_seconds = 0.2e-6;
  double cycle_seconds = 4.0 * 16 / 179e9; // from one integer addition to the next that uses its result
  /// Instructions a cycle, additions, multiplications and logic mixed as in a polynomial; by vector width.
  double mixed_per_cycle[3] = {2, 2, 2};
  double division_cycles[3] = {3, 5, 10}; // from one f32 division to the next; by vector width
  Latency latency;
  double predicted_trips = 24;   // iterations of an inner loop up to which its end is predicted
  double mispredict_cycles = 14; // lost by a mispredicted loop exit
  /// Share of contiguous reads from main memory, without hints, that longer computing does not hide.
  double late_share = 0.6;
  int cores = 1;
  std::string fingerprint; // CPU model, features, caches, lathe version
};
/// The profile measured and stored for this machine, else the defaults with this machine's cache sizes. A
/// process reads it once.
MachineProfile machine_profile();
/// The defaults with this machine's cache sizes, cores and fingerprint.
MachineProfile default_machine_profile();
/// Why the stored profile is not used: damaged, of another machine or of another version. Empty if it is
/// used, or nothing is stored.
std::string machine_profile_fault();
/// Path of the stored profile: machine.json beside the database.
std::string machine_profile_path();
/// Stores the profile for later processes. Throws Error(File) if it can't be written.
void store_machine_profile(const MachineProfile& profile);
/// CPU model, features, caches, cores and lathe's version, as text.
std::string machine_fingerprint();

/// Bytes that a computation has to read and write at least.
struct CompulsoryTraffic {
  double read = 0, written = 0;
};
/// The least time of a computation: the larger of arithmetic at the FMA peak (for elements of
/// `element_bytes`), or `speed` times as fast, and compulsory traffic at the bandwidth of the innermost level that holds all
/// of it.
struct Limit {
  const char* kind; ///< "compute" or "bandwidth"
  double seconds;
};
Limit machine_limit(const MachineProfile& machine, int threads, int element_bytes, double flops,
                    const CompulsoryTraffic& traffic, double speed = 1);

} // namespace lathe::search
