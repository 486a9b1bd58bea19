// lathe: look at, run, check, tune, quantise and export ONNX models.
#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <cctype>
#include <new>

#include "cli/add_device_options.hpp"
#include "commands.hpp"

using namespace lathe::tool;

namespace {

void add_model(CLI::App& command, Options& options) {
  command
      .add_option("model", options.model,
                  "an ONNX file, or for inspect, run and check one that compile wrote")
      ->required();
  command.add_option("--size", options.sizes, "fixes a size that the model names: batch=8");
}

void add_versions(CLI::App& command, Options& options) {
  command
      .add_option(
          "--versions", options.versions,
          "most versions for sizes of calls, where --size does not fix them; 0: one program for all sizes")
      ->check(CLI::Range(0, 1000))
      ->capture_default_str();
}

void add_inputs(CLI::App& command, Options& options) {
  command.add_option("--input", options.inputs, "a .npy or .pb file for the next input, or name=file")
      ->allow_extra_args(false);
  command.add_flag("--random", options.random,
                   "fill inputs that no file is given for with seeded random numbers");
}

void add_device(CLI::App& command, Options& options) {
  lathe::cli::add_device_options(command, options);
  command.add_option("--threads", options.threads, "threads of parallel loops; 0: one per core")
      ->capture_default_str();
}

void add_untuned(CLI::App& command, Options& options) {
  command.add_flag("--tuned,!--untuned", options.tuned,
                   "use what `lathe tune` has stored (the default), or the cost model alone");
}

/// Names and texts of a file may hold anything; an error stays one line.
std::string one_line(const std::string& message) {
  std::string line;
  for (char c : message)
    if (std::iscntrl(static_cast<unsigned char>(c)))
      line += c == '\n' ? "\\n" : fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    else
      line += c;
  return line;
}

void add_trace(CLI::App& command, Options& options) {
  command.add_option("--trace", options.trace,
                     "append what is done to this file, as JSON lines that `lathe view` shows");
}

CLI::App& add_quantise(CLI::App& app, Options& options) {
  CLI::App& command = *app.add_subcommand(
      "quantise", "write a model whose weights, and activations, are integers, and say what that changes");
  add_model(command, options);
  command.add_option("-o,--output", options.output, "the ONNX file to write")->required();
  command.add_option("--data", options.data,
                     "samples: a .npy or .npz file, or a folder of them, or of folders with input_0.pb ...");
  command.add_option("--labels", options.labels, "a .npy file of the right classes, to count right answers");
  command.add_option("--method", options.method, "how ranges of activations follow from the samples")
      ->capture_default_str()
      ->check(CLI::IsMember({"range", "percentile"}));
  command.add_option("--percentile", options.percentile, "of the values that the range takes in")
      ->capture_default_str();
  command
      .add_option("--weights-only", options.weights_only, "bits of the weights, 8 or 4; activations stay f32")
      ->check(CLI::IsMember({8, 4}));
  command
      .add_option("--block", options.block,
                  "weights of 4 bits that share a scale; 0: those of an output channel")
      ->capture_default_str();
  command.add_flag("!--no-bias-correction", options.correct_bias,
                   "leave biases as they are; else they make up for how rounding moves a channel's mean");
  command.add_option("--keep", options.keep, "a node that stays in f32")->allow_extra_args(false);
  command.add_option("--most-error", options.most_error, "layers with a larger relative error stay in f32");
  add_device(command, options);
  add_untuned(command, options);
  return command;
}

} // namespace

