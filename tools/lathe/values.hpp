// Values in files: .npy (NumPy's format; strings as <U, of characters, or |S, of bytes) and .pb (as ONNX's test data
// has them).
#pragma once
#include <string>

#include "lathe/onnx.hpp"

namespace lathe::tool {

/// Error(File) that begins with the path.
onnx::Value read_value(const std::string& path, const onnx::Port& port);
/// What the bytes of a .npy file hold, for a port of this dtype; `path` begins the message of an Error(File).
onnx::Value npy_value(const std::string& path, const std::string& bytes, DType wanted);
std::string read_file(const std::string& path);
/// A tensor as .npy, written beside its place and then renamed: never half a file. bf16 and narrow floats are written
/// as f32, narrow integers as int8 or uint8, strings as <U. Error(File) for strings that <U does not hold: what is no
/// UTF-8, or ends in a zero.
void write_npy(const std::string& path, const onnx::Value& value);
/// Writes a whole file that way.
void write_file(const std::string& path, const std::string& bytes);

} // namespace lathe::tool
