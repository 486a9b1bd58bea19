// How much longer than usual a test should give what it times: sanitized code is several times slower.
#pragma once

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define LATHE_TEST_SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define LATHE_TEST_SANITIZED 1
#endif

#ifdef LATHE_TEST_SANITIZED
constexpr double kPatience = 10;
#else
constexpr double kPatience = 1;
#endif
