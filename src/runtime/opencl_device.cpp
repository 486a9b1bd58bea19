// The device "opencl": the first GPU that the ICD loader finds, else the first CPU, else the first device.
//
// The process has one context and one in-order queue. Launches are asynchronous; upload and download wait for
// their turn in the queue. Thread-safe: a launch sets and enqueues the arguments of a kernel under a lock of
// its program.
#include "runtime/device.hpp"
#include "view/expr_scope.hpp"

#include "lathe/error.hpp"

#ifndef LATHE_HAS_OPENCL

namespace lathe::runtime {
std::unique_ptr<Device> make_opencl_device() {
  throw Error(ErrorKind::Device,
              "opencl: built without OpenCL, expected its headers and loader when lathe was configured");
}
} // namespace lathe::runtime

#else

#include <algorithm>
#include <mutex>
#include <set>

#include <fmt/format.h>

#include "render/render.hpp"
#include "runtime/opencl_handle.hpp"

namespace lathe::runtime {
namespace {

std::string device_text(cl_device_id device, cl_device_info what) {
  size_t bytes = 0;
  clGetDeviceInfo(device, what, 0, nullptr, &bytes);
  std::string text(bytes, '\0');
  if (bytes) clGetDeviceInfo(device, what, bytes, text.data(), nullptr);
  while (!text.empty() && text.back() == '\0') text.pop_back();
  return text;
}
template <class T> T device_number(cl_device_id device, cl_device_info what) {
  T value{};
  check(clGetDeviceInfo(device, what, sizeof value, &value, nullptr), "clGetDeviceInfo");
  return value;
}

cl_device_id choose_device() {
  cl_uint count = 0;
  std::vector<cl_platform_id> platforms;
  if (clGetPlatformIDs(0, nullptr, &count) == CL_SUCCESS && count) {
    platforms.resize(count);
    check(clGetPlatformIDs(count, platforms.data(), nullptr), "clGetPlatformIDs");
  }
  for (cl_device_type type :
       std::initializer_list<cl_device_type>{CL_DEVICE_TYPE_GPU, CL_DEVICE_TYPE_CPU, CL_DEVICE_TYPE_ALL})
    for (cl_platform_id platform : platforms) {
      cl_device_id device = nullptr;
      if (clGetDeviceIDs(platform, type, 1, &device, nullptr) == CL_SUCCESS && device) return device;
    }
  throw Error(
      ErrorKind::Device,
      fmt::format("opencl: {} platforms and no device, expected a GPU or a CPU driver such as PoCL", count));
}

struct Limits {
  size_t group_size = 1, item_sizes[3] = {1, 1, 1};
  int64_t local_bytes = 0;
  bool has_f64 = false;
  bool has_exact_division = false; // quotients and square roots of f32 can be rounded correctly
};

/// The parts of the device that programs and buffers need. They share it, since they may outlive the device.
struct Queue {
  cl_device_id device = nullptr;
  Handle<cl_context> context;
  Handle<cl_command_queue> queue;
  Limits limits;
  std::mutex build; // not every driver's compiler is thread-safe
};
using QueueRef = std::shared_ptr<Queue>;

class OpenClBuffer : public DeviceBuffer {
public:
  OpenClBuffer(QueueRef queue, size_t bytes) : queue_(std::move(queue)), bytes_(bytes) {
    cl_int error = 0;
    memory_ = Handle<cl_mem>(
        clCreateBuffer(queue_->context, CL_MEM_READ_WRITE, std::max<size_t>(bytes, 1), nullptr, &error));
    if (error)
      throw Error(ErrorKind::Limit,
                  fmt::format("opencl: a buffer of {} bytes can't be had ({}), expected fewer", bytes,
                              error_name(error)));
  }
  size_t bytes() const override { return bytes_; }
  void* host() override { return nullptr; }
  void upload(size_t offset, const void* from, size_t bytes) override {
    refuse_at_exit();
    within(offset, bytes);
    if (bytes)
      check(clEnqueueWriteBuffer(queue_->queue, memory_, CL_TRUE, offset, bytes, from, 0, nullptr, nullptr),
            "clEnqueueWriteBuffer");
  }
  void download(size_t offset, void* to, size_t bytes) override {
    refuse_at_exit();
    within(offset, bytes);
    if (bytes)
      check(clEnqueueReadBuffer(queue_->queue, memory_, CL_TRUE, offset, bytes, to, 0, nullptr, nullptr),
            "clEnqueueReadBuffer");
  }
  cl_mem memory() const { return memory_; }

private:
  void within(size_t offset, size_t bytes) const {
    if (offset > bytes_ || bytes > bytes_ - offset)
      throw InternalError(
          fmt::format("opencl: bytes {} to {} of a buffer of {}", offset, offset + bytes, bytes_));
  }
  QueueRef queue_;
  size_t bytes_;
  Handle<cl_mem> memory_;
};

[[noreturn]] void too_much(const std::string& kernel, const std::string& what) {
  throw Error(ErrorKind::Device, fmt::format("opencl: kernel '{}' needs {}", kernel, what));
}

/// Throws if the kernel exceeds a limit of the device. The driver must not find that out, since it may end
/// the process.
void check_limits(const std::string& kernel, const render::GridSource& source, const Limits& limits) {
  if (source.needs_f64 && !limits.has_f64) too_much(kernel, "f64, expected a device with cl_khr_fp64");
  if (source.local_bytes > limits.local_bytes)
    too_much(kernel, fmt::format("{} bytes of local memory, expected at most {}", source.local_bytes,
                                 limits.local_bytes));
  for (const render::GridLaunch& launch : source.launches) {
    size_t items = 1;
    for (int axis = 0; axis < 3; ++axis) {
      const auto size = static_cast<size_t>(launch.local[axis].value());
      if (size > limits.item_sizes[axis])
        too_much(kernel, fmt::format("{} work-items on axis {}, expected at most {}", size, axis,
                                     limits.item_sizes[axis]));
      items *= size;
    }
    if (items > limits.group_size)
      too_much(kernel,
               fmt::format("{} work-items in a group, expected at most {}", items, limits.group_size));
  }
}

/// What the driver made of a source. The programs of its kernels share it.
using BuiltRef = std::shared_ptr<const Handle<cl_program>>;

/// Null if the source does not build; `log` then says why.
BuiltRef build(Queue& queue, const std::string& source, std::string& log) {
  const std::lock_guard lock(queue.build);
  const char* text = source.c_str();
  cl_int error = 0;
  auto built = std::make_shared<const Handle<cl_program>>(
      clCreateProgramWithSource(queue.context, 1, &text, nullptr, &error));
  check(error, "clCreateProgramWithSource");
  // OpenCL C allows a quotient of f32 2.5 ulp, which GPUs use. Warnings would go to the user's terminal.
  const char* options = queue.limits.has_exact_division ? "-w -cl-fp32-correctly-rounded-divide-sqrt" : "-w";
  if (clBuildProgram(*built, 1, &queue.device, options, nullptr, nullptr) == CL_SUCCESS) return built;
  size_t bytes = 0;
  clGetProgramBuildInfo(*built, queue.device, CL_PROGRAM_BUILD_LOG, 0, nullptr, &bytes);
  log.resize(bytes);
  clGetProgramBuildInfo(*built, queue.device, CL_PROGRAM_BUILD_LOG, bytes, log.data(), nullptr);
  return nullptr;
}

class OpenClProgram : public Program {
public:
  /// `built`: of a text with the functions of `source`.
  OpenClProgram(QueueRef queue, const ast::Kernel& kernel, render::GridSource source, BuiltRef built)
      : queue_(std::move(queue)), kernel_(kernel.params, kernel.shape_vars), source_(std::move(source)),
        built_(std::move(built)) {
    cl_int error = 0;
    for (const std::string& name : source_.functions) {
      functions_.push_back(Handle<cl_kernel>(clCreateKernel(*built_, name.c_str(), &error)));
      check(error, "clCreateKernel");
    }
    for (const auto& t : source_.temporaries) temporaries_.emplace_back(queue_, static_cast<size_t>(t.bytes));
  }

