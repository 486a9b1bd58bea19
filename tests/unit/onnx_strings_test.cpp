// Strings in ONNX models: ops that move them, ops that compute with them, and programs that are fed them.
#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <thread>

#include "lathe/onnx/utf8.hpp"
#include "support/files.hpp"
#include "support/messages.hpp"
#include "support/onnx_node.hpp"
#include "support/onnx_strings.hpp"

using namespace lathe;
using namespace lathe::test;

namespace {

using Integers = std::vector<int64_t>;

void check_words(const onnx::Value& got, const Names& expected, const Shape& shape) {
  REQUIRE(got.is_strings());
  CHECK(got.shape() == shape);
  CHECK(got.texts() == expected);
}

std::string message_of_node(const std::string& op, const std::vector<onnx::Value>& inputs,
                            const Attributes& attributes = {}, int opset = 21) {
  return message_of([&] { one(op, inputs, attributes, opset); });
}

void check_kind(ErrorKind kind, const std::function<void()>& call) {
  try {
    call();
    FAIL_CHECK("no error");
  } catch (const Error& error) {
    CAPTURE(error.what());
    CHECK(error.kind() == kind);
    CHECK(std::string(error.what()).find("expected") != std::string::npos);
  }
}

} // namespace

TEST_CASE("values of strings and maps have the shapes they say") {
  const onnx::Value value = words({"a", "b"});
  CHECK(value.is_strings());
  CHECK_FALSE(value.is_tensor());
  CHECK(value.shape() == Shape{2});
  CHECK(type_text(value) == "str[2]");
  check_kind(ErrorKind::Shape, [] { words({"a"}, {2}); });
  check_kind(ErrorKind::Shape, [&] { value.tensor(); });
  check_kind(ErrorKind::Value, [] { onnx::Value(Tensor::ones({1})).texts(); });
  const onnx::Value map = onnx::Value::map(value, Tensor::from({1.f, 2.f}));
  CHECK(type_text(map) == "map(str, f32)");
  check_kind(ErrorKind::Shape, [&] { onnx::Value::map(value, Tensor::from({1.f})); });
  check_kind(ErrorKind::DType, [&] { onnx::Value::map(Tensor::from({1.f}), Tensor::from({1.f})); });
}

TEST_CASE("strings are compared exactly, and maps by their keys") {
  const onnx::Value a = words({"x", "y"});
  CHECK(compare(a, words({"x", "y"})).why.empty());
  CHECK(compare(a, words({"x", "z"})).why == "element 1 is 'y', expected 'z'");
  CHECK(compare(a, words({"x", "y"}, {2, 1})).why == "is str[2], expected str[2, 1]");
  CHECK(compare(a, words({"x", "z"}), {}).why.empty());
  const auto map = [](const Names& keys, const std::vector<float>& values) {
    return onnx::Value::map(words(keys), Tensor::from(values));
  };
  CHECK(compare(map({"x", "y"}, {1, 2}), map({"y", "x"}, {2, 1})).why.empty());
  CHECK_FALSE(compare(map({"x", "y"}, {1, 2}), map({"y", "x"}, {1, 2})).why.empty());
  CHECK(compare(map({"x", "y"}, {1, 2}), map({"x", "q"}, {1, 2})).why == "has other keys");
}

TEST_CASE("UTF-8 to characters and back") {
  const std::string text = "a\xC3\x9F\xE2\x82\xAC\xF0\x9F\x98\x80";
  CHECK(onnx::characters(text) == std::u32string(U"a\u00DF\u20AC\U0001F600"));
  CHECK(onnx::utf8(onnx::characters(text)) == text);
  for (const char* bad : {"\xC3", "\xC0\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xFF", "\x80"})
    check_kind(ErrorKind::Value, [&] { onnx::characters(bad); });
  check_kind(ErrorKind::Value, [] { onnx::utf8(std::u32string(1, char32_t{0xD800})); });
}

