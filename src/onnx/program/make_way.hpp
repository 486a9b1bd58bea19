// Makes the trees and segments that a call needs and are not there.
#pragma once
#include "onnx/program/run_segment.hpp"
#include "onnx/program/versions.hpp"

namespace lathe::onnx {

/// The way's first segment, if it is made.
const Segment* made_root(const Program::Impl& program, const Way& way);

/// Makes the tree for a way that is not for one call's shapes, of a model that does not look at values. Where
/// that can't be done, the way changes to a wider one, in the end to that of the call's shapes, and the error
/// of that one is the caller's. `sizes`: of the call. Locks program.making.
void make_way(Program::Impl& program, Way& way, const std::vector<Value>& fed, const Sizes& sizes);

/// Makes what is missing of the way that the call takes, and runs it all. Returns the last segment. A model
/// that can't be traced with variables in place of numbers that it sees is traced with the numbers. One that
/// can't be traced for all sizes is traced for those of the call, and after a few such calls for those of
/// each. The caller holds program.making.
const Segment& make_rest_of(Program::Impl& program, Way& way, const std::vector<Value>& fed, Store& store);

} // namespace lathe::onnx
