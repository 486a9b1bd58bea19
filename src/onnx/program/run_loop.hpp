// Running a Loop whose body is a program of its own.
#pragma once
#include "onnx/program/program.hpp"

namespace lathe::onnx {

/// The loop's last states, and behind them what its iterations made, stacked. `inputs`: trip count, condition
/// (both may be left out), states, and what the body reads besides. Errors name the loop's node.
std::vector<Value> run_loop(const HostStep& loop, const std::vector<Value>& inputs);

} // namespace lathe::onnx
