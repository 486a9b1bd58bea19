// Model files that are damaged or that say what can't be, and weights in files of their own.
#include <doctest/doctest.h>

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "support/messages.hpp"
#include "support/onnx_builder.hpp"

using namespace lathe;
using namespace lathe::test;

namespace {

using Floats = std::vector<float>;

} // namespace

TEST_CASE("weights whose bytes or sizes are wrong") {
  const auto message_for = [](const lathe_onnx::TensorProto& tensor) {
    Graph g;
    g.initialiser("w", tensor).node("Neg", {"w"}, {"y"}).output("y");
    return message_of([&] { load(model(g)); });
  };
  mentions(message_for(tensor_proto<float>({3}, {1, 2})), "'w' has 8 bytes");
  mentions(message_for(tensor_proto<float>({-1}, {1})), "'w' has size -1");
  mentions(message_for(tensor_proto<float>({int64_t{1} << 40, int64_t{1} << 40}, {1})),
           "'w' has more elements");
  mentions(message_for(tensor_proto<float>({int64_t{1} << 61}, {1})), "'w' has more elements");
  lathe_onnx::TensorProto unknown = tensor_proto<float>({1}, {1});
  unknown.set_data_type(99);
  mentions(message_for(unknown), "'w'");
}

TEST_CASE("weights in files of their own are read from the model's folder and nowhere else") {
  namespace fs = std::filesystem;
  const fs::path folder = fs::temp_directory_path() / ("lathe-onnx-test-" + std::to_string(getpid()));
  fs::create_directories(folder / "inside");
  const Floats values{1, 2, 3};
  for (const fs::path& place : {folder / "outside.bin", folder / "inside" / "weights.bin"})
    std::ofstream(place, std::ios::binary).write(reinterpret_cast<const char*>(values.data()), 12);
  const auto bytes_of = [&](const std::string& location, int64_t elements) {
    lathe_onnx::TensorProto tensor;
    tensor.set_data_type(1);
    tensor.add_dims(elements);
    tensor.set_data_location(lathe_onnx::TensorProto::EXTERNAL);
    auto& entry = *tensor.add_external_data();
    entry.set_key("location");
    entry.set_value(location);
    Graph g;
    g.initialiser("w", tensor).node("Neg", {"w"}, {"y"}).output("y");
    return model(g);
  };
  const auto load_from = [&](const std::string& location, int64_t elements = 3) {
    const std::string bytes = bytes_of(location, elements);
    return onnx::load(bytes.data(), bytes.size(), (folder / "inside").string());
  };
  CHECK(load_from("weights.bin").compile()({}).at("y").tensor().to_vector<float>() == Floats{-1, -2, -3});
  for (const std::string& location :
       {std::string("../outside.bin"), (folder / "outside.bin").string(), std::string("")})
    mentions(message_of([&] { load_from(location); }), "'w'");
  mentions(message_of([&] { load_from("no.bin"); }), "no.bin");
  fs::create_symlink(folder / "outside.bin", folder / "inside" / "link.bin");
  mentions(message_of([&] { load_from("link.bin"); }), "'w'");
  // A model that is a link, beside links to its weights: all may lie in another folder, but in the same.
  fs::create_directories(folder / "elsewhere");
  const std::string bytes = bytes_of("link.bin", 3);
  for (const fs::path& place : {folder / "blob", folder / "elsewhere" / "blob"})
    std::ofstream(place, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  fs::create_symlink(folder / "blob", folder / "inside" / "model.onnx");
  fs::create_symlink(folder / "elsewhere" / "blob", folder / "inside" / "other.onnx");
  CHECK(onnx::load((folder / "inside" / "model.onnx").string()).compile()({}).at("y").tensor().to_vector<float>() ==
        Floats{-1, -2, -3});
  mentions(message_of([&] { (void)onnx::load((folder / "inside" / "other.onnx").string()); }), "'w'");
  mentions(message_of([&] { load_from("weights.bin", 4); }), "'w'");
  fs::remove_all(folder);
}

TEST_CASE("files that hold no model, or not all of one") {
  namespace fs = std::filesystem;
  const fs::path path = fs::temp_directory_path() / ("lathe-onnx-" + std::to_string(getpid()) + ".onnx");
  Graph g;
  g.input("x", DType::F32, {2}).initialiser<float>("w", {64}, Floats(64, 1.f));
  g.node("Neg", {"x"}, {"y"}).output("y");
  const std::string bytes = model(g);
  const auto message_for = [&](const std::string& content) {
    std::ofstream(path, std::ios::binary) << content;
    return message_of([&] { onnx::load(path.string()); });
  };
  CHECK(message_for(bytes).empty());
  mentions(message_for(bytes.substr(0, bytes.size() / 2)), path.string());
  mentions(message_for("no model at all, but a text"), path.string());
  mentions(message_for(""), path.string());
  fs::remove(path);
  mentions(message_of([&] { onnx::load(path.string()); }), path.string());
}
