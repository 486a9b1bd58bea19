// The program `lathe`: where it writes.
#include <doctest/doctest.h>

#include <cstdlib>
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
