#include "compile/measure/measure.hpp"

#include <sched.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

#include <fmt/format.h>

#include "compile/front/shape_values.hpp"
#include "compile/front/target.hpp"
#include "compile/measure/worker_process.hpp"
#include "compile/run/assemble.hpp"
#include "lathe/error.hpp"
#include "search/machine/profile.hpp"
#include "search/machine/target.hpp"

namespace lathe::pipeline {
namespace {

using search::KernelPlan;
using search::KernelPlanRef;
using search::Measurement;

constexpr double kStartLimit = 60;      // seconds, for the process to load the device's libraries
constexpr double kCompileLimit = 20;    // seconds, for a candidate
constexpr double kReferenceLimit = 300; // seconds; the reference is no candidate, but it must end
constexpr double kGrace = 0.5;          // seconds; ending a process costs more than waiting a little
// A buffer of at least 1/kLarge of the last cache comes from memory in any program. Such a buffer is read
// from several copies in turns, which together are kFarAway times the last cache.
constexpr int64_t kFarAway = 8, kLarge = 4;
constexpr int64_t kMostLarge = 8; // large inputs of a kernel, whose copies must all find room

/// Returns the bytes that all cases may take: 4 GiB, or a quarter of the machine's memory if that is less.
int64_t most_case_bytes() {
  const int64_t memory = int64_t{::sysconf(_SC_PHYS_PAGES)} * ::sysconf(_SC_PAGE_SIZE);
  return std::min(int64_t{4} << 30, memory / 4);
}

/// Returns the number of cores that this process may use.
int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

class Measurer {
public:
  Measurer(std::shared_ptr<const lower::Program> program, const CompileOptions& options)
      : program_(std::move(program)), target_(target_for(options, *program_)), cpu_(options.cpu),
        values_(program_->shape_vars) {
    for (const Expr var : program_->shape_vars) values_.bind(var, var.typical(), "measure");
    const auto& levels = search::machine_profile().levels;
    last_cache_ = levels.size() < 2 ? 0 : levels[levels.size() - 2].bytes;
    all_copies_ = std::min(kFarAway * last_cache_, most_case_bytes() / kMostLarge);
    for (const lower::InputBuffer& input : program_->inputs)
      (input.is_constant ? constants_ : callers_).insert(input.buffer->id);
    for (const lower::OutputBuffer& output : program_->outputs)
      callers_.insert(program_->stages[static_cast<size_t>(output.stage)].buffer->id);
  }

  Measurement measure(const KernelPlanRef& kernel, double limit) {
    for (;;) {
      if (const auto dead = dead_.find(kernel->hash); dead != dead_.end()) return {false, 0, dead->second};
      try {
        if (std::optional<Measurement> result = attempt(*kernel, limit)) return *result;
      } catch (const NoWorker& e) { // as if the device were absent: nothing can be measured
        return {false, 0, e.reason, false};
      } catch (const std::exception& e) {
        return {false, 0, e.what()};
      }
    }
  }

  /// Sends the kernel to be compiled while others are measured, if there is a core for that.
  void prepare(const KernelPlanRef& kernel) {
    if (worker_ && !dead_.contains(kernel->hash)) send_kernel(*kernel);
  }

private:
  struct NoWorker {
    std::string reason;
  };
  struct KnownCase {
    int64_t id;
    int64_t bytes, last_use;
    std::vector<int> buffers; // ids, by parameter of the reference

    int64_t place_of(int buffer) const {
      const auto at = std::find(buffers.begin(), buffers.end(), buffer);
      if (at == buffers.end()) throw InternalError("a candidate has a parameter that its reference has not");
      return at - buffers.begin();
    }
  };

  /// Measures the candidate once. Nothing if the process has ended by the fault of this candidate, or of one
  /// that was compiled ahead.
  std::optional<Measurement> attempt(const KernelPlan& kernel, double limit) {
    if (!worker_) start();
    KnownCase* known = nullptr;
    const std::optional<std::string> error = set_case(kernel, known);
    if (!error) return std::nullopt;
    if (!error->empty()) return Measurement{false, 0, *error};
    const int64_t id = send_kernel(kernel);
    Message run(WorkerMessage::Run);
    run.add(id).add(known->id).add(limit);
    add_places(kernel, *known, run);
    worker_->send(run);
    sent_.erase(kernel.hash);
    double wait = kCompileLimit;
    bool running = false;
    for (;;) {
      std::optional<Message> message;
      switch (worker_->wait(wait, message)) {
      case MessageReader::State::Timeout:
        end(kernel.hash, running ? fmt::format("never ends: stopped after {:.3g} s", wait)
                                 : fmt::format("never compiles: stopped after {:.3g} s", wait));
        return std::nullopt;
      case MessageReader::State::Closed:
        end(kernel.hash, "crashed: its process is gone, or is stopped");
        return std::nullopt;
      case MessageReader::State::Message: break;
      }
      switch (message->kind()) {
      case WorkerMessage::Running:
        if (message->integer() != id) break;
        running = true;
        wait = limit + kGrace;
        break;
      case WorkerMessage::Result: {
        if (message->integer() != id) break;
        const bool ok = message->integer() != 0;
        const double seconds = message->number();
        return Measurement{ok, seconds, message->text()};
      }
      case WorkerMessage::Crashed:
        if (!end_if_compiled_ahead(*message)) end(kernel.hash, crash_of(*message));
        return std::nullopt;
      default: break;
      }
    }
  }

