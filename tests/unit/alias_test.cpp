// run() on buffers that share memory: what is right is what separate buffers give.
#include <doctest/doctest.h>

#include <numeric>

#include "lathe/executable.hpp"
#include "lathe/lathe.hpp"
#include "support/devices.hpp"

using namespace lathe;

namespace {

using Floats = std::vector<float>;
using In = std::map<std::string, const void*>;
using Out = std::map<std::string, void*>;

Floats ramp(size_t n, float start = 0) {
  Floats v(n);
  std::iota(v.begin(), v.end(), start);
  return v;
}

/// The message of the Error(Value) that f throws; empty if it throws none.
template <class F> std::string refusal(F&& f) {
  try {
    f();
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::Value);
    return e.what();
  }
  return "";
}

} // namespace

TEST_CASE("an output over its input, wholly or in part") {
  constexpr int64_t n = 1024;
  const Tensor u = Tensor::input("u", {n});
  for (const std::string& device : present_devices()) {
    CAPTURE(device);
    const Executable f = compile({{"v", u + u.roll(1, 0)}}, on(device));
    const Floats a = ramp(n);
    Floats want(n);
    f.run({{"u", a.data()}}, {{"v", want.data()}});
    CHECK(want[0] == 1023);
    CHECK(want[5] == 9);
    for (const int64_t shift : {0, 1, 7, 1023, -1, -16, -1023}) {
      CAPTURE(shift);
      Floats memory(3 * n, -1);
      float *in = memory.data() + n, *out = in + shift;
      std::copy(a.begin(), a.end(), in);
      f.run({{"u", in}}, {{"v", out}});
      CHECK(Floats(out, out + n) == want);
      // What no output covers stays.
      if (shift > 0) CHECK(Floats(in, out) == Floats(a.begin(), a.begin() + shift));
      if (shift < 0) CHECK(Floats(out + n, in + n) == Floats(a.end() + shift, a.end()));
      CHECK(memory.front() == -1);
      CHECK(memory.back() == -1);
    }
  }
}

TEST_CASE("two outputs over each other's inputs") {
  const Tensor x = Tensor::input("x", {64}), y = Tensor::input("y", {64});
  for (const std::string& device : present_devices()) {
    CAPTURE(device);
    const Executable f = compile(
        {{"p", x.flip({0}) * 2.0f}, {"q", y + x.sum(0, true)}, {"r", x.flip({0}) * 2.0f}}, on(device));
    Floats a = ramp(64), b = ramp(64, 100), r(64), p(64), q(64), again(64);
    f.run({{"x", a.data()}, {"y", b.data()}}, {{"p", p.data()}, {"q", q.data()}, {"r", r.data()}});
    CHECK(p[0] == 126);
    CHECK(q[0] == 2116);
    f.run({{"x", a.data()}, {"y", b.data()}}, {{"p", b.data()}, {"q", a.data()}, {"r", again.data()}});
    CHECK(b == p);
    CHECK(a == q);
    CHECK(again == r);
  }
}

TEST_CASE("an output that is a view of its input, in place") {
  const Tensor x = Tensor::input("x", {8, 8});
  for (const std::string& device : present_devices()) {
    CAPTURE(device);
    const Executable f = compile({{"t", x.transpose()}, {"y", x + 1.0f}}, on(device));
    Floats a = ramp(64), t(64), y(64);
    const Floats before = a;
    f.run({{"x", a.data()}}, {{"t", t.data()}, {"y", y.data()}});
    f.run({{"x", a.data()}}, {{"t", a.data()}, {"y", t.data()}});
    CHECK(a[1] == before[8]);
    CHECK(t == y);
    a = before;
    Floats view(64); // the other output's place is where the view reads
    f.run({{"x", a.data()}}, {{"t", view.data()}, {"y", a.data()}});
    CHECK(view[1] == before[8]);
    CHECK(a == y);
  }
}

