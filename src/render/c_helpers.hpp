// Helper functions in the common part of C11 and OpenCL C: what the op table means where C has no operator
// for it.
//
// They are laid out as HelperText asks. Before them must stand: LATHE_FN (how an inline function begins),
// int8_t to uint64_t, lathe_bits_f32_to_u32 and its inverse; LATHE_HARDWARE_F16 if lathe_value_f16 and
// lathe_bits_f16 are there already.
#pragma once
#include <string>

#include "lathe/dtype.hpp"

namespace lathe::render {

std::string common_helpers();

/// For C with vector extensions alone, behind the vector types and lathe_larger: parts of vectors, lanes that
/// lie apart, selection by a comparison (c_lanes.cpp).
std::string lane_helpers();
/// Behind those: conversions, one step at a time, those of halves among them, and `value` converted in such
/// steps to a dtype that holds it. Neither is bool or a half (c_conversions.cpp).
std::string conversion_helpers();
std::string convert_vector(std::string value, DType from, DType to, int lanes);

} // namespace lathe::render