TEST_CASE("ops that move elements move strings") {
  const Names letters{"a", "b", "c", "d", "e", "f"};
  const onnx::Value x = words(letters, {2, 3});
  check_words(one("Reshape", {x, integers_of({3, -1})}), letters, {3, 2});
  check_words(one("Transpose", {x}), {"a", "d", "b", "e", "c", "f"}, {3, 2});
  check_words(one("Flatten", {x}, {attribute("axis", 0)}), letters, {1, 6});
  check_words(one("Unsqueeze", {x, integers_of({0})}), letters, {1, 2, 3});
  check_words(one("Squeeze", {words({"q"}, {1, 1}), integers_of({0})}), {"q"}, {1});
  check_words(one("Identity", {x}), letters, {2, 3});
  check_words(one("Slice", {x, integers_of({1}), integers_of({3}), integers_of({1})}), {"b", "c", "e", "f"},
              {2, 2});
  check_words(one("Tile", {words({"a", "b"}), integers_of({2})}), {"a", "b", "a", "b"}, {4});
  check_words(one("Expand", {words({"a", "b"}, {2, 1}), integers_of({2, 2})}), {"a", "a", "b", "b"}, {2, 2});
  check_words(one("Gather", {x, integers_of({2, -3})}, {attribute("axis", 1)}), {"c", "a", "f", "d"}, {2, 2});
  check_words(one("GatherElements", {x, Tensor::from<int64_t>({{2}, {0}})}, {attribute("axis", 1)}),
              {"c", "d"}, {2, 1});
  check_words(one("GatherND", {x, Tensor::from<int64_t>({{1, 2}, {0, 0}})}), {"f", "a"}, {2});
  check_words(one("Concat", {words({"a"}), words({}), words({"b", "a"})}, {attribute("axis", 0)}),
              {"a", "b", "a"}, {3});
  check_words(one("Where", {Tensor::from({true, false}), words({"a"}), words({"x", "y"})}), {"a", "y"}, {2});
  check_words(one("ScatterElements", {words({"a", "b", "c"}), integers_of({2, 0}), words({"x", "y"})}),
              {"y", "b", "x"}, {3});
  check_words(one("ScatterND", {words({"a", "b"}), Tensor::from<int64_t>({{1}}), words({"x"})}), {"a", "x"},
              {2});
  check_words(one("Compress", {words({"a", "b", "c"}), Tensor::from({true, false, true})}), {"a", "c"}, {2});
  check_words(one("ReverseSequence", {words({"a", "b", "c", "d"}, {2, 2}), integers_of({2, 1})},
                  {attribute("time_axis", 0), attribute("batch_axis", 1)}),
              {"c", "b", "a", "d"}, {2, 2});
  check_words(one("Pad", {words({"a"}), integers_of({1, 1})}), {"", "a", ""}, {3});
  check_words(one("Pad", {words({"a"}), integers_of({0, 2}), words({"-"}, {})}), {"a", "-", "-"}, {3});
  check_words(one("OneHot", {integers_of({1, 0}), integers_of({2}), words({"no", "yes"})}),
              {"no", "yes", "yes", "no"}, {2, 2});
  const std::vector<onnx::Value> halves = run_node("Split", {words(letters)}, {attribute("axis", 0)}, 2);
  check_words(halves[0], {"a", "b", "c"}, {3});
  check_words(halves[1], {"d", "e", "f"}, {3});
  CHECK(integers(one("Shape", {x})) == Integers{2, 3});
  CHECK(integers(one("Size", {x})) == Integers{6});
  check_words(one("Gather", {words({}, {0}), Tensor::zeros({0}, DType::I64)}), {}, {0});
}

TEST_CASE("a batch that has a name, and strings with zero bytes") {
  const std::string zero("a\0b", 3);
  check_words(one("Concat", {words({zero, "a"}), words({"", zero})}, {attribute("axis", 0)}, 17, "n"),
              {zero, "a", "", zero}, {4});
  CHECK(integers(one("Equal", {words({zero, "a"}), words({"a", "a"})}, {}, 19, "n")) == Integers{0, 1});
}

TEST_CASE("Equal compares strings, and broadcasts") {
  CHECK(integers(one("Equal", {words({"a", "b", "", "B"}), words({"a", "c", "", "b"})}, {}, 19)) ==
        Integers{1, 0, 1, 0});
  CHECK(integers(one("Equal", {words({"a", "b"}, {2, 1}), words({"b", "a"})}, {}, 19)) ==
        Integers{0, 1, 1, 0});
}