  void launch(std::span<const BufferSlice> buffers, std::span<const int64_t> shape_values) const override {
    refuse_at_exit();
    const auto value_of = [&](Expr var) {
      for (size_t i = 0; i < kernel_.shape_vars.size(); ++i)
        if (kernel_.shape_vars[i] == var) return shape_values[i];
      throw InternalError(fmt::format("opencl: no value for {}", var.name()));
    };
    const std::lock_guard lock(arguments_);
    for (size_t f = 0; f < functions_.size(); ++f) {
      set_arguments(functions_[f], buffers, shape_values);
      size_t global[3], local[3];
      for (int axis = 0; axis < 3; ++axis) {
        global[axis] = static_cast<size_t>(evaluate(source_.launches[f].global[axis], value_of));
        local[axis] = static_cast<size_t>(source_.launches[f].local[axis].value());
      }
      check(clEnqueueNDRangeKernel(queue_->queue, functions_[f], 3, nullptr, global, local, 0, nullptr,
                                   nullptr),
            "clEnqueueNDRangeKernel");
    }
    check(clFlush(queue_->queue), "clFlush");
  }

  size_t bytes() const override { return source_.text.size(); }

private:
  void set_arguments(cl_kernel function, std::span<const BufferSlice> buffers,
                     std::span<const int64_t> shape_values) const {
    cl_uint at = 0;
    const auto set_memory = [&](cl_mem memory) {
      check(clSetKernelArg(function, at++, sizeof memory, &memory), "clSetKernelArg");
    };
    const auto set_number = [&](cl_long number) {
      check(clSetKernelArg(function, at++, sizeof number, &number), "clSetKernelArg");
    };
    for (const BufferSlice& slice : buffers) {
      const auto* buffer = dynamic_cast<const OpenClBuffer*>(slice.buffer);
      if (!buffer) throw InternalError("opencl: a buffer of another device");
      set_memory(buffer->memory());
    }
    for (const OpenClBuffer& t : temporaries_) set_memory(t.memory());
    for (int64_t v : shape_values) set_number(v);
    for (size_t i = 0; i < buffers.size(); ++i) {
      const auto element = static_cast<size_t>(size_of(kernel_.params[i].buffer->dtype));
      if (buffers[i].offset % element) throw InternalError("opencl: a slice that begins inside an element");
      set_number(static_cast<cl_long>(buffers[i].offset / element));
    }
  }

