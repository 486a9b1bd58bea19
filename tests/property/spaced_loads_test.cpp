// Loads whose lanes are picked from whole vectors, since they lie a few elements apart or elements repeat:
// every device reads the right elements and none outside of the buffer.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "ast/flat_index.hpp"
#include "ast/machine/access.hpp"
#include "support/devices.hpp"
#include "support/guarded_memory.hpp"

using namespace lathe;

namespace {

/// What `load` makes of elements that are their own offsets. Fails if a vector reaches past the lanes.
std::vector<int> picked(const ast::SpacedLoad& load, int lanes, int step) {
  std::vector<std::vector<int>> vectors;
  for (const int start : load.starts) {
    CHECK((start >= 0 && start + lanes <= (lanes - 1) * step + 1));
    vectors.emplace_back();
    for (int i = 0; i < lanes; ++i) vectors.back().push_back(start + i);
  }
  for (const auto& merge : load.merges) {
    std::vector<int> made;
    for (const int from : merge.pick)
      made.push_back(from < 0       ? -1
                     : from < lanes ? vectors.at(merge.left).at(from)
                                    : vectors.at(merge.right).at(from - lanes));
    vectors.push_back(std::move(made));
  }
  return vectors.back();
}

/// One program of a dtype. Each output is every `step`-th element from an offset on, or each element `step`
/// times beside itself and the first `offset` of those left out, plus 1.
struct Programs {
  DType dtype;
  std::vector<int> steps;
  bool repeats = false;
  std::vector<int> counts = {1, 7, 33, 64, 101};

  struct Case {
    int step, count, offset;
    std::string name() const { return fmt::format("{}_{}_{}", step, count, offset); }
  };
  std::vector<Case> cases() const {
    std::vector<Case> out;
    for (const int step : steps)
      for (const int count : counts)
        for (const int offset : {0, step / 2, step - 1}) out.push_back({step, count, offset});
    return out;
  }

  int size(const Case& c) const { return repeats ? c.count * c.step - c.offset : c.count; }

  void check(const std::string& device, bool ends_there) const {
    NamedTensors outputs;
    std::map<std::string, const void*> in;
    std::map<std::string, void*> out;
    std::vector<std::unique_ptr<test::GuardedMemory>> memory;
    const auto guarded = [&](int count) {
      memory.push_back(
          std::make_unique<test::GuardedMemory>(static_cast<size_t>(count) * size_of(dtype), ends_there));
      return memory.back()->data();
    };
    const auto set = [&](unsigned char* to, int value) {
      (is_float(dtype) ? Scalar::of_float(dtype, value) : Scalar::of_int(dtype, value)).to_memory(to);
    };
    for (const Case& c : cases()) {
      const int columns = repeats ? 1 : c.step;
      const Tensor x = Tensor::input("x" + c.name(), {c.count, columns}, dtype);
      const int all = c.count * c.step;
      outputs["y" + c.name()] =
          (repeats ? x.expand({c.count, c.step}).reshape({all}).shrink({{c.offset, all}})
                   : x.shrink({{0, c.count}, {c.offset, c.offset + 1}})) +
          1;
      unsigned char* data = guarded(c.count * columns);
      for (int i = 0; i < c.count * columns; ++i) set(data + static_cast<size_t>(i) * size_of(dtype), i % 97);
      in["x" + c.name()] = data;
      out["y" + c.name()] = guarded(size(c));
      memory.back()->fill(0xA5);
    }
    compile(outputs, on(device)).run(in, out);
    for (const Case& c : cases()) {
      const auto* got = static_cast<const unsigned char*>(out.at("y" + c.name()));
      std::vector<unsigned char> want(static_cast<size_t>(size(c)) * size_of(dtype));
      for (int i = 0; i < size(c); ++i)
        set(&want[static_cast<size_t>(i) * size_of(dtype)],
            (repeats ? (i + c.offset) / c.step : i * c.step + c.offset) % 97 + 1);
      CHECK_MESSAGE(std::equal(want.begin(), want.end(), got), device, " ", to_string(dtype), " ", c.name());
    }
  }
};

} // namespace

TEST_CASE("merging picks every lane, whatever the vectors and the step") {
  for (int lanes = 2; lanes <= 64; ++lanes)
    for (int step = 2; step <= 20; ++step) {
      const std::vector<int> got = picked(ast::spaced_load(lanes, step), lanes, step);
      REQUIRE(static_cast<int>(got.size()) == lanes);
      for (int i = 0; i < lanes; ++i) CHECK(got[i] == i * step);
    }
}

TEST_CASE("all dtypes and steps on all devices, at both ends of the memory") {
  for (const std::string& device : present_devices()) {
    const std::vector<int> all = {2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 17}, some = {3, 6};
    for (const DType dtype : {DType::U8, DType::I16, DType::BF16, DType::F32, DType::F64})
      for (const bool ends_there : {true, false})
        Programs{dtype, device == "cpu" ? all : some}.check(device, ends_there);
  }
}

TEST_CASE("repeated elements of all dtypes on all devices, at both ends of the memory") {
  for (const std::string& device : present_devices()) {
    const std::vector<int> all = {2, 3, 4, 8}, some = {2};
    for (const DType dtype : {DType::U8, DType::I16, DType::BF16, DType::F32, DType::F64})
      for (const bool ends_there : {true, false})
        Programs{.dtype = dtype, .steps = device == "cpu" ? all : some, .repeats = true, .counts = {1, 7, 65}}
            .check(device, ends_there);
  }
}

TEST_CASE("a vector has all lanes only where they lie at fixed places of it, and touch its ends") {
  const auto picked = [](const std::string& index) {
    const ast::Kernel kernel = ast::parse(
        "kernel k(A: f32[64] in, Y: f32[4, 8] out) {\nfor i in 4 { for j in 8 vector(8) { Y[i, j] = A[" +
        index + "] } }\n}");
    std::optional<ast::PickedLoad> out;
    ast::visit(kernel.body, [&](const ast::Stmt& stmt, const std::vector<const ast::For*>& loops) {
      const auto* store = std::get_if<ast::Store>(&stmt.node);
      if (!store) return;
      const auto& load = std::get<ast::LoadAttr>(store->value->attr);
      out = ast::picked_load(*load.buffer, flat_index(*load.buffer, load.index), loops.back()->var, 8);
    });
    return out;
  };
  const auto halves = picked("i*4 + j // 2");
  REQUIRE(halves);
  CHECK(halves->elements == 4);
  CHECK(halves->pick == std::vector<int>{0, 0, 1, 1, 2, 2, 3, 3});
  const auto backwards = picked("i*4 + (7 - j) // 2");
  REQUIRE(backwards);
  CHECK(backwards->pick == std::vector<int>{3, 3, 2, 2, 1, 1, 0, 0});
  CHECK(!picked("i*3 + (j + i) // 2")); // where i is odd, they are others
  CHECK(!picked("i*8 + j // 3"));       // three elements
  CHECK(!picked("i"));                  // one
}
