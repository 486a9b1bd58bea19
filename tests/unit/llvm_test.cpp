// The LLVM backend against the interpreter: every op on every dtype, and the shapes of loops that schedules
// make.
#include <doctest/doctest.h>

#include "ast/passes/prepare.hpp"
#include "runtime/llvm_backend.hpp"
#include "support/cpu_device.hpp"
#include "support/device_suite.hpp"

using namespace lathe;
using namespace lathe::test;

namespace {} // namespace

TEST_CASE("every op on every dtype, scalars and vectors") { check_ops(cpu()); }
TEST_CASE("every cast and bitcast, scalars and vectors") { check_casts(cpu()); }
TEST_CASE("loops as schedules make them") { check_loops(cpu()); }

namespace {

constexpr double kFewUlps = 1e-5;

/// What this backend does beyond one instruction per op: it keeps reductions in registers, moves what does
/// not change in front of loops, and picks an access by its stride.
std::vector<SampleKernel> backend_kernels() {
  return {
      {"a reduction goes through two loops",
       "kernel k(A: f32[6, 9, 48] in, S: f32[6] out, M: f32[6] out) {\n"
       "for i in 6 parallel { S[i] = 3:f32\n M[i] = -inf:f32\n"
       "for j in 9 { for o in 3 { for l in 16 vector(16) { S[i] += A[i, j, o*16 + l]\n"
       "M[i] max= A[i, j, o*16 + l] } } } }\n}",
       {{}},
       kFewUlps},
      {"a ragged reduction",
       "kernel k(A: f32[5, n] in, S: f32[5] out, P: f32[5] out, N: i64[5] out; n in [1, 200]) {\n"
       "for i in 5 { S[i] = 0:f32\n P[i] = 1:f32\n N[i] = 7:i64\n"
       "for o in (n + 15)//16 { for l in min(16, n - o*16) vector(16) { S[i] += A[i, o*16 + l] * A[i, o*16 + "
       "l]\n"
       "P[i] max= A[i, o*16 + l]\n N[i] += i64(o*16 + l) } } }\n}",
       {{1}, {16}, {33}, {200}},
       kFewUlps},
      {"a reduction that is read inside its loop",
       "kernel k(A: i32[20] in, S: i32[1] out, R: i32[20] out) {\n"
       "S[0] = 0:i32\n"
       "for i in 20 { S[0] += A[i]\n R[i] = S[0] }\n}"},
      {"two combines of one element",
       "kernel k(A: i32[20] in, S: i32[2] out) {\n"
       "S[0] = 0:i32\n S[1] = 1:i32\n"
       "for i in 20 { S[0] += A[i]\n S[0] += 2:i32\n S[1] += A[i]\n S[1] max= 40:i32 }\n}"},
      {"a reduction over a loop that may be empty",
       "kernel k(A: i32[8, 64] in, S: i32[8] out; n in [0, 64]) {\n"
       "for i in 8 { S[i] = i32(i) }\n"
       "for i in 8 { for j in n { S[i] += A[i, j] } }\n"
       "for i in 8 { for o in (n + 15)//16 { for l in min(16, n - o*16) vector(16) { S[i] += A[i, o*16 + l] "
       "} } }\n}",
       {{0}, {1}, {17}, {64}}},
      {"vectors stay over the reducing loop",
       "kernel k(A: f32[7, 33] in, B: f32[33, 40] in, C: f32[7, 40] out) {\n"
       "for i in 7 { for o in 3 { for l in min(16, 40 - o*16) vector(16) { C[i, o*16 + l] = 1:f32 } } }\n"
       "for i in 7 { for o in 3 { for k in 33 { for l in min(16, 40 - o*16) vector(16) {\n"
       "C[i, o*16 + l] += A[i, k] * B[k, o*16 + l] } } } }\n}",
       {{}},
       kFewUlps},
      {"logical reductions",
       "kernel k(A: bool[12, 32] in, B: u8[12, 32] in, S: bool[1] out, R: bool[1] out, T: u8[1] out, U: "
       "u8[1] out, V: u8[1] out) {\n"
       "S[0] = 0:bool\n R[0] = 1:bool\n T[0] = 0:u8\n U[0] = 255:u8\n V[0] = 1:u8\n"
       "for i in 12 { for l in 32 vector(32) { S[0] |= A[i, l]\n R[0] &= A[i, l] | (B[i, l] != 3:u8)\n"
       "T[0] max= B[i, l]\n U[0] &= B[i, l] | 8:u8\n V[0] *= B[i, l] | 1:u8 } }\n}"},
      {"half precision reductions",
       "kernel k(A: f16[4, 16] in, B: bf16[4, 16] in, S: f16[16] out, T: bf16[1] out) {\n"
       "for l in 16 vector(16) { S[l] = 0:f16 }\n T[0] = 0:bf16\n"
       "for i in 4 { for l in 16 vector(16) { S[l] += A[i, l] } }\n"
       "for i in 4 { for l in 16 vector(16) { T[0] max= B[i, l] } }\n}"},
      {"what is written in a loop is read again in it",
       "kernel k(A: i32[12] in, X: i32[1] out, R: i32[12] out, Q: i32[12] out) {\n"
       "X[0] = 5:i32\n"
       "for i in 12 { R[i] = X[0] + A[3]\n X[0] = A[i]\n Q[i] = X[0] + A[3] }\n}"},
      {"packed rows are refilled",
       "kernel k(A: i32[6, 16] in, O: i32[6, 16] out) {\n"
       "for i in 6 { alloc row: i32[16] packed { for l in 16 vector(16) { row[l] = A[i, l] }\n"
       "for j in 16 { O[i, j] = row[15 - j] + row[0] } } }\n}"},
      {"guards per lane",
       "kernel k(A: f32[40] in, B: f32[3, 9] in, O: f32[64] out, P: f32[64] out, Q: f32[64] out, R: f32[64] "
       "out, "
       "S: f32[64] out; n in [1, 40]) {\n"
       "for o in 4 { for l in 16 vector(16) { O[o*16 + l] = A[o*16 + l; o*16 + l < n] } }\n"
       "for o in 4 { for l in 16 vector(16) { P[o*16 + l] = A[n - 1 - o*16 - l; o*16 + l < n] } }\n"
       "for o in 4 { for l in 16 vector(16) { Q[o*16 + l] = A[o*32 + l*2 - 5; 5 <= o*32 + l*2; o*32 + l*2 - "
       "5 < 40] } }\n"
       "for o in 4 { for l in 16 vector(16) { R[o*16 + l] = A[0; (o*16 + l)%3 < 1] } }\n"
       "for o in 4 { for l in 16 vector(16) { S[o*16 + l] = B[(o*16 + l)//9%3, (o*16 + l)%9; (o*16 + l)%9 < "
       "7] } }\n}",
       {{1}, {16}, {23}, {40}}},
      {"guards of whole vectors",
       "kernel k(A: f32[32] in, O: f32[5, 16] out, P: f32[5, 16] out; n in [1, 4]) {\n"
       "for i in 5 { for l in 16 vector(16) { O[i, l] = A[i*16 + l; i < 2] + A[i*16 - 16 + l; 1 <= i; i < n; "
       "i < 3] } }\n"
       "for i in 5 { for l in 16 vector(16) { P[i, l] = A[i*2 + l*2; i < 1] } }\n}",
       {{1}, {2}, {4}}},
      {"lanes backwards and far apart",
       "kernel k(A: f32[320] in, O: f32[64] out, P: f32[16, 20] out, Q: f32[40] out; n in [3, 20]) {\n"
       "for o in 4 { for l in 16 vector(16) { O[63 - o*16 - l] = A[o*16 + l] } }\n"
       "for j in 20 { for l in 16 vector(16) { P[l, j] = A[l*n + j; j < n] } }\n"
       "for o in 3 { for l in min(16, 40 - o*16) vector(16) { Q[39 - o*16 - l] = A[79 - o*32 - l*2] } }\n}",
       {{3}, {20}}},
      {"lanes that do not divide", "kernel k(A: i64[13] in, O: i64[13] out, P: u8[40] out) {\n"
                                   "for l in 13 vector(16) { O[l] = A[12 - l] + i64(l) }\n"
                                   "for l in 40 vector(64) { P[l] = u8(l*3) }\n}"},
      {"an index as a number",
       "kernel k(O: f32[4, 16] out, P: u8[4, 16] out, Q: bool[4, 16] out, R: i64[4, 16] out, T: f16[4, 16] "
       "out; n in [1, 1000]) {\n"
       "for i in 4 { for l in 16 vector(16) { O[i, l] = f32(i*100 - l*n)\n P[i, l] = u8(i*100 - l*n)\n"
       "Q[i, l] = bool(i*4 < l)\n R[i, l] = i64((i*16 + l)//5 - (l*n)%7)\n T[i, l] = f16(l*n) } }\n}",
       {{1}, {1000}}},
      {"gathers by lane",
       "kernel k(A: f32[37] in, I: i32[48] in, J: u64[48] in, K: i8[48] in, O: f32[48] out, P: f32[48] out, "
       "Q: f32[48] out, R: bool[48] out, B: bool[5] in) {\n"
       "for o in 3 { for l in 16 vector(16) { O[o*16 + l] = A[@I[o*16 + l]*7:i32 - 3:i32] } }\n"
       "for o in 3 { for l in 16 vector(16) { P[o*16 + l] = A[@J[o*16 + l]*7:u64 - 3:u64; o*16 + l < 40] } "
       "}\n"
       "for o in 4 { for l in min(13, 48 - o*13) vector(16) { Q[o*13 + l] = A[@K[o*13 + l]*50:i8] } }\n"
       "for o in 3 { for l in 16 vector(16) { R[o*16 + l] = B[@I[o*16 + l] - 1:i32] } }\n}"},
      {"a triangle", "kernel k(A: i32[20, 20] in, S: i32[20] out) {\n"
                     "for i in 20 { S[i] = 0:i32\n for j in i { S[i] += A[i, j] } }\n"
                     "for i in 20 { for l in min(16, i) vector(16) { S[i] += A[i, l] } }\n}"},
      {"tiles whose rows are ragged",
       "kernel k(A: f32[10, 7] in, B: f32[7, 20] in, C: f32[10, 20] out) {\n"
       "for io in 3 parallel { for jo in 2 { alloc acc: f32[4, 16] register {\n"
       "for i in min(4, 10 - io*4) { for l in min(16, 20 - jo*16) vector(16) { acc[i, l] = 0:f32 } }\n"
       "for k in 7 { for i in min(4, 10 - io*4) { for l in min(16, 20 - jo*16) vector(16) {\n"
       "acc[i, l] += A[io*4 + i, k] * B[k, jo*16 + l] } } }\n"
       "for i in min(4, 10 - io*4) { for l in min(16, 20 - jo*16) vector(16) { C[io*4 + i, jo*16 + l] = "
       "acc[i, l] } } } } }\n}",
       {{}},
       kFewUlps},
      {"streams in a loop of rows",
       "kernel k(A: f32[9, 64] in, O: f32[9, 64] out, P: f32[9, 60] out) {\n"
       "for i in 9 parallel { for o in 4 { for l in 16 vector(16) { stream O[i, o*16 + l] = A[i, o*16 + l] + "
       "1:f32 } } }\n"
       "for i in 9 { for o in 3 { for l in 16 vector(16) { stream P[i, o*16 + l] = A[i, o*16 + l] } }\n"
       "for j in 12 { P[i, 48 + j] = 2:f32 } }\n}"},
      {"slow paths of equal arguments, in copies, lanes and scalars, and of what is written between them",
       "kernel k(A: f32[8] in, S: f32[8] out, V: f32[3] out, W: f32[3, 8] out, X: f32[8] out, Y: f32[2, 8] "
       "out) {\n"
       "for l in 8 vector(8) { S[l] = 0:f32\n X[l] = A[l] * 100000:f32 }\n"
       "for r in 3 { for u in 4 unroll { for l in 8 vector(8) { S[l] += sin(A[l] * f32(r*100000 + 100000)) "
       "} }\n"
       "V[r] = sin(A[r] * 100000:f32)\n"
       "for l in 8 vector(8) { W[r, l] = sin(A[r] * 100000:f32) * A[l] }\n"
       "for m in 8 vector(8) { X[m] = where(bool(m < 5), sin(X[m; m < 5]), 1:f32) }\n"
       "for u in 2 unroll { for l in 8 vector(8) {\n"
       "Y[u, l] = where(bool(l < 5), sin(X[l; l < 5] * 300000:f32), 0:f32) } } }\n}",
       {{}},
       kFewUlps},
      {"f64 functions", "kernel k(A: f64[16] in, O: f64[16] out, P: f64[16] out, Q: f64[3] out) {\n"
                        "for o in 2 { for l in 8 vector(8) { O[o*8 + l] = exp2(A[o*8 + l])\n P[o*8 + l] = "
                        "sin(A[o*8 + l]) } }\n"
                        "for i in 3 { Q[i] = log2(A[i] * A[i]) }\n}"},
  };
}

} // namespace

