// Finds and loads the LLVM backend's shared object, once.
#include "runtime/llvm_backend.hpp"

#include "lathe/error.hpp"

#if LATHE_HAS_LLVM
#include <dlfcn.h>

#include <filesystem>
#endif

namespace lathe::runtime {

#if LATHE_HAS_LLVM
namespace {

constexpr const char* kFile = "liblathe-llvm.so";

/// Loads the backend. It is never unloaded, since programs may hold and call its code till the process ends.
LlvmBackend* load() {
  std::string path = kFile; // looked up by the dynamic linker if it is not beside this library
  Dl_info info;
  if (dladdr(reinterpret_cast<void*>(&llvm_backend), &info) && info.dli_fname) {
    const auto beside = std::filesystem::path(info.dli_fname).parent_path() / kFile;
    std::error_code ignored;
    if (std::filesystem::exists(beside, ignored)) path = beside.string();
  }
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char* why = dlerror();
    throw Error(ErrorKind::Device, std::string("cpu: the LLVM backend can't be loaded (") +
                                       (why ? why : "unknown") +
                                       "), expected liblathe-llvm.so beside liblathe.so");
  }
  auto make = reinterpret_cast<MakeLlvmBackend>(dlsym(library, "lathe_make_llvm_backend"));
  if (!make)
    throw Error(ErrorKind::Device, "cpu: " + path + " is of another version, expected that of liblathe.so");
  return make();
}

} // namespace

LlvmBackend& llvm_backend() {
  static LlvmBackend* backend = load(); // if load() throws, the next call tries again
  return *backend;
}
#else
LlvmBackend& llvm_backend() {
  throw Error(ErrorKind::Device,
              "cpu: built without LLVM, expected a build with LLVM 16 or later found by CMake");
}
#endif

} // namespace lathe::runtime
