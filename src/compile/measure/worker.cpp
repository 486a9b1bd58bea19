// The measuring process's side. One thread reads requests and one compiles. One runs and times candidates,
// and compiles as well while it has nothing to run.
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include <fmt/format.h>

#include "compile/front/shape_values.hpp"
#include "compile/measure/test_data.hpp"
#include "compile/measure/worker_protocol.hpp"
#include "compile/measure/worker_timing.hpp"
#include "compile/run/constants.hpp"
#include "compile/run/finalise.hpp"
#include "lathe/error.hpp"
#include "runtime/device.hpp"

namespace lathe::pipeline {
namespace {

using Buffer = std::shared_ptr<runtime::DeviceBuffer>;

constexpr double kSampleSeconds = 0.05;          // to compute a sample of a case's outputs independently
constexpr double kSampleAloneSeconds = 0.5;      // to enlarge the sample if the reference is not trusted
constexpr size_t kLayoutBytes = size_t{1} << 30; // of layouts of constants; those in use may exceed it

// ---- A crash is reported by the thread that crashed ----

int report_to = -1;
thread_local volatile int64_t working_on = -1;

void crashed(int signal) {
  // Nothing here may allocate or lock: the message is written by hand.
  struct __attribute__((packed)) {
    uint32_t length = 1 + 2 * sizeof(int64_t);
    uint8_t kind = static_cast<uint8_t>(WorkerMessage::Crashed);
    int64_t id = working_on, signal_number;
  } message;
  message.signal_number = signal;
  [[maybe_unused]] const ssize_t sent = ::write(report_to, &message, sizeof message);
  _exit(1);
}

/// Installs the handler, on a stack of its own: it also works if the thread's stack has run out.
void watch_for_crashes(std::vector<char>& stack) {
  stack.resize(1 << 16);
  stack_t alternate{};
  alternate.ss_sp = stack.data();
  alternate.ss_size = stack.size();
  sigaltstack(&alternate, nullptr);
  struct sigaction action{};
  action.sa_handler = crashed;
  action.sa_flags = SA_ONSTACK;
  for (const int signal : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT}) sigaction(signal, &action, nullptr);
}

// ---- Work ----

struct Compiled {
  std::shared_ptr<const ast::Kernel> kernel;
  std::shared_ptr<runtime::Program> program;
  std::string error;
};

/// A constant's copies, in the order in which some candidates read them.
struct Layout {
  Buffer buffer;
  int64_t last_use;
};

class Queue {
public:
  void push(Message m) {
    std::lock_guard lock(mutex_);
    messages_.push_back(std::move(m));
    changed_.notify_one();
  }
  Message pop() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !messages_.empty(); });
    Message m = std::move(messages_.front());
    messages_.pop_front();
    return m;
  }
  std::optional<Message> pop_if_any() {
    std::lock_guard lock(mutex_);
    if (messages_.empty()) return std::nullopt;
    std::optional<Message> m = std::move(messages_.front());
    messages_.pop_front();
    return m;
  }

private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Message> messages_;
};

class Worker {
public:
  Worker(int socket, Message& setup) : socket_(socket), device_(runtime::device(setup.text())) {
    flags_.cpu = setup.text();
    flags_.threads = static_cast<int>(setup.integer());
    flags_.candidate = true;
    overlap_ = setup.integer() != 0;
  }

  void start() {
    std::thread([this] { compile_all(); }).detach();
    std::thread([this] { run_all(); }).detach();
  }
  void take(Message m) { (m.kind() == WorkerMessage::Compile ? to_compile_ : to_run_).push(std::move(m)); }
  void say(Message m) {
    std::lock_guard lock(send_mutex_);
    send_message(socket_, m);
  }

private:
  /// Locks out the other thread if there is no core to spare: then compiling and running wait for each other.
  std::unique_lock<std::mutex> turn() {
    return overlap_ ? std::unique_lock<std::mutex>() : std::unique_lock(turn_);
  }

  void compile_all() {
    std::vector<char> stack;
    watch_for_crashes(stack);
    for (;;) {
      Message m = to_compile_.pop();
      const auto mine = turn();
      compile(m);
    }
  }
  void compile(Message& m) {
    const int64_t id = m.integer();
    Compiled made;
    working_on = id;
    try {
      made.kernel = std::make_shared<const ast::Kernel>(ast::parse(m.text()));
      made.program = device_.compile(finalise(*made.kernel), flags_);
    } catch (const std::exception& e) {
      made.error = e.what();
    }
    working_on = -1;
    std::lock_guard lock(compiled_mutex_);
    compiled_.emplace(id, std::move(made));
    compiled_changed_.notify_one();
  }
  /// Returns a compiled candidate to the running thread, which compiles while it waits. A candidate is sent
  /// for compiling before it is sent to be run.
  Compiled compiled(int64_t id) {
    std::unique_lock lock(compiled_mutex_);
    while (!compiled_.contains(id)) {
      std::optional<Message> other = to_compile_.pop_if_any();
      if (!other) {
        compiled_changed_.wait(lock);
        continue;
      }
      lock.unlock();
      compile(*other);
      lock.lock();
    }
    return std::move(compiled_.extract(id).mapped());
  }

