// ai.onnx.ml on strings and maps, against tables written out.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <map>

#include "support/files.hpp"
#include "support/onnx_ml.hpp"
#include "support/onnx_strings.hpp"

using namespace lathe;
using namespace lathe::test;

namespace {

using Integers = std::vector<int64_t>;
using Floats = std::vector<float>;

void check_words(const onnx::Value& got, const Names& expected) {
  REQUIRE(got.is_strings());
  CHECK(got.texts() == expected);
}

} // namespace

TEST_CASE("LabelEncoder looks strings up, and gives them") {
  const Attribute keys = texts_attribute("keys_strings", {"a", "b", "c"}),
                  to = attribute("values_int64s", Integers{7, 8, 9});
  for (const int version : {2, 4}) {
    CHECK(integers(ml_node("LabelEncoder", {words({"c", "x", "a", "A"}, {2, 2})}, {keys, to}, 1,
                           version)[0]) == Integers{9, -1, 7, -1});
    CHECK(integers(ml_node("LabelEncoder", {words({"b", ""})}, {keys, to, attribute("default_int64", 42)}, 1,
                           version, "n")[0]) == Integers{8, 42});
    check_words(
        ml_node("LabelEncoder", {integers_of({2, 1, 5})},
                {attribute("keys_int64s", Integers{1, 2}), texts_attribute("values_strings", {"one", "two"})},
                1, version)[0],
        {"two", "one", "_Unused"});
    check_words(ml_node("LabelEncoder", {words({"a", "q"})},
                        {keys, texts_attribute("values_strings", {"x", "y", "z"}),
                         attribute("default_string", "none")},
                        1, version)[0],
                {"x", "none"});
    CHECK(floats(ml_node("LabelEncoder", {words({"c", "q"})},
                         {keys, floats_attribute("values_floats", {1, 2, 3.5})}, 1, version)[0]) ==
          Floats{3.5, 0});
    check_words(ml_node("LabelEncoder", {Tensor::from({2.5f, std::nanf(""), 0.f})},
                        {floats_attribute("keys_floats", {2.5, std::nan("")}),
                         texts_attribute("values_strings", {"x", "y"})},
                        1, version)[0],
                {"x", "y", "_Unused"});
  }
  // Of repeated keys the first counts before version 4, and the last from there on.
  const Attribute twice = texts_attribute("keys_strings", {"a", "a"}),
                  two = attribute("values_int64s", Integers{1, 2});
  CHECK(integers(ml_node("LabelEncoder", {words({"a"})}, {twice, two}, 1, 2)[0]) == Integers{1});
  CHECK(integers(ml_node("LabelEncoder", {words({"a"})}, {twice, two}, 1, 4)[0]) == Integers{2});
  // Version 4 may have its lists as tensors, and so its default.
  const Attributes tensors{attribute("keys_tensor", strings_proto({2}, {"k", "l"})),
                           attribute("values_tensor", strings_proto({2}, {"v", "w"})),
                           attribute("default_tensor", strings_proto({1}, {"?"}))};
  check_words(ml_node("LabelEncoder", {words({"l", "k", "m"})}, tensors, 1, 4)[0], {"w", "v", "?"});
  CHECK(contains(ml_error("LabelEncoder", {integers_of({1})}, {keys, to}, 4),
                 "i64 looked up in keys of strings"));
  CHECK(contains(ml_error("LabelEncoder", {words({"a"})}, {keys, attribute("values_int64s", Integers{1})}, 4),
                 "1 values for 3 keys"));
}

TEST_CASE("LabelEncoder 1 and CategoryMapper go both ways") {
  const Attribute classes = texts_attribute("classes_strings", {"zero", "one"});
  CHECK(integers(ml_node("LabelEncoder", {words({"one", "two", "zero"})}, {classes}, 1, 1)[0]) ==
        Integers{1, -1, 0});
  check_words(ml_node("LabelEncoder", {integers_of({1, 2, 0, -1})},
                      {classes, attribute("default_string", "none")}, 1, 1)[0],
              {"one", "none", "zero", "none"});
  const Attributes pairs{texts_attribute("cats_strings", {"a", "b"}),
                         attribute("cats_int64s", Integers{10, -4})};
  CHECK(integers(ml_node("CategoryMapper", {words({"b", "a", "c"})}, pairs)[0]) == Integers{-4, 10, -1});
  check_words(ml_node("CategoryMapper", {integers_of({-4, 3})}, pairs)[0], {"b", "_Unused"});
}

