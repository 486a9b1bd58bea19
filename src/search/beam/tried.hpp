// What a search tried on one state, for a trace: the moves as handles, which cost no text.
#pragma once
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "core/byte_log.hpp"
#include "search/moves/move.hpp"

namespace lathe::search {

/// What put_moves() put for an argument whose alternative has this index.
template <size_t I = 0> Argument take_argument(ByteReader& reader, size_t index) {
  if constexpr (I + 1 < std::variant_size_v<Argument>)
    if (index != I) return take_argument<I + 1>(reader, index);
  return Argument(std::in_place_index<I>, reader.take<std::variant_alternative_t<I, Argument>>());
}

/// Puts and takes moves by their handles, whose names live until the process ends. Each has its size before
/// it, so that it can be taken as it is.
inline void put_moves(ByteLog& log, const std::vector<Move>& moves) {
  log.put(static_cast<uint32_t>(moves.size()));
  for (const Move& move : moves) {
    // One piece of the log for all of the move: a search puts millions.
    const auto count = static_cast<uint32_t>(move.arguments.size());
    const size_t begin = log.size(),
                 most = 2 * sizeof(uint32_t) + sizeof(MoveKind) + count * (1 + sizeof(Argument));
    char* const first = log.reserve(most);
    char* at = first + sizeof(uint32_t);
    const auto put = [&](const auto& value) {
      std::memcpy(at, &value, sizeof value);
      at += sizeof value;
    };
    put(move.kind);
    put(count);
    for (const Argument& argument : move.arguments) {
      put(static_cast<uint8_t>(argument.index()));
      std::visit(put, argument);
    }
    const auto bytes = static_cast<uint32_t>(at - first);
    log.resize(begin + bytes);
    log.put_at(begin, static_cast<uint32_t>(bytes - sizeof(uint32_t)));
  }
}
/// Calls to_do(bytes) for each move; move_of() makes a move of its bytes. Equal bytes are equal moves.
template <class ToDo> void take_moves(ByteReader& reader, ToDo to_do) {
  for (auto left = reader.take<uint32_t>(); left > 0; --left) to_do(reader.text());
}
inline Move move_of(std::string_view bytes) {
  ByteReader reader(bytes);
  Move move{reader.take<MoveKind>(), {}};
  for (auto left = reader.take<uint32_t>(); left > 0; --left)
    move.arguments.push_back(take_argument(reader, reader.take<uint8_t>()));
  return move;
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
