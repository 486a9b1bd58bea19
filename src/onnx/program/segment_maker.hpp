// Segments are made while a model is traced.
#pragma once
#include "onnx/program/branches.hpp"
#include "onnx/program/run_segment.hpp"

namespace lathe::onnx {

/// Traces a model along one way through it, from `root`, making the segments that are not there yet. Returns
/// the last one. With `store`, segments are run on the way, so that values can be looked at; without, a look
/// throws NeedsInputs. The caller holds program.making. Error for what can't be imported or compiled, which
/// may be the fault of the last branch that was taken.
Segment& make_segments(const Program::Impl& program, Segment& root, Store* store,
                       const std::vector<Value>& inputs, Openings& openings);

} // namespace lathe::onnx
