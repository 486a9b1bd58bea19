// Models that one tree of segments serves for as many sizes as can be: resized and padded axes of any size,
// sizes that have to be multiples, bounds of tables, batches that are 1. Values are those of programs for the
// sizes fed.
#include <doctest/doctest.h>

#include "lathe/program_file.hpp"
#include "support/files.hpp"
#include "support/messages.hpp"
#include "support/onnx_builder.hpp"
#include "support/onnx_numbers.hpp"

using namespace lathe;
using namespace lathe::test;
using onnx::NamedValues;
using onnx::Program;

namespace {

using FedSizes = std::map<std::string, int64_t>;

/// Calls the program with an input "x" of this shape, and compares with the interpreter's for its sizes.
void check_at(const Program& program, const std::string& bytes, const Shape& shape) {
  CAPTURE(to_string(shape));
  const NamedValues inputs{{"x", Tensor::from(numbers(num_elements(shape).value(), 5), shape)}};
  onnx::ImportOptions fixed{.compile = {.device = "interp"}};
  const std::vector<onnx::Port> ports = load(bytes).inputs();
  for (size_t axis = 0; axis < shape.size(); ++axis)
    if (const Expr size = (*ports[0].shape)[axis]; size.is_var())
      fixed.sizes[size.name()] = shape[axis].value();
  const NamedValues got = program(inputs), want = load(bytes).compile(fixed)(inputs);
  for (const auto& [name, value] : want) {
    CAPTURE(name);
    CHECK(got.at(name).shape() == value.shape());
    CHECK(onnx::compare(got.at(name), value, 1e-4).why == "");
  }
}

/// One segment serves all of these.
void check_one_for_all(const std::string& bytes, const std::vector<Shape>& shapes) {
  const Program program = load(bytes).compile({.versions = 0});
  CHECK(program.segments().size() == 1);
  for (const Shape& shape : shapes) check_at(program, bytes, shape);
  CHECK(program.segments().size() == 1);
}

struct Resizing {
  const char *mode, *coordinates, *nearest;
};

} // namespace

TEST_CASE("an axis of any size is resized by scales and to sizes as one of a known size is") {
  const std::vector<Resizing> ways{{"nearest", "half_pixel", "round_prefer_floor"},
                                   {"nearest", "half_pixel", "ceil"},
                                   {"nearest", "asymmetric", "floor"},
                                   {"nearest", "asymmetric", "round_prefer_ceil"},
                                   {"nearest", "align_corners", "round_prefer_floor"},
                                   {"nearest", "tf_half_pixel_for_nn", "floor"},
                                   {"linear", "half_pixel", "floor"},
                                   {"linear", "pytorch_half_pixel", "floor"},
                                   {"linear", "asymmetric", "floor"},
                                   {"linear", "align_corners", "floor"}};
  for (const Resizing& way : ways) {
    CAPTURE(way.mode);
    CAPTURE(way.coordinates);
    CAPTURE(way.nearest);
    const Attributes how{attribute("mode", way.mode),
                         attribute("coordinate_transformation_mode", way.coordinates),
                         attribute("nearest_mode", way.nearest)};
    const std::vector<Shape> shapes{{1, 2, 3, 4}, {2, 2, 1, 7}, {1, 2, 5, 1}, {3, 2, 17, 8}};
    for (const float scale : {2.f, 3.f, 1.5f, 0.5f}) {
      CAPTURE(scale);
      Graph g;
      g.input("x", DType::F32, {"n", 2, "h", "w"}).initialiser<float>("scales", {4}, {1, 1, scale, 2});
      g.node("Resize", {"x", "", "scales"}, {"y"}, how).output("y");
      std::vector<Shape> large_enough = shapes;
      if (scale < 1) large_enough.erase(large_enough.begin() + 1);
      if (scale < 1) { // of one element nothing is left, which is an error
        const Program program = load(model(g)).compile();
        for (const Shape& shape : large_enough) check_at(program, model(g), shape);
      } else {
        check_one_for_all(model(g), large_enough);
      }
    }
    Graph g; // to the sizes of another tensor
    g.input("x", DType::F32, {"n", 2, "h", "w"}).initialiser<int64_t>("swap", {4}, {0, 1, 3, 2});
    g.node("Shape", {"x"}, {"sizes"}).node("Gather", {"sizes", "swap"}, {"wanted"});
    g.node("Resize", {"x", "", "", "wanted"}, {"y"}, how).output("y");
    check_one_for_all(model(g), shapes);
  }
}

TEST_CASE("amounts of padding that follow from sizes") {
  // To the next multiple of 4 behind, and by half of the height before.
  Graph g;
  g.input("x", DType::F32, {1, "h", "w"})
      .initialiser<int64_t>("four", {}, {4})
      .initialiser<int64_t>("two", {}, {2});
  g.initialiser<int64_t>("zeros", {1}, {0})
      .initialiser<int64_t>("one", {}, {1})
      .initialiser<int64_t>("axis", {1}, {0});
  g.initialiser<float>("value", {}, {-3.5f}).initialiser<int64_t>("second", {}, {2});
  g.node("Shape", {"x"}, {"sizes"})
      .node("Gather", {"sizes", "one"}, {"h"})
      .node("Gather", {"sizes", "second"}, {"w"});
  g.initialiser<int64_t>("three", {}, {3})
      .node("Add", {"w", "three"}, {"more"})
      .node("Div", {"more", "four"}, {"fours"});
  g.node("Mul", {"fours", "four"}, {"full"}).node("Sub", {"full", "w"}, {"missing"});
  g.node("Div", {"h", "two"}, {"half"});
  g.node("Unsqueeze", {"missing", "axis"}, {"missing1"}).node("Unsqueeze", {"half", "axis"}, {"half1"});
  g.node("Concat", {"zeros", "half1", "zeros", "zeros", "zeros", "missing1"}, {"pads"},
         {attribute("axis", 0)});
  g.node("Pad", {"x", "pads", "value"}, {"y"}).output("y");
  check_one_for_all(model(g), {{1, 3, 5}, {1, 1, 4}, {1, 8, 1}, {1, 6, 31}, {1, 5, 8}});
}