  /// Adds the place of each parameter's memory: a parameter of the reference, or a copy of a constant.
  /// Kernels that lay out these copies are added first.
  static void add_places(const KernelPlan& kernel, const KnownCase& known, Message& run) {
    run.add(static_cast<int64_t>(kernel.constants.size()));
    for (const ast::Kernel& fill : kernel.constants)
      run.add(known.place_of(fill.params[0].buffer->id)).add(ast::print(fill));
    for (const ast::Param& param : kernel.kernel.params) {
      const auto copy =
          std::find_if(kernel.constants.begin(), kernel.constants.end(), [&](const ast::Kernel& fill) {
            return fill.params[1].buffer->id == param.buffer->id;
          });
      run.add(copy == kernel.constants.end() ? known.place_of(param.buffer->id)
                                             : -1 - (copy - kernel.constants.begin()));
    }
  }

  void start() {
    try {
      worker_ = std::make_unique<WorkerProcess>();
    } catch (const Error& e) {
      throw NoWorker{e.what()};
    }
    Message setup(WorkerMessage::Setup);
    setup.add(target_.device).add(cpu_).add(int64_t{target_.threads});
    setup.add(int64_t{usable_cores() > target_.threads});
    worker_->send(setup);
    std::optional<Message> ready;
    const auto state = worker_->wait(kStartLimit, ready);
    const std::string error =
        state == MessageReader::State::Message
            ? ready->text()
            : "tune: lathe-measure does not answer: it ended at its start, or is stopped";
    if (error.empty()) return;
    worker_.reset();
    throw NoWorker{error};
  }

  /// Ends the process, and with it all compiled kernels and cases. `culprit` is not measured again.
  void end(uint64_t culprit, const std::string& reason) {
    dead_.emplace(culprit, reason);
    end();
  }
  void end() {
    worker_.reset();
    sent_.clear();
    cases_.clear();
  }
  static std::string crash_of(Message& rest) {
    return fmt::format("crashed: {}", ::sigdescr_np(static_cast<int>(rest.integer())));
  }
  /// Ends the process and returns true if the crash is that of a candidate in `sent_`.
  bool end_if_compiled_ahead(Message& crash) {
    const int64_t culprit = crash.integer();
    const auto at =
        std::find_if(sent_.begin(), sent_.end(), [&](const auto& s) { return s.second == culprit; });
    if (at == sent_.end()) return false;
    end(uint64_t{at->first}, crash_of(crash));
    return true;
  }

  int64_t send_kernel(const KernelPlan& kernel) {
    const auto [at, is_new] = sent_.emplace(kernel.hash, next_id_);
    if (!is_new) return at->second;
    Message compile(WorkerMessage::Compile);
    compile.add(next_id_).add(ast::print(kernel.kernel));
    worker_->send(compile);
    return next_id_++;
  }