TEST_CASE("strings beside numbers, and ops that compute, are refused") {
  mentions(message_of_node("Concat", {words({"a"}), integers_of({1})}, {attribute("axis", 0)}),
           "strings beside other elements");
  mentions(message_of_node("Gather", {integers_of({1}), words({"a"})}),
           "input 1 is str[1], expected no strings");
  mentions(message_of_node("Add", {words({"a"}), words({"a"})}), "expected tensors only");
  mentions(message_of_node("NonZero", {words({"a"})}), "input 0 is str[1], expected a tensor of numbers");
  mentions(message_of_node("ScatterElements", {words({"a"}), integers_of({0}), words({"b"})},
                           {attribute("reduction", "add")}),
           "a reduction of strings");
  mentions(message_of_node("StringConcat", {integers_of({1}), integers_of({1})}), "expected strings");
  for (const char* op : {"StringSplit", "StringNormalizer"})
    mentions(message_of_node(op, {integers_of({1})}), "expected strings");
}

TEST_CASE("StringConcat joins and broadcasts") {
  check_words(one("StringConcat", {words({"a", "", "b"}), words({"x", "y", ""})}, {}, 20), {"ax", "y", "b"},
              {3});
  check_words(one("StringConcat", {words({"a", "b"}, {2, 1}), words({"x", "y"})}, {}, 20),
              {"ax", "ay", "bx", "by"}, {2, 2});
  check_words(one("StringConcat", {words({}, {0, 2}), words({"x"})}, {}, 20), {}, {0, 2});
}

TEST_CASE("StringSplit cuts at a delimiter or at white space") {
  const auto split = [](const Names& texts, const Attributes& attributes) {
    return run_node("StringSplit", {words(texts)}, attributes, 2, 20);
  };
  std::vector<onnx::Value> parts = split({"a,b,,c", "x", ""}, {attribute("delimiter", ",")});
  check_words(parts[0], {"a", "b", "", "c", "x", "", "", "", "", "", "", ""}, {3, 4});
  CHECK(integers(parts[1]) == Integers{4, 1, 1});
  parts = split({"a--b--c"}, {attribute("delimiter", "--"), attribute("maxsplit", 1)});
  check_words(parts[0], {"a", "b--c"}, {1, 2});
  parts = split({"  a \t b  c ", "", " "}, {});
  check_words(parts[0], {"a", "b", "c", "", "", "", "", "", ""}, {3, 3});
  CHECK(integers(parts[1]) == Integers{3, 0, 0});
  parts = split({" a  b  c "}, {attribute("maxsplit", 1)});
  check_words(parts[0], {"a", "b  c"}, {1, 2});
  parts = split({" a  b "}, {attribute("maxsplit", 0)});
  check_words(parts[0], {"a  b"}, {1, 1});
  parts = split({}, {});
  check_words(parts[0], {}, {0, 0});
  CHECK(integers(parts[1]).empty());
  mentions(message_of_node("StringSplit", {words({"a"})}, {attribute("maxsplit", -2)}), "maxsplit -2");
}

TEST_CASE("Tokenizer cuts between separators, at matches, or between characters") {
  const auto tokens = [](const onnx::Value& x, const Names& separators, const char* expression, int least = 1,
                         int marks = 0) {
    Attributes attributes{attribute("mark", marks), attribute("mincharnum", least),
                          attribute("pad_value", "#")};
    if (!separators.empty()) attributes.push_back(texts_attribute("separators", separators));
    if (*expression) attributes.push_back(attribute("tokenexp", expression));
    return run_node("Tokenizer", {x}, attributes, 1, 17, nullptr, "com.microsoft")[0];
  };
  const onnx::Value x = words({"to be, or", "", "\xC3\xA9t\xC3\xA9"}, {3, 1}); // été
  check_words(tokens(x, {"[ ,]"}, ""), {"to", "be", "or", "#", "#", "#", "\xC3\xA9t\xC3\xA9", "#", "#"},
              {3, 1, 3});
  check_words(tokens(x, {" ", "b"}, "", 3), {"#", "#", "\xC3\xA9t\xC3\xA9"}, {3, 1, 1});
  check_words(tokens(words({"a,b c", "x"}), {",", " "}, "", 1, 1),
              {"\x02", "a", "b", "c", "\x03", "\x02", "x", "\x03", "#", "#"}, {2, 5});
  check_words(tokens(words({"aab ab"}), {}, "a|ab"), {"a", "ab", "ab"}, {1, 3}); // the longest, not the first
  check_words(tokens(words({"\xC3\xA9t", "b"}), {""}, ""), {"\xC3\xA9", "t", "b", "#"}, {2, 2});
  check_words(tokens(words({"", ""}), {" "}, "", 1, 1), {}, {2, 0});
  check_words(tokens(words({}, {0, 1}), {" "}, ""), {}, {0, 1, 0});
  const auto refused = [&](const Names& separators, const char* expression, int least, const char* message) {
    CHECK_THROWS_WITH_AS(tokens(words({"a"}), separators, expression, least), doctest::Contains(message),
                         Error);
  };
  refused({}, "", 1, "separators and tokenexp, expected one of them");
  refused({" "}, "a", 1, "separators and tokenexp, expected one of them");
  refused({" "}, "", 0, "mincharnum 0, expected at least 1");
  refused({""}, "", 2, "mincharnum 2 for single characters, expected 1");
  refused({"["}, "", 1, "expected RE2's syntax");
  CHECK_THROWS_WITH_AS(tokens(Tensor::from({1.f}), {" "}, ""), doctest::Contains("expected strings"), Error);
}

