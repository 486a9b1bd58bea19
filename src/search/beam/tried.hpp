// What a search tried on one state, for a trace: the moves as handles, which cost no text.
#pragma once
#include <string_view>
#include <utility>
#include <vector>

#include "core/byte_log.hpp"
#include "search/moves/move.hpp"

namespace lathe::search {

/// Puts and takes moves as they are in memory: the names of their handles live until the process ends.
inline void put_moves(ByteLog& log, const std::vector<Move>& moves) {
  log.put(static_cast<uint32_t>(moves.size()));
  for (const Move& move : moves) {
    log.put(move.kind);
    log.put(static_cast<uint32_t>(move.arguments.size()));
    log.put_all(move.arguments);
  }
}
/// Calls to_do(move) for each; the move lives for the call alone.
template <class ToDo> void take_moves(ByteReader& reader, ToDo to_do) {
  Move move{};
  for (auto left = reader.take<uint32_t>(); left > 0; --left) {
    move.kind = reader.take<MoveKind>();
    const auto arguments = reader.take<uint32_t>();
    reader.take_all(move.arguments, arguments);
    to_do(std::as_const(move));
  }
}

/// Proposals and what became of them, in the order in which they were tried.
class TriedList {
public:
  /// The moves made the kernel or plan of this hash. `reason`: why it goes no further; empty: it competes.
  void add_made(const std::vector<Move>& moves, uint64_t hash, double seconds, std::string_view reason = {}) {
    log_.put(true);
    log_.put(hash);
    log_.put(seconds);
    put_moves(log_, moves);
    log_.put_text(reason);
  }
  /// The moves are not legal.
  void add_refused(const std::vector<Move>& moves, std::string_view reason) {
    log_.put(false);
    put_moves(log_, moves);
    log_.put_text(reason);
  }
  bool empty() const { return log_.empty(); }
  void clear() { log_.clear(); }
  std::string_view bytes() const { return log_.bytes(); }

private:
  ByteLog log_;
};

} // namespace lathe::search
