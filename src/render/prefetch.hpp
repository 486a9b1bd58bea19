// Which cache is asked to hold what will be read before long, the same in all languages.
#pragma once
#include <cstdint>

namespace lathe::render {

/// Numbered as LLVM's prefetch and GCC's __builtin_prefetch number them.
enum class CacheLevel { Second = 2, First = 3 };

/// Of what a load asks for so many bytes ahead, or behind. A Prefetch asks further ahead still, always for
/// the second level.
inline CacheLevel cache_level_ahead(int64_t bytes) {
  constexpr int64_t kNear = 32 << 10; // what is further ahead would drive out what is read till then
  return bytes > -kNear && bytes < kNear ? CacheLevel::First : CacheLevel::Second;
}

} // namespace lathe::render
