// Draws programs, runs them and reports what is wrong: the part that may crash.
#pragma once
#include "net/options.hpp"

namespace lathe::net {

/// The batches that begin at `from`, `from + step`, ...; says "at N" and "done ..." on `fd`.
void work(const Options& options, uint64_t from, uint64_t step, int fd);
int replay(const Options& options);

} // namespace lathe::net
