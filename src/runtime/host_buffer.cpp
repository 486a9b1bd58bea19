#include <cstring>

#include "core/storage.hpp"
#include "runtime/device.hpp"

namespace lathe::runtime {
namespace {

class HostBuffer : public DeviceBuffer {
public:
  explicit HostBuffer(size_t bytes)
      : owned_(Storage::allocate(bytes)), data_(owned_->data()), bytes_(bytes) {}
  HostBuffer(void* data, size_t bytes) : data_(data), bytes_(bytes) {}
  size_t bytes() const override { return bytes_; }
  void* host() override { return data_; }
  void upload(size_t offset, const void* from, size_t bytes) override {
    if (bytes) std::memcpy(static_cast<char*>(data_) + offset, from, bytes);
  }
  void download(size_t offset, void* to, size_t bytes) override {
    if (bytes) std::memcpy(to, static_cast<char*>(data_) + offset, bytes);
  }

private:
  StorageRef owned_;
  void* data_;
  size_t bytes_;
};

} // namespace

std::unique_ptr<DeviceBuffer> make_host_buffer(size_t bytes) { return std::make_unique<HostBuffer>(bytes); }
std::unique_ptr<DeviceBuffer> wrap_host_memory(void* data, size_t bytes) {
  return std::make_unique<HostBuffer>(data, bytes);
}

} // namespace lathe::runtime
