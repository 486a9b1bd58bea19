#include "compile/run/constants.hpp"

#include <cstring>
#include <map>
#include <mutex>

#include "compile/run/program_cache.hpp"
#include "lathe/error.hpp"
#include "runtime/device.hpp"

namespace lathe::pipeline {
namespace {

struct Known {
  std::weak_ptr<Storage> source, copy;
};
using Key = std::pair<const Storage*, uint64_t>;

std::mutex known_mutex;
// Never destroyed: programs may be assembled until the process ends.
std::map<Key, Known>& known_copies() {
  static auto* known = new std::map<Key, Known>;
  return *known;
}

} // namespace

runtime::Device& host_device() {
  for (const char* name : {"cpu", "c"}) {
    try {
      return runtime::device(name);
    } catch (const Error&) { // absent: the next one will do
    }
  }
  return runtime::device("interp");
}

void lay_out_constant(const ast::Kernel& fill, std::span<const unsigned char> source,
                      std::span<unsigned char> copy, const SavedObjects* saved) {
  std::memset(copy.data(), 0, copy.size());
  runtime::Device& device = host_device();
  const auto from = runtime::wrap_host_memory(const_cast<unsigned char*>(source.data()), source.size());
  const auto to = runtime::wrap_host_memory(copy.data(), copy.size());
  const runtime::BufferSlice slices[] = {{from.get(), 0, source.size()}, {to.get(), 0, copy.size()}};
  compile_cached(device, fill, {}, saved)->launch(slices, {});
  device.finish();
}

std::vector<StorageRef> laid_out_constants(std::span<const ConstantLayout> layouts,
                                           const SavedObjects* saved) {
  std::vector<StorageRef> copies(layouts.size());
  std::vector<Key> keys;
  std::map<Key, size_t> first; // of each new copy: two kernels may read a constant in the same order
  std::vector<size_t> bytes;
  {
    std::lock_guard lock(known_mutex);
    for (size_t k = 0; k < layouts.size(); ++k) {
      const auto& [fill, source] = layouts[k];
      keys.emplace_back(source.get(), ast::structural_hash(*fill));
      const auto it = known_copies().find(keys[k]);
      // An entry is of this source only if its own source is still alive: addresses are used again.
      if (it != known_copies().end() && !it->second.source.expired()) copies[k] = it->second.copy.lock();
      if (copies[k] || !first.emplace(keys[k], k).second) continue;
      const ast::Buffer& buffer = *fill->params[1].buffer;
      bytes.push_back(static_cast<size_t>(num_elements(buffer.shape).value() * size_of(buffer.dtype)));
    }
  }
  if (bytes.empty()) return copies;
  const std::vector<StorageRef> made = Storage::allocate_together(bytes);
  for (size_t k = 0, next = 0; k < layouts.size(); ++k) {
    if (copies[k]) continue;
    if (const size_t same = first.at(keys[k]); same != k) {
      copies[k] = copies[same];
      continue;
    }
    copies[k] = made[next++];
    const auto& [fill, source] = layouts[k];
    lay_out_constant(*fill, {static_cast<const unsigned char*>(source->data()), source->bytes()},
                     {static_cast<unsigned char*>(copies[k]->data()), copies[k]->bytes()}, saved);
  }
  std::lock_guard lock(known_mutex);
  std::erase_if(known_copies(), [](const auto& entry) { return entry.second.copy.expired(); });
  for (const auto& [key, k] : first) known_copies()[key] = {layouts[k].source, copies[k]};
  return copies;
}

} // namespace lathe::pipeline
