// The samples of `lathe quantise --data`.
#pragma once
#include <string>
#include <vector>

#include "lathe/onnx.hpp"

namespace lathe::tool {

/// What the model is fed in each run. `path` is one of
///   a .npy file of the only input, or a .npz file with an array for each input,
///   a folder of such files, in the order of their names,
///   a folder with a file for each input: NAME.npy, or input_0.npy ..., or the same as .pb,
///   a folder of such folders.
/// An array that holds more than the model takes at once is cut along its first axis. `sizes` fixes sizes
/// that the model names. Error(File) that names the file, Error(Name) for an input that has none.
std::vector<onnx::NamedValues> read_samples(const std::vector<onnx::Port>& ports, const std::string& path,
                                            const std::map<std::string, int64_t>& sizes);

} // namespace lathe::tool
