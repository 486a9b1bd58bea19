// Tensors of narrow dtypes: memory, movement, choice and comparison, programs with such inputs and outputs,
// files and exported C.
#include <doctest/doctest.h>

#include <cmath>
#include <numeric>
#include <sstream>

#include "lathe/export.hpp"
#include "lathe/program_file.hpp"
#include "lathe/substitute.hpp"
#include "support/devices.hpp"
#include "support/errors.hpp"
#include "support/files.hpp"
#include "support/narrow_formats.hpp"

using namespace lathe;
using namespace lathe::test;

namespace {

using Bytes = std::vector<uint8_t>;
using Ints = std::vector<int8_t>;

/// Codes as they stand in memory, by a loop.
Bytes packed(DType dtype, const Bytes& codes) {
  const size_t bits = static_cast<size_t>(bits_of(dtype)), per_byte = 8 / bits;
  Bytes out((codes.size() + per_byte - 1) / per_byte);
  for (size_t k = 0; k < codes.size(); ++k)
    out[k / per_byte] = static_cast<uint8_t>(out[k / per_byte] | codes[k] << (k % per_byte * bits));
  return out;
}

/// Codes 3, 10, 17 ... modulo their number.
Bytes some_codes(DType dtype, size_t count) {
  Bytes codes;
  for (size_t k = 0; k < count; ++k)
    codes.push_back(static_cast<uint8_t>((3 + 7 * k) % (size_t{1} << bits_of(dtype))));
  return codes;
}

std::vector<float> values_of(DType dtype, const Bytes& codes) {
  const std::vector<double> all = values_by_definition(dtype);
  std::vector<float> out;
  for (const uint8_t code : codes) out.push_back(static_cast<float>(all[code]));
  return out;
}

Tensor tensor_of(DType dtype, const Bytes& codes, const Shape& shape) {
  const Bytes memory = packed(dtype, codes);
  return Tensor::from_memory(memory.data(), codes.size(), dtype, shape);
}

Bytes memory_of(const Tensor& t) {
  Bytes out(static_cast<size_t>(lathe::bytes_of(t.dtype(), t.element_count())));
  t.read(out.data(), t.dtype());
  return out;
}

std::vector<float> floats(const Tensor& t) { return t.cast(DType::F32).to_vector<float>(); }

bool same(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return false;
  for (size_t k = 0; k < a.size(); ++k)
    if (!(a[k] == b[k] || (std::isnan(a[k]) && std::isnan(b[k])))) return false;
  return true;
}

template <class F> void for_each_dtype(F&& f) {
  for (int d = kDTypeCount; d < kAllDTypeCount; ++d) {
    CAPTURE(to_string(static_cast<DType>(d)));
    f(static_cast<DType>(d));
  }
}

std::vector<float> picked(const std::vector<float>& v, const std::vector<size_t>& at) {
  std::vector<float> out;
  for (const size_t k : at) out.push_back(v[k]);
  return out;
}

} // namespace

TEST_CASE("memory in, memory out, numbers in between") {
  for_each_dtype([](DType dtype) {
    for (const size_t count : {1, 2, 3, 5, 8, 13, 256}) {
      const Bytes codes = some_codes(dtype, count);
      const Tensor t = tensor_of(dtype, codes, {Expr(static_cast<int64_t>(count))});
      CHECK(t.dtype() == dtype);
      CHECK(memory_of(t) == packed(dtype, codes));
      CHECK(same(floats(t), values_of(dtype, codes)));
      CHECK(memory_of(t.reshape({1, Expr(static_cast<int64_t>(count)), 1})) == packed(dtype, codes));
      if (is_float(dtype)) CHECK(same(t.to_vector<float>(), values_of(dtype, codes)));
    }
  });
  CHECK(tensor_of(DType::I4, {7, 8, 15}, {3}).to_vector<int8_t>() == Ints{7, -8, -1});
  CHECK(tensor_of(DType::U2, {0, 3, 2}, {3}).to_vector<uint8_t>() == Bytes{0, 3, 2});
}

TEST_CASE("rows of an odd length run on from byte to byte") {
  const Bytes codes = some_codes(DType::U4, 15);
  const Tensor t = tensor_of(DType::U4, codes, {3, 5});
  CHECK(memory_of(t).size() == 8);
  CHECK(t.index({1}).to_vector<uint8_t>() == Bytes(codes.begin() + 5, codes.begin() + 10));
}

