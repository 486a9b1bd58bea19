// What the machine form says of accesses, and that it computes what the kernel before it does.
#include <doctest/doctest.h>

#include <fmt/format.h>

#include "ast/machine/machine_form.hpp"
#include "support/vector_forms.hpp"
#include "unit/ast_run.hpp"

using namespace lathe;
using namespace lathe::ast;
using namespace lathe::ast::test;
using namespace lathe::test;

namespace {

/// The lines of the kernel's text that store, without what stands before them.
std::vector<std::string> stores(const Kernel& kernel) {
  std::vector<std::string> out;
  const std::string text = print(kernel);
  for (size_t at = 0, end; (end = text.find('\n', at)) != std::string::npos; at = end + 1) {
    const std::string line = text.substr(at, end - at);
    if (line.find(" = ") == std::string::npos && line.find("= ") == std::string::npos) continue;
    out.push_back(line.substr(line.find_first_not_of(' ')));
  }
  return out;
}

Kernel one_loop(const std::string& params, const std::string& store, int extent = 8) {
  return parse(fmt::format("kernel k({}) {{\nfor l in {} vector(8) {{\n{}\n}}\n}}", params, extent, store));
}

std::string form_of(const std::string& params, const std::string& store, int extent = 8) {
  const Kernel kernel = one_loop(params, store, extent), form = machine_form(kernel, VectorForms());
  verify(form);
  CHECK(print(parse(print(form))) == print(form));
  CHECK(structural_hash(parse(print(form))) == structural_hash(form));
  CHECK(run(form) == run(kernel));
  const std::vector<std::string> lines = stores(form);
  REQUIRE(lines.size() == 1);
  return lines[0];
}

} // namespace

TEST_CASE("every access of a vector loop says what it is") {
  const std::string io = "x: f32[64] in, i: i32[8] in, y: f32[64] out";
  CHECK(form_of(io, "y[l] = x[l]") == "y[l; lanes: whole] = x[l; lanes: whole]");
  CHECK(form_of(io, "y[l] = x[3]") == "y[l; lanes: whole] = x[3; lanes: one]");
  CHECK(form_of(io, "y[7 - l] = x[l]") == "y[7 - l; lanes: backwards] = x[l; lanes: whole]");
  CHECK(form_of(io, "y[l] = x[l*2]") == "y[l; lanes: whole] = x[l*2; lanes: spaced]");
  CHECK(form_of(io, "y[l] = x[l*4 + 3]") == "y[l; lanes: whole] = x[l*4 + 3; lanes: spaced]"); // to 16 bytes
  CHECK(form_of("x: u8[64] in, y: u8[64] out", "y[l] = x[l*8]") == "y[l; lanes: whole] = x[l*8; lanes: spaced]");
  CHECK(form_of(io, "y[l*3] = x[l*5]") == "y[l*3; lanes: apart] = x[l*5; lanes: apart]");
  CHECK(form_of(io, "y[l] = x[l // 2]") == "y[l; lanes: whole] = x[l // 2; lanes: scattered]");
  CHECK(form_of(io, "y[3] += x[l]") == "y[3; lanes: one] += x[l; lanes: whole]");
  CHECK(form_of(io, "y[l] = x[l - 3; 3 <= l]") == "y[l; lanes: whole] = x[l - 3; 2 < l; lanes: moved_up]");
  CHECK(form_of(io, "y[l] = x[l; l < 5]") == "y[l; lanes: whole] = x[l; l < 5; lanes: whole masked]");
  CHECK(form_of(io, "y[l] = x[3; l < 5]") == "y[l; lanes: whole] = x[3; l < 5; lanes: one masked]");
  CHECK(form_of(io, "y[l] = x[@i[l]]") == "y[l; lanes: whole] = x[@i[l; lanes: whole]]");
}

TEST_CASE("a vector with fewer iterations than lanes masks what must not be touched") {
  const std::string io = "x: f32[13] in, y: f32[64] out";
  CHECK(form_of(io, "y[l] = x[l]", 5) ==
        "y[l; lanes: whole masked] = x[l; lanes: whole]"); // x has 8 elements there
  CHECK(form_of(io, "y[l] = x[l + 8]", 5) == "y[l; lanes: whole masked] = x[l + 8; lanes: whole masked]");
  CHECK(form_of(io, "y[l] = x[l*2]", 5) == "y[l; lanes: whole masked] = x[l*2; lanes: apart masked]");
}

TEST_CASE("a product that is added is one instruction, unless it is rounded for others") {
  const std::string io = "x: f32[64] in, y: f32[64] out";
  CHECK(form_of(io, "y[l] += x[l] * x[0]") ==
        "y[l; lanes: whole] += x[l; lanes: whole] * x[0; lanes: one] by MultiplyAdd");
  CHECK(form_of(io, "y[l] += rounded(x[l] * x[0])") ==
        "y[l; lanes: whole] += rounded(x[l; lanes: whole] * x[0; lanes: one])");
  CHECK(form_of("x: f16[64] in, y: f16[64] out", "y[l] += x[l] * x[0]") ==
        "y[l; lanes: whole] += x[l; lanes: whole] * x[0; lanes: one]");
  CHECK(form_of("x: i32[64] in, y: i32[64] out", "y[l] += x[l] * x[0]") ==
        "y[l; lanes: whole] += x[l; lanes: whole] * x[0; lanes: one]");
  VectorForms forms;
  forms.instructions.clear();
  const Kernel kernel = one_loop(io, "y[l] += x[l] * x[0]");
  CHECK(print(machine_form(kernel, forms)).find("by") == std::string::npos);
}

