#include "core/on_cores.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace lathe {
namespace {

thread_local bool inside_piece = false;

/// While this object lives, the thread does pieces.
class DoesPieces {
public:
  DoesPieces() : outer_(std::exchange(inside_piece, true)) {}
  ~DoesPieces() { inside_piece = outer_; }
  DoesPieces(const DoesPieces&) = delete;
  DoesPieces& operator=(const DoesPieces&) = delete;

private:
  const bool outer_;
};

} // namespace

void on_cores(size_t count, const std::function<void(size_t)>& piece) {
  const size_t threads =
      inside_piece ? 1 : std::min<size_t>(count, std::max(1u, std::thread::hardware_concurrency()));
  std::vector<std::exception_ptr> thrown(count);
  std::atomic<size_t> next{0};
  const auto work = [&] {
    const DoesPieces here;
    for (size_t k; (k = next.fetch_add(1, std::memory_order_relaxed)) < count;) {
      try {
        piece(k);
      } catch (...) {
        thrown[k] = std::current_exception();
      }
    }
  };
  std::vector<std::thread> others;
  try {
    while (others.size() + 1 < threads) others.emplace_back(work);
  } catch (const std::system_error&) { // the system gives no more threads: those there are do all
  }
  work();
  for (std::thread& other : others) other.join();
  for (const std::exception_ptr& error : thrown)
    if (error) std::rethrow_exception(error);
}

} // namespace lathe