TEST_CASE("movement, choice, gathers and comparison") {
  for_each_dtype([](DType dtype) {
    const Bytes codes = some_codes(dtype, 12);
    const std::vector<float> v = values_of(dtype, codes);
    const Tensor t = tensor_of(dtype, codes, {3, 4});
    CHECK(same(floats(t.transpose()), picked(v, {0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11})));
    CHECK(same(floats(t.flip({1})), picked(v, {3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8})));
    CHECK(same(floats(t.index({Slice{1, {}}, Slice{{}, {}, 2}})), picked(v, {4, 6, 8, 10})));
    CHECK(same(floats(concat({t.index({2}), t.index({0})})), picked(v, {8, 9, 10, 11, 0, 1, 2, 3})));
    CHECK(same(floats(stack({t.index({2}), t.index({0})})), picked(v, {8, 9, 10, 11, 0, 1, 2, 3})));
    CHECK(same(floats(t.take(Tensor::from<int64_t>({2, 0}))), picked(v, {8, 9, 10, 11, 0, 1, 2, 3})));
    CHECK(same(floats(t.gather(1, Tensor::from<int64_t>({{3}, {0}, {1}}))), picked(v, {3, 4, 9})));
    CHECK(same(floats(t.roll(1, 0)), picked(v, {8, 9, 10, 11, 0, 1, 2, 3, 4, 5, 6, 7})));
    CHECK(same(floats(t.contiguous()), v));
    const Tensor even = Tensor::arange(12).reshape({3, 4}) % Tensor::full({}, int64_t{2}) == 0;
    CHECK(same(floats(where(even, t, t.flip({1}))), picked(v, {0, 2, 2, 0, 4, 6, 6, 4, 8, 10, 10, 8})));
    const std::vector<uint8_t> equal = (t == t).to_vector<uint8_t>(),
                               ordered = (t < t.flip({0})).to_vector<uint8_t>();
    for (size_t k = 0; k < 12; ++k) {
      CHECK(equal[k] == (v[k] == v[k]));
      CHECK(ordered[k] == (v[k] < v[(2 - k / 4) * 4 + k % 4]));
    }
    CHECK(same(floats(Tensor::full({3}, Scalar::of_float(dtype, 1))), {1, 1, 1}));
    CHECK(same(floats(Tensor::ones({2}, dtype)), {1, 1}));
    const float item = t.index({1, 2}).item<float>();
    CHECK(same({item}, {v[6]}));
    CHECK(memory_of(t.bitcast(dtype)) == packed(dtype, codes));
  });
  CHECK(tensor_of(DType::I4, {15, 1}, {2}).bitcast(DType::U4).to_vector<uint8_t>() == Bytes{15, 1});
  CHECK(tensor_of(DType::F8E5M2, {0x3C, 0xBC}, {2}).bitcast(DType::U8).to_vector<uint8_t>() ==
        Bytes{0x3C, 0xBC});
  CHECK((tensor_of(DType::I4, {15, 1}, {2}) == -1).to_vector<uint8_t>() == Bytes{1, 0});
  CHECK(tensor_of(DType::I4, {1, 2, 3}, {3}).pad({{1, 1}}, -3).to_vector<int8_t>() == Ints{-3, 1, 2, 3, -3});
  CHECK(tensor_of(DType::I4, {1, 2, 3}, {3})
            .scatter(0, Tensor::from<int64_t>({2}), tensor_of(DType::I4, {9}, {1}))
            .to_vector<int8_t>() == Ints{1, 2, -7});
}

TEST_CASE("printing") {
  std::ostringstream out;
  out << tensor_of(DType::I4, {1, 15, 8, 7}, {2, 2}) << "\n"
      << tensor_of(DType::F8E4M3FN, {0x38, 0x7F, 0xB0}, {3});
  CHECK(out.str() == "1 -1\n-8 7\n1 nan -0.5");
}

TEST_CASE("what is not computed in a narrow dtype is refused by name") {
  const Tensor t = tensor_of(DType::I4, {1, 2}, {2}), f = tensor_of(DType::F8E5M2, {1, 2}, {2});
  check_error(ErrorKind::DType, "operator+", [&] { (void)(t + t); });
  check_error(ErrorKind::DType, "operator*", [&] { (void)(f * f); });
  check_error(ErrorKind::DType, "operator&", [&] { (void)(t & t); });
  check_error(ErrorKind::DType, "iota", [&] { (void)Tensor::iota({3}, 0, DType::I4); });
  check_error(ErrorKind::DType, "scalar", [&] { (void)Tensor::scalar(Expr(3), DType::U4); });
  check_error(ErrorKind::DType, "scatter_add",
              [&] { (void)t.scatter_add(0, Tensor::from<int64_t>({0, 1}), t); });
  check_error(ErrorKind::DType, "bitcast", [&] { (void)t.bitcast(DType::I8); });
  check_error(ErrorKind::DType, "data", [&] { (void)t.data<int8_t>(); });
  check_error(ErrorKind::DType, "read", [&] { (void)t.to_vector<uint8_t>(); });
  for (const std::function<void()>& call : std::initializer_list<std::function<void()>>{
           [&] { (void)f.sum(); }, [&] { (void)f.exp(); }, [&] { (void)f.neg(); }, [&] { (void)t.max(); },
           [&] { (void)t.matmul(t); }, [&] { (void)(t + 1); },
           [&] { (void)maximum(f, f); }, [&] { (void)(t == Tensor::from<int8_t>({1, 2})); },
           [&] { (void)concat({t, f}); }})
    CHECK_THROWS_AS(call(), Error);
}

