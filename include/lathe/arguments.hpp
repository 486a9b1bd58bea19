// The types of arguments that must not be taken for others: an axis is no bool, a switch is no number, and {} is no axis.
// Each converts from what it reads as, and from nothing else, so that a call that means something else does not compile.
//
//   x.sum(0), x.sum({0, 1}), x.sum({}), x.sum({}, true);   // one axis, two, all, all and kept as size 1
//   x.sum(true), x.sum(0, 1), x.sort(true);                // errors of the compiler
#pragma once
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

namespace lathe {

/// An integer type that is a number, and not a truth value or a character.
template <class T>
concept WholeNumber = std::integral<T> && !std::same_as<std::remove_cv_t<T>, bool> && !std::same_as<std::remove_cv_t<T>, char> &&
                      !std::same_as<std::remove_cv_t<T>, wchar_t> && !std::same_as<std::remove_cv_t<T>, char8_t> &&
                      !std::same_as<std::remove_cv_t<T>, char16_t> && !std::same_as<std::remove_cv_t<T>, char32_t>;

/// true or false; a number or a string does not convert.
class Flag {
 public:
  template <std::same_as<bool> T> constexpr Flag(T value) : value_(value) {}
  constexpr operator bool() const { return value_; }

 private:
  bool value_;
};

/// One axis, counted from the end if negative. Any integer; `{}`, a bool or a float does not convert.
class Axis {
 public:
  template <WholeNumber T> constexpr Axis(T value) : value_(clamped(value)) {}
  constexpr operator int() const { return value_; }

 private:
  /// Beyond an int is beyond any rank, and stays so.
  template <class T> static constexpr int clamped(T value) {
    if (std::in_range<int>(value)) return static_cast<int>(value);
    return std::cmp_less(value, 0) ? std::numeric_limits<int>::min() : std::numeric_limits<int>::max();
  }
  int value_;
};

/// An integer of 64 bits: a count, a step or a bound. A float or a bool does not convert.
class Whole {
 public:
  template <WholeNumber T> constexpr Whole(T value)
      : value_(std::in_range<int64_t>(value) ? static_cast<int64_t>(value) : std::numeric_limits<int64_t>::max()) {}
  constexpr operator int64_t() const { return value_; }

 private:
  int64_t value_;
};

/// Axes as a list: `{0, 1}`, one axis alone, or `{}`, which reductions take for all axes.
class Axes : public std::vector<int> {
 public:
  Axes() = default;
  Axes(std::initializer_list<Axis> axes) : std::vector<int>(axes.begin(), axes.end()) {}
  Axes(std::vector<int> axes) : std::vector<int>(std::move(axes)) {}
  template <WholeNumber T> Axes(T axis) : std::vector<int>{static_cast<int>(Axis(axis))} {}
};

/// A C++ number beside a tensor.
class Number {
 public:
  enum class Kind { Bool, Signed, Unsigned, Float };
  template <class T> requires std::is_arithmetic_v<T> constexpr Number(T value) {
    if constexpr (std::is_floating_point_v<T>) {
      kind_ = Kind::Float;
      float_ = static_cast<double>(value);
    } else {
      kind_ = std::is_same_v<T, bool> ? Kind::Bool : std::is_signed_v<T> ? Kind::Signed : Kind::Unsigned;
      bits_ = static_cast<uint64_t>(value);
    }
  }
  Kind kind() const { return kind_; }
  double as_float() const { return float_; }      ///< of a Float
  uint64_t as_bits() const { return bits_; }      ///< of the others; of a Signed as two's complement

 private:
  Kind kind_ = Kind::Float;
  double float_ = 0;
  uint64_t bits_ = 0;
};

}  // namespace lathe
