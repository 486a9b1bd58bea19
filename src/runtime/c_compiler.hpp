// The system's C compiler, which turns source text into a loaded shared object. A cache on disk keeps the
// objects.
//
// The compiler is $CC, else the first of cc, gcc and clang on the path. Objects lie in the cache's folder "c"
// (see object_cache.hpp). Their key is the compiler, its version, the flags and the source. Thread- and
// process-safe.
#pragma once
#include <memory>
#include <string>
#include <vector>

namespace lathe::runtime {

class SharedObject {
public:
  SharedObject(void* handle, size_t bytes) : handle_(handle), bytes_(bytes) {}
  ~SharedObject();
  SharedObject(const SharedObject&) = delete;
  SharedObject& operator=(const SharedObject&) = delete;
  /// The address of a symbol; null if there is none of that name.
  void* symbol(const std::string& name) const;
  size_t bytes() const { return bytes_; } ///< of the object's file

private:
  void* handle_;
  size_t bytes_;
};

/// Loads a shared object, as bytes from CCompiler::object(), into the process. Throws Error(Device) if that
/// fails.
std::shared_ptr<SharedObject> load_object(const std::string& object);

class CCompiler {
public:
  /// The system's compiler. Throws Error(Device) if there is none.
  static CCompiler find();
  const std::string& version() const { return version_; }
  /// The source, compiled and loaded. Takes the object from the cache if it is there; puts a new one there if
  /// `keep`. Throws Error(Device) with the compiler's first complaints.
  std::shared_ptr<SharedObject> build(const std::string& source, const std::vector<std::string>& flags,
                                      bool keep = true) const;
  /// The bytes of the shared object, from the cache or compiled. object_name is their key: compiler, flags
  /// and source.
  std::string object(const std::string& source, const std::vector<std::string>& flags) const;
  std::string object_name(const std::string& source, const std::vector<std::string>& flags) const;

private:
  CCompiler(std::vector<std::string> command, std::string version)
      : command_(std::move(command)), version_(std::move(version)) {}
  std::string compile(const std::string& dir, const std::string& source,
                      const std::vector<std::string>& flags) const;

  std::vector<std::string> command_;
  std::string version_;
};

} // namespace lathe::runtime
