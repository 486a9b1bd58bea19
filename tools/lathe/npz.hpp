// .npz files as numpy.savez writes them: archives of .npy files.
#pragma once
#include <string>
#include <utility>
#include <vector>

namespace lathe::tool {

/// Names without .npy, and the bytes of the files, in the archive's order. Error(File) that begins with the
/// path, for compressed archives too.
std::vector<std::pair<std::string, std::string>> read_npz(const std::string& path);

} // namespace lathe::tool
