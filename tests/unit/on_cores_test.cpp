// Pieces of one compilation on all cores: each is done once, and the smallest failure is the one reported.
#include <doctest/doctest.h>

#include <atomic>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "core/on_cores.hpp"

using namespace lathe;

TEST_CASE("every piece is done once") {
  for (const size_t count : {0, 1, 2, 7, 1000}) {
    std::vector<std::atomic<int>> done(count);
    on_cores(count, [&](size_t k) { done[k]++; });
    for (const auto& times : done) CHECK(times == 1);
  }
}

TEST_CASE("of several pieces that throw, the first in order is reported, after all are done") {
  std::atomic<int> done{0};
  const auto piece = [&](size_t k) {
    done++;
    if (k % 10 == 3) throw std::runtime_error("piece " + std::to_string(k));
  };
  CHECK_THROWS_WITH_AS(on_cores(50, piece), "piece 3", std::runtime_error);
  CHECK(done == 50);
}

TEST_CASE("pieces of a piece stay on its thread, also after one of them threw") {
  std::atomic<int> elsewhere{0}, thrown{0};
  on_cores(8, [&](size_t) {
    const auto here = std::this_thread::get_id();
    for (int times = 0; times < 2; ++times) try {
        on_cores(4, [&](size_t k) {
          elsewhere += std::this_thread::get_id() != here;
          if (k == 3) throw std::runtime_error("last");
        });
      } catch (const std::runtime_error&) {
        thrown++;
      }
  });
  CHECK(elsewhere == 0);
  CHECK(thrown == 16);
}

TEST_CASE("callers on several threads do not wait for each other's pieces") {
  std::atomic<int> done{0};
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 4; ++caller)
    callers.emplace_back([&] { on_cores(100, [&](size_t) { done++; }); });
  for (std::thread& caller : callers) caller.join();
  CHECK(done == 400);
}
