// OpenCL objects with owners, and its errors by name.
#pragma once
#include <utility>

#include <CL/cl.h>

namespace lathe::runtime {

const char* error_name(cl_int error);
/// Throws Error(Device) naming the function unless `error` is CL_SUCCESS.
void check(cl_int error, const char* function);

/// Finishes the queue when the process exits; after that, is_exiting() is true and handles release nothing.
/// Drivers are shut down at exit, while objects in a user's static storage may be destroyed even later.
void finish_before_exit(cl_command_queue queue);
bool is_exiting();
/// Error(Device) in the thread that ends the process, in whose destructors of globals the driver may have ended.
void refuse_at_exit();

inline void release(cl_context x) { clReleaseContext(x); }
inline void release(cl_command_queue x) { clReleaseCommandQueue(x); }
inline void release(cl_mem x) { clReleaseMemObject(x); }
inline void release(cl_program x) { clReleaseProgram(x); }
inline void release(cl_kernel x) { clReleaseKernel(x); }

template <class T> class Handle {
public:
  Handle() = default;
  explicit Handle(T object) : object_(object) {}
  Handle(Handle&& o) noexcept : object_(std::exchange(o.object_, nullptr)) {}
  Handle& operator=(Handle&& o) noexcept {
    std::swap(object_, o.object_);
    return *this;
  }
  ~Handle() {
    if (object_ && !is_exiting()) release(object_);
  }
  operator T() const { return object_; }

private:
  T object_ = nullptr;
};

} // namespace lathe::runtime