  void run_all() {
    std::vector<char> stack;
    watch_for_crashes(stack);
    for (;;) {
      Message m = to_run_.pop();
      const int64_t id = m.integer();
      if (m.kind() == WorkerMessage::Forget) {
        cases_.erase(id);
        std::erase_if(layouts_, [&](const auto& layout) { return layout.first.first == id; });
        continue;
      }
      if (m.kind() == WorkerMessage::Case) {
        Message done(WorkerMessage::CaseReady);
        try {
          const auto mine = turn();
          cases_[id] = prepare(m);
          done.add(id).add("");
        } catch (const std::exception& e) {
          done = Message(WorkerMessage::CaseReady);
          done.add(id).add(e.what());
        }
        say(std::move(done));
        continue;
      }
      const Compiled candidate = compiled(id);
      Message done(WorkerMessage::Result);
      try {
        const auto mine = turn();
        if (!candidate.program) throw Error(ErrorKind::Device, candidate.error);
        working_on = id;
        const int64_t case_id = m.integer();
        Case& c = cases_.at(case_id);
        const double limit = m.number();
        const std::vector<Place> places = places_of(*candidate.kernel, case_id, m);
        const double seconds = timer_.measure(*candidate.kernel, candidate.program, c, places, limit);
        done.add(id).add(int64_t{1}).add(seconds).add("");
      } catch (const std::exception& e) { // a candidate that can't be compiled or run is no candidate
        done = Message(WorkerMessage::Result);
        done.add(id).add(int64_t{0}).add(0.0).add(e.what());
      }
      working_on = -1;
      say(std::move(done));
    }
  }

  /// Tells the owner that a step begins. The owner waits for each step as long as the candidate's limit.
  void say_running() {
    Message running(WorkerMessage::Running);
    running.add(int64_t{working_on});
    say(std::move(running));
  }

  std::vector<Place> places_of(const ast::Kernel& kernel, int64_t case_id, Message& m) {
    const Case& c = cases_.at(case_id);
    std::vector<Place> laid_out;
    for (int64_t count = m.integer(); count > 0; --count) {
      const auto source = static_cast<size_t>(m.integer());
      laid_out.push_back(laid_out_constant(case_id, source, m.text(), working_on));
    }
    std::vector<Place> places;
    for (size_t i = 0; i < kernel.params.size(); ++i) {
      const int64_t at = m.integer();
      if (at < 0) {
        places.push_back(laid_out.at(static_cast<size_t>(-1 - at)));
        continue;
      }
      const auto k = static_cast<size_t>(at);
      places.push_back({c.buffers.at(k), c.bytes[k], k, c.copies[k]});
    }
    return places;
  }
  Place laid_out_constant(int64_t case_id, size_t source, const std::string& text, int64_t now) {
    const Case& c = cases_.at(case_id);
    const ast::Kernel fill = ast::parse(text);
    const auto bytes =
        static_cast<size_t>(largest_bytes(*fill.params.at(1).buffer)); // constants have no variables
    const size_t copies = c.copies.at(source), all = stride_of_copies(bytes) * copies;
    auto at = layouts_.find({case_id, text});
    if (at == layouts_.end()) {
      std::vector<unsigned char> data(bytes);
      lay_out_constant(fill, download(*c.buffers.at(source), c.bytes.at(source)), data);
      Buffer memory = memory_for_layout(all);
      fill_copies(*memory, data, copies);
      at = layouts_.emplace(std::pair(case_id, text), Layout{std::move(memory), now}).first;
    }
    at->second.last_use = now;
    return {at->second.buffer, bytes, source, copies};
  }
  /// Returns memory for a layout. Drops the least recently used layouts that no contender reads until there
  /// is room. Memory of the same size is used again, because new pages cost more than writing to them.
  Buffer memory_for_layout(size_t bytes) {
    size_t kept = bytes;
    for (const auto& [of, layout] : layouts_) kept += layout.buffer->bytes();
    while (kept > kLayoutBytes) {
      auto oldest = layouts_.end();
      for (auto at = layouts_.begin(); at != layouts_.end(); ++at)
        if (at->second.buffer.use_count() == 1 &&
            (oldest == layouts_.end() || at->second.last_use < oldest->second.last_use))
          oldest = at;
      if (oldest == layouts_.end()) break;
      const Buffer memory = oldest->second.buffer;
      layouts_.erase(oldest);
      if (memory->bytes() == bytes) return memory;
      kept -= memory->bytes();
    }
    return device_.allocate(bytes);
  }
  static void fill_copies(runtime::DeviceBuffer& memory, const std::vector<unsigned char>& data,
                          size_t copies) {
    for (size_t k = 0; k < copies; ++k)
      memory.upload(k * stride_of_copies(data.size()), data.data(), data.size());
  }
  /// Allocates the caller's memory as malloc does; the device's own memory asks for large pages.
  Buffer allocate(size_t bytes, bool is_callers) {
    if (!is_callers || !device_.is_host()) return device_.allocate(bytes);
    const std::shared_ptr<void> memory(
        std::aligned_alloc(kAligned, stride_of_copies(std::max<size_t>(1, bytes))), std::free);
    if (!memory)
      throw Error(ErrorKind::Limit, fmt::format("tune: cannot allocate {} bytes for a parameter", bytes));
    const Buffer wrapped = device_.wrap(memory.get(), bytes);
    return {wrapped.get(), [memory, wrapped](auto*) {}};
  }

