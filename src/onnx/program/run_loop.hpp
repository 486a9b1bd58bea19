// Running a Loop whose body is a program of its own.
#pragma once
#include "onnx/program/program.hpp"

namespace lathe::onnx {

/// The loop's last states, and behind them what its iterations made, stacked. `inputs`: trip count, condition
/// (both may be left out), `states` states, and what the body reads besides.
std::vector<Value> run_loop(Program::Impl& body, size_t states, const std::vector<Value>& inputs);

} // namespace lathe::onnx
