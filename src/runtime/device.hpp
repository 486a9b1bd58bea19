// Devices compile and run kernels. A device hands out buffers and programs; the floor above binds them.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ast/ast.hpp"
#include "lathe/error.hpp"

namespace lathe::runtime {

/// Memory of a device. On host devices `host()` is the memory itself.
class DeviceBuffer {
 public:
  virtual ~DeviceBuffer() = default;
  virtual size_t bytes() const = 0;
  virtual void* host() = 0;                                             // null if the host can't address it
  virtual void upload(size_t offset, const void* from, size_t bytes) = 0;
  virtual void download(size_t offset, void* to, size_t bytes) = 0;     // reads after all launches on the buffer have ended
};
struct BufferSlice {
  DeviceBuffer* buffer;
  size_t offset, bytes;
  char* host() const { return static_cast<char*>(buffer->host()) + offset; }  // on host devices
};

/// A compiled kernel. Several threads may call launch at once. `buffers` are in the order of ast::Kernel::params and
/// `shape_values` in the order of ast::Kernel::shape_vars; the caller has checked both.
class Program {
 public:
  virtual ~Program() = default;
  virtual void launch(std::span<const BufferSlice> buffers, std::span<const int64_t> shape_values) const = 0;
  /// Whether launch_at() may be called.
  virtual bool takes_addresses() const { return false; }
  /// As launch(), with the addresses of the buffers on the host.
  virtual void launch_at(void* const* /*addresses*/, const int64_t* /*shape_values*/) const {
    throw InternalError("a program that takes no addresses");
  }
  virtual size_t bytes() const = 0;  // host memory that the code takes, approximately
};

struct CompileFlags {
  int threads = 1;                 // that run parallel loops
  std::string cpu = "native";
  bool candidate = false;          // for the search: compile fast; the code may be a little slower
};

class Device {
 public:
  virtual ~Device() = default;
  virtual const std::string& name() const = 0;
  virtual std::string description() const = 0;
  /// Compiles a kernel that has been through ast::prepare. Throws Error(Device) if it can't.
  virtual std::unique_ptr<Program> compile(const ast::Kernel& kernel, const CompileFlags& flags) = 0;
  /// As compile(), for several kernels.
  virtual std::vector<std::unique_ptr<Program>> compile_all(std::span<const ast::Kernel> kernels, const CompileFlags& flags) {
    std::vector<std::unique_ptr<Program>> programs;
    for (const ast::Kernel& kernel : kernels) programs.push_back(compile(kernel, flags));
    return programs;
  }
  /// How many kernels one call of compile_all() should get: more than 1 if it starts the compiler once for all of them.
  virtual size_t kernels_at_once() const { return 1; }
  /// The text that compile() hands to a compiler: C, OpenCL C, LLVM IR, or the printed loop AST.
  virtual std::string source(const ast::Kernel& kernel, const CompileFlags& flags) const = 0;
  // Compiled code that can be kept outside the process, for devices that support that. link() turns the bytes of object()
  // into the program that compile() would make. Equal code on one machine has equal names. The name is empty if the device
  // has no objects.
  virtual std::string object_name(const ast::Kernel&, const CompileFlags&) const { return {}; }
  virtual std::string object(const ast::Kernel&, const CompileFlags&) { return {}; }
  virtual std::unique_ptr<Program> link(const ast::Kernel& kernel, const CompileFlags& flags, const std::string& /*object*/) {
    return compile(kernel, flags);
  }
  virtual std::unique_ptr<DeviceBuffer> allocate(size_t bytes) = 0;     // aligned to 128 or the device's need
  /// Wraps host memory without a copy; null if the device can't (only host devices can). The memory must outlive the buffer.
  virtual std::unique_ptr<DeviceBuffer> wrap(void* host, size_t bytes) = 0;
  virtual void finish() {}                                              // waits for all launches
  virtual bool is_host() const { return true; }
  // Facts about the device that schedules depend on.
  virtual bool is_gpu() const { return false; }
  virtual int64_t local_bytes() const { return 0; }                     // of memory per work-group
  /// Instructions that take several elements at once, in code for `cpu`.
  virtual Instructions instructions(const std::string& /*cpu*/) const { return {}; }
  /// Of a table of 256 bytes that registers hold, the bytes that one instruction of code for `cpu` looks up in:
  /// 128, 16, or 0 for none.
  virtual int byte_table(const std::string& /*cpu*/) const { return 0; }
};

/// A device by name, made on first use and kept till exit. Throws Error(Device) with the reason if it is absent.
Device& device(const std::string& name);
/// Throws Error(Device) if lathe knows no device of that name. The device need not be available here.
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