TEST_CASE("OneHotEncoder and ArrayFeatureExtractor take strings") {
  const Attribute known = texts_attribute("cats_strings", {"x", "y"});
  const onnx::Value found =
      ml_node("OneHotEncoder", {words({"y", "z", "x", "y"}, {2, 2})}, {known}, 1, 1, "n")[0];
  CHECK(found.shape() == Shape{2, 2, 2});
  CHECK(floats(found) == Floats{0, 1, 0, 0, 1, 0, 0, 1});
  CHECK(contains(ml_error("OneHotEncoder", {words({"z"})}, {known, attribute("zeros", 0)}),
                 "none of the categories"));
  CHECK(floats(ml_node("OneHotEncoder", {words({"y"})}, {known, attribute("zeros", 0)})[0]) == Floats{0, 1});
  CHECK(contains(ml_error("OneHotEncoder", {words({"z"})}, {texts_attribute("cats_strings", {"a", "a"})}),
                 "twice"));
  check_words(ml_node("ArrayFeatureExtractor", {words({"a", "b", "c"}), integers_of({2, 0})}, {})[0],
              {"c", "a"});
}

TEST_CASE("classifiers with labels that are strings") {
  // Scores x0, x1, -x0 - x1.
  const Attributes linear{floats_attribute("coefficients", {1, 0, 0, 1, -1, -1}),
                          floats_attribute("intercepts", {0, 0, 0}),
                          texts_attribute("classlabels_strings", {"left", "right", "none"})};
  const Tensor x = Tensor::from(Floats{2, 1, 0, 3, -1, -1}, {3, 2});
  const std::vector<onnx::Value> y = ml_node("LinearClassifier", {x}, linear, 2, 1, "n");
  check_words(y[0], {"left", "right", "none"});
  CHECK(floats(y[1]) == Floats{2, 1, -3, 0, 3, -3, -1, -1, 2});
  CHECK(contains(ml_error("LinearClassifier", {x},
                          {linear[0], linear[1], linear[2], attribute("classlabels_ints", Integers{1, 2, 3})},
                          1),
                 "both there"));
}

namespace {

onnx::NamedValues zipped(const Tensor& x, const char* batch, const Attribute& labels,
                         const std::string& file = "") {
  Graph graph;
  declare(graph, "x", x, batch);
  graph.node("ZipMap", {"x"}, {"y"}, {labels}, "ai.onnx.ml");
  // Something that takes the sequence apart.
  graph.node("SequenceAt", {"y", "last"}, {"z"}).initialiser("last", {}, Integers{-1});
  graph.output("y");
  if (!batch) graph.output("z");
  const onnx::Program program = load(model(graph, 17, {}, {"ai.onnx.ml"})).compile();
  if (file.empty()) return program({{"x", x}});
  onnx::save(program, file);
  return onnx::load_program(file)({{"x", x}});
}

std::map<std::string, float> entries(const onnx::Value& map) {
  std::map<std::string, float> out;
  const Floats values = map.values().tensor().to_vector<float>();
  for (size_t k = 0; k < values.size(); ++k) out[map.keys().texts()[k]] = values[k];
  return out;
}

} // namespace

TEST_CASE("ZipMap makes a map of each row") {
  const Tensor x = Tensor::from(Floats{0.25f, 0.75f, 1.f, 0.f}, {2, 2});
  const Attribute labels = texts_attribute("classlabels_strings", {"no", "yes"});
  const TemporaryDir folder;
  for (const std::string& file : {std::string(), folder.file("zipped.lathe")}) {
    for (const char* batch : {static_cast<const char*>(nullptr), "n"}) {
      const onnx::NamedValues out = zipped(x, batch, labels, file);
      const onnx::Value& y = out.at("y");
      CHECK(type_text(y) == "seq(map(str, f32))");
      REQUIRE(y.elements().size() == 2);
      CHECK(entries(y.elements()[0]) == std::map<std::string, float>{{"no", 0.25f}, {"yes", 0.75f}});
      CHECK(entries(y.elements()[1]) == std::map<std::string, float>{{"no", 1.f}, {"yes", 0.f}});
      if (!batch) CHECK(entries(out.at("z")) == std::map<std::string, float>{{"no", 1.f}, {"yes", 0.f}});
    }
  }
  const onnx::Value one =
      ml_node("ZipMap", {Tensor::from({5.f, 6.f})}, {attribute("classlabels_int64s", Integers{3, 1})})[0];
  REQUIRE(one.elements().size() == 1);
  CHECK(one.elements()[0].keys().tensor().to_vector<int64_t>() == Integers{3, 1});
  CHECK(one.elements()[0].values().tensor().to_vector<float>() == Floats{5, 6});
  CHECK(ml_node("ZipMap", {Tensor::zeros({0, 2})}, {labels})[0].elements().empty());
  CHECK(contains(ml_error("ZipMap", {Tensor::zeros({2, 3})}, {labels}), "2 keys for values"));
  CHECK(contains(ml_error("ZipMap", {x}, {texts_attribute("classlabels_strings", {"a", "a"})}), "twice"));
}

