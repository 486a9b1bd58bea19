// The program `lathe`: where it writes.
#include <doctest/doctest.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iterator>

#include "support/files.hpp"
#include "support/onnx_builder.hpp"

using namespace lathe;
using namespace lathe::test;
namespace fs = std::filesystem;

namespace {

bool lathe_program(const std::string& arguments) {
  return std::system((LATHE_PROGRAM " " + arguments + " > /dev/null 2>&1").c_str()) == 0;
}

} // namespace

TEST_CASE("what is written goes into a pipe, and to the file that a link leads to") {
  const TemporaryDir dir;
  Graph g;
  g.input("x", DType::F32, {3}).node("Neg", {"x"}, {"y"}).output("y");
  write_file(dir.file("model.onnx"), model(g));
  const std::string run = "run --device interp --random " + dir.file("model.onnx") + " --profile ",
                    compile = "compile --device interp " + dir.file("model.onnx") + " -o ";
  for (const std::string& command : {run, compile}) {
    CAPTURE(command);
    const std::string pipe = dir.file("pipe"), file = dir.file("file"), link = dir.file("link");
    const Pipe end(pipe);
    CHECK(lathe_program(command + pipe));
    CHECK(fs::is_fifo(pipe));
    CHECK(end.received().size() > 20);
    CHECK(lathe_program(command + file));
    CHECK(bytes_of(file).size() > 20);
    write_file(file, "old");
    fs::create_symlink(file, link);
    CHECK(lathe_program(command + link));
    CHECK(fs::is_symlink(link));
    CHECK(bytes_of(file).size() > 20);
    CHECK(!lathe_program(command + dir.path.string()));
    for (const std::string& made : {pipe, file, link}) fs::remove(made);
  }
  CHECK(std::distance(fs::directory_iterator(dir.path), {}) == 1); // the model: nothing is left beside it
}

TEST_CASE("explain says of a model's kernels what it says; a file that is none is an error") {
  const TemporaryDir dir;
  Graph g;
  g.input("x", DType::F32, {8, 16}).node("Softmax", {"x"}, {"y"}).output("y");
  write_file(dir.file("model.onnx"), model(g));
  write_file(dir.file("bad.onnx"), "no model");
  const auto text_of = [&](const std::string& arguments) {
    const std::string out = dir.file("out");
    const bool ok = std::system((LATHE_PROGRAM " explain " + arguments + " > " + out + " 2>&1").c_str()) == 0;
    return std::pair(ok, bytes_of(out));
  };
  const auto [predicted, text] = text_of("--untuned " + dir.file("model.onnx"));
  CHECK(predicted);
  CHECK(text.find("not measured") != std::string::npos);
  CHECK(text.find("bound by '") != std::string::npos);
  const auto [measured, of_run] = text_of("--untuned --random --runs 3 " + dir.file("model.onnx"));
  CHECK(measured);
  CHECK(of_run.find(", measured ") != std::string::npos);
  const auto [json, as_json] = text_of("--untuned --json " + dir.file("model.onnx"));
  CHECK(json);
  CHECK(as_json.starts_with("["));
  CHECK(as_json.find("\"savings\"") != std::string::npos);
  const auto [good, message] = text_of(dir.file("bad.onnx"));
  CHECK(!good);
  CHECK(message.find("bad.onnx") != std::string::npos);
  CHECK(!text_of(dir.file("absent.onnx")).first);
}

TEST_CASE("a model whose shapes depend on what it is fed is tuned for what it is fed") {
  const TemporaryDir dir;
  Graph g;
  g.input("x", DType::F32, {8}).node("NonZero", {"x"}, {"places"}).node("Neg", {"places"}, {"y"}).output("y");
  write_file(dir.file("model.onnx"), model(g));
  const auto tune = [&](const std::string& fed) {
    const std::string out = dir.file("out");
    const bool ok = std::system((LATHE_PROGRAM " tune --threads 1 --budget 1s " + dir.file("model.onnx") +
                                 fed + " > " + out + " 2>&1")
                                    .c_str()) == 0;
    return std::pair(ok, bytes_of(out));
  };
  const auto [alone, message] = tune("");
  CHECK(!alone);
  CHECK(message.find("its shapes depend on what it is fed") != std::string::npos);
  const auto [fed, text] = tune(" --random");
  CHECK(fed);
  CHECK(text.find("kernels, tuned") != std::string::npos);
}