TEST_CASE("what has a wider result, or only compares, takes narrow integers") {
  const Tensor t = tensor_of(DType::I4, {7, 8, 3, 15, 5}, {5}); // 7 -8 3 -1 5
  CHECK(t.sum().dtype() == DType::I64);
  CHECK(t.sum().item<int64_t>() == 6);
  CHECK(t.sort().dtype() == DType::I4);
  CHECK(t.sort().to_vector<int8_t>() == std::vector<int8_t>{-8, -1, 3, 5, 7});
}

TEST_CASE("programs with narrow inputs and outputs") {
  for (const std::string& device : present_devices()) {
    CAPTURE(device);
    for_each_dtype([&](DType dtype) {
      for (const int64_t columns : {4, 5}) {
        const Tensor x = Tensor::input("x", {3, Expr(columns)}, dtype);
        const Executable run =
            compile({{"same", x}, {"turned", x.transpose()}, {"numbers", x.cast(DType::F32)}}, on(device));
        const auto in = run.inputs();
        CHECK(in[0].dtype == dtype);
        CHECK(to_string(in[0].shape) == to_string(x.shape()));
        const Bytes codes = some_codes(dtype, static_cast<size_t>(3 * columns));
        const NamedTensors out = run({{"x", tensor_of(dtype, codes, x.shape())}});
        CHECK(out.at("same").dtype() == dtype);
        CHECK(memory_of(out.at("same")) == packed(dtype, codes));
        CHECK(same(floats(out.at("numbers")), values_of(dtype, codes)));
        Bytes turned;
        for (int64_t c = 0; c < columns; ++c)
          for (int64_t r = 0; r < 3; ++r) turned.push_back(codes[static_cast<size_t>(r * columns + c)]);
        CHECK(memory_of(out.at("turned")) == packed(dtype, turned));
        CHECK(to_string(out.at("turned").shape()) == to_string(x.transpose().shape()));
        // The same on memory of the caller's, with nothing written beyond it.
        const Bytes memory = packed(dtype, codes);
        Bytes a(memory.size() + 1, 0xA5), b(memory.size() + 1, 0xA5);
        std::vector<float> c(codes.size());
        run.run({{"x", memory.data()}}, {{"same", a.data()}, {"turned", b.data()}, {"numbers", c.data()}});
        CHECK(Bytes(a.begin(), a.end() - 1) == memory);
        CHECK(Bytes(b.begin(), b.end() - 1) == packed(dtype, turned));
        CHECK(a.back() == 0xA5);
        CHECK(b.back() == 0xA5);
      }
    });
  }
}

TEST_CASE("wrong inputs are refused") {
  const Executable run = compile({{"y", Tensor::input("x", {4}, DType::I4).cast(DType::F32)}}, on("interp"));
  check_error(ErrorKind::DType, "call: input \"x\"",
              [&] { (void)run({{"x", Tensor::zeros({2}, DType::U8)}}); });
  check_error(ErrorKind::Shape, "call: input \"x\"",
              [&] { (void)run({{"x", Tensor::zeros({2}, DType::I4)}}); });
  const Tensor a = Tensor::input("x", {4}, DType::I4).cast(DType::F32),
               b = Tensor::input("x", {4}, DType::U4).cast(DType::F32);
  check_error(ErrorKind::Name, "compile", [&] { (void)compile({{"y", a + b}}); });
}

TEST_CASE("sizes known at run time") {
  const Expr n = Var("n", 0, 50);
  for (const std::string& device : present_devices()) {
    CAPTURE(device);
    for (const DType dtype : {DType::I4, DType::U2, DType::F4E2M1, DType::F8E4M3FNUZ}) {
      CAPTURE(to_string(dtype));
      for (const Shape& shape : {Shape{n, 4}, Shape{n, 3}, Shape{n}}) {
        const Tensor x = Tensor::input("x", shape, dtype);
        const Executable run = compile({{"y", x.cast(DType::F32)}, {"z", x.flip({0})}}, on(device));
        for (const int64_t rows : {0, 1, 2, 7, 50}) {
          const int64_t columns = shape.size() == 1 ? 1 : shape[1].value();
          const Bytes codes = some_codes(dtype, static_cast<size_t>(rows * columns));
          const Shape given = shape.size() == 1 ? Shape{Expr(rows)} : Shape{Expr(rows), Expr(columns)};
          const NamedTensors out = run({{"x", tensor_of(dtype, codes, given)}});
          CHECK(same(floats(out.at("y")), values_of(dtype, codes)));
          CHECK(same(floats(out.at("z").flip({0})), values_of(dtype, codes)));
        }
      }
    }
  }
}

