// What verify refuses, each with the words that help; and what parse says about damaged text.
#include <doctest/doctest.h>

#include <fmt/format.h>

#include "lathe/error.hpp"
#include "unit/ast_run.hpp"

using namespace lathe;
using namespace lathe::ast;
using namespace lathe::ast::test;

namespace {

/// A kernel from one in buffer x[8], out buffers y[8] and z[1], and this body.
Kernel with_body(const std::string& body) {
  return parse("kernel k(x: f32[8] in, y: f32[8] out, z: f32[1] out; n in [1, 8]) {\n" + body + "\n}");
}
For& first_loop(Kernel& k) { return std::get<For>(k.body[0].node); }
Store& first_store(For& loop) { return std::get<Store>(loop.body[0].node); }

void refuses(const Kernel& k, const char* message) {
  CAPTURE(print(k));
  CHECK_THROWS_WITH_AS(verify(k), doctest::Contains(message), InternalError);
}
void refuses(const std::string& body, const char* message) { refuses(with_body(body), message); }
void accepts(const std::string& body) {
  CAPTURE(body);
  CHECK_NOTHROW(verify(with_body(body)));
}

/// Whatever happens to a kernel's text, only Error(Syntax) comes out of parse, or a kernel.
void survives(const std::string& text) {
  try {
    print(parse(text));
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::Syntax);
  }
}

} // namespace

TEST_CASE("bounds") {
  refuses("for i in 9 {\n y[i] = 1:f32\n}",
          "index i of dimension 0 of y is not provably in [0, 8), in: y[i] = 1:f32");
  refuses("for i in 8 {\n y[i] = x[i + 1]\n}", "index i + 1 of dimension 0 of x");
  refuses("for i in 8 {\n y[i] = x[i - 1]\n}", "index i - 1 of dimension 0 of x");
  refuses("for i in 8 {\n y[i] = x[i - 1; 0 < i + 1]\n}", "index i - 1 of dimension 0 of x");
  refuses("for o in 3 {\n for i in min(3, 9 - o * 3) {\n y[o * 3 + i] = 1:f32\n }\n}",
          "index o*3 + i of dimension 0 of y");
  accepts("for i in 8 {\n y[i] = x[i - 1; 0 < i]\n}");
  accepts("for o in 3 {\n for i in min(3, 8 - o * 3) {\n y[o * 3 + i] = 1:f32\n }\n}");
  accepts("for i in n {\n y[n - i - 1] = x[i]\n}");
  accepts(
      "for i in 8 {\n for k in 3 {\n z[0] += x[i * 2 + k - 1; 0 <= i * 2 + k - 1; i * 2 + k - 1 < 8]\n }\n}");
  accepts("for i in 8 {\n for k in 3 {\n z[0] += x[(i + k - 1) // 2; 0 <= i + k - 1; i + k - 1 < 16]\n }\n}");
  accepts("for i in 8 {\n for c in i < 4 {\n y[i] = x[i + 4]\n }\n}");
  refuses("for i in 8 {\n for c in i < 5 {\n y[i] = x[i + 4]\n }\n}", "index i + 4");
  // A remainder is at most what is divided.
  accepts("for i in 8 {\n y[i] = x[i - 3; 2 < i % 4]\n}");
  refuses("for i in 8 {\n y[i] = x[i - 3; 1 < i % 4]\n}", "index i - 3");
  // What is read of a box that is cut off in front, and only where there is something of it.
  const auto box = [](const char* guard) {
    return fmt::format(
        "for o in 4 {{\n alloc t: f32[2] packed {{\n  for j in 2 {{\n t[j] = 1:f32\n }}\n"
        "  for i in 2 {{\n y[o * 2 + i] = t[o * 2 + i - 1 - max(0, o * 2 - 1){}]\n }}\n }}\n}}",
        guard);
  };
  accepts(box("; 0 < o * 2 + i"));
  accepts(box("; o * 2 + i < 7; 0 < o * 2 + i"));
  refuses(box(""), "dimension 0 of t is not provably in [0, 2)");
  // Remainders and quotients that no rule takes apart, tried one iteration after the other.
  accepts("for i in 8 {\n y[i] = x[(i % 4) * 3 + 1; i % 4 < 3]\n}");
  refuses("for i in 8 {\n y[i] = x[(i % 4) * 3 + 2; i % 4 < 3]\n}", "index (i % 4)*3 + 2");
  accepts("for i in 8 {\n y[i] = x[((i + 5) // 3 + i) // 2; i % 5 < 4]\n}");
  refuses("for i in 8 {\n y[i] = x[((i + 5) // 3 + i) // 2 + 3; i % 5 < 4]\n}", "dimension 0 of x");
  // Only iterations that there are: i is 7 at most.
  accepts(
      "for o in 3 {\n for i in min(3, 8 - o * 3) {\n y[o * 3 + i] = x[((o * 3 + i) * 3 % 8 + o) % 8]\n }\n}");
  refuses(box("; o * 2 + i < 7"), "dimension 0 of t");
  refuses(box("; 0 <= o * 2 + i"), "dimension 0 of t");
  refuses(box("; 0 < i + 1"), "dimension 0 of t");
}

