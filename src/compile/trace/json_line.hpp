// The text of one record, written from left to right. A search tells of ten thousand states a second: a tree
// of JSON values for each costs it a tenth of its speed.
//
//   JsonLine line(text);                              // empties `text`, and keeps its memory
//   line.open('{').key("id").number(7).key("moves").moves(moves).close('}');
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "search/moves/move.hpp"

namespace lathe::tracing {

class JsonLine {
public:
  explicit JsonLine(std::string& text) : text_(text) { text_.clear(); }

  JsonLine& open(char bracket); ///< of an array or an object
  JsonLine& close(char bracket);
  JsonLine& key(std::string_view name); ///< needs no escapes
  JsonLine& number(int64_t value);
  JsonLine& seconds(double value);        ///< five significant digits; 0 for what is not positive and finite
  JsonLine& microseconds(double seconds); ///< seconds, rounded to six digits after the point
  JsonLine& hash(uint64_t value);         ///< 16 hexadecimal digits
  JsonLine& string(std::string_view any); ///< any bytes: those that are not UTF-8 are replaced
  JsonLine& moves(const std::vector<search::Move>& moves);

private:
  void separate();

  std::string& text_;
  std::string move_text_;
  bool follows_ = false; // another value or key stands before the next one
};

} // namespace lathe::tracing
