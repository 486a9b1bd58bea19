// lathe quantise: a model whose weights, and activations, are integers.
#include <fmt/format.h>

#include <algorithm>

#include "commands.hpp"
#include "lathe/onnx/quantise.hpp"
#include "lathe/onnx/serialise.hpp"
#include "samples.hpp"
#include "values.hpp"

namespace lathe::tool {
namespace {

onnx::QuantiseOptions quantise_options(const Options& options) {
  onnx::QuantiseOptions how;
  how.calibration = options.method == "percentile" ? onnx::Calibration::Percentile : onnx::Calibration::Range;
  how.percentile = options.percentile;
  how.weights_only = options.weights_only;
  how.block = options.block;
  how.correct_bias = options.correct_bias;
  how.keep = options.keep;
  how.most_error = options.most_error;
  how.import = import_options(options);
  return how;
}

/// Best classes of a batch: the largest of each row, or what the model says itself.
std::vector<int64_t> classes_of(const onnx::Value& value, const std::string& output) {
  const auto unfit = [&] {
    return Error(ErrorKind::Shape,
                 fmt::format("--labels: output '{}' is {}, expected a row of numbers, or an "
                             "integer, for each label",
                             output, type_text(value)));
  };
  if (!value.is_tensor() || value.rank() < 1 || value.is_empty()) throw unfit();
  const Tensor tensor = value.tensor();
  const auto rows = static_cast<size_t>(value.shape()[0].value());
  if (!is_float(tensor.dtype())) {
    if (static_cast<size_t>(tensor.element_count()) != rows) throw unfit();
    return tensor.cast(DType::I64).to_vector<int64_t>();
  }
  const std::vector<double> numbers = tensor.cast(DType::F64).to_vector<double>();
  const size_t classes = numbers.size() / rows;
  if (classes < 2) throw unfit();
  std::vector<int64_t> best;
  for (auto row = numbers.begin(); row != numbers.end(); row += static_cast<std::ptrdiff_t>(classes))
    best.push_back(std::max_element(row, row + static_cast<std::ptrdiff_t>(classes)) - row);
  return best;
}

/// How many answers of the first output are right, before and after.
class Accuracy {
public:
  Accuracy(const std::string& path, const std::vector<onnx::Port>& outputs)
      : path_(path), output_(outputs.at(0).name) {
    const onnx::Value labels = read_value(path, {.name = "labels", .dtype = DType::I64, .text = "i64"});
    if (!labels.is_tensor() || is_float(labels.dtype()))
      throw Error(ErrorKind::DType, fmt::format("{}: is {}, expected integers", path, type_text(labels)));
    labels_ = labels.tensor().cast(DType::I64).to_vector<int64_t>();
  }

  void add(const onnx::NamedValues& before, const onnx::NamedValues& after) {
    const std::vector<int64_t> first = classes_of(before.at(output_), output_),
                               second = classes_of(after.at(output_), output_);
    for (size_t k = 0; k < first.size(); ++k, ++seen_) {
      if (seen_ >= labels_.size()) continue;
      right_before_ += first[k] == labels_[seen_];
      right_after_ += k < second.size() && second[k] == labels_[seen_];
      same_ += k < second.size() && first[k] == second[k];
    }
  }

  void print() const {
    if (seen_ != labels_.size())
      throw Error(ErrorKind::Shape, fmt::format("{}: holds {} labels, expected {}, one for each answer",
                                                path_, labels_.size(), seen_));
    const auto percent = [&](size_t count) {
      return 100.0 * static_cast<double>(count) / static_cast<double>(seen_);
    };
    fmt::print("accuracy: {} of {} ({:.2f}%) before, {} ({:.2f}%) after; {} answers differ\n", right_before_,
               seen_, percent(right_before_), right_after_, percent(right_after_), seen_ - same_);
  }

private:
  std::string path_, output_;
  std::vector<int64_t> labels_;
  size_t seen_ = 0, right_before_ = 0, right_after_ = 0, same_ = 0;
};

std::string number(const std::optional<double>& value) { return value ? fmt::format("{:.2e}", *value) : ""; }

void print_layers(const onnx::Quantised& made) {
  size_t width = 5;
  for (const onnx::QuantisedLayer& layer : made.layers) width = std::max(width, layer.node.size());
  fmt::print("{:<{}}  {:<13} {:<18} {:<6} {:>8} {:>8}\n", "layer", width, "op", "weights", "format", "error",
             "in model");
  size_t count = 0;
  for (const onnx::QuantisedLayer& layer : made.layers) {
    const Shape shape(layer.weights.begin(), layer.weights.end());
    fmt::print("{:<{}}  {:<13} {:<18} {:<6} {:>8} {:>8}{}\n", layer.node, width, layer.op,
               shape.empty() ? "" : to_string(shape), layer.format, number(layer.own_error),
               number(layer.error), layer.why.empty() ? "" : "  " + layer.why);
    count += layer.format != "f32";
  }
  fmt::print("{} of {} layers quantised\n", count, made.layers.size());
  for (const onnx::QuantisedOutput& output : made.outputs)
    fmt::print("output {}: error {:.2e}\n", output.name, output.error);
}

} // namespace

int quantise_command(const Options& options) {
  const onnx::Model model = onnx::load(options.model);
  onnx::QuantiseOptions how = quantise_options(options);
  std::vector<onnx::NamedValues> samples;
  if (!options.data.empty()) samples = read_samples(model.inputs(), options.data, how.import.sizes);
  std::optional<Accuracy> accuracy;
  if (!options.labels.empty()) {
    if (samples.empty())
      throw Error(ErrorKind::Value, "--labels " + options.labels + ": without --data, expected both");
    accuracy.emplace(options.labels, model.outputs());
    how.observe = [&](size_t, const auto& before, const auto& after) { accuracy->add(before, after); };
  }
  const onnx::Quantised made = onnx::quantise(model, samples, how);
  const std::string bytes = onnx::serialise(made.model);
  print_layers(made);
  if (accuracy) accuracy->print();
  write_file(options.output, bytes);
  const int before = model.opsets().at(""), after = made.model.opsets().at("");
  fmt::print("{}: {:.2f} MB, opset {}{}\n", options.output, static_cast<double>(bytes.size()) / 1e6, after,
             after == before ? "" : fmt::format(", raised from {}", before));
  return 0;
}

} // namespace lathe::tool
