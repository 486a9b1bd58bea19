#include "compile/run/program_cache.hpp"

#include <list>
#include <mutex>
#include <sstream>
#include <unordered_map>

#include <fmt/format.h>

#include "ast/canonical.hpp"
#include "compile/run/finalise.hpp"
#include "compile/run/kernel_impl.hpp"
#include "core/throw_if_stopped.hpp"
#include "lathe/detail/access.hpp"
#include "lathe/error.hpp"
#include "lathe/executable.hpp"
#include "runtime/device.hpp"
#include "runtime/object_cache.hpp"
#include "search/moves/plan.hpp"
#include "view/expr_scope.hpp"
#include "view/scoped_pieces.hpp"

namespace lathe::pipeline {
namespace {

/// The most recently used entries, by key, with a limit on their number and one on their bytes in all.
template <class V> class Recent {
public:
  Recent(size_t most_entries, size_t most_bytes) : most_entries_(most_entries), most_bytes_(most_bytes) {}
  std::optional<V> find(const std::string& key) {
    std::lock_guard lock(mutex_);
    const auto it = by_key_.find(key);
    if (it == by_key_.end()) return {};
    entries_.splice(entries_.begin(), entries_, it->second);
    return it->second->value;
  }
  void put(const std::string& key, V value, size_t bytes) {
    std::list<Entry> dropped; // destroyed after the lock is released
    std::lock_guard lock(mutex_);
    if (by_key_.count(key)) return;
    bytes += key.size();
    entries_.push_front({key, std::move(value), bytes});
    by_key_[entries_.front().key] = entries_.begin();
    bytes_ += bytes;
    while (entries_.size() > most_entries_ || (bytes_ > most_bytes_ && entries_.size() > 1)) {
      by_key_.erase(entries_.back().key);
      bytes_ -= entries_.back().bytes;
      dropped.splice(dropped.begin(), entries_, std::prev(entries_.end()));
    }
  }
  void clear() {
    std::list<Entry> dropped;
    std::lock_guard lock(mutex_);
    by_key_.clear();
    bytes_ = 0;
    dropped.swap(entries_);
  }

private:
  struct Entry {
    std::string key;
    V value;
    size_t bytes;
  };
  const size_t most_entries_, most_bytes_;
  std::mutex mutex_;
  std::list<Entry> entries_;
  std::unordered_map<std::string_view, typename std::list<Entry>::iterator> by_key_; // of the entries
  size_t bytes_ = 0;
};

using ProgramRef = std::shared_ptr<const runtime::Program>;

// Never destroyed: devices aren't either, and code may run till the process ends.
Recent<ProgramRef>& programs() {
  static auto* cache = new Recent<ProgramRef>(256, size_t{64} << 20);
  return *cache;
}
Recent<FoundBySearch>& schedules() {
  static auto* cache = new Recent<FoundBySearch>(1024, size_t{4} << 20);
  return *cache;
}

Recent<Executable>& executables() {
  static auto* cache = new Recent<Executable>(256, size_t{16} << 20);
  return *cache;
}

void keep(const std::string& key, FoundBySearch found) {
  constexpr size_t kBytesPerMove = 128;   // estimate, with the arguments of a move
  constexpr size_t kBytesPerFusion = 512; // estimate, with its texts
  const size_t bytes =
      kBytesPerMove * found.moves.size() + kBytesPerFusion * (found.fusions ? found.fusions->size() : 0);
  schedules().put(key, std::move(found), bytes);
}

const runtime::ObjectCache& plans_on_disk() {
  static const auto* cache = new runtime::ObjectCache("plans", ".moves");
  return *cache;
}

/// Equal for kernels that differ in names only.
std::string key_of(const runtime::Device& device, const ast::Kernel& scheduled,
                   const runtime::CompileFlags& flags) {
  return fmt::format("{} {} {} {}\n{}", device.name(), flags.threads, flags.cpu, flags.candidate,
                     ast::print(ast::canonical(scheduled, false)));
}

ProgramRef compile_keyed(const std::string& key, runtime::Device& device, const ast::Kernel& scheduled,
                         const runtime::CompileFlags& flags, const SavedObjects* saved) {
  if (auto known = programs().find(key)) return *known;
  // The scope of code generation's expressions. They outlive it only in a program that keeps its kernel, as
  // the interpreter's does.
  const InExprScope of_this_code(new_expr_scope());
  const ast::Kernel finalised = finalise(scheduled);
  const auto object =
      saved ? saved->find(object_id(device, finalised, flags)) : SavedObjects::const_iterator();
  ProgramRef made = saved && object != saved->end() ? device.link(finalised, flags, object->second)
                                                    : device.compile(finalised, flags);
  programs().put(key, made, made->bytes());
  return made;
}

/// Compiles the kernels of these positions that no cache has, as many at a time as the device takes.
void compile_in_groups(runtime::Device& device, const std::vector<const ast::Kernel*>& scheduled,
                       const std::vector<std::string>& keys, const std::vector<size_t>& positions,
                       const runtime::CompileFlags& flags, const std::stop_token& stop,
                       std::vector<ProgramRef>& made) {
  std::vector<size_t> missing;
  for (const size_t k : positions)
    if (auto known = programs().find(keys[k]))
      made[k] = std::move(*known);
    else
      missing.push_back(k);
  for (size_t begin = 0; begin < missing.size(); begin += device.kernels_at_once()) {
    throw_if_stopped(stop);
    const size_t end = std::min(begin + device.kernels_at_once(), missing.size());
    const InExprScope of_this_code(new_expr_scope());
    std::vector<ast::Kernel> finalised;
    for (size_t i = begin; i < end; ++i) finalised.push_back(finalise(*scheduled[missing[i]]));
    auto group = device.compile_all(finalised, flags);
    for (size_t i = begin; i < end; ++i) {
      const size_t k = missing[i];
      made[k] = std::move(group[i - begin]);
      programs().put(keys[k], made[k], made[k]->bytes());
    }
  }
}

} // namespace

ProgramRef compile_cached(runtime::Device& device, const ast::Kernel& scheduled,
                          const runtime::CompileFlags& flags, const SavedObjects* saved) {
  return compile_keyed(key_of(device, scheduled, flags), device, scheduled, flags, saved);
}

std::vector<ProgramRef> compile_together(runtime::Device& device,
                                         const std::vector<const ast::Kernel*>& scheduled,
                                         const runtime::CompileFlags& flags, const SavedObjects* saved,
                                         const std::stop_token& stop) {
  std::vector<std::string> keys;
  std::vector<size_t> first, distinct; // of each kernel: the first that is equal; the first ones
  std::unordered_map<std::string_view, size_t> known;
  keys.reserve(scheduled.size()); // `known` views them
  for (size_t k = 0; k < scheduled.size(); ++k) {
    keys.push_back(key_of(device, *scheduled[k], flags));
    const auto [at, is_new] = known.emplace(keys[k], k);
    first.push_back(at->second);
    if (is_new) distinct.push_back(k);
  }
  std::vector<ProgramRef> made(scheduled.size());
  if (device.kernels_at_once() > 1) {
    compile_in_groups(device, scheduled, keys, distinct, flags, stop, made);
  } else {
    on_cores_in_scope(distinct.size(), [&](size_t d) {
      throw_if_stopped(stop);
      const size_t k = distinct[d];
      made[k] = compile_keyed(keys[k], device, *scheduled[k], flags, saved);
    });
  }
  for (size_t k = 0; k < scheduled.size(); ++k) made[k] = made[first[k]];
  return made;
}

std::optional<Executable> known_program(const std::string& key) { return executables().find(key); }

void keep_program(const std::string& key, const Executable& program) {
  size_t bytes = static_cast<size_t>(program.arena_bytes());
  for (const Kernel& kernel : program.kernels()) bytes += detail::impl(kernel)->program->bytes();
  if (bytes <= size_t{4} << 20) executables().put(key, program, bytes);
}

std::optional<FoundBySearch> remembered_search(const std::string& key) {
  if (auto known = schedules().find(key)) return known;
  const auto stored = plans_on_disk().find(key);
  if (!stored) return {};
  FoundBySearch found;
  std::vector<search::TriedFusion> fusions;
  std::istringstream lines(stored->object);
  try {
    for (std::string line; std::getline(lines, line);)
      if (line.starts_with(search::kFusionLine))
        fusions.push_back(search::parse_fusion(line));
      else
        found.moves.push_back(search::parse_move(line));
  } catch (const Error&) { // written by another version: counts as absent
    return {};
  }
  found.fusions = std::make_shared<const std::vector<search::TriedFusion>>(std::move(fusions));
  keep(key, found);
  return found;
}
void remember_search(const std::string& key, FoundBySearch found) {
  std::string text;
  for (const search::Move& move : found.moves) text += to_string(move) + "\n";
  if (found.fusions)
    for (const search::TriedFusion& fusion : *found.fusions) text += search::line_of(fusion) + "\n";
  plans_on_disk().keep(key, text);
  keep(key, std::move(found));
}

} // namespace lathe::pipeline

namespace lathe {

void clear_caches() {
  pipeline::programs().clear();
  pipeline::schedules().clear();
  pipeline::executables().clear();
}

} // namespace lathe
