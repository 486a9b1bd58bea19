// The system's C compiler: source text to a loaded shared object, by way of a cache on disk.
//
// The compiler is $CC, else the first of cc, gcc and clang on the path. Objects lie in the cache's folder "c"
// (see object_cache.hpp), under source, flags and compiler version. Thread- and process-safe.
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
  /// Null if there is none of that name.
  void* symbol(const std::string& name) const;
  size_t bytes() const { return bytes_; } ///< of its file

private:
  void* handle_;
  size_t bytes_;
};

/// A shared object that object() gave, loaded into the process. Throws Error(Device) if it can't be.
std::shared_ptr<SharedObject> load_object(const std::string& object);

class CCompiler {
public:
  /// Throws Error(Device) if there is none.
  static CCompiler find();
  const std::string& version() const { return version_; }
  /// Throws Error(Device) with the compiler's first complaints.
  /// What is built is found again on disk if `keep`.
  std::shared_ptr<SharedObject> build(const std::string& source, const std::vector<std::string>& flags,
                                      bool keep = true) const;
  /// The shared object's bytes, from the cache or compiled; and what names them: compiler, flags and source.
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
