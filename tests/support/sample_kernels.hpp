// Kernels in the shapes that schedules make, as text: what every device has to get right.
#pragma once
#include <string>
#include <vector>

#include <fmt/format.h>

namespace lathe::test {

struct SampleKernel {
  std::string name;
  std::string text;
  std::vector<std::vector<int64_t>> shape_values = {{}}; // each is tried
  double tolerance = 0;
};

/// C = A B with an mr x nr tile in registers, its loops unrolled, and ragged rows and columns in nests of
/// their own.
inline std::string matmul_text(int m, int n, int k, int mr, int nr, int width, bool parallel) {
  std::string t = fmt::format(
      "kernel matmul(A: f32[{0}, {2}] in, B: f32[{2}, {1}] in, C: f32[{0}, {1}] out) {{\n", m, n, k);
  const int rows = m / mr, columns = n / nr;
  const auto tile = [&](const auto& statement) {
    for (int r = 0; r < mr; ++r)
      for (int c = 0; c < nr; c += width)
        t += fmt::format("for l in {0} vector({0}) {{ {1} }}\n", width, statement(r, c));
  };
  t += fmt::format("for i in {}{} {{ for j in {} {{ alloc acc: f32[{}, {}] register {{\n", rows,
                   parallel ? " parallel" : "", columns, mr, nr);
  tile([&](int r, int c) { return fmt::format("acc[{}, {} + l] = 0:f32", r, c); });
  t += fmt::format("for k in {} {{\n", k);
  tile([&](int r, int c) {
    return fmt::format("acc[{0}, {1} + l] += A[i*{2} + {0}, k] * B[k, j*{3} + {1} + l]", r, c, mr, nr);
  });
  t += "}\n";
  tile([&](int r, int c) {
    return fmt::format("C[i*{2} + {0}, j*{3} + {1} + l] = acc[{0}, {1} + l]", r, c, mr, nr);
  });
  t += "} } }\n";
  const auto rest = [&](int i0, int i_count, int j0, int j_count) {
    if (i_count == 0 || j_count == 0) return;
    t += fmt::format("for i in {} {{ for j in {} {{ C[{} + i, {} + j] = 0:f32 }} }}\n", i_count, j_count, i0,
                     j0);
    t += fmt::format("for i in {0} {{ for k in {4} {{ for j in {1} {{ C[{2} + i, {3} + j] += A[{2} + i, k] * "
                     "B[k, {3} + j] }} }} }}\n",
                     i_count, j_count, i0, j0, k);
  };
  rest(rows * mr, m - rows * mr, 0, n);
  rest(0, rows * mr, columns * nr, n - columns * nr);
  return t + "}\n";
}

/// Squares of `lanes` transposed by way of a tile in registers whose rows hold `squares` of them, side by
/// side. Then one row of the tile changes, and the columns are read again.
inline std::string transpose_text(const char* dtype, int lanes, int squares) {
  const int columns = lanes * squares;
  std::string t = fmt::format(
      "kernel transpose(A: {0}[3, {1}, {2}] in, O: {0}[3, {2}, {1}] out, P: {0}[3, {2}, {1}] out) {{\n"
      "for b in 3 {{ alloc p: {0}[{1}, {2}] register {{\n",
      dtype, lanes, columns);
  const auto vectors = [&](int rows, int pieces, const auto& statement) {
    for (int r = 0; r < rows; ++r)
      for (int v = 0; v < pieces; ++v)
        t += fmt::format("for l in {0} vector({0}) {{ {1} }}\n", lanes, statement(r, v * lanes));
  };
  const auto columns_to = [&](const char* buffer) {
    vectors(columns, 1, [&](int c, int) { return fmt::format("{0}[b, {1}, l] = p[l, {1}]", buffer, c); });
  };
  vectors(lanes, squares,
          [](int r, int v) { return fmt::format("p[{0}, {1} + l] = A[b, {0}, {1} + l]", r, v); });
  columns_to("O");
  vectors(1, squares, [](int, int v) { return fmt::format("p[1, {0} + l] = A[b, 0, {0} + l]", v); });
  columns_to("P");
  return t + "} }\n}\n";
}

/// Vectors of `width` lanes of which `active` exist: in memory one after the other, apart and between guards,
/// summed up, and in a tile in registers of which whole rows are used, too.
inline std::string parts_text(const char* dtype, int width, int active) {
  std::string t = fmt::format("kernel parts(A: {0}[18, 40] in, O: {0}[5, {1}] out, G: {0}[5, {1}] out, "
                              "P: {0}[{1}, 5] out, S: {0}[10] out, T: {0}[5, {2}] out) {{\nfor i in 5 {{\n",
                              dtype, active, width);
  const auto part = [&](const std::string& statement) {
    t += fmt::format("for l in {} vector({}) {{ {} }}\n", active, width, statement);
  };
  const auto whole = [&](const std::string& statement) {
    t += fmt::format("for l in {0} vector({0}) {{ {1} }}\n", width, statement);
  };
  part("O[i, l] = A[i, l + 3] * A[l, i]");
  part("O[i, l] += A[17, 38 - l; l < 9]");
  part("G[i, l] = A[i + 13, l - 1; 0 < l; l < i + 2] + A[i + 13, l*2; l*2 < i*3]");
  part("G[i, l] += A[0, l*2; 7 <= l*2 + i; i < 4]");
  part("P[l, i] = A[l, i*2 + 1] + A[i, l*3; l < 12]");
  part("P[l, i] += A[l//4 + i, l%4*5 + 2; l < 10] * A[l//4 + i, l%4*5 + 2]");
  t += fmt::format("S[i] = 1:{0}\nS[i + 5] = 0:{0}\n", dtype);
  part("S[i] += A[i, l]");
  part("S[i + 5] max= A[i, l + 1]");
  t += fmt::format("alloc r: {}[2, {}] register {{\n", dtype, width);
  whole("r[0, l] = A[i, l]");
  whole("r[1, l] = A[i + 1, l]");
  part("r[0, l] = A[i, l + 16]");
  part("r[1, l] += A[i, l + 17]");
  whole("T[i, l] = r[0, l] + r[1, l]");
  return t + "} }\n}\n";
}

/// Maxima, and choices by conditions that are combined.
inline std::string choices_text(DType dtype, int width) {
  const std::string at = fmt::format("[i*{} + l]", width), a = "A" + at, b = "B" + at, c = "C" + at;
  std::string t =
      fmt::format("kernel choices(A: {0}[64] in, B: {0}[64] in, C: {0}[64] in, O: {0}[64] out, P: "
                  "{0}[64] out, Q: {0}[64] out) {{\nfor i in {1} {{ for l in {2} vector({2}) {{\n",
                  to_string(dtype), 64 / width, width);
  t += fmt::format("O{} = max({}, {})\n", at, a, b);
  t += fmt::format("P{0} = where(({1} < {2}) | ({2} != {3}), {1}, {3})\n", at, a, b, c);
  t += fmt::format(
      "Q{0} = where(({1} < {3}) ^ (({2} < {3}) & ({1} != {2})), {2}, where({1} != {3}, {3}, {1}))\n", at, a,
      b, c);
  return t + "} }\n}\n";
}

/// A vector of one dtype as five others, each in a loop of its own, so that it has as many lanes as it can.
inline std::string conversions_text(DType from, const std::vector<DType>& to) {
  std::string params = fmt::format("A: {}[32] in", to_string(from)), loops;
  for (size_t i = 0; i < to.size(); ++i) {
    params += fmt::format(", O{}: {}[32] out", i, to_string(to[i]));
    loops +=
        fmt::format("for i in 2 {{ for l in 16 vector(16) {{ O{}[i*16 + l] = cast_{}(A[i*16 + l]) }} }}\n", i,
                    to_string(to[i]));
  }
  return fmt::format("kernel conversions({}) {{\n{}}}\n", params, loops);
}

/// Run by every device.
inline std::vector<SampleKernel> sample_kernels() {
  constexpr double few_ulps = 1e-5; // of sums of at most a few hundred terms near 1
  return {
      {"matmul", matmul_text(13, 37, 21, 3, 16, 16, false), {{}}, few_ulps},
      {"matmul parallel", matmul_text(24, 64, 9, 4, 32, 16, true), {{}}, few_ulps},
      {"matmul narrow", matmul_text(5, 11, 7, 2, 4, 4, true), {{}}, few_ulps},
      {"padding", "kernel pad(A: f32[32] in, O: f32[36] out, P: f32[36] out, Q: f32[2, 16] out) {\n"
                  "for i in 36 { O[i] = A[i - 2; 2 <= i; i < 34] }\n"
                  "for i in 2 { for l in 16 vector(16) { P[i*16 + l] = A[i*16 + l - 2; 2 <= i*16 + l; i*16 + "
                  "l < 34] } }\n"
                  "for i in 4 { P[32 + i] = 7:f32 }\n"
                  "for i in 2 { for l in 16 vector(16) { Q[i, l] = A[l; i < 1] } }\n}"},
      {"lanes moved up",
       "kernel moved(A: f32[4, 16] in, B: i64[4, 8] in, D: f32[20] in, H: f16[16] in, O: f32[4, 16] out, "
       "P: i64[4, 8] out, Q: f32[2, 16] out, R: f32[4, 16] out, S: f16[16] out) {\n"
       "for i in 4 { for l in 16 vector(16) {\n"
       "O[i, l] = A[i, l] + A[i, l - 1; 0 < l] * 2:f32 + A[i, l - 5; 5 <= l] + A[i, l - 15; 14 < l] } }\n"
       "for i in 4 { for l in 8 vector(8) { P[i, l] = B[i, l] + B[i, l - 3; 2 < l; i < 3] } }\n"
       "for i in 2 { for l in 16 vector(16) { Q[i, l] = D[i*8 + l - 4; 3 < l] } }\n"
       "for l in 16 vector(16) { S[l] = H[l - 2; 1 < l] }\n"
       "for i in 4 { alloc a: f32[16] register { for l in 16 vector(16) { a[l] = A[i, l] * 2:f32 }\n"
       "for m in 16 vector(16) { R[i, m] = a[m] + a[m - 4; 3 < m] + a[m - 8; 7 < m] } } }\n}"},
      {"ragged vectors",
       "kernel tails(A: f32[n] in, O: f32[n] out; n in [1, 1000]) {\n"
       "for o in (n + 15)//16 { for l in min(16, n - o*16) vector(16) { O[o*16 + l] = A[o*16 + l] * 2:f32 } "
       "}\n}",
       {{1}, {15}, {16}, {17}, {64}, {1000}}},
      {"peeled tail",
       "kernel peeled(A: f32[n] in, O: f32[n] out; n in [1, 1000]) {\n"
       "for o in n//16 parallel { for l in 16 vector(16) { O[o*16 + l] = max(A[o*16 + l], 0:f32) } }\n"
       "for l in n%16 { O[n//16*16 + l] = max(A[n//16*16 + l], 0:f32) }\n}",
       {{1}, {16}, {33}, {1000}}},
      {"strided lanes",
       "kernel strided(A: f32[16, 24] in, O: f32[24, 16] out, R: f32[16] out, S: f32[16, 24] out) {\n"
       "for i in 24 { for l in 16 vector(16) { O[i, l] = A[l, i] } }\n"
       "for l in 16 vector(16) { R[l] = A[3, 15 - l] }\n"
       "for i in 24 { for l in 16 vector(16) { S[l, i] = A[l, i] + A[0, i] } }\n}"},
      {"lane reductions",
       "kernel reduce(A: f32[5, 32] in, B: bool[5, 16] in, I: i32[5, 16] in, S: f32[5] out, M: f32[5] out, "
       "O: bool[5] out, T: i32[5] out, L: f32[5] out) {\n"
       "for i in 5 { S[i] = 0:f32 }\n"
       "for i in 5 { for l in 32 vector(32) { S[i] += A[i, l] * A[i, l] } }\n"
       "for i in 5 { M[i] = A[i, 0] }\n"
       "for i in 5 { for l in 32 vector(32) { M[i] max= A[i, l] } }\n"
       "for i in 5 { O[i] = 0:bool }\n"
       "for i in 5 { for l in 16 vector(16) { O[i] |= B[i, l] } }\n"
       "for i in 5 { T[i] = 1:i32 }\n"
       "for i in 5 { for l in 16 vector(16) { T[i] *= I[i, l] + 1:i32 } }\n"
       "for i in 5 { L[i] = 0:f32 }\n"
       "for i in 5 { for l in 16 vector(16) { L[i] += A[i, 3] } }\n}",
       {{}},
       few_ulps},
      {"guarded lanes that do not move with the loop around",
       "kernel lanes(x: f32[9, 8] in, w: f32[5, 3] in, y: f32[5] out) {\n"
       "for z in 5 { y[z] = 0:f32 }\n"
       "for i in 8 { for c in 5 { for k in 3 vector(4) {\n"
       "y[c] += x[0, i + k - 1; 0 < i + k; i + k < 9] * w[c, k] } } }\n}",
       {{}},
       few_ulps},
      {"partial sums in registers",
       "kernel partial(A: f32[7, 160] in, S: f32[7] out) {\n"
       "for i in 7 parallel { alloc acc: f32[16] register {\n"
       "for l in 16 vector(16) { acc[l] = 0:f32 }\n"
       "for o in 10 { for l in 16 vector(16) { acc[l] += A[i, o*16 + l] } }\n"
       "S[i] = 0:f32\n"
       "for l in 16 vector(16) { S[i] += acc[l] } } }\n}",
       {{}},
       few_ulps},
      {"parts of vectors of f32", parts_text("f32", 16, 13), {{}}, few_ulps},
      {"parts of half a vector of f32", parts_text("f32", 8, 7), {{}}, few_ulps},
      {"a part that is all but one vector of f64", parts_text("f64", 16, 9), {{}}, few_ulps},
      {"parts of vectors of i32", parts_text("i32", 16, 11)},
      {"parts of vectors of i64", parts_text("i64", 8, 5)},
      {"parts of vectors of i16", parts_text("i16", 16, 15)},
      {"parts of vectors of u8", parts_text("u8", 16, 3)},
      {"an array in registers that is read where a loop says, and as a whole",
       "kernel k(A: f32[8] in, O: f32[32] out) {\nalloc a: f32[8] register {\n"
       "for l in 8 vector(8) { a[l] = A[l] }\n"
       "for i in 4 { for m in 8 vector(8) { O[i*8 + m] = a[i] + a[m] } }\n} }"},
      {"halves moved up",
       "kernel k(A: f16[16] in, O: f16[16] out) {\nfor l in 16 vector(16) { O[l] = A[l - 3; 2 < l] }\n}"},
      {"twelve lanes", "kernel k(A: f32[12] in, O: f32[12] out) {\nfor l in 12 vector(12) { O[l] = A[l] + A[l] }\n}"},
      {"gather and scatter",
       "kernel gather(A: f32[9] in, I: i32[40] in, G: f32[40] out, C: f32[6] out, D: i64[5] out) {\n"
       "for i in 40 { G[i] = A[@I[i] - 1:i32] }\n"
       "for i in 6 { C[i] = 0:f32 }\n"
       "for i in 40 { C[@I[i]] += 1:f32 }\n"
       "for i in 5 { D[i] = -1:i64 }\n"
       "for i in 40 { D[@I[i] - 1:i32] = i64(i) }\n}"},
      {"packed scratch", "kernel packed(A: f32[6, 32] in, O: f32[6, 32] out) {\n"
                         "alloc whole: f32[32] global {\n"
                         "for j in 32 { whole[j] = A[0, j] * 2:f32 }\n"
                         "for i in 6 parallel { alloc row: f32[32] packed { alloc bits: i32[32] packed {\n"
                         "for l in 32 vector(32) { row[l] = A[i, l] + whole[l] }\n"
                         "for l in 32 vector(32) { bits[l] = bitcast_i32(row[l]) ^ -2147483648:i32 }\n"
                         "for l in 32 vector(32) { O[i, l] = row[31 - l] * bitcast_f32(bits[l]) }\n"
                         "} } } }\n}"},
      {"temporaries of the kernel",
       "kernel temporaries(A: f32[n, 8] in, O: f32[n, 8] out; n in [1, 64]) {\n"
       "alloc sums: f32[n] global {\n"
       "for i in n parallel { sums[i] = 0:f32 }\n"
       "for i in n parallel { for j in 8 { sums[i] += A[i, j] } }\n"
       "for i in n parallel { for j in 8 vector(8) { O[i, j] = A[i, j] / sums[i] } } }\n}",
       {{1}, {7}, {64}},
       few_ulps},
      {"mixed widths",
       "kernel mixed(A: i8[32] in, B: f64[32] in, C: u16[32] in, M: bool[32] in, O: f32[32] out, P: f64[32] "
       "out, Q: bool[32] out, R: i64[32] out) {\n"
       "for i in 2 { for l in 16 vector(16) { O[i*16 + l] = cast_f32(A[i*16 + l]) * 0.5:f32 } }\n"
       "for i in 2 { for l in 16 vector(16) { P[i*16 + l] = where(M[i*16 + l], B[i*16 + l], cast_f64(C[i*16 "
       "+ l])) } }\n"
       "for i in 2 { for l in 16 vector(16) { Q[i*16 + l] = (B[i*16 + l] < 1:f64) & (C[i*16 + l] != 3:u16) | "
       "M[i*16 + l] } }\n"
       "for i in 2 { for l in 16 vector(16) { R[i*16 + l] = i64(i*16 + l) + cast_i64(M[i*16 + l]) } }\n}"},
      {"rounding every op",
       "kernel halves(A: f16[32] in, B: bf16[32] in, O: f16[32] out, P: bf16[32] out, S: f16[1] out) {\n"
       "for i in 32 { O[i] = A[i] * A[i] + cast_f16(B[i]) }\n"
       "for i in 2 { for l in 16 vector(16) { P[i*16 + l] = B[i*16 + l] * cast_bf16(A[i*16 + l]) } }\n"
       "S[0] = 0:f16\n"
       "for i in 32 { S[0] += A[i] }\n}"},
      {"streaming",
       "kernel stream(A: f32[67] in, O: f32[67] out) {\n"
       "for i in 4 parallel { for l in 16 vector(16) { stream O[3 + i*16 + l] = A[3 + i*16 + l] } }\n"
       "for i in 3 { stream O[i] = A[i] }\n}"},
      {"hints, some of them past the end",
       "kernel hints(A: f32[20, 32] in, O: f32[20] out) {\n"
       "for i in 20 parallel { O[i] = 0:f32\n"
       "for r in 2 { for ask in i < 19 { prefetch A[i + 1, r*16] }\n"
       "prefetch A[i + 40, r]\n"
       "for l in 16 vector(16) { O[i] += A[i, r*16 + l] } } }\n}",
       {{}},
       few_ulps},
      {"transpose f32", transpose_text("f32", 16, 1)},
      {"transpose f32, wide rows", transpose_text("f32", 8, 2)},
      {"transpose f32, short", transpose_text("f32", 2, 3)},
      {"transpose f64", transpose_text("f64", 8, 1)},
      {"transpose u8", transpose_text("u8", 16, 1)},
      {"transpose f16", transpose_text("f16", 16, 1)},
      {"transpose bool", transpose_text("bool", 4, 1)},
      {"transpose i16", transpose_text("i16", 16, 2)},
      {"transpose of fewer rows than lanes",
       "kernel columns(A: f32[5, 16] in, O: f32[16, 5] out) {\n"
       "alloc p: f32[5, 16] register { for r in 5 unroll { for l in 16 vector(16) { p[r, l] = A[r, l] } }\n"
       "for c in 16 unroll { for l in 5 vector(8) { O[c, l] = p[l, c] * 2:f32 } } }\n}"},
      {"reads that ask ahead",
       "kernel ahead(A: f32[6, 32] in, M: bool[6] in, O: f32[6, 32] out; n in [1, 6]) {\n"
       "for i in n { for o in 2 { for l in 16 vector(16) {\n"
       "O[i, o*16 + l] = A[i, o*16 + l; ahead: 32] + A[5 - i, o*16 + l; i < 3; ahead: -100000] } } }\n"
       "for i in 6 - n { for j in 32 { O[n + i, j] = where(M[n + i; ahead: 7], A[i, j; ahead: 1], 2:f32) } "
       "}\n}",
       {{1}, {6}}},
      {"names that mean something",
       "kernel exp2(double: f32[8] in, v1: f32[8] in, t3.i0: f32[8] in, scratch: f32[8] out, for_: f32[8] "
       "out; buffers in [1, 8]) {\n"
       "for int in buffers { scratch[int] = double[int] + v1[int] * t3.i0[int] }\n"
       "for int in 8 - buffers { scratch[buffers + int] = 1:f32 }\n"
       "for env in 8 { for_[env] = v1[env] - double[env] }\n}",
       {{3}, {8}},
       few_ulps},
      {"index arithmetic",
       "kernel index(A: f32[5, 7] in, O: f32[35] out, P: i32[35] out, B: bool[35] out; n in [1, 9]) {\n"
       "for i in 35 { O[i] = A[i//7, i%7] }\n"
       "for i in 35 { P[i] = i32((i - 17)//n + (i - 17)%n) }\n"
       "for i in 35 { B[i] = bool(i < n) }\n}",
       {{1}, {4}, {9}}},
  };
}

/// For devices with work-groups.
inline std::vector<SampleKernel> group_kernels() {
  const auto staged = [](int m, int n, int k) {
    const std::string rows = fmt::format("min(8, {} - i*8)", m), columns = fmt::format("min(8, {} - j*8)", n);
    std::string t = fmt::format(
        "kernel staged(A: f32[{0}, {2}] in, B: f32[{2}, {1}] in, C: f32[{0}, {1}] out) {{\n", m, n, k);
    t += fmt::format("for i in {} group(1) {{ for j in {} group(0) {{\n", (m + 7) / 8, (n + 7) / 8);
    t += fmt::format("for a in {} local(1) {{ for b in {} local(0) {{ C[i*8 + a, j*8 + b] = 0:f32 }} }}\n",
                     rows, columns);
    t += fmt::format("for k in {} {{ alloc ta: f32[8, 8] local {{ alloc tb: f32[8, 8] local {{\n", k / 8);
    t += fmt::format("for a in {} {{ for c in 8 {{ ta[a, c] = A[i*8 + a, k*8 + c] }} }}\n", rows);
    t += fmt::format("for c in 8 {{ for b in {} {{ tb[c, b] = B[k*8 + c, j*8 + b] }} }}\n", columns);
    t += "barrier\n";
    t += fmt::format("for a in {} local(1) {{ for b in {} local(0) {{ for c in 8 {{ C[i*8 + a, j*8 + b] += "
                     "ta[a, c] * tb[c, b] }} }} }}\n",
                     rows, columns);
    return t + "barrier } } } } } }";
  };
  return {
      {"local tiles", staged(16, 24, 32), {{}}, 1e-5},
      {"ragged local tiles", staged(13, 21, 16), {{}}, 1e-5},
      {"written by one, read by all",
       "kernel broadcast(A: f32[3, 5] in, B: f32[13] in, O: f32[5, 13] out) {\n"
       "for g in 5 group(0) { alloc s: f32[1] local {\n"
       "for l in 13 local(0) { O[g, l] = 0:f32 }\n"
       "for r in 3 {\n"
       "s[0] = A[r, g] + 1:f32\n"
       "for l in 13 local(0) { O[g, l] += s[0] * B[l] } } } } }",
       {{}},
       1e-5},
      {"work-items that meet", "kernel reverse(A: f32[64] in, O: f32[64] out) {\n"
                               "for g in 4 group(0) { alloc t: f32[16] local {\n"
                               "for l in 16 local(0) { t[l] = A[g*16 + l] }\n"
                               "for m in 16 local(0) { O[g*16 + m] = t[15 - m] } } } }"},
      {"ragged groups",
       "kernel groups(A: f32[n] in, O: f32[n] out; n in [1, 100]) {\n"
       "for g in (n + 15)//16 group(0) { for l in min(16, n - g*16) local(0) { O[g*16 + l] = A[g*16 + l] * "
       "3:f32 } } }",
       {{1}, {16}, {97}}},
      {"groups of one with private scratch",
       "kernel panels(A: f32[8, 2048] in, O: f32[8, 2048] out) {\n"
       "for g in 8 group(0) { alloc p: f32[2048] packed {\n"
       "for j in 128 { for l in 16 vector(16) { p[j*16 + l] = A[g, j*16 + l] + 1:f32 } }\n"
       "for j in 2048 { O[g, j] = p[2047 - j] } } } }"},
      {"two nests",
       "kernel nests(A: f32[6, 32] in, O: f32[6, 32] out) {\n"
       "alloc sums: f32[6] global {\n"
       "for i in 6 group(0) { sums[i] = 0:f32 }\n"
       "for i in 6 group(0) { for j in 32 { sums[i] += A[i, j] } }\n"
       "for i in 6 group(0) { for j in 32 local(0) { O[i, j] = A[i, j] - sums[i] } } } }",
       {{}},
       1e-5},
  };
}

} // namespace lathe::test