TEST_CASE("sizes of shape variables decide what overlaps") {
  const Var n("n", 1, 100);
  const Tensor x = Tensor::input("x", {n});
  for (const std::string& device : present_devices()) {
    CAPTURE(device);
    const Executable f = compile({{"y", x.flip({0})}, {"z", x + 1.0f}}, on(device));
    Floats memory = ramp(300);
    f.run({{"x", memory.data()}}, {{"y", memory.data()}, {"z", memory.data() + 10}}, {{"n", 10}});
    CHECK(Floats(memory.begin(), memory.begin() + 3) == Floats{9, 8, 7});
    CHECK(memory[10] == 1);
    CHECK(refusal([&] {
            f.run({{"x", memory.data()}}, {{"y", memory.data() + 100}, {"z", memory.data() + 110}},
                  {{"n", 11}});
          }).find("\"z\"") != std::string::npos);
  }
}

TEST_CASE("two outputs in one place are refused by name, inputs in one place are fine") {
  const Tensor x = Tensor::input("x", {16}), y = Tensor::input("y", {16});
  for (const std::string& device : present_devices()) {
    CAPTURE(device);
    const Executable f = compile({{"p", x * y}, {"q", x - y}, {"copy", x - y}}, on(device));
    const Floats a = ramp(16);
    Floats p(48, -1), q(16), copy(16);
    const In inputs{{"x", a.data()}, {"y", a.data()}};
    f.run(inputs, {{"p", p.data()}, {"q", p.data() + 16}, {"copy", p.data() + 32}});
    CHECK(p[3] == 9);
    CHECK(p[19] == 0);
    for (const int shift : {0, 1, 15}) {
      const std::string why =
          refusal([&] { f.run(inputs, {{"p", p.data()}, {"q", p.data() + shift}, {"copy", copy.data()}}); });
      CHECK_MESSAGE(why.find("\"p\"") != std::string::npos, why);
      CHECK_MESSAGE(why.find("\"q\"") != std::string::npos, why);
    }
    CHECK(refusal([&] { f.run(inputs, {{"p", p.data()}, {"q", q.data()}, {"copy", q.data()}}); }) != "");
  }
}

TEST_CASE("many buffers") {
  constexpr int count = 60;
  NamedTensors outputs;
  In inputs;
  Out places;
  std::vector<Floats> memory(2 * count);
  for (int k = 0; k < count; ++k) {
    const std::string name = std::to_string(k);
    outputs.emplace("y" + name, Tensor::input("x" + name, {16}).flip({0}) + static_cast<float>(k));
    memory[static_cast<size_t>(k)] = ramp(16);
    memory[static_cast<size_t>(count + k)] = Floats(16);
    inputs["x" + name] = memory[static_cast<size_t>(k)].data();
    // Every third where its input is.
    places["y" + name] = memory[static_cast<size_t>(k % 3 == 0 ? k : count + k)].data();
  }
  const Executable f = compile(outputs, on("interp"));
  f.run(inputs, places);
  for (int k = 0; k < count; ++k) {
    const auto* got = static_cast<const float*>(places.at("y" + std::to_string(k)));
    CHECK(got[0] == 15 + k);
    CHECK(got[15] == k);
  }
  places["y7"] = static_cast<float*>(places.at("y31")) + 4;
  const std::string why = refusal([&] { f.run(inputs, places); });
  CHECK_MESSAGE(why.find("\"y7\"") != std::string::npos, why);
  CHECK_MESSAGE(why.find("\"y31\"") != std::string::npos, why);
}

TEST_CASE("a kernel by itself refuses a written parameter over another") {
  const Tensor x = Tensor::input("x", {16});
  const Executable f = compile({{"y", x + x.flip({0})}}, on("interp"));
  REQUIRE(f.kernel_count() == 1);
  const Kernel kernel = f.kernels()[0];
  Floats a = ramp(32);
  const auto launch = [&](float* out) {
    Query query;
    for (const KernelParam& p : kernel.params()) {
      if (p.written)
        query.bind(p.name, static_cast<void*>(out), 64);
      else
        query.bind(p.name, static_cast<const void*>(a.data()), 64);
    }
    kernel.launch(query);
  };
  launch(a.data() + 16);
  CHECK(a[16] == 15);
  CHECK(refusal([&] { launch(a.data() + 15); }).find("overlaps") != std::string::npos);
}
