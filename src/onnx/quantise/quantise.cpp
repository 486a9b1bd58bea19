// Finds what can be quantised, measures it on samples, and writes the model anew.
#include "lathe/onnx/quantise.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "lathe/detail/access.hpp"
#include "onnx/quantise/measure.hpp"
#include "onnx/quantise/raise_opset.hpp"
#include "onnx/quantise/rewrite.hpp"
#include "onnx/rules.hpp"

namespace lathe::onnx {
namespace {

constexpr int kChannelOpset = 13; // brought a scale for each channel
constexpr int kBlockOpset = 21;   // brought blocks, and integers of 4 bits

class Quantiser {
public:
  Quantiser(const Model& model, const std::vector<NamedValues>& samples, const QuantiseOptions& options)
      : samples_(samples), options_(options), base_(*detail::impl(model)) {
    check_options();
    apply_rules(base_);
    raise_opset(base_, options.weights_only == 4 ? kBlockOpset : kChannelOpset);
    layers_ = find_layers(base_, trace_values(base_, options.import), options);
  }

  Quantised run() {
    std::optional<Program> plain;
    if (samples_.empty())
      for (FoundLayer& layer : layers_) {
        if (layer.is_quantised()) layer.report.own_error = layer.weights->error;
      }
    else
      plain = compile_with_outputs(base_, read_values(), options_.import);
    if (plain && !options_.weights_only) calibrate(*plain);
    if (plain) measure_layers();
    leave_inexact();
    const RewrittenGraph made = with_integers(base_.graph, layers_, activations_, Place::Instead);
    const auto model = std::make_shared<Model::Impl>(base_);
    model->graph = made.graph;
    Quantised quantised{detail::Access::make<Model>(model), {}, {}};
    if (plain) quantised.outputs = measure_model(*plain, *model, made);
    for (FoundLayer& layer : layers_) quantised.layers.push_back(std::move(layer.report));
    return quantised;
  }

private:
  void check_options() const {
    const auto bad = [&](const std::string& message) {
      throw Error(ErrorKind::Value, base_.path + ": " + message);
    };
    const int bits = options_.weights_only;
    if (bits != 0 && bits != 4 && bits != 8) bad(fmt::format("weights of {} bits, expected 8 or 4", bits));
    if (!(options_.percentile > 0 && options_.percentile <= 100))
      bad(fmt::format("percentile {}, expected more than 0 and at most 100", options_.percentile));
    if (options_.block < 0) bad(fmt::format("blocks of {} weights, expected at least 0", options_.block));
    if (samples_.empty() && bits == 0) bad("no samples, expected some: they show the ranges of activations");
    if (options_.most_error && !(*options_.most_error >= 0))
      bad(fmt::format("most error {}, expected at least 0", *options_.most_error));
  }

  const NodeDef& node_of(const FoundLayer& layer) const { return base_.graph.nodes[layer.position]; }
  const std::string& data_of(const FoundLayer& layer) const {
    return node_of(layer).inputs[layer.operands.data];
  }

  /// What the layers read and make.
  std::vector<std::string> read_values() const {
    std::vector<std::string> names;
    for (const FoundLayer& layer : layers_)
      if (layer.is_quantised()) {
        if (!options_.weights_only) names.push_back(data_of(layer));
        names.push_back(node_of(layer).outputs[0]);
      }
    return names;
  }

  void calibrate(const Program& plain) {
    std::map<std::string, Calibrator> calibrators;
    for (const FoundLayer& layer : layers_)
      if (layer.is_quantised()) calibrators.emplace(data_of(layer), options_.calibration);
    for (const NamedValues& sample : samples_) {
      const NamedValues values = plain(sample);
      for (auto& [name, calibrator] : calibrators)
        if (const Tensor tensor = values.at(name).tensor(); tensor.dtype() == DType::F32)
          calibrator.add(tensor.data<float>());
    }
    for (FoundLayer& layer : layers_) {
      if (!layer.is_quantised()) continue;
      const std::string& name = data_of(layer);
      const Calibrator& calibrator = calibrators.at(name);
      if (calibrator.is_usable())
        activations_[name] = calibrator.scale(options_);
      else
        layer.leave("its input is not finite, or empty, on the samples");
    }
  }

