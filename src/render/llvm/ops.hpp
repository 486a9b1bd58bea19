// The scalar ops of the op table as LLVM instructions, on scalars and on vectors alike.
//
// As a value, a bool is an i1, an f16 or bf16 is an i16 with its bits, and every other dtype is LLVM's own
// type. In memory a bool is a byte.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include "core/op.hpp"

namespace lathe::render {

/// The type of a value in a register, or in memory. `lanes` 0 is a scalar.
llvm::Type* value_type(llvm::LLVMContext& context, DType dtype, int lanes);
llvm::Type* memory_type(llvm::LLVMContext& context, DType dtype, int lanes);
llvm::Value* to_memory(llvm::IRBuilderBase& b, llvm::Value* value, DType dtype);
llvm::Value* from_memory(llvm::IRBuilderBase& b, llvm::Value* value, DType dtype);

llvm::Constant* scalar_constant(llvm::LLVMContext& context, const Scalar& value);
llvm::Value* splat(llvm::IRBuilderBase& b, llvm::Value* scalar, int lanes);
/// <0, 1, ... lanes - 1> of an integer type.
llvm::Constant* lane_numbers(llvm::Type* element, int lanes);

/// An elementwise op. `operand` is the dtype of the sources (of Where: of the last two). All sources are
/// scalars, or all are vectors. `has_f16c`: the target converts half precision in hardware.
llvm::Value* emit_op(llvm::IRBuilderBase& b, Op op, DType result, DType operand,
                     llvm::ArrayRef<llvm::Value*> args, bool has_f16c);

/// Of 16 f32 `numbers`, those that the low four bits of each lane of `codes` count. Only on targets with
/// AVX-512.
llvm::Value* look_up(llvm::IRBuilderBase& b, llvm::Value* numbers, llvm::Value* codes);

/// y * 2^n, rounded once, for f32 and a whole number n. Only on targets with AVX-512, for 4, 8 and 16 lanes.
bool can_scale(int lanes);
llvm::Value* scale(llvm::IRBuilderBase& b, llvm::Value* y, llvm::Value* n);

} // namespace lathe::render