TEST_CASE("StringNormalizer drops stop words and changes case") {
  const auto normal = [](const onnx::Value& x, const char* change, int case_counts, const Names& stop) {
    Attributes attributes{attribute("case_change_action", change),
                          attribute("is_case_sensitive", case_counts)};
    if (!stop.empty()) attributes.push_back(texts_attribute("stopwords", stop));
    return one("StringNormalizer", {x}, attributes, 10);
  };
  const Names days{"monday", "Tuesday", "\xC3\x84R", "\xC3\xA9t\xC3\xA9"}; // ÄR, été
  check_words(normal(words(days), "LOWER", 1, {"monday", "tuesday"}),
              {"tuesday", "\xC3\xA4r", "\xC3\xA9t\xC3\xA9"}, {3});
  check_words(normal(words(days), "UPPER", 0, {"monday", "tuesday"}), {"\xC3\x84R", "\xC3\x89T\xC3\x89"},
              {2});
  check_words(normal(words(days), "NONE", 0, {"MONDAY", "\xC3\x84r"}), {"Tuesday", "\xC3\xA9t\xC3\xA9"}, {2});
  check_words(normal(words(days, {1, 4}), "NONE", 1, {"monday"}), {days[1], days[2], days[3]}, {1, 3});
  check_words(normal(words({"a", "a"}, {1, 2}), "NONE", 1, {"a"}), {""}, {1, 1});
  check_words(normal(words({"a"}), "NONE", 1, {"a"}), {""}, {1});
  check_words(normal(words({"Stra\xC3\x9F"
                            "e"}),
                     "UPPER", 1, {}),
              {"STRA\xC3\x9F"
               "E"},
              {1}); // one for one
  mentions(message_of_node("StringNormalizer", {words({"\xFF"})}, {attribute("case_change_action", "LOWER")}),
           "is no UTF-8");
  mentions(message_of_node("StringNormalizer", {words({"I"})},
                           {attribute("case_change_action", "LOWER"), attribute("locale", "tr_TR.UTF-8")}),
           "locale 'tr_TR.UTF-8'");
  mentions(message_of_node("StringNormalizer", {words({"a", "b"}, {2, 1})}), "[words] or [1, words]");
}

TEST_CASE("RegexFullMatch matches whole strings") {
  const Attribute pattern = attribute("pattern", "[a-z]+@(x|y)\\.org");
  const std::string why = message_of_node("RegexFullMatch", {words({"a"})}, {pattern}, 20);
  if (why.find("without RE2") != std::string::npos) return;
  CHECK(integers(one("RegexFullMatch", {words({"me@x.org", "me@z.org", " me@x.org", "A@y.org"})}, {pattern},
                     20)) == Integers{1, 0, 0, 0});
  CHECK(integers(one("RegexFullMatch", {words({"", "\xC3\x84"})}, {attribute("pattern", ".")}, 20)) ==
        Integers{0, 1});
  mentions(message_of_node("RegexFullMatch", {words({"a"})}, {attribute("pattern", "(a")}),
           "expected RE2's syntax");
  mentions(message_of_node("RegexFullMatch", {words({"a"})}, {attribute("pattern", "(a)\\1")}),
           "RE2's syntax");
}