TEST_CASE("a trace of a program that is compiled already is refused") {
  const TemporaryDir dir;
  Graph g;
  g.input("x", DType::F32, {3}).node("Neg", {"x"}, {"y"}).output("y");
  write_file(dir.file("model.onnx"), model(g));
  const std::string saved = dir.file("model.lathe"), run = "run --random " + saved;
  CHECK(lathe_program("compile --device interp " + dir.file("model.onnx") + " -o " + saved));
  CHECK(lathe_program(run));
  CHECK(!lathe_program(run + " --trace " + dir.file("trace")));
  CHECK(!fs::exists(dir.file("trace")));
}

namespace {

/// A .npy file of version 1.
std::string npy(const std::string& descriptor, const std::string& shape, const std::string& data) {
  std::string header = "{'descr': '" + descriptor + "', 'fortran_order': False, 'shape': " + shape + ", }";
  header.append(63 - (10 + header.size()) % 64, ' ');
  header += '\n';
  return std::string("\x93NUMPY\x01\0", 8) + static_cast<char>(header.size() & 255) +
         static_cast<char>(header.size() >> 8) + header + data;
}

std::string wide(const std::u32string& text) {
  return {reinterpret_cast<const char*>(text.data()), text.size() * 4};
}

} // namespace

TEST_CASE("strings come from .npy files and go into them") {
  const TemporaryDir dir;
  Graph g;
  g.input_strings("x", {2}).initialiser("mark", strings_proto({}, {"!"}));
  g.node("StringConcat", {"x", "mark"}, {"y"}).output("y");
  write_file(dir.file("model.onnx"), model(g, 20));
  const std::string run =
      "run --device interp " + dir.file("model.onnx") + " --output-dir " + dir.file("out") + " --input ";
  const std::string expected = npy("<U3", "(2,)", wide(std::u32string(U"a!\0b\u00E9!", 6)));
  write_file(dir.file("wide.npy"), npy("<U2", "(2,)", wide(std::u32string(U"a\0b\u00E9", 4))));
  CHECK(lathe_program(run + dir.file("wide.npy")));
  CHECK(bytes_of(dir.file("out/y.npy")) == expected);
  fs::remove(dir.file("out/y.npy"));
  write_file(dir.file("bytes.npy"), npy("|S3", "(2,)", std::string("a\0\0b\xC3\xA9", 6)));
  CHECK(lathe_program(run + dir.file("bytes.npy")));
  CHECK(bytes_of(dir.file("out/y.npy")) == expected);
  fs::remove(dir.file("out/y.npy"));
  const std::vector<std::pair<std::string, std::string>> bad = {
      {"short.npy", npy("<U2", "(2,)", wide(U"abc"))},
      {"three.npy", npy("<U1", "(3,)", wide(U"abc"))},
      {"none.npy", npy("<U0", "(2,)", "")},
      {"width.npy", npy("<Ux", "(2,)", wide(U"ab"))},
      {"huge.npy", npy("<U99999999999999999999", "(2,)", wide(U"ab"))},
      {"beyond.npy", npy("<U1", "(2,)", wide(std::u32string(2, char32_t{0x110000})))},
      {"numbers.npy", npy("<i8", "(2,)", std::string(16, '\0'))},
      {"latin.npy", npy("|S1", "(2,)",
                        "\xE9"
                        "a")}, // what comes out is no UTF-8
  };
  for (const auto& [name, bytes] : bad) {
    CAPTURE(name);
    write_file(dir.file(name), bytes);
    CHECK(!lathe_program(run + dir.file(name)));
    CHECK(fs::is_empty(dir.file("out")));
  }
}

TEST_CASE("maps go into .json files") {
  const TemporaryDir dir;
  Graph g;
  g.initialiser<float>("x", {2, 2}, {0.25, 1, 2, 0.1f});
  g.node("ZipMap", {"x"}, {"y"}, {texts_attribute("classlabels_strings", {"no", "\"yes\""})}, "ai.onnx.ml");
  g.output("y");
  write_file(dir.file("model.onnx"), model(g, 17, {}, {"ai.onnx.ml"}));
  CHECK(lathe_program("run --device interp " + dir.file("model.onnx") + " --output-dir " + dir.file("out")));
  std::string json = bytes_of(dir.file("out/y.json"));
  std::erase_if(json, [](char c) { return c == ' ' || c == '\n'; });
  CHECK(json == R"([{"no":0.25,"\"yes\"":1},{"no":2,"\"yes\"":0.1}])");
}