  /// Each layer beside itself in f32, both reading what the model in f32 computes. Rounded weights move the
  /// mean of a channel; its bias takes that back.
  void measure_layers() {
    const RewrittenGraph made = with_integers(base_.graph, layers_, activations_, Place::Beside);
    Model::Impl model = base_;
    model.graph = made.graph;
    std::vector<std::string> values;
    for (size_t k = 0; k < layers_.size(); ++k)
      if (layers_[k].is_quantised()) {
        values.push_back(node_of(layers_[k]).outputs[0]);
        values.push_back(made.outputs[k]);
      }
    const Program both = compile_with_outputs(model, values, options_.import);
    std::vector<Distance> distances(layers_.size());
    std::vector<ChannelShift> shifts(layers_.size());
    for (const NamedValues& sample : samples_) {
      const NamedValues computed = both(sample);
      for (size_t k = 0; k < layers_.size(); ++k)
        if (layers_[k].is_quantised()) {
          const Value &got = computed.at(made.outputs[k]),
                      &expected = computed.at(node_of(layers_[k]).outputs[0]);
          distances[k].add(got, expected);
          if (corrects(layers_[k])) shifts[k].add(got, expected);
        }
    }
    for (size_t k = 0; k < layers_.size(); ++k) {
      FoundLayer& layer = layers_[k];
      if (!layer.is_quantised()) continue;
      layer.report.own_error = distances[k].relative();
      layer.shift = shifts[k].means();
      if (!layer.shift.empty()) layer.report.own_error = shifts[k].error_left(*layer.report.own_error);
    }
  }

  bool corrects(const FoundLayer& layer) const {
    return options_.correct_bias && layer.operands.bias.has_value();
  }

  void leave_inexact() {
    if (!options_.most_error) return;
    for (FoundLayer& layer : layers_)
      if (layer.is_quantised() && !(*layer.report.own_error <= *options_.most_error))
        layer.leave(fmt::format("its error would be {:.2g}, above {:.2g}", *layer.report.own_error,
                                *options_.most_error));
  }

  std::vector<QuantisedOutput> measure_model(const Program& plain, const Model::Impl& model,
                                             const RewrittenGraph& made) {
    std::vector<std::string> values;
    for (const std::string& name : made.outputs)
      if (!name.empty()) values.push_back(name);
    const Program quantised = compile_with_outputs(model, values, options_.import);
    std::vector<Distance> of_layers(layers_.size());
    std::map<std::string, Distance> of_outputs;
    for (size_t k = 0; k < samples_.size(); ++k) {
      const NamedValues before = plain(samples_[k]), after = quantised(samples_[k]);
      for (size_t l = 0; l < layers_.size(); ++l)
        if (!made.outputs[l].empty()) of_layers[l].add(after.at(made.outputs[l]), before.at(made.outputs[l]));
      for (const Port& port : model.graph.outputs)
        if (const Value& value = before.at(port.name); value.is_tensor())
          of_outputs[port.name].add(after.at(port.name), value);
      if (options_.observe) options_.observe(k, before, after);
    }
    for (size_t l = 0; l < layers_.size(); ++l)
      if (!made.outputs[l].empty()) layers_[l].report.error = of_layers[l].relative();
    std::vector<QuantisedOutput> outputs;
    for (const Port& port : model.graph.outputs)
      if (const auto found = of_outputs.find(port.name); found != of_outputs.end())
        outputs.push_back({port.name, found->second.relative()});
    return outputs;
  }

  const std::vector<NamedValues>& samples_;
  const QuantiseOptions& options_;
  Model::Impl base_; // with the importer's rules applied, of the opset to be
  std::vector<FoundLayer> layers_;
  ActivationScales activations_;
};

} // namespace

Quantised quantise(const Model& model, const std::vector<NamedValues>& samples,
                   const QuantiseOptions& options) {
  return Quantiser(model, samples, options).run();
}

} // namespace lathe::onnx