TEST_CASE("scopes and ids") {
  Kernel k = with_body("for i in 8 {\n y[i] = x[i]\n}");
  const Expr stray = loop_var(77, "stray", 8);
  first_store(first_loop(k)).index = {stray};
  refuses(k, "variable stray is not in scope");

  k = with_body("for i in 8 {\n y[i] = x[i]\n}");
  first_loop(k).extent = Var("m", 1, 8).expr();
  refuses(k, "variable m is not in scope");

  k = with_body("for i in 8 {\n for j in 8 {\n y[i] = x[j]\n }\n}");
  k.body.push_back(k.body[0]);
  refuses(k, "loop id 0 is taken");

  k = with_body("for i in 8 {\n y[i] = x[i]\n}");
  first_loop(k).extent = 9;
  refuses(k, "variable i is bounded by 8, not by the loop's extent");

  k = with_body("alloc t: f32[4] packed {\n t[0] = 1:f32\n}");
  const BufferRef t = std::get<Alloc>(k.body[0].node).buffer;
  k.body.push_back({Store{k.params[1].buffer, {0}, load(t, {0}), {}, {}}});
  refuses(k, "buffer t is not in scope, in: y[0] = t[0]");

  k = with_body("alloc t: f32[4] packed {\n}");
  Kernel doubled = k;
  doubled.body.push_back(doubled.body[0]);
  refuses(doubled, "buffer id 3 of t is taken");
  Buffer same = *t;
  same.id = 9;
  same.name = "x";
  k.body = {{Alloc{std::make_shared<const Buffer>(same), {}}}};
  refuses(k, "buffer name x is taken");
}

TEST_CASE("types and ranks") {
  refuses("x[0] = 1:f32", "buffer x is read-only, in: x[0] = 1:f32");
  Kernel k = with_body("for i in 8 {\n y[i] = x[i]\n}");
  first_store(first_loop(k)).value = constant(Scalar::of_int(DType::I32, 1));
  refuses(k, "a i32 is stored to y of f32");
  first_store(first_loop(k)).value = {};
  refuses(k, "a value is null");

  k = with_body("for i in 8 {\n y[i] = x[i]\n}");
  first_store(first_loop(k)).index.push_back(0);
  refuses(k, "2 indices of y, expected 1");

  k = with_body("for i in 8 {\n y[i] = x[i]\n}");
  first_store(first_loop(k)).combine = Op::CmpLt;
  refuses(k, "CmpLt is no combine of f32");
  first_store(first_loop(k)).combine = Op::Or;
  refuses(k, "Or is no combine of f32");

  k = with_body("for i in 8 {\n y[i] = x[i] + x[i]\n}");
  Value wrong = *first_store(first_loop(k)).value;
  wrong.sources.pop_back();
  first_store(first_loop(k)).value = intern(std::move(wrong));
  refuses(k, "Add of f32: wrong number of operands");

  k = with_body("for i in 8 {\n y[i] = x[i]\n}");
  first_store(first_loop(k)).index.clear();
  first_store(first_loop(k)).scatter = constant(Scalar::of_float(DType::F32, 1));
  refuses(k, "a scatter takes one computed index, an integer");
}

