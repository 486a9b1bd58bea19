#ifdef LATHE_HAS_OPENCL
#include "runtime/opencl_handle.hpp"

#include <atomic>
#include <cstdlib>
#include <mutex>
#include <vector>

#include <fmt/format.h>

#include "lathe/error.hpp"

namespace lathe::runtime {
namespace {

std::atomic<bool> exiting{false};

struct Queues {
  std::mutex mutex;
  std::vector<cl_command_queue> all;
};
Queues& queues() {
  static auto* q = new Queues;
  return *q;
}

void at_exit() {
  const std::lock_guard lock(queues().mutex);
  for (cl_command_queue queue : queues().all) clFinish(queue);
  exiting = true;
}

} // namespace

bool is_exiting() { return exiting; }

void finish_before_exit(cl_command_queue queue) {
  const std::lock_guard lock(queues().mutex);
  if (queues().all.empty()) std::atexit(at_exit); // after the driver's own: it runs before them
  clRetainCommandQueue(queue);
  queues().all.push_back(queue);
}

const char* error_name(cl_int error) {
  switch (error) {
#define LATHE_CASE(name)                                                                                     \
  case name: return #name;
    LATHE_CASE(CL_DEVICE_NOT_FOUND)
    LATHE_CASE(CL_DEVICE_NOT_AVAILABLE)
    LATHE_CASE(CL_COMPILER_NOT_AVAILABLE)
    LATHE_CASE(CL_MEM_OBJECT_ALLOCATION_FAILURE)
    LATHE_CASE(CL_OUT_OF_RESOURCES)
    LATHE_CASE(CL_OUT_OF_HOST_MEMORY)
    LATHE_CASE(CL_BUILD_PROGRAM_FAILURE)
    LATHE_CASE(CL_INVALID_VALUE)
    LATHE_CASE(CL_INVALID_BUFFER_SIZE)
    LATHE_CASE(CL_INVALID_KERNEL_NAME)
    LATHE_CASE(CL_INVALID_KERNEL_ARGS)
    LATHE_CASE(CL_INVALID_ARG_INDEX)
    LATHE_CASE(CL_INVALID_ARG_SIZE)
    LATHE_CASE(CL_INVALID_WORK_GROUP_SIZE)
    LATHE_CASE(CL_INVALID_WORK_ITEM_SIZE)
    LATHE_CASE(CL_INVALID_GLOBAL_WORK_SIZE)
#undef LATHE_CASE
  default: return "an OpenCL error";
  }
}

void check(cl_int error, const char* function) {
  if (error == CL_SUCCESS) return;
  throw Error(ErrorKind::Device,
              fmt::format("opencl: {} gives {} ({}), expected success", function, error_name(error), error));
}

} // namespace lathe::runtime
#endif
