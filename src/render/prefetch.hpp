// The cache level that a prefetch asks for, the same in all languages.
#pragma once
#include <cstdint>

namespace lathe::render {

/// Numbered as LLVM's prefetch and GCC's __builtin_prefetch number them.
enum class CacheLevel { Second = 2, First = 3 };

/// The cache level for the hint `ahead` of a load, in bytes; negative is behind. A Prefetch statement always
/// asks for the second level, since it looks further ahead.
inline CacheLevel cache_level_ahead(int64_t bytes) {
  constexpr int64_t kNear = 32 << 10; // bytes; lines further ahead would evict lines that are read sooner
  return bytes > -kNear && bytes < kNear ? CacheLevel::First : CacheLevel::Second;
}

} // namespace lathe::render
