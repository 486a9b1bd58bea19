// Models as ONNX files.
#pragma once
#include <string>

#include "lathe/onnx/model.hpp"

namespace lathe::onnx {

/// The bytes of an ONNX file, with all weights inside. Error(File) for 2^31 bytes or more.
std::string serialise(const Model& model);

}  // namespace lathe::onnx
