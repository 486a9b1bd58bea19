#include "compile/run/program_cache.hpp"

#include <list>
#include <mutex>
#include <sstream>
#include <unordered_map>

#include <fmt/format.h>

#include "ast/canonical.hpp"
#include "compile/run/finalise.hpp"
#include "lathe/error.hpp"
#include "runtime/device.hpp"
#include "runtime/object_cache.hpp"
#include "search/moves/plan.hpp"

namespace lathe::pipeline {
namespace {

/// The last `limit` entries used, by key.
template <class V> class Recent {
public:
  explicit Recent(size_t limit) : limit_(limit) {}
  std::optional<V> find(const std::string& key) {
    std::lock_guard lock(mutex_);
    const auto it = by_key_.find(key);
    if (it == by_key_.end()) return {};
    entries_.splice(entries_.begin(), entries_, it->second);
    return it->second->second;
  }
  void put(const std::string& key, V value) {
    std::list<std::pair<std::string, V>> dropped; // destroyed without the lock
    std::lock_guard lock(mutex_);
    if (by_key_.count(key)) return;
    entries_.emplace_front(key, std::move(value));
    by_key_[key] = entries_.begin();
    if (entries_.size() <= limit_) return;
    by_key_.erase(entries_.back().first);
    dropped.splice(dropped.begin(), entries_, std::prev(entries_.end()));
  }

private:
  const size_t limit_;
  std::mutex mutex_;
  std::list<std::pair<std::string, V>> entries_;
  std::unordered_map<std::string, typename std::list<std::pair<std::string, V>>::iterator> by_key_;
};

using ProgramRef = std::shared_ptr<const runtime::Program>;

// Never destroyed: devices aren't either, and code may run till the process ends.
Recent<ProgramRef>& programs() {
  static auto* cache = new Recent<ProgramRef>(256);
  return *cache;
}
Recent<std::vector<search::Move>>& schedules() {
  static auto* cache = new Recent<std::vector<search::Move>>(1024);
  return *cache;
}

const runtime::ObjectCache& plans_on_disk() {
  static const auto* cache = new runtime::ObjectCache("plans", ".moves");
  return *cache;
}

} // namespace

ProgramRef compile_cached(runtime::Device& device, const ast::Kernel& scheduled,
                          const runtime::CompileFlags& flags, const SavedObjects* saved) {
  const std::string key = fmt::format("{} {} {} {}\n{}", device.name(), flags.threads, flags.cpu,
                                      flags.candidate, ast::print(ast::canonical(scheduled, false)));
  if (auto known = programs().find(key)) return *known;
  const ast::Kernel finalised = finalise(scheduled);
  const auto object =
      saved ? saved->find(object_id(device, finalised, flags)) : SavedObjects::const_iterator();
  ProgramRef made = saved && object != saved->end() ? device.link(finalised, flags, object->second)
                                                    : device.compile(finalised, flags);
  programs().put(key, made);
  return made;
}

std::optional<std::vector<search::Move>> remembered_moves(const std::string& key) {
  if (auto known = schedules().find(key)) return known;
  const auto stored = plans_on_disk().find(key);
  if (!stored) return {};
  std::vector<search::Move> moves;
  std::istringstream lines(stored->object);
  try {
    for (std::string line; std::getline(lines, line);) moves.push_back(search::parse_move(line));
  } catch (const Error&) { // written by another version: as good as absent
    return {};
  }
  schedules().put(key, moves);
  return moves;
}
void remember_moves(const std::string& key, std::vector<search::Move> moves) {
  std::string text;
  for (const search::Move& move : moves) text += to_string(move) + "\n";
  plans_on_disk().keep(key, text);
  schedules().put(key, std::move(moves));
}

} // namespace lathe::pipeline
