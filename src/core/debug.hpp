// The debug level, from the environment variable LATHE_DEBUG, read once.
//
//   1  kernels with time, GFLOP/s and GB/s
//   2  schedules
//   3  source
//   4  every rewrite
#pragma once

namespace lathe {

/// The debug level, 0 to 4; 0 if LATHE_DEBUG is unset or no number. Thread-safe.
int debug_level();

} // namespace lathe