  Case prepare(Message& m) {
    ast::Kernel canonical = ast::parse(m.text());
    const ast::Kernel reference = ast::parse(m.text());
    Case made;
    ShapeValues values(canonical.shape_vars);
    for (const Expr var : canonical.shape_vars) {
      made.vars.push_back(m.integer());
      values.bind(var, made.vars.back(), "measure");
    }
    const TestRange range = checking_range(canonical, values);
    std::vector<const void*> inputs;
    for (const ast::Param& param : canonical.params) {
      made.copies.push_back(static_cast<size_t>(m.integer()));
      const bool is_callers = m.integer() != 0;
      made.bytes.push_back(static_cast<size_t>(values.bytes(*param.buffer)));
      if (param.written) {
        made.buffers.push_back(allocate(made.bytes.back(), is_callers));
        inputs.push_back(nullptr);
        continue;
      }
      auto data = test_data(*param.buffer, made.bytes.back(), range);
      made.buffers.push_back(allocate(stride_of_copies(data.size()) * made.copies.back(), is_callers));
      fill_copies(*made.buffers.back(), data, made.copies.back());
      if (!device_.is_host()) made.inputs.push_back(std::move(data));
      inputs.push_back(device_.is_host() ? made.buffers.back()->host() : made.inputs.back().data());
    }
    made.check = std::make_unique<OutputCheck>(std::move(canonical), inputs, made.vars);
    made.check->sample(kSampleSeconds);
    if (!trust(reference, made)) made.check->sample(kSampleAloneSeconds);
    return made;
  }

  /// Runs the compiled reference, as the trusted result for outputs with too many elements to compute one by
  /// one. Returns false if it is wrong: candidates may still be right, and are judged by the sample.
  bool trust(const ast::Kernel& reference, Case& c) {
    for (size_t i = 0; i < c.buffers.size(); ++i)
      if (reference.params[i].written) poison(reference.params[i].buffer->dtype, *c.buffers[i], c.bytes[i]);
    std::vector<runtime::BufferSlice> slices;
    for (size_t i = 0; i < c.buffers.size(); ++i) slices.push_back({c.buffers[i].get(), 0, c.bytes[i]});
    device_.compile(finalise(reference), flags_)->launch(slices, c.vars);
    device_.finish();
    bool is_right = true;
    for (size_t i = 0; i < c.buffers.size(); ++i)
      if (reference.params[i].written)
        is_right &= c.check->trust(i, download(*c.buffers[i], c.bytes[i])).empty();
    return is_right;
  }

  int socket_;
  runtime::Device& device_;
  runtime::CompileFlags flags_;
  bool overlap_ = false;
  std::mutex turn_, send_mutex_, compiled_mutex_;
  std::condition_variable compiled_changed_;
  std::map<int64_t, Compiled> compiled_;
  // Used by the running thread only.
  CandidateTimer timer_{device_, [this] { say_running(); }};
  std::map<int64_t, Case> cases_;
  std::map<std::pair<int64_t, std::string>, Layout> layouts_; // by case and the kernel that makes them
  Queue to_compile_, to_run_;
};

} // namespace

int run_measuring_worker(int socket) {
  report_to = socket;
  signal(SIGINT, SIG_IGN); // a terminal sends it to all; the owner decides when this process ends
  MessageReader reader(socket);
  std::optional<Message> message;
  if (reader.wait(-1, message) != MessageReader::State::Message || message->kind() != WorkerMessage::Setup)
    return 2;
  Worker* worker = nullptr;
  Message ready(WorkerMessage::Ready);
  try {
    worker = new Worker(socket, *message); // never destroyed: its threads work till the process ends
    ready.add("");
  } catch (const std::exception& e) {
    ready.add(e.what());
  }
  send_message(socket, ready);
  if (!worker) return 1;
  worker->start();
  while (reader.wait(-1, message) == MessageReader::State::Message) {
    if (message->kind() == WorkerMessage::Ask)
      worker->say(Message(WorkerMessage::Alive));
    else
      worker->take(std::move(*message));
  }
  _exit(0); // even if a candidate never ends
}

} // namespace lathe::pipeline
