#ifdef LATHE_HAS_OPENCL
#include "runtime/opencl_handle.hpp"

#include <unistd.h>

#include <atomic>
#include <mutex>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "core/at_exit.hpp"
#include "lathe/error.hpp"

namespace lathe::runtime {
namespace {

std::atomic<bool> exiting{false};
std::thread::id exiting_thread; // set before `exiting`

struct Queues {
  std::mutex mutex;
  std::vector<cl_command_queue> all;
  pid_t owner = 0; // the process whose driver runs them
};
Queues& queues() {
  static auto* q = new Queues;
  return *q;
}

void finish_all() {
  const std::lock_guard lock(queues().mutex);
  if (::getpid() == queues().owner) // the driver's threads do not live in a child
    for (cl_command_queue queue : queues().all) clFinish(queue);
  exiting_thread = std::this_thread::get_id();
  exiting = true;
}

} // namespace

bool is_exiting() { return exiting; }

void refuse_at_exit() {
  // Other threads go on till the process ends: an error that they do not expect would abort it.
  if (exiting && std::this_thread::get_id() == exiting_thread)
    throw Error(ErrorKind::Device,
                "opencl: the driver may have ended with the process, expected no use of the "
                "device in destructors that run at exit");
}

void finish_before_exit(cl_command_queue queue) {
  const std::lock_guard lock(queues().mutex);
  if (queues().all.empty()) {
    queues().owner = ::getpid();
    at_exit<finish_all>(); // after the driver's handlers: it runs before them
  }
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