  struct Signature {
    Signature(std::vector<ast::Param> p, std::vector<Expr> v)
        : params(std::move(p)), shape_vars(std::move(v)) {}
    std::vector<ast::Param> params;
    std::vector<Expr> shape_vars;
  };
  const ExprScopeRef expressions_ = current_expr_scope(); // keeps the kernel's expressions alive
  QueueRef queue_;
  Signature kernel_;
  render::GridSource source_;
  BuiltRef built_;
  std::vector<Handle<cl_kernel>> functions_;
  std::vector<OpenClBuffer> temporaries_; // all launches share them: the queue is in order
  mutable std::mutex arguments_;
};

class OpenClDevice : public Device {
public:
  OpenClDevice() : queue_(std::make_shared<Queue>()) {
    const cl_device_id device = choose_device();
    queue_->device = device;
    cl_int error = 0;
    queue_->context = Handle<cl_context>(clCreateContext(nullptr, 1, &device, nullptr, nullptr, &error));
    check(error, "clCreateContext");
    queue_->queue = Handle<cl_command_queue>(clCreateCommandQueue(queue_->context, device, 0, &error));
    check(error, "clCreateCommandQueue");
    Limits& limits = queue_->limits;
    limits.group_size = device_number<size_t>(device, CL_DEVICE_MAX_WORK_GROUP_SIZE);
    limits.local_bytes = static_cast<int64_t>(device_number<cl_ulong>(device, CL_DEVICE_LOCAL_MEM_SIZE));
    limits.has_f64 = device_text(device, CL_DEVICE_EXTENSIONS).find("cl_khr_fp64") != std::string::npos;
    limits.has_exact_division = device_number<cl_device_fp_config>(device, CL_DEVICE_SINGLE_FP_CONFIG) &
                                CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT;
    size_t sizes[8] = {};
    const auto dimensions =
        std::min<cl_uint>(8, device_number<cl_uint>(device, CL_DEVICE_MAX_WORK_ITEM_DIMENSIONS));
    check(clGetDeviceInfo(device, CL_DEVICE_MAX_WORK_ITEM_SIZES, dimensions * sizeof(size_t), sizes, nullptr),
          "clGetDeviceInfo");
    std::copy(sizes, sizes + 3, limits.item_sizes);
    description_ =
        fmt::format("{}, {}", device_text(device, CL_DEVICE_NAME), device_text(device, CL_DEVICE_VERSION));
    is_gpu_ = device_number<cl_device_type>(device, CL_DEVICE_TYPE) & CL_DEVICE_TYPE_GPU;
    finish_before_exit(queue_->queue);
  }