TEST_CASE("MultiplyAdd rounds once") {
  const Kernel kernel = parse("kernel k(x: f32[1] in, y: f32[1] out) {\ny[0] += x[0] * x[0]\n}"),
               form = machine_form(kernel, VectorForms());
  float x = 1.0f + 0x1p-12f, y = -1.0f, z = -1.0f; // x * x needs a bit more than f32 has
  interpret(form, {{&x, 4}, {&y, 4}}, {});
  interpret(kernel, {{&x, 4}, {&z, 4}}, {});
  CHECK(y == 0x1p-11f + 0x1p-24f);
  CHECK(z == 0x1p-11f);
}

TEST_CASE("columns of an array in registers, where its rows are whole vectors") {
  const auto column = [](int row) {
    const Kernel kernel =
        parse(fmt::format("kernel k(x: f32[64] in, y: f32[8] out) {{\nalloc a: f32[4, {0}] register {{\n"
                          "for r in 4 {{\nfor z in {0} {{\na[r, z] = x[r*4 + z]\n}}\n}}\n"
                          "for l in 4 vector(4) {{\ny[l] = a[l, 1]\n}}\n}}\n}}",
                          row));
    const Kernel form = machine_form(kernel, VectorForms());
    CHECK(run(form) == run(kernel));
    return print(form).find("lanes: column") != std::string::npos;
  };
  CHECK(column(4));
  CHECK(column(8));
  CHECK_FALSE(column(3)); // vectors of rows overlap
  CHECK(column(5));       // the first four
}

TEST_CASE("loops are cut into the target's vectors, or are serial") {
  const auto loops = [](const Kernel& kernel) {
    std::string out;
    visit(kernel.body, [&](const Stmt& stmt, const auto&) {
      if (const auto* f = std::get_if<For>(&stmt.node))
        out +=
            f->kind == LoopKind::Vector ? fmt::format("{}/{} ", to_string(f->extent), f->width) : "serial ";
    });
    return out;
  };
  const std::string io =
      "x: f32[64] in, h: f16[64] in, d: f64[64] in, i: i32[64] in, y: f32[64] out, g: f64[64] out";
  struct Row {
    const char* store;
    int extent;
    const char *wide, *narrow, *whole_only;
  };
  const Row rows[] = {
      {"y[l] = x[l]", 8, "8/8 ", "4/4 4/4 ", "8/8 "},
      {"y[l] = x[l]", 5, "5/8 ", "4/4 1/4 ", "serial "},
      {"g[l] = d[l]", 8, "8/8 ", "2/2 2/2 2/2 2/2 ", "8/8 "},
      {"y[l] = cast_f32(h[l])", 8, "8/8 ", "4/4 4/4 ", "serial "},
      {"y[l] = x[@i[l]]", 8, "8/8 ", "4/4 4/4 ", "serial "},
      {"y[@i[l]] = x[l]", 8, "serial ", "serial ", "serial "},
      {"y[l // 2] += x[l]", 8, "serial ", "serial ", "serial "}, // two lanes meet
      {"y[l*2] += x[l]", 8, "8/8 ", "4/4 4/4 ", "8/8 "},
      {"y[0] = x[l]", 8, "serial ", "serial ", "serial "}, // the last one wins
      {"y[0] += x[l]", 8, "8/8 ", "4/4 4/4 ", "8/8 "},
  };
  for (const Row& row : rows) {
    CAPTURE(row.store);
    CAPTURE(row.extent);
    const Kernel kernel = one_loop(io, row.store, row.extent);
    CHECK(loops(machine_form(kernel, VectorForms())) == row.wide);
    CHECK(loops(machine_form(kernel, narrow_vectors())) == row.narrow);
    CHECK(loops(machine_form(kernel, whole_vectors())) == row.whole_only);
    CHECK(loops(machine_form(kernel, no_vectors())) == "serial ");
    for (const VectorForms& forms : all_vector_forms()) {
      const Kernel form = machine_form(kernel, forms);
      verify(form);
      CHECK(run(form) == run(kernel));
    }
  }
}

TEST_CASE("an extent that only the run knows") {
  const Kernel kernel = parse("kernel k(x: f32[n] in, y: f32[n] out; n in [1, 8]) {\n"
                              "for l in n vector(8) {\ny[l] = x[l]\n}\n}");
  VectorForms forms;
  CHECK(print(machine_form(kernel, forms)).find("whole masked") != std::string::npos);
  forms.ragged = false;
  CHECK(print(machine_form(kernel, forms)).find("vector") == std::string::npos);
  for (int64_t n : {1, 5, 8}) CHECK(run(machine_form(kernel, forms), {n}) == run(kernel, {n}));
}