TEST_CASE("sizes in floats: a range, and a size that is scaled") {
  Graph g;
  g.input("x", DType::F32, {"n", 3})
      .initialiser<int64_t>("first", {}, {0})
      .initialiser<float>("zero", {}, {0});
  g.initialiser<float>("one", {}, {1})
      .initialiser<float>("two", {}, {2})
      .initialiser<int64_t>("axis", {1}, {0});
  g.node("Shape", {"x"}, {"sizes"}).node("Gather", {"sizes", "first"}, {"n"});
  g.node("Cast", {"n"}, {"f"}, {attribute("to", onnx_dtype(DType::F32))});
  g.node("Range", {"zero", "f", "one"}, {"steps"});
  g.node("Mul", {"f", "two"}, {"twice"}).node("Floor", {"twice"}, {"whole"});
  g.node("Cast", {"whole"}, {"m"}, {attribute("to", onnx_dtype(DType::I64))})
      .node("Unsqueeze", {"m", "axis"}, {"shape"});
  g.node("ConstantOfShape", {"shape"}, {"zeros"});
  check_one_for_all(model(g.output("steps").output("zeros")), {{4, 3}, {1, 3}, {9, 3}});
}

TEST_CASE("parts that are equally large for multiples alone get one program for these") {
  // Halved twice with rounding up, and doubled again.
  Graph g;
  g.input("x", DType::F32, {"n", 1, "h", "w"}).initialiser<float>("scales", {4}, {1, 1, 4, 4});
  g.initialiser<float>("k", {1, 1, 3, 3}, numbers(9, 1));
  const Attributes half{attribute("strides", std::vector<int64_t>{2, 2}),
                        attribute("pads", std::vector<int64_t>{1, 1, 1, 1})};
  g.node("Conv", {"x", "k"}, {"a"}, half).node("Conv", {"a", "k"}, {"b"}, half);
  g.node("Resize", {"b", "", "scales"}, {"c"}, {attribute("mode", "nearest")}).node("Add", {"x", "c"}, {"y"});
  const std::string bytes = model(g.output("y"));
  check_one_for_all(bytes, {{1, 1, 8, 12}, {2, 1, 4, 4}, {3, 1, 20, 8}});

  const Program program = load(bytes).compile();
  for (const Shape& shape : {Shape{1, 1, 8, 8}, Shape{1, 1, 12, 4}, Shape{2, 1, 4, 16}, Shape{1, 1, 8, 4}})
    check_at(program, bytes, shape);
  CHECK(program.segments().size() == 2); // a version, and the one for multiples of 4
  CHECK(mentions(message_of([&] { check_at(program, bytes, {1, 1, 6, 8}); }), "Add"));
  check_at(program, bytes, {1, 1, 4, 8});
  CHECK(program.segments().size() == 2);

  const TemporaryDir folder;
  onnx::save(program, folder.file("p.lathe"));
  const Program loaded = onnx::load_program(folder.file("p.lathe"));
  for (const Shape& shape : {Shape{1, 1, 16, 8}, Shape{2, 1, 4, 12}}) check_at(loaded, bytes, shape);
  CHECK(loaded.segments().size() == 2);
}

TEST_CASE("a table of positions bounds the sizes of the program for all") {
  Graph g;
  g.input("x", DType::F32, {"n", "s", 2}).initialiser<float>("table", {1, 600, 2}, numbers(1200, 1));
  g.initialiser<int64_t>("zero", {1}, {0}).initialiser<int64_t>("one", {1}, {1});
  g.node("Shape", {"x"}, {"sizes"}).node("Gather", {"sizes", "one"}, {"s"});
  g.node("Slice", {"table", "zero", "s", "one"}, {"rows"}).node("Add", {"x", "rows"}, {"y"});
  const std::string bytes = model(g.output("y"));
  check_one_for_all(bytes, {{1, 5, 2}, {2, 300, 2}, {1, 512, 2}, {3, 1, 2}});
  const Program program = load(bytes).compile();
  for (const Shape& shape : {Shape{1, 4, 2}, Shape{1, 9, 2}, Shape{2, 100, 2}, Shape{1, 600, 2}})
    check_at(program, bytes, shape);
  CHECK(program.segments().size() == 3);
  mentions(message_of([&] { check_at(program, bytes, {1, 601, 2}); }), "Add");
}

TEST_CASE("a batch that can only be 1 stays 1") {
  Graph g;
  g.input("x", DType::F32, {"batch", "steps", 3}).initialiser<float>("h", {1, 1, 2}, {0.5f, -0.5f});
  g.initialiser<float>("w", {1, 6, 3}, numbers(18, 1)).initialiser<float>("r", {1, 6, 2}, numbers(12, 2));
  g.node("Transpose", {"x"}, {"rows"}, {attribute("perm", std::vector<int64_t>{1, 0, 2})});
  g.node("GRU", {"rows", "w", "r", "", "", "h"}, {"all", "last"}, {attribute("hidden_size", 2)});
  const std::string bytes = model(g.output("last"));
  check_one_for_all(bytes, {{1, 5, 3}, {1, 1, 3}, {1, 12, 3}});
}