TEST_CASE("Cast between numbers and their texts") {
  const Attribute to_string = attribute("to", kOnnxString);
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> given{1,     -0.5f,    0.1f,      0.60484552f,  1e10f,
                                 1e-5f, infinity, -infinity, std::nanf("")};
  check_words(one("Cast", {Tensor::from(given)}, {to_string}),
              {"1", "-0.5", "0.1", "0.6048455", "10000000000", "1e-05", "INF", "-INF", "NaN"}, {9});
  check_words(one("Cast", {Tensor::from({0.1, 1.0 / 3})}, {to_string}), {"0.1", "0.3333333333333333"}, {2});
  check_words(one("Cast", {integers_of({-7, INT64_MAX})}, {to_string}), {"-7", "9223372036854775807"}, {2});
  check_words(one("Cast", {Tensor::from(std::vector<uint64_t>{UINT64_MAX})}, {to_string}),
              {"18446744073709551615"}, {1});
  check_words(one("Cast", {Tensor::from({true, false})}, {to_string}), {"1", "0"}, {2});
  check_words(one("Cast", {words({"a"})}, {to_string}), {"a"}, {1});
  check_words(one("CastLike", {integers_of({3}), words({})}, {}), {"3"}, {1});

  const auto read = [](const Names& texts, DType dtype) {
    return one("Cast", {words(texts)}, {attribute("to", onnx_dtype(dtype))});
  };
  const std::vector<float> got =
      floats(read({"3.14", "1E8", "1e-5", " -2 ", "+INF", "-inf", "NaN"}, DType::F32));
  CHECK(std::vector<float>(got.begin(), got.end() - 1) ==
        std::vector<float>{3.14f, 1e8f, 1e-5f, -2, infinity, -infinity});
  CHECK(std::isnan(got.back()));
  CHECK(read({"0.1"}, DType::F64).tensor().to_vector<double>() == std::vector<double>{0.1});
  CHECK(floats(read({"1e40"}, DType::F32)) == std::vector<float>{infinity});
  CHECK(integers(read({"-128", "+127"}, DType::I8)) == Integers{-128, 127});
  CHECK(read({"18446744073709551615"}, DType::U64).tensor().to_vector<uint64_t>() ==
        std::vector<uint64_t>{UINT64_MAX});
  CHECK(integers(read({"0", "2"}, DType::Bool)) == Integers{0, 1});
  CHECK(read({}, DType::I32).shape() == Shape{0});
  for (const auto& [text, dtype] : std::vector<std::pair<const char*, DType>>{{"Hello", DType::F32},
                                                                              {"", DType::F32},
                                                                              {"1.5f", DType::F32},
                                                                              {"nan(1)", DType::F64},
                                                                              {"2.5", DType::I32},
                                                                              {"128", DType::I8},
                                                                              {"-1", DType::U8},
                                                                              {"-1", DType::U64},
                                                                              {"True", DType::Bool}})
    mentions(message_of_node("Cast", {words({text})}, {attribute("to", onnx_dtype(dtype))}),
             "cast to a number, expected");
}

TEST_CASE("Unique sorts strings by their bytes, or keeps their order") {
  const onnx::Value x = words({"b", "a", "b", "B", "\xC3\xA4", "a"});
  std::vector<onnx::Value> found = run_node("Unique", {x}, {}, 4, 11);
  check_words(found[0], {"B", "a", "b", "\xC3\xA4"}, {4});
  CHECK(integers(found[1]) == Integers{3, 1, 0, 4});
  CHECK(integers(found[2]) == Integers{2, 1, 2, 0, 3, 1});
  CHECK(integers(found[3]) == Integers{1, 2, 2, 1});
  found = run_node("Unique", {x}, {attribute("sorted", 0)}, 4, 11);
  check_words(found[0], {"b", "a", "B", "\xC3\xA4"}, {4});
  const onnx::Value rows = words({"b", "x", "a", "y", "b", "x"}, {3, 2});
  check_words(run_node("Unique", {rows}, {attribute("axis", 0)}, 1, 11)[0], {"a", "y", "b", "x"}, {2, 2});
}

