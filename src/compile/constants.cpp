#include "compile/constants.hpp"

#include <cstring>
#include <map>
#include <mutex>

#include "compile/program_cache.hpp"
#include "lathe/error.hpp"
#include "runtime/device.hpp"

namespace lathe::pipeline {
namespace {

struct Known {
  std::weak_ptr<Storage> source, copy;
};
using Key = std::pair<const Storage*, uint64_t>;

std::mutex known_mutex;
// Never destroyed: programs may be assembled till the process ends.
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

StorageRef laid_out_constant(const ast::Kernel& fill, const StorageRef& source, const SavedObjects* saved) {
  const Key key{source.get(), ast::structural_hash(fill)};
  {
    std::lock_guard lock(known_mutex);
    // An entry is of this source only if that is still alive: addresses are used again.
    if (const auto it = known_copies().find(key); it != known_copies().end() && !it->second.source.expired())
      if (StorageRef copy = it->second.copy.lock()) return copy;
  }
  const ast::Buffer& buffer = *fill.params[1].buffer;
  const auto bytes = static_cast<size_t>(num_elements(buffer.shape).value() * size_of(buffer.dtype));
  const StorageRef copy = Storage::allocate(bytes);
  const auto* from = static_cast<const unsigned char*>(source->data());
  lay_out_constant(fill, {from, source->bytes()}, {static_cast<unsigned char*>(copy->data()), bytes}, saved);
  std::lock_guard lock(known_mutex);
  std::erase_if(known_copies(), [](const auto& entry) { return entry.second.copy.expired(); });
  known_copies()[key] = {source, copy};
  return copy;
}

} // namespace lathe::pipeline