TEST_CASE("what this backend does of its own, with wide, narrow and no masked vectors") {
  for (const SampleKernel& sample : backend_kernels()) {
    CAPTURE(sample.name);
    const ast::Kernel kernel = ast::parse(sample.text);
    CHECK_NOTHROW(runtime::llvm_backend().ir_text(kernel, {})); // verifies the module
    for (const char* name : {"native", "x86-64-v3", "x86-64"}) {
      CAPTURE(name);
      auto& backend = runtime::llvm_backend();
      if (backend.vector_bytes(name) > backend.vector_bytes("native")) continue;
      const auto program = cpu().compile(kernel, {.threads = 2, .cpu = name});
      for (const auto& values : sample.shape_values) {
        Contents want = sample_contents(kernel, values, false, 1), got = want;
        interpret(kernel, want, values);
        run_on(cpu(), *program, got, values);
        CHECK(first_difference(kernel, got, want, sample.tolerance) == "");
      }
    }
  }
}

TEST_CASE("tiles after the passes, over sizes that do not divide") {
  const ast::Kernel kernel = ast::parse(
      "kernel k(A: f32[m, 9] in, B: f32[9, n] in, C: f32[m, n] out; m in [1, 40], n in [1, 80]) {\n"
      "for io in (m + 5)//6 parallel { for jo in (n + 31)//32 { alloc acc: f32[6, 32] register {\n"
      "for i in min(6, m - io*6) unroll { for jv in (min(32, n - jo*32) + 15)//16 unroll {\n"
      "for l in min(16, n - jo*32 - jv*16) vector(16) { acc[i, jv*16 + l] = 0:f32 } } }\n"
      "for k in 9 { for i in min(6, m - io*6) unroll { for jv in (min(32, n - jo*32) + 15)//16 unroll {\n"
      "for l in min(16, n - jo*32 - jv*16) vector(16) {\n"
      "acc[i, jv*16 + l] += A[io*6 + i, k] * B[k, jo*32 + jv*16 + l] } } } }\n"
      "for i in min(6, m - io*6) unroll { for jv in (min(32, n - jo*32) + 15)//16 unroll {\n"
      "for l in min(16, n - jo*32 - jv*16) vector(16) {\n"
      "C[io*6 + i, jo*32 + jv*16 + l] = max(acc[i, jv*16 + l], 0:f32) } } } } } }\n}");
  const ast::Kernel ready = ast::prepare(kernel);
  for (int64_t m : {1, 6, 7, 12, 40})
    for (int64_t n : {1, 16, 32, 33, 80}) {
      CAPTURE(m);
      CAPTURE(n);
      CHECK(compare(cpu(), ready, {m, n}, kFewUlps) == "");
    }
}

