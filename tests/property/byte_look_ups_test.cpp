// Bytes looked up in tables of 256, which the CPU may hold in registers: all devices, sizes around those of
// vectors, tables that a program is fed or computes, behind padding, and beside other vectors.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <random>

#include "support/devices.hpp"
#include "support/guarded_memory.hpp"

using namespace lathe;

namespace {

const std::vector<int> kCounts = {1, 2, 15, 16, 17, 63, 64, 65, 127, 128, 1000, 4099};

struct Bytes {
  std::vector<std::unique_ptr<test::GuardedMemory>> memory;
  std::mt19937 random{42};
  unsigned char* make(int count) {
    memory.push_back(std::make_unique<test::GuardedMemory>(static_cast<size_t>(count), true));
    for (int k = 0; k < count; ++k) memory.back()->data()[k] = static_cast<unsigned char>(random());
    return memory.back()->data();
  }
  unsigned char* poisoned(int count) {
    unsigned char* data = make(count);
    memory.back()->fill(0xA5);
    return data;
  }
};

/// table[x], of bytes of either sign.
Tensor look_up(const Tensor& table, const Tensor& x) {
  return table.take((x.dtype() == DType::I8 ? x.bitcast(DType::U8) : x).cast(DType::I32));
}

void check(const std::string& device, DType of_table) {
  Bytes bytes;
  NamedTensors outputs;
  std::map<std::string, const void*> in{{"table", bytes.make(256)}};
  std::map<std::string, void*> out;
  const auto* table = static_cast<const unsigned char*>(in["table"]);
  const Tensor entries = Tensor::input("table", {256}, of_table);
  const auto name = [](const char* what, int n) { return fmt::format("{}{}", what, n); };
  for (const int n : kCounts) {
    const Tensor x = Tensor::input(name("x", n), {n}, n % 2 ? DType::U8 : DType::I8);
    outputs[name("plain", n)] = look_up(entries, x);
    outputs[name("padded", n)] = look_up(entries, x).pad({{3, 2}}) + 1;
    outputs[name("computed", n)] = look_up(entries + 7, x);
    outputs[name("wide", n)] = look_up(entries, x).cast(DType::F32) * 0.5 + x.cast(DType::F32);
    in[name("x", n)] = bytes.make(n);
    out[name("plain", n)] = bytes.poisoned(n);
    out[name("padded", n)] = bytes.poisoned(n + 5);
    out[name("computed", n)] = bytes.poisoned(n);
    out[name("wide", n)] = bytes.poisoned(4 * n);
  }
  compile(outputs, on(device)).run(in, out);
  const auto number = [&](unsigned char byte, DType d) {
    return d == DType::I8 ? static_cast<float>(static_cast<signed char>(byte)) : static_cast<float>(byte);
  };
  for (const int n : kCounts) {
    const auto* x = static_cast<const unsigned char*>(in[name("x", n)]);
    const auto *plain = static_cast<unsigned char*>(out[name("plain", n)]),
               *padded = static_cast<unsigned char*>(out[name("padded", n)]),
               *computed = static_cast<unsigned char*>(out[name("computed", n)]);
    const auto* wide = static_cast<float*>(out[name("wide", n)]);
    int wrong = 0;
    for (int k = 0; k < n; ++k) {
      const unsigned char entry = table[x[k]];
      wrong += plain[k] != entry;
      wrong += padded[k + 3] != static_cast<unsigned char>(entry + 1);
      wrong += computed[k] != static_cast<unsigned char>(entry + 7);
      wrong += wide[k] != number(entry, of_table) * 0.5f + number(x[k], n % 2 ? DType::U8 : DType::I8);
    }
    for (const int k : {0, 1, 2, n + 3, n + 4}) wrong += padded[k] != 1;
    CHECK_MESSAGE(wrong == 0, device, " ", to_string(of_table), " ", n);
  }
}

} // namespace

TEST_CASE("tables of bytes on all devices") {
  for (const std::string& device : present_devices())
    for (const DType dtype : {DType::U8, DType::I8}) check(device, dtype);
}

TEST_CASE("code for CPUs without the instruction looks up the same bytes") {
  Bytes bytes;
  const Tensor table = Tensor::input("table", {256}, DType::U8);
  const auto* entries = bytes.make(256);
  for (const int count : {7, 8, 15, 16, 17, 31, 33, 777}) {
    const Tensor x = Tensor::input("x", {count}, DType::U8);
    const auto* data = bytes.make(count);
    for (const char* cpu : {"x86-64", "x86-64-v2", "x86-64-v3", "native"}) {
      CompileOptions options = on("cpu");
      options.cpu = cpu;
      unsigned char* got = bytes.poisoned(count);
      compile({{"y", look_up(table, x)}}, options).run({{"x", data}, {"table", entries}}, {{"y", got}});
      int wrong = 0;
      for (int k = 0; k < count; ++k) wrong += got[k] != entries[data[k]];
      CHECK_MESSAGE(wrong == 0, cpu, " ", count);
    }
  }
}
