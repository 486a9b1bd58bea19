// The system's C compiler: source text to a loaded shared object, by way of a cache on disk.
//
// The compiler is $CC, else the first of cc, gcc and clang on the path. Objects lie in $LATHE_CACHE_DIR/c,
// else
// ~/.cache/lathe/c, named by a hash of source, flags and compiler version; a damaged one is built again, and
// where the folder can't be written there is no cache. Thread- and process-safe.
#pragma once
#include <memory>
#include <string>
#include <vector>

namespace lathe::runtime {

class SharedObject {
public:
  explicit SharedObject(void* handle) : handle_(handle) {}
  ~SharedObject();
  SharedObject(const SharedObject&) = delete;
  SharedObject& operator=(const SharedObject&) = delete;
  /// Null if there is none of that name.
  void* symbol(const std::string& name) const;

private:
  void* handle_;
};

class CCompiler {
public:
  /// Throws Error(Device) if there is none.
  static CCompiler find();
  const std::string& version() const { return version_; }
  /// Throws Error(Device) with the compiler's first complaints.
  std::shared_ptr<SharedObject> build(const std::string& source, const std::vector<std::string>& flags) const;

private:
  CCompiler(std::vector<std::string> command, std::string version)
      : command_(std::move(command)), version_(std::move(version)) {}
  std::string compile(const std::string& dir, const std::string& source,
                      const std::vector<std::string>& flags) const;

  std::vector<std::string> command_;
  std::string version_;
};

} // namespace lathe::runtime