TEST_CASE("tensors of sequences go into numbered .npy files") {
  const TemporaryDir dir;
  Graph g;
  g.initialiser<float>("x", {3, 2}, {1, 2, 3, 4, 5, 6});
  g.node("SplitToSequence", {"x"}, {"y"}, {attribute("keepdims", 0)});
  g.output("y");
  write_file(dir.file("model.onnx"), model(g, 17));
  CHECK(lathe_program("run --device interp " + dir.file("model.onnx") + " --output-dir " + dir.file("out")));
  for (const char* name : {"out/y_0.npy", "out/y_1.npy", "out/y_2.npy"}) {
    const std::string bytes = bytes_of(dir.file(name));
    CHECK(bytes.find("(2,)") != std::string::npos);
    float last;
    REQUIRE(bytes.size() > sizeof last);
    std::memcpy(&last, bytes.data() + bytes.size() - sizeof last, sizeof last);
    CHECK(last == 2 + 2 * static_cast<float>(name[6] - '0'));
  }
  CHECK_FALSE(fs::exists(dir.file("out/y_3.npy")));
}

TEST_CASE("an exported function takes inputs and outputs in the model's order") {
  const TemporaryDir dir;
  Graph g; // by letters the order is another; one name is no identifier
  g.input("z", DType::F32, {2}).input("a.1", DType::F32, {2});
  g.node("Sub", {"z", "a.1"}, {"y"}).node("Add", {"z", "a.1"}, {"b"});
  g.output("y", DType::F32, Dims{2}).output("b", DType::F32, Dims{2});
  write_file(dir.file("model.onnx"), model(g));
  REQUIRE(lathe_program("export --device interp " + dir.file("model.onnx") + " --name net -o " +
                        dir.file("out")));
  const std::string header = bytes_of(dir.file("out/net.h"));
  CAPTURE(header);
  CHECK(header.find("net_run(const void* weights, const float* z, const float* a_1, float* y, float* b)") !=
        std::string::npos);
}

TEST_CASE("inputs and outputs of a narrow dtype are numbers in .npy, or the codes that ml_dtypes writes") {
  const TemporaryDir dir;
  Graph g;
  g.input("x", DType::I4, {3}).node("Identity", {"x"}, {"z"}).output("z", DType::I4, Dims{3});
  write_file(dir.file("model.onnx"), model(g, 21));
  const auto npy = [&](const std::string& type, const std::string& bytes) {
    std::string header = "{'descr': '" + type + "', 'fortran_order': False, 'shape': (3,), }";
    header.append(117 - header.size(), ' ');
    return std::string("\x93NUMPY\x01\0\x76\0", 10) + header + "\n" + bytes;
  };
  const std::string run = "run --device interp " + dir.file("model.onnx") + " --output-dir " +
                          dir.file("out") + " --input " + dir.file("x.npy");
  for (const std::string type : {"|i1", "<V1"}) {
    CAPTURE(type);
    write_file(dir.file("x.npy"), npy(type, "\x01\xF8\x07"));
    CHECK(lathe_program(run));
    const std::string written = bytes_of(dir.file("out/z.npy"));
    CHECK(written.find("'|i1'") != std::string::npos);
    CHECK(written.ends_with("\x01\xF8\x07"));
    fs::remove_all(dir.file("out"));
  }
  write_file(dir.file("x.npy"), npy("|i1", "\x01\x09\x07")); // 9 is no i4
  CHECK(!lathe_program(run));
  CHECK(!fs::exists(dir.file("out/z.npy")));
}

namespace {

std::string little_endian(size_t value, int width) {
  std::string bytes;
  for (int k = 0; k < width; ++k) bytes += static_cast<char>(k < 8 ? value >> 8 * k & 255 : 0);
  return bytes;
}

/// A ZIP archive as numpy.savez writes it; checksums are not filled in.
std::string archive(const std::vector<std::pair<std::string, std::string>>& files, int method = 0) {
  std::string bytes, directory;
  for (const auto& [name, data] : files) {
    const std::string common = little_endian(20, 2) + little_endian(0, 2) +
                               little_endian(static_cast<size_t>(method), 2) + little_endian(0, 8) +
                               little_endian(data.size(), 4) + little_endian(data.size(), 4) +
                               little_endian(name.size(), 2);
    directory += "PK\x01\x02" + little_endian(20, 2) + common + little_endian(0, 12) +
                 little_endian(bytes.size(), 4) + name;
    bytes += "PK\x03\x04" + common + little_endian(3, 2) + name + "ext" + data;
  }
  return bytes + directory + "PK\x05\x06" + little_endian(0, 4) + little_endian(files.size(), 2) +
         little_endian(files.size(), 2) + little_endian(directory.size(), 4) +
         little_endian(bytes.size(), 4) + little_endian(0, 2);
}

std::string numbers(const std::string& shape, const std::vector<float>& values) {
  return npy("<f4", shape, {reinterpret_cast<const char*>(values.data()), 4 * values.size()});
}

} // namespace

