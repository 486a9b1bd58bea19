// The command line of lathe-bench.
#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>

#include "cli/add_device_options.hpp"
#include "commands.hpp"
#include "digits.hpp"
#include "search/machine/profile.hpp"
#include "search/moves/plan.hpp"

using namespace lathe::bench;

namespace {

using Command = int (*)(const Options&);

void add_case(CLI::App& command, Options& options, bool many) {
  command
      .add_option("workload", options.workload,
                  many ? "a workload, or all (see `lathe-bench list`)"
                       : "a workload (see `lathe-bench list`)")
      ->required();
  command.add_option("--shape", options.shape,
                     "its numbers, such as 512x512x512 (the order is in `lathe-bench list`)");
  command.add_option("--dtype", options.dtype, "element type: f32, f64, f16, bf16, i32, i64, i8 or u8 (products of i8 or u8 with i8, summed in i32), or "
                  "q8_0, q4_0, q4_k ... (linear: f32 times constant weights in ggml's blocks)")
      ->capture_default_str();
}

void add_threads(CLI::App& command, Options& options) {
  command.add_option("--threads", options.threads, "threads of parallel loops")
      ->capture_default_str()
      ->check(CLI::Range(1, 1024));
}

void add_beam(CLI::App& command, Options& options) {
  command.add_option("--beam", options.beam, "plans kept from round to round")
      ->capture_default_str()
      ->check(CLI::Range(1, 4096));
  command.add_option("--seed", options.seed, "of the search's own choices")->capture_default_str();
}

void add_device(CLI::App& command, Options& options) {
  lathe::cli::add_device_options(command, options);
  add_threads(command, options);
}

void add_search(CLI::App& command, Options& options) {
  command.add_option("--budget", options.budget, "time for the search: 30s, 500ms, 2m")
      ->capture_default_str();
  add_beam(command, options);
  command.add_option("--log", options.log,
                     "append every candidate and the winner to this file, as JSON lines");
}

void add_trace(CLI::App& command, Options& options) {
  command.add_option("--trace", options.trace,
                     "append what is done to this file, as JSON lines that `lathe view` shows");
}

std::string one_line(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  for (size_t at; (at = text.find('\n')) != std::string::npos;) text.replace(at, 1, "; ");
  return text;
}

int fail(int status, const std::string& message) {
  fmt::print(stderr, "lathe-bench: {}\n", one_line(message));
  return status;
}

/// The command line, and the command that was chosen on it.
struct CommandLine {
  CLI::App app{"Runs, tunes, compares and prints tensor programs compiled by lathe.", "lathe-bench"};
  Options options;
  Command chosen = nullptr;

  CLI::App& add(const char* name, const char* summary, Command command) {
    CLI::App* sub = app.add_subcommand(name, summary);
    sub->add_flag("--json", options.json, "print JSON instead of text");
    sub->callback([this, command] { chosen = command; });
    return *sub;
  }
  void add_all() {
    add_programs();
    add_questions();
  }

private:
  /// Commands that run, tune, print and compare programs.
  void add_programs() {
    add("list", "the workloads and their parameters", list_command);

    CLI::App& run = add("run", "compile without searching, verify and time", run_command);
    add_case(run, options, true);
    add_device(run, options);
    run.add_flag("--untuned", options.untuned, "ignore what an earlier `tune` has stored");
    add_trace(run, options);

    CLI::App& tune =
        add("tune", "search for a schedule, store it, and compare it with the untuned one", tune_command);
    add_case(tune, options, true);
    add_device(tune, options);
    add_search(tune, options);
    add_trace(tune, options);
    tune.add_flag("--no-measure", options.no_measure,
                  "rank by the cost model alone; deterministic for a seed");
    tune.add_option("--replay", options.replay, "apply the best plan in this log, with no search");

    CLI::App& emit = add("emit", "print a program's source", emit_command);
    add_case(emit, options, false);
    add_device(emit, options);
    emit.add_option("--target", options.target, "c, opencl, cuda, llvm, asm, ast, graph, dot or moves")
        ->capture_default_str();
    emit.add_flag("--tuned", options.tuned, "with the schedule that an earlier `tune` has stored");

    add("machine", "measure this machine's limits and store them for the cost model", machine_command);

    CLI::App& overhead = add("overhead", "what a call, a fork and a cold compile cost", overhead_command);
    overhead.add_option("--device", options.device, "as for run");

    CLI::App& matrices =
        add("matrices", "errors and times of linear algebra and Fourier transforms in f64, beside Eigen", matrices_command);
    add_device(matrices, options);
    matrices.add_option("--sizes", options.sizes, "rows of matrices and elements of transforms, such as 16,256")
        ->delimiter(',')
        ->capture_default_str()
        ->check(CLI::Range(2, 4096));

    CLI::App& compare = add("compare", "time lathe and its peers alternately", compare_command);
    add_case(compare, options, true);
    add_device(compare, options);
    compare.add_option(
        "--peers", options.peers,
        "some of eigen,onednn,openblas,libxsmm and, with --python, tinygrad,jax,onnxruntime,torch; all "
        "that were found if left out; only if named by-hand, loops in AVX-512 intrinsics, and lathe's "
        "devices, such as c: the same schedule there");
    compare.add_option("--python", options.python,
                       "the virtual environment that tools/peers made, for Python's peers");
    compare.add_option("--tune", options.tune_budget, "first tune each case for so long, such as 20s");
  }