TEST_CASE("loop kinds") {
  refuses("for i in 8 vector(4) {\n y[i] = x[i]\n}", "a vector loop of up to 8 iterations has width 4");
  refuses("for i in 4 vector(4) {\n for j in 2 {\n y[i] = x[j]\n }\n}",
          "a vector loop holds more than Stores");
  refuses("for i in 8 group(3) {\n y[i] = x[i]\n}", "axis 3 is not 0, 1 or 2");
  refuses("for i in 2 local(0) {\n for j in 2 group(0) {\n y[i * 2 + j] = 1:f32\n }\n}",
          "a group loop inside a local loop");
  refuses("for i in 2 parallel {\n for j in 2 parallel {\n y[i * 2 + j] = 1:f32\n }\n}",
          "a parallel loop inside a parallel loop");
  refuses("for i in 8 {\n barrier\n}", "a barrier stands inside a group loop");
  refuses("for g in 2 group(0) {\n for l in 4 local(0) {\n barrier\n }\n}",
          "a barrier stands inside a group loop");
  refuses("for i in n {\n alloc t: f32[n] register {\n t[0] = 1:f32\n }\n}",
          "register buffer t has a shape that is not constant");
}

TEST_CASE("races") {
  refuses("for i in 8 parallel {\n z[0] += x[i]\n}",
          "iterations of i may meet at an element of z, in: z[0] += x[i]");
  refuses("for i in 4 parallel {\n for j in 4 {\n y[i + j] = 1:f32\n }\n}",
          "iterations of i may meet at an element of y");
  refuses("for i in 7 parallel {\n y[i] = y[i + 1]\n}", "iterations of i may meet at an element of y");
  refuses("for i in 7 vector(8) {\n y[i] = y[i + 1]\n}", "iterations of i may meet at an element of y");
  refuses("for i in 8 vector(8) {\n z[0] = x[i]\n}", "iterations of i may meet at an element of z");
  refuses("for i in 8 vector(8) {\n z[0] += x[i]\n y[i] = z[0]\n}",
          "iterations of i may meet at an element of z");
  refuses("for i in 8 parallel {\n y[@cast_i64(x[i])] += 1:f32\n}",
          "iterations of i may meet at a computed index of y");
  refuses("for i in 8 group(0) {\n z[0] max= x[i]\n}", "iterations of i may meet at an element of z");
  refuses("for o in 3 parallel {\n for i in 4 {\n for j in min(1, 8 - o * 3 - i) {\n y[o * 3 + i + j] = "
          "1:f32\n }\n }\n}",
          "iterations of o may meet");
  refuses("alloc t: f32[8] packed {\n for i in 8 parallel {\n t[i] = 1:f32\n }\n}",
          "buffer t is private to a thread but made outside the parallel loop");
  accepts("for i in 8 vector(8) {\n z[0] += x[i]\n}");
  accepts("for i in 8 parallel {\n y[i] = 0:f32\n y[i] += x[i] * y[i]\n}");
  accepts("for i in 2 parallel {\n for j in 4 {\n y[i * 4 + j] = 1:f32\n y[i * 4 + j] += y[i * 4 - j + 3]\n "
          "}\n}");
  accepts("for i in 4 parallel {\n for o in 2 {\n y[o * 4 + i] = x[o * 4 + i]\n }\n}");
  accepts("for i in 8 parallel {\n alloc t: f32[2] packed {\n t[0] = x[i]\n y[i] = t[0]\n }\n}");
  accepts("for o in 2 parallel {\n for m in 2 {\n for i in min(3, 4 - m * 3) {\n y[o * 4 + m * 3 + i] = "
          "x[0]\n }\n }\n}");
  accepts("for o in 2 parallel {\n for m in 2 {\n for i in 2 - m {\n y[o * 4 + m * 2 + i * 2] = x[0]\n"
          "y[o * 4 + m * 2 + i * 2 + 1] = x[0]\n }\n }\n}");
  accepts("for i in 8 parallel {\n y[7 - i] = x[i]\n}");
}

