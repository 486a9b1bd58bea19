// A whole program as one self-contained C11 file.
#pragma once
#include "compile/export/kernel_notes.hpp"
#include "compile/front/inputs.hpp"
#include "lathe/executable.hpp"

namespace lathe::pipeline {

/// Returns the file, whose function is `void lathe_program(const T* in..., T* out..., int64_t var...)`: the
/// declared inputs, the outputs and the shape variables, each by name. Realised tensors become constants,
/// intermediates static memory.
std::string emit_c(const search::Plan& plan, const KernelNotes& notes,
                   const std::vector<KernelParam>& declared_inputs, const CompileOptions& options);

} // namespace lathe::pipeline
