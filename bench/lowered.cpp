#include "lowered.hpp"

#include <sstream>

namespace lathe::bench {

search::Target host_target(int threads) {
  search::Target target;
  bool avx512 = __builtin_cpu_supports("avx512f"), avx = __builtin_cpu_supports("avx");
  target.vector_bytes = avx512 ? 64 : avx ? 32 : 16;
  target.vector_registers = avx512 ? 32 : 16;
  target.threads = threads;
  return target;
}

} // namespace lathe::bench
