// Devices: where kernels are compiled and run. A device hands out buffers and programs; the floor above binds them.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ast/ast.hpp"

namespace lathe::runtime {

/// Memory of a device. On host devices `host()` is the memory itself.
class DeviceBuffer {
 public:
  virtual ~DeviceBuffer() = default;
  virtual size_t bytes() const = 0;
  virtual void* host() = 0;                                             // null if the host can't address it
  virtual void upload(size_t offset, const void* from, size_t bytes) = 0;
  virtual void download(size_t offset, void* to, size_t bytes) = 0;     // after all launches on it have ended
};
struct BufferSlice {
  DeviceBuffer* buffer;
  size_t offset, bytes;
};

/// A compiled kernel. launch may be called from several threads at once. Buffers in the order of ast::Kernel::params,
/// shape values in the order of ast::Kernel::shape_vars; the caller has checked both.
class Program {
 public:
  virtual ~Program() = default;
  virtual void launch(std::span<const BufferSlice> buffers, std::span<const int64_t> shape_values) const = 0;
  virtual size_t bytes() const = 0;  // of host memory that its code takes, about
};

struct CompileFlags {
  int threads = 1;                 // of parallel loops
  std::string cpu = "native";
  bool candidate = false;          // search: compile fast rather than for the last per cent
};

class Device {
 public:
  virtual ~Device() = default;
  virtual const std::string& name() const = 0;
  virtual std::string description() const = 0;
  /// The kernel has been through ast::prepare. Throws Error(Device) if it can't.
  virtual std::unique_ptr<Program> compile(const ast::Kernel& kernel, const CompileFlags& flags) = 0;
  /// What compile() hands to a compiler: C, OpenCL C, LLVM IR, or the printed loop AST.
  virtual std::string source(const ast::Kernel& kernel, const CompileFlags& flags) const = 0;
  // Compiled code that can be kept outside the process, of devices that have such: what object() gives, link() makes a program
  // of, as compile() would. The name is equal for equal code on one machine, and empty if there is none.
  virtual std::string object_name(const ast::Kernel&, const CompileFlags&) const { return {}; }
  virtual std::string object(const ast::Kernel&, const CompileFlags&) { return {}; }
  virtual std::unique_ptr<Program> link(const ast::Kernel& kernel, const CompileFlags& flags, const std::string& /*object*/) {
    return compile(kernel, flags);
  }
  virtual std::unique_ptr<DeviceBuffer> allocate(size_t bytes) = 0;     // aligned to 128 or the device's need
  /// Wraps host memory without a copy where the device can (host devices; null otherwise). Must outlive the buffer.
  virtual std::unique_ptr<DeviceBuffer> wrap(void* host, size_t bytes) = 0;
  virtual void finish() {}                                              // waits for all launches
  virtual bool is_host() const { return true; }
  // What schedules for it should know.
  virtual bool is_gpu() const { return false; }
  virtual int64_t local_bytes() const { return 0; }                     // of work-group memory
};

/// A device by name; made on first use, kept till exit. Throws Error(Device) saying why it is absent.
Device& device(const std::string& name);
/// Error(Device) if there is no device of that name, available here or not.
void check_device_name(const std::string& name);
struct DeviceStatus { std::string name; bool available; std::string detail; };
std::vector<DeviceStatus> list_devices();

// Factories, one per implementation; each throws Error(Device) with the reason if it is absent here.
std::unique_ptr<Device> make_cpu_device();      // runtime/llvm_*: loads the LLVM backend's shared object
std::unique_ptr<Device> make_c_device();
std::unique_ptr<Device> make_opencl_device();
std::unique_ptr<Device> make_interp_device();

/// Host memory as a DeviceBuffer, owned (aligned) or wrapped.
std::unique_ptr<DeviceBuffer> make_host_buffer(size_t bytes);
std::unique_ptr<DeviceBuffer> wrap_host_memory(void* data, size_t bytes);

}  // namespace lathe::runtime
