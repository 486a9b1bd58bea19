// What of the helpers is in a file of emitted source.
#include <doctest/doctest.h>

#include "ast/ast.hpp"
#include "lathe/error.hpp"
#include "render/helper_text.hpp"
#include "render/render.hpp"

using namespace lathe;
using render::HelperText;

namespace {

constexpr const char* kText = R"(#include <other.h>
#if defined(TARGET)
#pragma everywhere
#define lathe_one 1
#endif
#ifndef lathe_one
#define lathe_one lathe_plain
#endif
#define lathe_plain \
  (1 + \
   0)

/* Of lathe_pair
   alone. */
typedef int lathe_pair; typedef int lathe_pair_u;
#undef lathe_ten
#define lathe_ten 10

typedef short other_type;
static int lathe_add(lathe_pair a) {
  int lathe_twelve = 2;
  return a + lathe_twelve;
}
struct lathe_node;
struct lathe_node {
  void (*lathe_ten)(const struct lathe_node*, lathe_pair_u);
};
#if defined(OTHER)
#define lathe_twelve 1
#else
/* Elsewhere. */
#define lathe_twelve 12
#endif
)";
const std::string kEverywhere = R"(#include <other.h>
#if defined(TARGET)
#pragma everywhere
#endif

typedef short other_type;
)";

} // namespace

TEST_CASE("what nothing names is left out") {
  const HelperText helpers(kText);
  CHECK(helpers.used_by("") == kEverywhere);
  CHECK(helpers.used_by("int lathe_tenth = xlathe_ten; other_type lathe_pairs;") == kEverywhere);
}

TEST_CASE("what is named comes with what it needs, its headings and conditionals, in the order of the text") {
  const HelperText helpers(kText);
  CHECK(helpers.used_by("lathe_one") == R"(#include <other.h>
#if defined(TARGET)
#pragma everywhere
#define lathe_one 1
#endif
#ifndef lathe_one
#define lathe_one lathe_plain
#endif
#define lathe_plain \
  (1 + \
   0)

typedef short other_type;
)");
  CHECK(helpers.used_by("(lathe_add(1))") == R"(#include <other.h>
#if defined(TARGET)
#pragma everywhere
#endif

/* Of lathe_pair
   alone. */
typedef int lathe_pair; typedef int lathe_pair_u;

typedef short other_type;
static int lathe_add(lathe_pair a) {
  int lathe_twelve = 2;
  return a + lathe_twelve;
}
#if defined(OTHER)
#define lathe_twelve 1
#else
/* Elsewhere. */
#define lathe_twelve 12
#endif
)");
  const std::string node = helpers.used_by("lathe_node");
  CHECK(node.find("struct lathe_node;\nstruct lathe_node {") != std::string::npos);
  CHECK(node.find("#undef lathe_ten\n#define lathe_ten 10\n") != std::string::npos);
  CHECK(node.find("typedef int lathe_pair;") != std::string::npos);
  CHECK(node.find("lathe_twelve") == std::string::npos);
}

TEST_CASE("all that is named is all there is, whatever the order of the names") {
  const HelperText helpers(kText);
  CHECK(helpers.used_by("lathe_one lathe_add lathe_node") == kText);
  CHECK(helpers.used_by("lathe_node, lathe_add, lathe_one") == kText);
}

TEST_CASE("text that is not laid out so") {
  CHECK_THROWS_AS(HelperText("#if 1\n#define lathe_one 1\n"), InternalError);
  CHECK_THROWS_AS(HelperText("#define lathe_one 1\n#endif\n"), InternalError);
  CHECK_THROWS_AS(HelperText("static int lathe_f(void) {\n  return 1;\n"), InternalError);
  CHECK_THROWS_AS(HelperText("#define lathe_one 1"), InternalError);
}

TEST_CASE("a kernel's file has its helpers and no others") {
  const ast::Kernel kernel = ast::parse(R"(kernel tile(A: f16[64] in, B: f32[64] in, C: f32[64] out) {
for i in 64 vector(16) { C[i] = max(cast_f32(A[i]), B[i]) } })");
  const std::string code =
      render::render_c(kernel, {.vector_bytes = 64, .standalone = true, .scratch_offsets = {}});
  const std::string helpers = render::c_prelude(code);
  INFO(code);
  for (const char* used : {"lathe_f32x16", "lathe_value_f16x16", "lathe_max_f32x16", "lathe_widen_u16x16"}) {
    INFO(used);
    CHECK(helpers.find(used) != std::string::npos);
  }
  for (const char* unused :
       {"lathe_bits_f16x16", "lathe_max_i32x16", "lathe_idiv_i32", "lathe_f64x2", "lathe_env",
        "lathe_f32_to_i8", "lathe_load_apart", "lathe_stream", "lathe_round_bf16"}) {
    INFO(unused);
    CHECK(helpers.find(unused) == std::string::npos);
  }
  CHECK(helpers == render::c_prelude(code));

  const std::string plain = render::c_portable_prelude("float x = lathe_exp2_f32(y);");
  CHECK(plain.find("#define lathe_exp2_f32") != std::string::npos);
  CHECK(plain.find("#define LATHE_MATH") != std::string::npos);
  CHECK(plain.find("lathe_sin") == std::string::npos);
  CHECK(plain.find("lathe_idiv") == std::string::npos);
}

TEST_CASE("OpenCL C has no doubles where a kernel has none") {
  const ast::Kernel floats = ast::parse(R"(kernel a(A: f32[64] in, C: i32[64] out) {
for i in 64 parallel { C[i] = cast_i32(A[i]) } })");
  const ast::Kernel doubles = ast::parse(R"(kernel b(A: f64[64] in, C: i8[64] out) {
for i in 64 parallel { C[i] = cast_i8(A[i]) } })");
  const render::GridSource a = render::render_opencl(floats), b = render::render_opencl(doubles);
  CHECK(a.text.find("lathe_f32_to_i32(") < a.head);
  CHECK(a.text.find("double") == std::string::npos);
  CHECK(b.text.find("lathe_f64_to_i8(") < b.head);
  const std::string both = render::join_opencl({a, b});
  for (const char* helper : {"LATHE_FN int32_t lathe_f32_to_i32(", "LATHE_FN int8_t lathe_f64_to_i8("}) {
    const size_t at = both.find(helper);
    CHECK(at < both.find("__kernel"));
    CHECK(both.find(helper, at + 1) == std::string::npos);
  }
}