TEST_CASE("TfIdfVectorizer counts n-grams of words") {
  const Attributes attributes{attribute("mode", "TF"),
                              attribute("min_gram_length", 1),
                              attribute("max_gram_length", 2),
                              attribute("max_skip_count", 0),
                              attribute("ngram_counts", Integers{0, 2}),
                              attribute("ngram_indexes", Integers{0, 2, 1}),
                              texts_attribute("pool_strings", {"to", "be", "to", "be"})};
  CHECK(floats(one("TfIdfVectorizer", {words({"to", "be", "or", "not", "to", "be"})}, attributes)) ==
        std::vector<float>{2, 2, 2});
  CHECK(floats(one("TfIdfVectorizer", {words({"to", "to", "be", "be", "To", "x"}, {2, 3})}, attributes, 17,
                   "n")) == std::vector<float>{2, 1, 1, 0, 0, 1});
  mentions(message_of_node("TfIdfVectorizer", {integers_of({1})}, attributes),
           "pool_strings for a text of numbers");
}

TEST_CASE("constants and initialisers of strings") {
  Graph graph;
  graph.input("at", DType::I64, {2}).initialiser("table", strings_proto({3}, {"x", "y", "z"}));
  graph.node("Gather", {"table", "at"}, {"named"});
  graph.node("Constant", {}, {"dash"}, {attribute("value_string", "-")});
  graph.node("Constant", {}, {"pair"}, {texts_attribute("value_strings", {"p", "q"})});
  graph.node("Constant", {}, {"one"}, {attribute("value", strings_proto({1}, {"r"}))});
  graph.node("StringConcat", {"named", "dash"}, {"dashed"});
  graph.node("StringConcat", {"dashed", "pair"}, {"y"});
  graph.output("y").output("one").output("named");
  const onnx::NamedValues out = load(model(graph, 20)).compile()({{"at", integers_of({2, 0})}});
  check_words(out.at("y"), {"z-p", "x-q"}, {2});
  check_words(out.at("one"), {"r"}, {1});
  check_words(out.at("named"), {"z", "x"}, {2});
}

namespace {

/// y = x + "!" where x equals "go", else the words of x; found: whether x equals "late", which only that way
/// asks.
Graph branching() {
  Graph yes, no, graph;
  yes.node("Constant", {}, {"mark"}, {attribute("value_string", "!")});
  yes.node("StringConcat", {"x", "mark"}, {"then"}).output("then");
  no.node("Constant", {}, {"late"}, {attribute("value_string", "late")});
  no.node("Equal", {"x", "late"}, {"same"}).node("Cast", {"same"}, {"number"}, {attribute("to", 7)});
  no.node("Cast", {"number"}, {"else"}, {attribute("to", kOnnxString)}).output("else");
  graph.input_strings("x", {1});
  graph.node("Constant", {}, {"go"}, {attribute("value_string", "go")});
  graph.node("Equal", {"x", "go"}, {"is_go"});
  graph.node("If", {"is_go"}, {"y"}, {attribute("then_branch", yes), attribute("else_branch", no)})
      .output("y");
  return graph;
}

void check_branching(const onnx::Program& program) {
  // "late" is a string of the call before the program knows it.
  check_words(program({{"x", words({"late"})}}).at("y"), {"1"}, {1});
  check_words(program({{"x", words({"early"})}}).at("y"), {"0"}, {1});
  check_words(program({{"x", words({"go"})}}).at("y"), {"go!"}, {1});
  check_words(program({{"x", words({"late"})}}).at("y"), {"1"}, {1});
}

} // namespace

TEST_CASE("ways through a model that know other strings") {
  check_branching(load(model(branching(), 20)).compile());
}

TEST_CASE("calls at the same time have strings of their own") {
  const onnx::Program program = load(model(branching(), 20)).compile();
  const auto call = [&](const std::string& word, const std::string& expected, int& wrong) {
    for (int k = 0; k < 20; ++k) wrong += program({{"x", words({word})}}).at("y").texts() != Names{expected};
  };
  std::vector<int> wrong(4);
  std::vector<std::thread> threads;
  const std::vector<std::pair<std::string, std::string>> calls = {
      {"late", "1"}, {"go", "go!"}, {"early", "0"}, {"!", "0"}};
  for (size_t k = 0; k < calls.size(); ++k)
    threads.emplace_back([&, k] { call(calls[k].first, calls[k].second, wrong[k]); });
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == std::vector<int>(4, 0));
}