TEST_CASE("what a tile accumulates stays in registers") {
  const std::string text = runtime::llvm_backend().assembly(
      ast::parse(matmul_text(12, 32, 64, 12, 32, 16, false)), {.cpu = "x86-64-v4"});
  // The innermost loop is what stands between its label and the backward jump after the last product.
  const size_t first = text.find("vfmadd"), last = text.rfind("vfmadd");
  REQUIRE(first != std::string::npos);
  size_t products = 0;
  for (size_t at = first; at != std::string::npos; at = text.find("vfmadd", at + 1)) products++;
  CHECK(products == 24);
  CHECK(text.substr(first, last - first).find("(%rsp)") == std::string::npos);
}

TEST_CASE("what unrolled copies have in common is computed once, slow paths included") {
  const std::string text = "kernel k(A: f32[8] in, S: f32[4, 8] out, T: f32[32] out) {\n"
                           "for u in 4 unroll { for l in 8 vector(8) { S[u, l] = sin(A[l]) }\n"
                           "for m in 8 vector(8) { T[u*8 + m] = exp2(f32(m*m)) } }\n}";
  const std::string code = runtime::llvm_backend().ir_text(ast::prepare(ast::parse(text)), {});
  const auto count = [&](std::string_view part) {
    size_t n = 0;
    for (size_t at = code.find(part); at != std::string::npos; at = code.find(part, at + 1)) ++n;
    return n;
  };
  CHECK(count("detour:") == 1);
  CHECK(count("detour1:") + count("detour2:") == 0);
  CHECK(count("sitofp <8 x i32>") + count("uitofp <8 x i32>") <= 1);
}