  /// Sets `known` to the candidate's case. Returns an empty text, or why candidates of this case can't be
  /// checked; nothing if the process has ended by the fault of a candidate that was compiled ahead.
  std::optional<std::string> set_case(const KernelPlan& kernel, KnownCase*& known) {
    std::string key;
    for (const int stage : kernel.stages) key += fmt::format("{} ", stage);
    key += "| ";
    for (const int stage : kernel.inlined) key += fmt::format("{} ", stage);
    key += "| ";
    for (const ast::Param& param : kernel.kernel.params)
      if (param.written) key += fmt::format("{} ", param.buffer->id);
    if (const auto failed = failed_cases_.find(key); failed != failed_cases_.end()) return failed->second;
    if (const auto at = cases_.find(key); at != cases_.end()) {
      known = &at->second;
      known->last_use = next_id_;
      return "";
    }
    const KernelPlanRef reference = search::reference_kernel(*program_, kernel, target_);
    const std::vector<int64_t> copies = copies_of_parameters(reference->kernel);
    int64_t bytes = 0;
    for (size_t i = 0; i < copies.size(); ++i)
      bytes += copies[i] * values_.bytes(*reference->kernel.params[i].buffer);
    make_room(bytes);
    const int64_t id = next_id_++;
    Message m(WorkerMessage::Case);
    const KernelPlanRef canonical = search::unscheduled(*program_, kernel);
    check_parameters(canonical->kernel, reference->kernel);
    m.add(id).add(ast::print(canonical->kernel)).add(ast::print(reference->kernel));
    for (const Expr var : reference->kernel.shape_vars) m.add(values_.evaluate(var));
    for (size_t i = 0; i < copies.size(); ++i)
      m.add(copies[i]).add(int64_t{callers_.contains(reference->kernel.params[i].buffer->id)});
    worker_->send(m);
    std::string error;
    for (std::optional<Message> answer;;) {
      const auto state = worker_->wait(kReferenceLimit, answer);
      const bool crashed = state == MessageReader::State::Message && answer->kind() == WorkerMessage::Crashed;
      if (crashed && end_if_compiled_ahead(*answer)) return std::nullopt;
      if (crashed || state != MessageReader::State::Message) {
        error = "the unscheduled kernel, which it is to be checked against, can't be run";
        end(); // the process may still run the reference; the next candidate must not wait for it
        break;
      }
      if (answer->kind() != WorkerMessage::CaseReady || answer->integer() != id) continue;
      error = answer->text();
      break;
    }
    if (!error.empty()) {
      failed_cases_.emplace(key, error);
      return error;
    }
    known = &cases_.emplace(key, KnownCase{id, bytes, id, {}}).first->second;
    for (const ast::Param& param : reference->kernel.params) known->buffers.push_back(param.buffer->id);
    return "";
  }

  static void check_parameters(const ast::Kernel& canonical, const ast::Kernel& reference) {
    const auto same = [](const ast::Param& a, const ast::Param& b) {
      return a.buffer->id == b.buffer->id && a.written == b.written;
    };
    if (!std::equal(canonical.params.begin(), canonical.params.end(), reference.params.begin(),
                    reference.params.end(), same))
      throw InternalError("a reordered kernel has other parameters than before");
  }

  /// Returns the number of copies of each parameter, so that a run finds it as far away as in the program.
  /// There, all other constants are read before a constant is read again, and large buffers come from memory.
  /// The number is odd, so that contenders in turns meet all copies.
  std::vector<int64_t> copies_of_parameters(const ast::Kernel& kernel) const {
    const auto is_constant = [&](const ast::Param& p) { return constants_.contains(p.buffer->id); };
    int64_t own = 1;
    for (const ast::Param& p : kernel.params)
      if (is_constant(p)) own += values_.bytes(*p.buffer);
    std::vector<int64_t> copies;
    for (const ast::Param& p : kernel.params) {
      const int64_t bytes = std::max<int64_t>(1, values_.bytes(*p.buffer));
      int64_t count = 1;
      if (is_constant(p)) count = std::min(target_.constant_bytes, 2 * last_cache_) / own;
      const bool from_outside = is_constant(p) || callers_.contains(p.buffer->id);
      if (from_outside && !p.written && last_cache_ > 0 && bytes >= last_cache_ / kLarge)
        count = std::max(count, all_copies_ / bytes);
      copies.push_back(count | 1);
    }
    return copies;
  }

  /// Drops the least recently used cases until `bytes` more fit.
  void make_room(int64_t bytes) {
    for (const auto& [key, known] : cases_) bytes += known.bytes;
    while (!cases_.empty() && bytes > most_case_bytes()) {
      const auto oldest = std::min_element(cases_.begin(), cases_.end(), [](const auto& x, const auto& y) {
        return x.second.last_use < y.second.last_use;
      });
      Message forget(WorkerMessage::Forget);
      forget.add(oldest->second.id);
      worker_->send(forget);
      bytes -= oldest->second.bytes;
      cases_.erase(oldest);
    }
  }

  std::shared_ptr<const lower::Program> program_;
  search::Target target_;
  std::string cpu_;
  ShapeValues values_;
  int64_t last_cache_ = 0;            // bytes
  int64_t all_copies_ = 0;            // bytes, of one large parameter
  std::set<int> constants_, callers_; // ids of the program's constants, and of its caller's buffers
  std::unique_ptr<WorkerProcess> worker_;
  int64_t next_id_ = 0;
  std::unordered_map<uint64_t, int64_t> sent_;     // compiled or being compiled, by hash
  std::unordered_map<uint64_t, std::string> dead_; // why a candidate ended its process, by hash
  std::map<std::string, KnownCase> cases_;
  std::map<std::string, std::string> failed_cases_;
};

} // namespace

Measuring make_measure(std::shared_ptr<const lower::Program> program, const CompileOptions& options) {
  runtime::device(options.device);
  auto measurer = std::make_shared<Measurer>(std::move(program), options);
  return {[measurer](const KernelPlanRef& kernel, double limit) { return measurer->measure(kernel, limit); },
          [measurer](const KernelPlanRef& kernel) { measurer->prepare(kernel); }};
}

} // namespace lathe::pipeline