TEST_CASE("quantise reads the same samples from files of each form") {
  const TemporaryDir dir;
  Graph g;
  g.input("x", DType::F32, {2, 3}).initialiser<float>("w", {3, 2}, {1, -2, 3, 0.5f, 0.25f, -1});
  g.node("MatMul", {"x", "w"}, {"y"}).output("y");
  write_file(dir.file("model.onnx"), model(g));
  const std::vector<float> first{1, 2, 3, 4, 5, 6}, second{-7, 0, 1, 2, 9, 1};
  std::vector<float> both = first;
  both.insert(both.end(), second.begin(), second.end());
  const auto put = [&](const std::string& name, const std::string& bytes) {
    fs::create_directories(fs::path(dir.file(name)).parent_path());
    write_file(dir.file(name), bytes);
  };
  put("rows.npy", numbers("(4, 3)", both));
  put("axis.npy", numbers("(2, 2, 3)", both));
  put("one.npz", archive({{"x.npy", numbers("(4, 3)", both)}}));
  put("files/a.npy", numbers("(2, 3)", first));
  put("files/b.npz", archive({{"z.npy", numbers("(1,)", {1})}, {"x.npy", numbers("(2, 3)", second)}}));
  put("named/x.npy", numbers("(2, 2, 3)", both));
  put("folders/1/input_0.npy", numbers("(2, 3)", first));
  put("folders/2/input_0.npy", numbers("(2, 3)", second));
  const std::string quantise =
      "quantise --device interp " + dir.file("model.onnx") + " -o " + dir.file("out.onnx") + " ";
  std::string expected;
  for (const char* data : {"rows.npy", "axis.npy", "one.npz", "files", "named", "folders"}) {
    CAPTURE(data);
    CHECK(lathe_program(quantise + "--data " + dir.file(data)));
    const std::string written = bytes_of(dir.file("out.onnx"));
    if (expected.empty()) expected = written;
    CHECK(written.size() > 100);
    CHECK(written == expected); // the same ranges
    fs::remove(dir.file("out.onnx"));
  }
  // One of the samples alone shows another range.
  CHECK(lathe_program(quantise + "--data " + dir.file("files/a.npy")));
  CHECK(bytes_of(dir.file("out.onnx")) != expected);
  fs::remove(dir.file("out.onnx"));

  put("labels.npy",
      npy("<i8", "(4,)",
          little_endian(0, 8) + little_endian(1, 8) + little_endian(0, 8) + little_endian(1, 8)));
  CHECK(lathe_program(quantise + "--data " + dir.file("rows.npy") + " --labels " + dir.file("labels.npy")));
  fs::remove(dir.file("out.onnx"));

  const std::string good = archive({{"x.npy", numbers("(2, 3)", first)}});
  put("short.npz", good.substr(0, good.size() - 30));
  put("cut.npz", good.substr(20));
  put("compressed.npz", archive({{"x.npy", numbers("(2, 3)", first)}}, 8));
  put("other.npz", archive({{"z.npy", numbers("(1,)", {1})}, {"u.npy", numbers("(1,)", {1})}}));
  put("odd.npy", numbers("(3, 3)", std::vector<float>(9)));
  put("empty/readme.txt", "none");
  for (const std::string& bad :
       std::vector<std::string>{"--data " + dir.file("short.npz"), "--data " + dir.file("cut.npz"),
                                "--data " + dir.file("compressed.npz"), "--data " + dir.file("other.npz"),
                                "--data " + dir.file("odd.npy"), "--data " + dir.file("empty"),
                                "--data " + dir.file("nothing"), "", "--weights-only 3",
                                "--data " + dir.file("files/a.npy") + " --labels " + dir.file("labels.npy"),
                                "--weights-only 8 --labels " + dir.file("labels.npy")}) {
    CAPTURE(bad);
    CHECK(!lathe_program(quantise + bad));
    CHECK(!fs::exists(dir.file("out.onnx")));
  }
  CHECK(lathe_program(quantise + "--weights-only 4"));
}