TEST_CASE("what is read ahead of time is asked for once a line, and nothing else is") {
  auto requests = [](const std::string& text) {
    const std::string assembly = runtime::llvm_backend().assembly(ast::parse(text), {.cpu = "x86-64-v4"});
    size_t count = 0;
    for (size_t at = assembly.find("prefetch"); at != std::string::npos;
         at = assembly.find("prefetch", at + 1))
      ++count;
    return count;
  };
  const auto rows = [](const std::string& ahead) {
    return "kernel k(A: f32[8, 1024] in, S: f32[8] out, O: f32[8, 1024] out) {\n"
           "for i in 8 { S[i] = 0:f32\n"
           "for o in 32 { for l in 32 vector(32) { S[i] += A[i, o*32 + l" +
           ahead +
           "] } }\n"
           "for p in 64 { for l in 16 vector(16) { O[i, p*16 + l] = A[i, p*16 + l] * S[i] } } }\n}";
  };
  CHECK(requests(rows("")) == 0);
  CHECK(requests(rows("; ahead: 1024")) == 2); // a vector of two lines
  const auto asked_of = [&](const std::string& ahead, const char* instruction) {
    return runtime::llvm_backend()
               .assembly(ast::parse(rows(ahead)), {.cpu = "x86-64-v4"})
               .find(instruction) != std::string::npos;
  };
  CHECK(asked_of("; ahead: 1024", "prefetcht0"));
  CHECK(asked_of("; ahead: 16384", "prefetcht1")); // 64 KiB on: not into the first level
}

