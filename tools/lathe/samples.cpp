#include "samples.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "npz.hpp"
#include "values.hpp"

namespace lathe::tool {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kRows = 32; // that a run takes where the model leaves their number open

/// The files in a folder, or the folders in it, by name.
std::vector<fs::path> entries(const fs::path& folder, bool folders) {
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.is_directory() == folders) found.push_back(entry.path());
  std::sort(found.begin(), found.end());
  return found;
}

class Reader {
public:
  Reader(const std::vector<onnx::Port>& ports, const std::map<std::string, int64_t>& sizes)
      : ports_(ports), sizes_(sizes) {}

  void read(const fs::path& path) {
    if (!fs::is_directory(path)) return read_file(path);
    const std::vector<fs::path> inner = entries(path, true);
    if (has_file_of_input(path)) return read_inputs(path);
    const size_t before = samples.size();
    for (const fs::path& file : entries(path, false))
      if (file.extension() == ".npy" || file.extension() == ".npz") read_file(file);
    for (const fs::path& folder : inner) read(folder);
    if (samples.size() == before)
      throw Error(ErrorKind::File,
                  path.string() + ": holds no samples, expected .npy, .npz or input_0.pb files");
  }

  std::vector<onnx::NamedValues> samples;

private:
  static fs::path file_of_input(const fs::path& folder, const onnx::Port& port, size_t position) {
    for (const std::string& stem : {port.name, fmt::format("input_{}", position)})
      for (const char* ending : {".npy", ".pb"})
        if (fs::is_regular_file(folder / (stem + ending))) return folder / (stem + ending);
    return {};
  }

  bool has_file_of_input(const fs::path& folder) const {
    for (size_t k = 0; k < ports_.size(); ++k)
      if (!file_of_input(folder, ports_[k], k).empty()) return true;
    return false;
  }

  void read_inputs(const fs::path& folder) {
    onnx::NamedValues values;
    for (size_t k = 0; k < ports_.size(); ++k)
      if (const fs::path file = file_of_input(folder, ports_[k], k); !file.empty())
        values[ports_[k].name] = read_value(file.string(), ports_[k]);
    add(folder.string(), values);
  }

  void read_file(const fs::path& path) {
    if (path.extension() == ".npz") return read_archive(path.string());
    if (ports_.size() != 1)
      throw Error(ErrorKind::File,
                  fmt::format("{}: holds one array, expected a .npz file with one for each of "
                              "the model's {} inputs",
                              path.string(), ports_.size()));
    add(path.string(), {{ports_[0].name, read_value(path.string(), ports_[0])}});
  }

  void read_archive(const std::string& path) {
    const auto arrays = read_npz(path);
    onnx::NamedValues values;
    for (const auto& [name, bytes] : arrays) {
      const bool is_only = arrays.size() == 1 && ports_.size() == 1;
      const auto port = std::find_if(ports_.begin(), ports_.end(),
                                     [&, &n = name](const onnx::Port& p) { return p.name == n || is_only; });
      if (port != ports_.end()) values[port->name] = npy_value(path + ": " + name, bytes, port->dtype);
    }
    add(path, values);
  }

  /// As many samples as the values hold.
  void add(const std::string& path, const onnx::NamedValues& values) {
    std::vector<onnx::NamedValues> cut;
    for (const onnx::Port& port : ports_) {
      const auto given = values.find(port.name);
      if (given == values.end() && port.optional) continue;
      if (given == values.end())
        throw Error(ErrorKind::Name,
                    fmt::format("{}: holds nothing for input '{}', expected {}", path, port.name, port.text));
      const std::vector<onnx::Value> parts = cut_rows(given->second, port);
      if (cut.empty()) cut.resize(parts.size());
      if (cut.size() != parts.size())
        throw Error(ErrorKind::Shape, fmt::format("{}: holds {} samples of input '{}' and {} of others, "
                                                  "expected as many of each",
                                                  path, parts.size(), port.name, cut.size()));
      for (size_t k = 0; k < parts.size(); ++k) cut[k][port.name] = parts[k];
    }
    samples.insert(samples.end(), cut.begin(), cut.end());
  }

  /// How an array goes to the runs.
  struct Cut {
    int64_t rows = 0;        // of the first axis that a run takes; 0: all that there are
    bool drops_axis = false; // the model does not have that axis
    bool ends_short = false; // the last run may take fewer
  };

  Cut cut_of(const onnx::Value& value, const onnx::Port& port) const {
    if (!value.is_tensor() || !port.shape || is_narrow(value.dtype()) || value.is_empty()) return {};
    const int rank = static_cast<int>(port.shape->size());
    if (value.rank() == rank + 1) return {.rows = 1, .drops_axis = true};
    if (value.rank() != rank || rank == 0) return {};
    const Expr first = port.shape->front();
    if (first.is_const()) return {.rows = first.value()};
    const auto fixed = sizes_.find(first.name());
    return fixed == sizes_.end() ? Cut{.rows = kRows, .ends_short = true} : Cut{.rows = fixed->second};
  }

  /// What does not come out even goes to the model as it is, which says what it expects.
  std::vector<onnx::Value> cut_rows(const onnx::Value& value, const onnx::Port& port) const {
    const auto [rows, drops_axis, ends_short] = cut_of(value, port);
    if (rows == 0) return {value};
    const int64_t all = value.shape()[0].value();
    if (!ends_short && all % rows != 0) return {value};
    const Tensor tensor = value.tensor();
    std::string bytes(
        static_cast<size_t>(tensor.element_count()) * static_cast<size_t>(size_of(tensor.dtype())), '\0');
    tensor.read(bytes.data(), tensor.dtype());
    const int64_t elements = tensor.element_count() / all;
    std::vector<onnx::Value> parts;
    for (int64_t begin = 0; begin < all; begin += rows) {
      const int64_t taken = std::min(rows, all - begin);
      Shape shape = tensor.shape();
      shape[0] = Expr(taken);
      if (drops_axis) shape.erase(shape.begin());
      parts.push_back(Tensor::from_memory(bytes.data() + begin * elements * size_of(tensor.dtype()),
                                          static_cast<size_t>(taken * elements), tensor.dtype(), shape));
    }
    return parts;
  }

  const std::vector<onnx::Port>& ports_;
  const std::map<std::string, int64_t>& sizes_;
};

} // namespace

std::vector<onnx::NamedValues> read_samples(const std::vector<onnx::Port>& ports, const std::string& path,
                                            const std::map<std::string, int64_t>& sizes) {
  Reader reader(ports, sizes);
  if (!fs::exists(path)) throw Error(ErrorKind::File, path + ": is not there, expected samples");
  reader.read(path);
  return std::move(reader.samples);
}

} // namespace lathe::tool