TEST_CASE("a product with packed weights, given and constant") {
  const Bytes codes = some_codes(DType::I4, 24 * 32);
  const std::vector<float> w = values_of(DType::I4, codes);
  std::vector<float> x(32), expected(24);
  for (size_t k = 0; k < x.size(); ++k) x[k] = static_cast<float>(static_cast<int>(k * 5 % 11) - 5);
  for (size_t r = 0; r < 24; ++r)
    for (size_t k = 0; k < 32; ++k) expected[r] += w[r * 32 + k] * x[k];
  const Tensor weights = tensor_of(DType::I4, codes, {24, 32});
  for (const std::string& device : present_devices()) {
    CAPTURE(device);
    const Tensor v = Tensor::input("x", {32}), m = Tensor::input("w", {24, 32}, DType::I4);
    CHECK(floats(compile({{"y", m.cast(DType::F32).matmul(v)}},
                         on(device))({{"x", Tensor::from(x)}, {"w", weights}})
                     .at("y")) == expected);
    CHECK(floats(compile({{"y", weights.cast(DType::F32).matmul(v)}}, on(device))({{"x", Tensor::from(x)}})
                     .at("y")) == expected);
  }
}

TEST_CASE("constants stay packed: neither their numbers nor their parts are stored ahead of the first run") {
  for_each_dtype([](DType dtype) {
    const Tensor w = tensor_of(dtype, some_codes(dtype, 64 * 64), {64, 64}), x = Tensor::input("x", {64});
    CHECK(compile({{"y", w.cast(DType::F32).matmul(x)}}, on("interp")).folded_bytes() == 0);
  });
}

TEST_CASE("saved programs and tensors") {
  const TemporaryDir folder;
  const Tensor x = Tensor::input("x", {3, 5}, DType::U4),
               w = tensor_of(DType::F8E4M3FN, some_codes(DType::F8E4M3FN, 15), {3, 5});
  const Executable before = compile(
      {{"moved", x}, {"made", x.flip({0})}, {"sum", x.cast(DType::F32) + w.cast(DType::F32)}}, on("interp"));
  save({.programs = {before}, .tensors = {w, tensor_of(DType::I2, {1, 2, 3}, {3})}}, folder.file("p.lathe"));
  const SavedParts parts = load_parts(folder.file("p.lathe"));
  const Tensor given = tensor_of(DType::U4, some_codes(DType::U4, 15), {3, 5});
  const NamedTensors a = before({{"x", given}}), b = parts.programs[0]({{"x", given}});
  for (const char* name : {"moved", "made"}) {
    CHECK(b.at(name).dtype() == DType::U4);
    CHECK(memory_of(a.at(name)) == memory_of(b.at(name)));
  }
  CHECK(same(floats(a.at("sum")), floats(b.at("sum"))));
  CHECK(memory_of(parts.tensors[0]) == memory_of(w));
  CHECK(parts.tensors[1].to_vector<int8_t>() == Ints{1, -2, -1});
}

TEST_CASE("inputs put in place of others") {
  const Tensor x = Tensor::input("x", {3}, DType::I4);
  const Tensor given = tensor_of(DType::I4, {1, 15, 8}, {3});
  const std::vector<Tensor> made = substitute({x.flip({0}), x.cast(DType::I32)}, {{"x", given}});
  CHECK(made[0].to_vector<int8_t>() == Ints{-8, -1, 1});
  CHECK(made[1].to_vector<int32_t>() == std::vector<int32_t>{1, -1, -8});
  check_error(ErrorKind::DType, "substitute",
              [&] { (void)substitute({x}, {{"x", Tensor::zeros({3}, DType::U8)}}); });
}

TEST_CASE("C takes and gives packed bytes") {
  const Tensor x = Tensor::input("x", {5}, DType::I4);
  const std::string source = emit({{"y", (x.cast(DType::I32) + 1).cast(DType::U4)}});
  CHECK(source.find("lathe_program(const uint8_t* x, uint8_t* y)") != std::string::npos);
  std::string header;
  for (const ExportedFile& file :
       export_program({{"y", (x.cast(DType::I32) + 1).cast(DType::U4)}}, {.name = "net"}))
    if (file.name == "net.h") header = file.bytes;
  CHECK(header.find("const uint8_t* x, uint8_t* y") != std::string::npos);
  CHECK(header.find("/* input x: i4[5], in bytes, low bits first */\n#define NET_X_ELEMENTS 3\n") !=
        std::string::npos);
}