TEST_CASE("parse names the place and what it expected") {
  const auto says = [](const std::string& text, const char* message) {
    CAPTURE(text);
    CHECK_THROWS_WITH_AS(parse(text), doctest::Contains(message), Error);
  };
  says("", "kernel text: column 1: expected 'kernel'");
  says("kernel k(x: f32[4]) {\n}", "expected 'in' or 'out'");
  says("kernel k(x: f31[4] in) {\n}", "dtype 'f31' is unknown");
  says("kernel k(x: f32[m] in) {\n}", "'m'");
  says("kernel k(; n in [3, 2]) {\n}", "kernel text: line 1");
  says("kernel k(x: f32[4] out) {\n  x[0] = 1:f32\n", "line 3, column 1: expected '}'");
  says("kernel k(x: f32[4] out) {\n  y[0] = 1:f32\n}", "line 2, column 4: buffer 'y' is not in scope");
  says("kernel k(x: f32[4] out) {\n  x[0, 1] = 1:f32\n}", "line 2, column 9: 2 indices of x, expected 1");
  says("kernel k(x: f32[4] out) {\n  x[0] = 1:i32\n}", "line 2, column 15: a i32 stored to x, expected f32");
  says("kernel k(x: f32[4] out) {\n  x[0] = x[1] + 1:i32\n}", "operands of different dtypes");
  says("kernel k(x: f32[4] out) {\n  x[0] = sine(x[1])\n}", "unknown function 'sine'");
  says("kernel k(x: f32[4] out) {\n  x[0] = max(x[1])\n}", "Max takes 2 operands, not 1");
  says("kernel k(x: f32[4] out) {\n  x[0] = %1\n}", "a % name without its let");
  says("kernel k(x: f32[4] out) {\n  for i in 4 vector() {\n}", "expected a number after 'vector'");
  says("kernel k(x: f32[4] out) {\n  x[0] = 1:f32\n}\nmore", "line 4, column 1: expected the end of the text");
  std::string deep = "kernel k(x: f32[4] out) {\n x[0] = ";
  for (int i = 0; i < 100000; ++i) deep += '(';
  says(deep, "nested too deeply");
  deep = "kernel k(x: f32[4] out) {\n";
  for (int i = 0; i < 100000; ++i) deep += "for i in 4 {\n";
  says(deep, "nested too deeply");
}

TEST_CASE("damaged text never does worse than Error(Syntax)") {
  const std::string text = print(with_body(R"(for i in 8 parallel {
  alloc t: f32[2] register {
    t[0] = fma(x[i], -0.5:f32, where(x[i; 0 < i] < 1:f32, f32(i * 3), cast_f32(i64(i))))
    y[i] max= t[0] * t[0]
  }
}
for j in 8 vector(8) {
  stream y[j] += 1:f32
})"));
  std::mt19937 engine(3);
  for (int round = 0; round < 4000; ++round) {
    std::string damaged = text;
    const size_t at = engine() % damaged.size();
    switch (engine() % 3) {
    case 0: damaged[at] = static_cast<char>(32 + engine() % 95); break;
    case 1: damaged.erase(at, 1 + engine() % 5); break;
    default: damaged.resize(at);
    }
    survives(damaged);
  }
}
