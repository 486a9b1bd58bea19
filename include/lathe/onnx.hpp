// ONNX models: load, look inside, compile, run. Link lathe::onnx.
#pragma once
#include "lathe/onnx/model.hpp"
#include "lathe/onnx/op.hpp"
#include "lathe/onnx/value.hpp"