TEST_CASE("DictVectorizer puts the values of a map in the vocabulary's places") {
  const Attribute vocabulary = texts_attribute("string_vocabulary", {"a", "c", "b", "z"});
  const auto map = [](const Names& keys, const Floats& values) {
    return onnx::Value::map(words(keys), values.empty() ? Tensor::zeros({0}) : Tensor::from(values));
  };
  const onnx::Value found = ml_node("DictVectorizer", {map({"c", "q", "a"}, {8, 1, 4})}, {vocabulary})[0];
  CHECK(found.shape() == Shape{1, 4});
  CHECK(floats(found) == Floats{4, 8, 0, 0});
  CHECK(floats(ml_node("DictVectorizer", {map({}, {})}, {vocabulary})[0]) == Floats{0, 0, 0, 0});
  const float infinity = std::numeric_limits<float>::infinity();
  CHECK(floats(ml_node("DictVectorizer", {map({"z", "c"}, {infinity, -1})}, {vocabulary})[0]) ==
        Floats{0, -1, 0, infinity});
  const onnx::Value texts = onnx::Value::map(integers_of({5, 6}), words({"five", "six"}));
  check_words(ml_node("DictVectorizer", {texts}, {attribute("int64_vocabulary", Integers{6, 7})})[0],
              {"six", ""});
  const onnx::Value wide = onnx::Value::map(words({"a"}), Tensor::from({0.1}));
  CHECK(ml_node("DictVectorizer", {wide}, {vocabulary})[0].tensor().to_vector<double>() ==
        std::vector<double>{0.1, 0, 0, 0});
  CHECK(contains(ml_error("DictVectorizer", {texts}, {vocabulary}), "a vocabulary of strings"));
  CHECK(contains(ml_error("DictVectorizer", {map({"a", "a"}, {1, 2})}, {vocabulary}), "a key twice"));
  const onnx::Value twice = onnx::Value::map(integers_of({5, 5}), Tensor::from(Floats{1, 2}));
  CHECK(contains(ml_error("CastMap", {twice}, {}), "a key twice"));
}

TEST_CASE("CastMap orders a map by its keys") {
  const onnx::Value map = onnx::Value::map(integers_of({5, 0, 2}), Tensor::from({1.5f, -2.75f, 1e10f}));
  const Attribute sparse = attribute("map_form", "SPARSE"), length = attribute("max_map", 7);
  CHECK(floats(ml_node("CastMap", {map}, {})[0]) == Floats{-2.75f, 1e10f, 1.5f});
  CHECK(integers(ml_node("CastMap", {map}, {attribute("cast_to", "TO_INT64")})[0]) ==
        Integers{-2, 10000000000, 1});
  check_words(ml_node("CastMap", {map}, {attribute("cast_to", "TO_STRING")})[0],
              {"-2.750000", "10000000000.000000", "1.500000"});
  const onnx::Value spread = ml_node("CastMap", {map}, {sparse, length})[0];
  CHECK(spread.shape() == Shape{1, 7});
  CHECK(floats(spread) == Floats{-2.75f, 0, 1e10f, 0, 0, 1.5f, 0});
  const onnx::Value texts = onnx::Value::map(integers_of({3, 1}), words({"1.5", "-2"}));
  CHECK(floats(ml_node("CastMap", {texts}, {})[0]) == Floats{-2, 1.5f});
  check_words(ml_node("CastMap", {texts}, {attribute("cast_to", "TO_STRING")})[0], {"-2", "1.5"});
  CHECK(contains(ml_error("CastMap", {map}, {sparse, attribute("max_map", 5)}), "a key is not in [0, 5)"));
  CHECK(contains(ml_error("CastMap", {map}, {sparse, length, attribute("cast_to", "TO_STRING")}),
                 "SPARSE of strings"));
}
