// The text of emitted source, of kernels small enough to read.
#include <doctest/doctest.h>

#include "ast/ast.hpp"
#include "render/render.hpp"

using namespace lathe;

namespace {

const ast::Kernel& tile() {
  static const ast::Kernel kernel =
      ast::parse(R"(kernel tile(A: f32[32, n] in, B: f32[n, 16] in, C: f32[32, 16] out; n in [1, 64]) {
for i in 16 parallel { alloc acc: f32[2, 16] register {
for l in 16 vector(16) { acc[0, l] = 0:f32 }
for l in 16 vector(16) { acc[1, l] = 0:f32 }
for k in n {
for l in 16 vector(16) { acc[0, l] += A[i*2, k] * B[k, l] }
for l in 16 vector(16) { acc[1, l] += A[i*2 + 1, k] * B[k, l] } }
for l in 16 vector(16) { C[i*2, l] = max(acc[0, l], 0:f32) }
for l in 16 vector(16) { C[i*2 + 1, l] = max(acc[1, l], 0:f32) } } }
})");
  return kernel;
}

} // namespace

TEST_CASE("C with the kernel ABI") {
  CHECK(
      render::render_c(tile(), {}) ==
      R"(static void tile_body0(int64_t i, void* const* buffers, const int64_t* vars, char* outer, char* scratch, const struct lathe_env* env) {
  const float* const A = (const float*)buffers[0];
  const float* const B = (const float*)buffers[1];
  float* const C = (float*)buffers[2];
  const int64_t n = vars[0];
  lathe_f32x16 acc_0;
  lathe_f32x16 acc_16;
  acc_0 = lathe_splat16(lathe_f32x16, 0.0f);
  acc_16 = lathe_splat16(lathe_f32x16, 0.0f);
  for (int64_t k = 0; k < n; ++k) {
    const float v0 = A[i * n * 2 + k];
    const lathe_f32x16 v1 = *(const lathe_f32x16_u*)(B + k * 16);
    acc_0 = lathe_fma_f32x16(lathe_splat16(lathe_f32x16, v0), v1, acc_0);
    const float v2 = A[i * n * 2 + k + n];
    acc_16 = lathe_fma_f32x16(lathe_splat16(lathe_f32x16, v2), v1, acc_16);
  }
  const lathe_f32x16 v3 = lathe_splat16(lathe_f32x16, 0.0f);
  const lathe_f32x16 v4 = lathe_larger_f32x16(v3, acc_0);
  *(lathe_f32x16_u*)(C + i * 32) = v4;
  const lathe_f32x16 v5 = lathe_splat16(lathe_f32x16, 0.0f);
  const lathe_f32x16 v6 = lathe_larger_f32x16(v5, acc_16);
  *(lathe_f32x16_u*)(C + i * 32 + 16) = v6;
}
void tile(void* const* buffers, const int64_t* vars, char* scratch, const struct lathe_env* env) {
  env->parallel_for(env, 16, tile_body0, buffers, vars, scratch);
}
)");
}

TEST_CASE("standalone C") {
  CHECK(render::render_c(tile(), {.vector_bytes = 32, .standalone = true, .scratch_offsets = {}}) ==
        R"(static void tile(const float* LATHE_RESTRICT A, const float* LATHE_RESTRICT B, float* LATHE_RESTRICT C, int64_t n) {
  for (int64_t i = 0; i < 16; ++i) {
    lathe_f32x8 acc_0;
    lathe_f32x8 acc_8;
    lathe_f32x8 acc_16;
    lathe_f32x8 acc_24;
    acc_0 = lathe_splat8(lathe_f32x8, 0.0f);
    acc_8 = lathe_splat8(lathe_f32x8, 0.0f);
    acc_16 = lathe_splat8(lathe_f32x8, 0.0f);
    acc_24 = lathe_splat8(lathe_f32x8, 0.0f);
    for (int64_t k = 0; k < n; ++k) {
      const float v0 = A[i * n * 2 + k];
      const lathe_f32x8 v1 = *(const lathe_f32x8_u*)(B + k * 16);
      acc_0 = lathe_fma_f32x8(lathe_splat8(lathe_f32x8, v0), v1, acc_0);
      const lathe_f32x8 v2 = *(const lathe_f32x8_u*)(B + k * 16 + 8);
      acc_8 = lathe_fma_f32x8(lathe_splat8(lathe_f32x8, v0), v2, acc_8);
      const float v3 = A[i * n * 2 + k + n];
      acc_16 = lathe_fma_f32x8(lathe_splat8(lathe_f32x8, v3), v1, acc_16);
      acc_24 = lathe_fma_f32x8(lathe_splat8(lathe_f32x8, v3), v2, acc_24);
    }
    const lathe_f32x8 v4 = lathe_splat8(lathe_f32x8, 0.0f);
    const lathe_f32x8 v5 = lathe_larger_f32x8(v4, acc_0);
    *(lathe_f32x8_u*)(C + i * 32) = v5;
    const lathe_f32x8 v6 = lathe_splat8(lathe_f32x8, 0.0f);
    const lathe_f32x8 v7 = lathe_larger_f32x8(v6, acc_8);
    *(lathe_f32x8_u*)(C + i * 32 + 8) = v7;
    const lathe_f32x8 v8 = lathe_splat8(lathe_f32x8, 0.0f);
    const lathe_f32x8 v9 = lathe_larger_f32x8(v8, acc_16);
    *(lathe_f32x8_u*)(C + i * 32 + 16) = v9;
    const lathe_f32x8 v10 = lathe_splat8(lathe_f32x8, 0.0f);
    const lathe_f32x8 v11 = lathe_larger_f32x8(v10, acc_24);
    *(lathe_f32x8_u*)(C + i * 32 + 24) = v11;
  }
}
)");
}