int main(int argc, char** argv) {
  CLI::App app("lathe: ONNX models on lathe");
  app.require_subcommand(1);
  Options options;

  CLI::App& inspect = *app.add_subcommand(
      "inspect",
      "what is in a model, and what of it is not supported; the instructions of what compile wrote");
  add_model(inspect, options);
  inspect.add_flag("--listing", options.listing, "the graph, one node a line");
  inspect.add_flag("--layers", options.layers, "operations and bytes of each node");

  CLI::App& run = *app.add_subcommand("run", "run a model, and say what its kernels took");
  add_model(run, options);
  add_inputs(run, options);
  run.add_option("--output-dir", options.output_dir, "write each output there as a .npy file, each tensor of a sequence, maps as a .json file");
  run.add_option("--profile", options.profile,
                 "write the run as a trace that Chrome and Perfetto show, an event an instruction");
  run.add_option("--runs", options.runs, "time so many runs, with the best kernels")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  run.add_flag("--best-first", options.best_first,
               "search for the best kernels before the first run, which else takes quickly made ones");
  add_device(run, options);
  add_versions(run, options);
  add_untuned(run, options);
  add_trace(run, options);

  CLI::App& check = *app.add_subcommand("check", "compare a model's outputs with reference tensors");
  add_model(check, options);
  check.add_option("--data", options.data, "a folder with input_0.pb ... and output_0.pb ...")->required();
  check.add_option("--tolerance", options.tolerance, "relative, of floats")->capture_default_str();
  add_device(check, options);
  add_untuned(check, options);

  CLI::App& compile =
      *app.add_subcommand("compile", "write a model's program to a file that `lathe run` takes in its place");
  add_model(compile, options);
  compile.add_option("-o,--output", options.output, "the file to write")->required();
  add_inputs(compile, options);
  add_device(compile, options);
  add_versions(compile, options);
  add_untuned(compile, options);
  add_trace(compile, options);

  CLI::App& tune =
      *app.add_subcommand("tune", "search for a model's fastest kernels, by measuring; later runs find them");
  add_model(tune, options);
  tune.add_option("--budget", options.budget, "time for the search: 30s, 5m")->capture_default_str();
  add_inputs(tune, options);
  tune.add_option("--seed", options.seed, "of the search's own choices")->capture_default_str();
  add_device(tune, options);
  add_trace(tune, options);

  CLI::App& explain = *app.add_subcommand(
      "explain", "why a model's kernels begin and end where they do, what bounds them, and what would save most time");
  add_model(explain, options);
  add_inputs(explain, options);
  explain.add_option("--runs", options.runs, "measure so many runs, if inputs are given")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  explain.add_flag("--json", options.json, "print JSON instead of text");
  add_device(explain, options);
  add_untuned(explain, options);

  CLI::App& quantise = add_quantise(app, options);

  CLI::App& view = *app.add_subcommand("view", "show a trace: as a page, or as text");
  view.add_option("traces", options.traces, "a trace, or two to compare on a page")
      ->required()
      ->expected(1, 2);
  view.add_option("-o,--output", options.output, "the page to write, an HTML file that needs nothing else");
  view.add_option("--print", options.print, "graph, rewrites, search, kernel NAME, timeline or arena")
      ->expected(1, 2);
  view.add_option("--compilation", options.compilation, "which of the file's, from 0; the last if left out");
  view.add_flag("--check", options.check, "say what of the file is whole; replay its states");

  CLI::App& write =
      *app.add_subcommand("export", "write a model as source that needs nothing else, and its weights");
  add_model(write, options);
  write.add_option("--target", options.target, "c, or opencl: kernels and a host program")
      ->capture_default_str()
      ->check(CLI::IsMember({"c", "opencl"}));
  write.add_option("-o,--output", options.output_dir, "folder for the files")->required();
  write.add_option("--name", options.name, "of the files and functions; the model file's if left out");
  write
      .add_option("--arena", options.arena,
                  "where intermediates live: static, caller (each call is given memory) or malloc")
      ->capture_default_str()
      ->check(CLI::IsMember({"static", "caller", "malloc"}));
  add_inputs(write, options);
  add_device(write, options);
  add_untuned(write, options);

  CLI11_PARSE(app, argc, argv);
  try {
    if (inspect) return inspect_command(options);
    if (run) return run_command(options);
    if (check) return check_command(options);
    if (write) {
      if (write.count("--threads") == 0) options.threads = 1; // threads only for who asks for them
      return export_command(options);
    }
    if (compile) return compile_command(options);
    if (explain) return explain_command(options);
    if (view) return view_command(options);
    if (quantise) return quantise_command(options);
    return tune_command(options);
  } catch (const std::bad_alloc& error) {
    fmt::print(stderr, "lathe: {}: {}\n", one_line(options.model), error.what());
    return 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "lathe: {}\n", one_line(error.what()));
    return 2;
  }
}
