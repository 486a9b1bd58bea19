// The text of one record, written from left to right. A search tells of ten thousand states a second: a tree
// of JSON values for each costs it a tenth of its speed.
//
//   JsonLine line(text);                              // empties `text`, and keeps its memory
//   line.open('{').key("id").number(7).key("moves").moves(moves).close('}');
#pragma once
#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>

#include "search/moves/move.hpp"

namespace lathe::tracing {

class JsonLine {
public:
  explicit JsonLine(std::string& text) : text_(text) { text_.clear(); }

  JsonLine& open(char bracket) { ///< of an array or an object
    separate();
    text_.push_back(bracket);
    follows_ = false;
    return *this;
  }
  JsonLine& close(char bracket) {
    text_.push_back(bracket);
    follows_ = true;
    return *this;
  }
  JsonLine& key(std::string_view name) { ///< needs no escapes
    separate();
    text_.push_back('"');
    text_.append(name);
    text_.append("\":", 2);
    follows_ = false;
    return *this;
  }
  template <class Integer> JsonLine& number(Integer value) {
    separate();
    append_number(value);
    return *this;
  }
  JsonLine& seconds(double value);        ///< five significant digits; 0 for what is not positive and finite
  JsonLine& microseconds(double seconds); ///< seconds, rounded to six digits after the point
  JsonLine& hash(uint64_t value);         ///< 16 hexadecimal digits
  JsonLine& string(std::string_view any); ///< any bytes: those that are not UTF-8 are replaced
  JsonLine& move(const search::Move& move);
  /// Key and value of an object, as text without the brackets.
  JsonLine& fields(std::string_view text) {
    separate();
    text_.append(text);
    return *this;
  }

private:
  void separate() {
    if (follows_) text_.push_back(',');
    follows_ = true;
  }
  template <class Integer> void append_number(Integer value) {
    char digits[24];
    text_.append(digits, std::to_chars(digits, digits + sizeof digits, value).ptr);
  }
  void escape_from(size_t begin);

  std::string& text_;
  bool follows_ = false; // another value or key stands before the next one
};

} // namespace lathe::tracing