  const std::string& name() const override { return name_; }
  std::string description() const override { return description_; }
  std::unique_ptr<Program> compile(const ast::Kernel& kernel, const CompileFlags&) override {
    refuse_at_exit();
    render::GridSource source = rendered(kernel);
    std::string log;
    BuiltRef built = build(*queue_, source.text, log);
    if (!built)
      throw Error(ErrorKind::Device, fmt::format("opencl: kernel '{}' does not build, expected it to:\n{}",
                                                 kernel.name, log.substr(0, 1000).c_str()));
    return std::make_unique<OpenClProgram>(queue_, kernel, std::move(source), std::move(built));
  }
  std::vector<std::unique_ptr<Program>> compile_all(std::span<const ast::Kernel> kernels,
                                                    const CompileFlags& flags) override {
    refuse_at_exit();
    std::vector<render::GridSource> sources;
    std::set<std::string> names;
    bool differ = true; // the functions' names
    for (const ast::Kernel& kernel : kernels) {
      sources.push_back(rendered(kernel));
      for (const std::string& name : sources.back().functions) differ &= names.insert(name).second;
    }
    std::string log;
    const BuiltRef built =
        differ && kernels.size() > 1 ? build(*queue_, render::join_opencl(sources), log) : nullptr;
    if (!built) return Device::compile_all(kernels, flags); // one by one; its error names the kernel
    std::vector<std::unique_ptr<Program>> programs;
    for (size_t k = 0; k < kernels.size(); ++k)
      programs.push_back(std::make_unique<OpenClProgram>(queue_, kernels[k], std::move(sources[k]), built));
    return programs;
  }
  size_t kernels_at_once() const override { return 32; } // PoCL reads its headers for a tenth of a second
  std::string source(const ast::Kernel& kernel, const CompileFlags&) const override {
    return render::render_opencl(kernel).text;
  }
  std::unique_ptr<DeviceBuffer> allocate(size_t bytes) override {
    refuse_at_exit();
    return std::make_unique<OpenClBuffer>(queue_, bytes);
  }
  std::unique_ptr<DeviceBuffer> wrap(void*, size_t) override { return nullptr; }
  void finish() override { check(clFinish(queue_->queue), "clFinish"); }
  bool is_host() const override { return false; }
  bool is_gpu() const override { return is_gpu_; }
  int64_t local_bytes() const override { return queue_->limits.local_bytes; }

private:
  render::GridSource rendered(const ast::Kernel& kernel) const {
    render::GridSource source = render::render_opencl(kernel);
    check_limits(kernel.name, source, queue_->limits);
    return source;
  }

  std::string name_ = "opencl", description_;
  bool is_gpu_ = false;
  QueueRef queue_;
};

} // namespace

std::unique_ptr<Device> make_opencl_device() { return std::make_unique<OpenClDevice>(); }

} // namespace lathe::runtime

#endif
