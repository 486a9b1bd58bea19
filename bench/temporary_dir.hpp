// A folder that goes when its owner does.
#pragma once
#include <cstdlib>
#include <filesystem>
#include <string>

#include "lathe/error.hpp"

namespace lathe::bench {

class TemporaryDir {
public:
  TemporaryDir() : path_((std::filesystem::temp_directory_path() / "lathe-bench-XXXXXX").string()) {
    if (!mkdtemp(path_.data()))
      throw Error(ErrorKind::File,
                  path_ + ": can't be made, expected a temporary folder that can be written");
  }
  ~TemporaryDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryDir(const TemporaryDir&) = delete;
  TemporaryDir& operator=(const TemporaryDir&) = delete;
  const std::string& path() const { return path_; }

private:
  std::string path_;
};

} // namespace lathe::bench