TEST_CASE("a tile in registers is transposed by shuffles, not by way of memory") {
  const std::string text =
      runtime::llvm_backend().assembly(ast::parse(transpose_text("f32", 16, 1)), {.cpu = "x86-64-v4"});
  CHECK(text.find("gather") == std::string::npos);
  CHECK(text.find("vinsertps") == std::string::npos);
  CHECK(text.find("(%rsp)") == std::string::npos);
}

TEST_CASE("lanes moved up are made from the whole vector") {
  const auto kernel =
      ast::parse("kernel k(A: f32[8, 16] in, O: f32[8, 16] out) {\n"
                 "for i in 8 { for l in 16 vector(16) { O[i, l] = A[i, l] + A[i, l - 1; 0 < l] + "
                 "A[i, l - 3; 2 < l] } }\n}");
  const std::string text = runtime::llvm_backend().assembly(kernel, {.cpu = "x86-64-v4"});
  CHECK(text.find("vexpand") == std::string::npos);
  CHECK(text.find("-4(") == std::string::npos); // no load from the element before
  const size_t first = text.find("vpermt2ps");
  REQUIRE(first != std::string::npos);
  CHECK(text.find("vpermt2ps", first + 1) != std::string::npos);
}

TEST_CASE("lanes apart are gathered where that is an instruction, and else loaded and stored one by one") {
  const ast::Kernel kernel = ast::parse("kernel k(A: f32[64, 16] in, O: f32[64, 16] out) {\n"
                                        "for i in 16 { for o in 4 { for l in 16 vector(16) {\n"
                                        "O[o*16 + l, i] = A[o*16 + l, i] * 2:f32 } } }\n}");
  auto& backend = runtime::llvm_backend();
  const bool microcode = backend.host_description().find("znver") != std::string::npos;
  for (const auto& [name, gathers] : {std::pair("x86-64-v4", true), std::pair("native", !microcode)}) {
    const std::string text = backend.ir_text(kernel, {.cpu = name});
    CHECK((text.find("call <16 x float> @llvm.masked.gather") != std::string::npos) == gathers);
    CHECK((text.find("call void @llvm.masked.scatter") != std::string::npos) == gathers);
  }
}