TEST_CASE("programs with strings are saved and loaded") {
  const TemporaryDir folder;
  const std::string file = folder.file("strings.lathe");
  const onnx::Program program = load(model(branching(), 20)).compile();
  onnx::save(program, file);
  check_branching(onnx::load_program(file));
  check_branching(program);
  onnx::save(program, file);
  const onnx::Program loaded = onnx::load_program(file);
  CHECK(loaded.print().find("host %h") != std::string::npos);
  check_branching(loaded);
}

TEST_CASE("loops and sequences carry strings") {
  Graph body, graph;
  body.input("i", DType::I64).input("going", DType::Bool).input_strings("text");
  body.node("StringConcat", {"text", "part"}, {"longer"}).node("Identity", {"going"}, {"on"});
  body.node("Identity", {"longer"}, {"step"}).output("on", DType::Bool).output("longer").output("step");
  graph.input_strings("part", {}).input("count", DType::I64, {});
  graph.node("Constant", {}, {"empty"}, {attribute("value_string", "")});
  graph.node("Loop", {"count", "", "empty"}, {"last", "steps"}, {attribute("body", body)});
  graph.node("SequenceConstruct", {"steps", "part"}, {"list"}).output("last").output("steps");
  graph.node("SequenceInsert", {"list", "last"}, {"more"}).node("SequenceAt", {"more", "minus"}, {"back"});
  graph.initialiser("minus", {}, Integers{-1}).output("back");
  graph.node("SplitToSequence", {"steps"}, {"pieces"}, {attribute("keepdims", 0)});
  graph.node("ConcatFromSequence", {"pieces"}, {"stacked"}, {attribute("axis", 0), attribute("new_axis", 1)});
  graph.output("stacked");
  const onnx::Program program = load(model(graph, 20)).compile();
  const auto run = [&](const std::string& part, int64_t count) {
    return program({{"part", words({part}, {})}, {"count", Tensor::full({}, count)}});
  };
  const onnx::NamedValues out = run("ab", 3);
  check_words(out.at("last"), {"ababab"}, {});
  check_words(out.at("steps"), {"ab", "abab", "ababab"}, {3});
  check_words(out.at("back"), {"ababab"}, {});
  check_words(out.at("stacked"), {"ab", "abab", "ababab"}, {3});
}

TEST_CASE("what a program is fed is checked") {
  Graph graph;
  graph.input_strings("x", {2}).node("Identity", {"x"}, {"y"}).output("y");
  const onnx::Program program = load(model(graph)).compile();
  check_words(program({{"x", words({"a", "b"})}}).at("y"), {"a", "b"}, {2});
  check_kind(ErrorKind::Shape, [&] { program({{"x", words({"a"})}}); });
  check_kind(ErrorKind::Shape, [&] { program({{"x", integers_of({1, 2})}}); });
  Graph of_numbers;
  of_numbers.input("x", DType::I64, {1}).node("Identity", {"x"}, {"y"}).output("y");
  check_kind(ErrorKind::Shape, [&] { load(model(of_numbers)).compile()({{"x", words({"a"})}}); });
  check_kind(ErrorKind::Value, [&] { load(model(graph)).tensors(); });
  Graph damaged;
  damaged.input("at", DType::I64, {1}).initialiser("t", strings_proto({3}, {"x"}));
  damaged.node("Gather", {"t", "at"}, {"y"}).output("y");
  check_kind(ErrorKind::File, [&] { load(model(damaged)); });
}

TEST_CASE("an op of a user's may take and make strings") {
  onnx::register_op("test.strings", "Reverse", 1, [](onnx::Call& call) -> std::vector<onnx::Value> {
    Names texts = call.value(0).texts();
    for (std::string& text : texts) text = {text.rbegin(), text.rend()};
    return {onnx::Value::strings(texts, call.value(0).shape())};
  });
  Graph graph;
  graph.initialiser("x", strings_proto({2}, {"ab", "cd"}));
  graph.node("Reverse", {"x"}, {"y"}, {}, "test.strings").output("y");
  check_words(load(model(graph, 17, {}, {"test.strings"})).compile()({}).at("y"), {"ba", "dc"}, {2});
}