  /// Commands that show how good the search and its model are, and what they have stored.
  void add_questions() {
    CLI::App& joint =
        add("joint", "what searching graph and loops together gains over one after the other, and over fixed rules of fusion", joint_command);
    add_beam(joint, options);
    joint.add_option("--budget", options.joint_budget, "time for each search: 5s, 500ms, 2m")
        ->capture_default_str();
    add_threads(joint, options);
    joint.add_flag("--no-measure", options.no_measure,
                   "compare by the cost model alone; deterministic for a seed");

    CLI::App& explain =
        add("explain", "what bounds each kernel, why it is no larger, and where the cost model is off", explain_command);
    add_case(explain, options, true);
    add_device(explain, options);
    explain.add_flag("--untuned", options.untuned, "ignore what an earlier `tune` has stored");
    explain.add_option("--moves", options.moves,
                       "a file of moves, one a line, as `emit --target moves` prints them");

    CLI::App& bounds = add("bounds",
                           "whether five programs are bound by what `explain` says, by measurements with a bound removed",
                           bounds_command);
    add_device(bounds, options);

    CLI::App& rank =
        add("rank", "how well the cost model orders random plans, by measuring them", rank_command);
    add_case(rank, options, true);
    add_device(rank, options);
    rank.add_option("--plans", options.plans, "how many")
        ->capture_default_str()
        ->check(CLI::Range(2, 100000));
    rank.add_option("--seed", options.seed, "of the random choices")->capture_default_str();

    CLI::App& constants =
        add("constants", "what half and twice each number of the cost model change in plans and their times",
            constants_command);
    add_case(constants, options, true);
    add_device(constants, options);

    CLI::App& moves = add(
        "moves", "what each move brings: plans and their times where the search does without", moves_command);
    add_case(moves, options, true);
    add_device(moves, options);

    CLI::App& tracing = add("tracing", "what a trace costs a search by the model alone", tracing_command);
    add_case(tracing, options, true);
    add_device(tracing, options);
    add_beam(tracing, options);
    tracing.add_option("--budget", options.tracing_budget, "processor time for each workload: 15s, 500ms, 2m")
        ->capture_default_str();

    CLI::App& db = add("db", "list, show, export, import or prune what `tune` has stored", db_command);
    db.add_option("action", options.action, "list, show KEY, export [--file F], import --file F, or prune")
        ->required()
        ->check(CLI::IsMember({"list", "show", "export", "import", "prune"}));
    db.add_option("key", options.key, "show: the beginning of a program's hash, or a part of its label");
    db.add_option("--file", options.file, "export appends to it, import reads it");
    db.add_option(
        "--older", options.older_days,
        "prune: also what is older than so many days; always what is of another machine or version");

    CLI::App& demo = add("demo",
                         "classify real handwritten digits with one tuned tensor program, beside Eigen and fixed "
                         "rules of fusion; --budget is for all searches of the demo",
                         demo_command);
    add_device(demo, options);
    add_search(demo, options);
    demo.add_option("--page", options.page, "the page that shows what was done")->capture_default_str();
    demo.add_option("--data", options.data, "the digits, if not those of the repository");
  }
};

} // namespace

int main(int argc, char** argv) {
  CommandLine line;
  CLI::App& app = line.app;
  app.require_subcommand(1);
  app.footer("Start with:  lathe-bench list\n"
             "             lathe-bench run matmul --shape 512x512x512\n"
             "             lathe-bench tune matmul --shape 512x512x512 --budget 20s\n"
             "             lathe-bench emit matmul --target c --tuned\n"
             "Times are medians of results that were verified against a plain computation in f64.\n"
             "Exit status: 0, 1 if a result is wrong, 2 for bad arguments.");

  line.add_all();

  std::vector<std::string> commands;
  for (const CLI::App* command : app.get_subcommands({})) commands.push_back(command->get_name());
  if (argc > 1 && argv[1][0] != '-' && std::find(commands.begin(), commands.end(), argv[1]) == commands.end())
    return fail(2, fmt::format("'{}' is no command, expected one of {}", argv[1], fmt::join(commands, ", ")));
  try {
    app.parse(argc, argv);
    if (!line.options.data.empty()) set_digits_path(line.options.data);
    if (const std::string fault = lathe::search::machine_profile_fault();
        !fault.empty() && line.chosen != &machine_command)
      fmt::print(stderr, "lathe-bench: {}; the model goes by defaults until `lathe-bench machine`\n",
                 one_line(fault));
    return line.chosen(line.options);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return app.exit(e); // --help
    return fail(2, std::string(e.what()) + " (see lathe-bench --help)");
  } catch (const lathe::Error& e) {
    return fail(2, e.what());
  } catch (const std::exception& e) {
    return fail(1, e.what());
  }
}