TEST_CASE("C: part of a vector, lanes apart, and a prefetch, each loaded once") {
  const ast::Kernel kernel =
      ast::parse(R"(kernel part(A: f32[9, 13] in, B: f32[40, 16] in, C: f32[9, 13] out) {
for i in 9 {
for l in 13 vector(16) { C[i, l] = A[i, l - 1; 0 < l; l < i + 2] * B[i, 3; ahead: 16] + B[l, i] }
for l in 13 vector(16) { C[i, l] max= A[i, l - 1; 0 < l; l < i + 2] * B[i, 3; ahead: 16] } } })");
  CHECK(render::render_c(kernel, {.standalone = true, .scratch_offsets = {}}) ==
        R"(static void part(const float* LATHE_RESTRICT A, const float* LATHE_RESTRICT B, float* LATHE_RESTRICT C) {
  for (int64_t i = 0; i < 9; ++i) {
    const lathe_f32x16 v0 = lathe_load_part_f32x16(A + i * 13 + (-1), 1, i + 2);
    lathe_prefetch(B + i * 16 + 19);
    const float v1 = B[i * 16 + 3];
    const lathe_f32x16 v2 = lathe_load_apart_f32x16(B + i, 0, 13, 0, 16, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 0, 0, 0);
    const lathe_f32x16 v3 = lathe_fma_f32x16(v0, lathe_splat16(lathe_f32x16, v1), v2);
    lathe_store_part_f32x16(C + i * 13, v3, 13);
    const lathe_f32x16 v4 = lathe_load_part_f32x16(C + i * 13, 0, 13);
    const lathe_f32x16 v5 = (v0 * lathe_splat16(lathe_f32x16, v1));
    lathe_store_part_f32x16(C + i * 13, lathe_max_f32x16(v4, v5), 13);
  }
}
)");
}

TEST_CASE("OpenCL C") {
  const render::GridSource source = render::render_opencl(tile());
  CHECK(source.functions == std::vector<std::string>{"tile"});
  REQUIRE(source.launches.size() == 1);
  CHECK(source.launches[0].global[0] == Expr(16));
  CHECK(source.text.substr(source.text.find("\n__kernel")) == R"(
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void tile(__global const float* A, __global const float* B, __global float* C, const long n, const long lathe_begin0, const long lathe_begin1, const long lathe_begin2) {
  A += lathe_begin0;
  B += lathe_begin1;
  C += lathe_begin2;
  {
    const long i = get_group_id(0);
    float16 acc_0;
    float16 acc_16;
    acc_0 = ((float16)(0.0f));
    acc_16 = ((float16)(0.0f));
    for (long k = 0; k < n; ++k) {
      const float v0 = A[i * n * 2 + k];
      const float16 v1 = vload16(0, B + k * 16);
      acc_0 = fma(((float16)(v0)), v1, acc_0);
      const float v2 = A[i * n * 2 + k + n];
      acc_16 = fma(((float16)(v2)), v1, acc_16);
    }
    const float16 v3 = ((float16)(0.0f));
    const float16 v4 = select(acc_0, v3, v3 > acc_0);
    vstore16(v4, 0, C + i * 32);
    const float16 v5 = ((float16)(0.0f));
    const float16 v6 = select(acc_16, v5, v5 > acc_16);
    vstore16(v6, 0, C + i * 32 + 16);
  }
}
)");
}

TEST_CASE("OpenCL C: barriers where work-items meet, and where the next iteration meets this one") {
  const auto body_of = [](const char* index) {
    const std::string text = std::string("kernel turn(A: f32[4, 32] in, O: f32[4, 32] out) {\n"
                                         "for g in 2 group(0) { alloc t: f32[16] local {\n"
                                         "for r in 4 {\n"
                                         "for l in 16 local(0) { t[l] = A[r, g*16 + l] }\n"
                                         "for m in 16 local(0) { O[r, g*16 + m] = t[") +
                             index + "] } } } } }";
    const std::string source = render::render_opencl(ast::parse(text)).text;
    return source.substr(source.find("    for (long r"));
  };
  CHECK(body_of("15 - m") == R"(    for (long r = 0; r < 4; ++r) {
      barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
      {
        const long l = get_local_id(0);
        const float v0 = A[g * 16 + r * 32 + l];
        t[l] = v0;
      }
      barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
      {
        const long m = get_local_id(0);
        const float v1 = t[m * (-1) + 15];
        O[g * 16 + r * 32 + m] = v1;
      }
    }
  }
}
)");
  // A work-item that reads what it wrote itself waits for no one.
  CHECK(body_of("m").find("barrier") == std::string::npos);
}
