// What the readers of expressions, views, graphs, kernels and moves stand on.
#include <doctest/doctest.h>

#include <limits>

#include "core/scanner.hpp"
#include "support/messages.hpp"

using namespace lathe;
using lathe::test::message_of;

TEST_CASE("lists are split where no bracket is open") {
  using Parts = std::vector<std::string_view>;
  CHECK(split_list("", ',') == Parts{});
  CHECK(split_list(" \t\n", ',') == Parts{});
  CHECK(split_list("a", ',') == Parts{"a"});
  CHECK(split_list(" a , b(c, d) ,[e, f],", ',') == Parts{"a", "b(c, d)", "[e, f]", ""});
  CHECK(split_list("min(a:b, c):d", ':') == Parts{"min(a:b, c)", "d"});
}

TEST_CASE("integers are whole texts") {
  CHECK(to_integer<int>("12") == 12);
  CHECK(to_integer<int>("-12") == -12);
  for (const char* text : {"", " 1", "1 ", "+1", "1.0", "99999999999", "0x1"}) CHECK(!to_integer<int>(text));
}

TEST_CASE("numbers to the ends of 64 bits") {
  const auto number = [](std::string_view text) { return Scanner("t", text).number(); };
  CHECK(number("9223372036854775807") == std::numeric_limits<int64_t>::max());
  CHECK(number(" -9223372036854775808") == std::numeric_limits<int64_t>::min());
  CHECK(number("-0") == 0);
  CHECK(message_of([&] { number("9223372036854775808"); }) ==
        "t: column 1: expected a number that fits in 64 bits");
  CHECK(message_of([&] { number("-9223372036854775809"); }) ==
        "t: column 2: expected a number that fits in 64 bits");
  CHECK(message_of([&] { number("18446744073709551616"); }) ==
        "t: column 1: expected a number that fits in 64 bits");
  CHECK(message_of([&] { number("x"); }) == "t: column 1: expected a number");
}

TEST_CASE("words, tokens and what stands between") {
  Scanner in("t", "  loop t3.i0 {\n(a, b) % c]\n");
  CHECK(in.word() == "loop");
  CHECK(in.maybe_word() == "t3.i0");
  CHECK(in.maybe_word().empty());
  CHECK(!in.accept("}"));
  in.expect("{");
  CHECK(!in.follows_on_line("("));
  CHECK(in.peek() == '(');
  CHECK(in.follows_on_line("("));
  CHECK(in.until(",%") == "(a, b)");
  CHECK(in.accept("%"));
  const size_t before = in.at();
  CHECK(in.word() == "c");
  in.go_to(before);
  CHECK(in.until("]") == "c");
  const size_t bracket = in.at();
  CHECK(message_of([&] { in.until(";"); }) ==
        "t: line 2, column 12: expected one of ';' before the end of the line");
  in.go_to(bracket);
  in.expect("]");
  CHECK(in.at_end());
  CHECK(in.peek() == '\0');
  CHECK(message_of([&] { in.word(); }) == "t: line 3, column 1: expected a name");
}

TEST_CASE("an error from elsewhere gets its place once") {
  Scanner in("t", "ab cd");
  const auto refused = [&] {
    in.located([&]() -> int {
      in.word();
      throw Error(ErrorKind::Shape, "no such shape");
    });
  };
  CHECK(message_of(refused) == "t: column 3: no such shape");
  CHECK(message_of([&] { in.located([&] { in.expect("x"); }); }) == "t: column 4: expected 'x'");
  CHECK(in.located([&] { return in.word() == "cd"; }));
}
