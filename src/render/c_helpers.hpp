// Helper functions in the common part of C11 and OpenCL C, for ops of the op table without a C operator.
//
// Their text has the layout that HelperText needs. The text before them must define LATHE_FN (the start of an
// inline function), int8_t to uint64_t, lathe_bits_f32_to_u32 and its inverse. If it also defines
// lathe_value_f16 and lathe_bits_f16, it must define LATHE_HARDWARE_F16.
#pragma once
#include <string>

#include "lathe/dtype.hpp"

namespace lathe::render {

std::string common_helpers();

/// Helpers for parts of vectors, lanes that lie apart, and selection by a comparison (c_lanes.cpp). Only for
/// C with vector extensions; the vector types and lathe_larger must stand before them.
std::string lane_helpers();
/// Helpers that convert vectors, one step at a time, halves included (c_conversions.cpp). lane_helpers() must
/// stand before them.
std::string conversion_helpers();
/// `value` converted in such steps to dtype `to`, which can hold it. Neither dtype is bool or a half.
std::string convert_vector(std::string value, DType from, DType to, int lanes);

/// Helpers that add products of bytes (c_tensors.cpp). conversion_helpers() must stand before them.
std::string tensor_helpers();

} // namespace lathe::render