TEST_CASE("CPUs by name") {
  auto& backend = runtime::llvm_backend();
  CHECK(backend.vector_bytes("x86-64") == 16);
  CHECK(backend.vector_bytes("x86-64-v3") == 32);
  CHECK(backend.vector_bytes("x86-64-v4") == 64);
  CHECK(backend.vector_bytes("native") >= 16);
  try {
    backend.compile(ast::parse(matmul_text(2, 4, 2, 2, 4, 4, false)), {.cpu = "z80"});
    FAIL("a CPU that is none");
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::Device);
    CHECK(std::string(e.what()).find("z80") != std::string::npos);
  }
  // Code for an old CPU runs too, without the instructions that it lacks.
  for (int i = 0; i < kDTypeCount; ++i) {
    CAPTURE(to_string(static_cast<DType>(i)));
    for (const char* name : {"x86-64", "x86-64-v2"})
      for (const ast::Kernel& kernel :
           {arithmetic_kernel(static_cast<DType>(i), 4), cast_kernel(static_cast<DType>(i), 4)}) {
        const auto program = cpu().compile(kernel, {.cpu = name});
        Contents want = sample_contents(kernel, {}, true, 1), got = want;
        interpret(kernel, want, {});
        run_on(cpu(), *program, got, {});
        CHECK(first_difference(kernel, got, want, 0) == "");
      }
  }
}

TEST_CASE("what only OpenCL has is an error that says so") {
  for (const char* text : {"kernel k(O: f32[8] out) { for i in 8 group(0) { O[i] = 0:f32 } }",
                           "kernel k(O: f32[8] out) { for i in 8 { barrier\n O[i] = 0:f32 } }",
                           "kernel k(O: f32[8] out) { alloc t: f32[8] local { for i in 8 { t[i] = 0:f32 } "
                           "for i in 8 { O[i] = t[i] } } }"})
    try {
      runtime::llvm_backend().compile(ast::parse(text), {});
      FAIL(text);
    } catch (const Error& e) {
      CHECK(e.kind() == ErrorKind::Device);
      CHECK(std::string(e.what()).starts_with("cpu: "));
    }
}
