// Bytes looked up in a table of 256 bytes that registers hold, in parts.
#pragma once
#include <span>

#include <llvm/IR/IRBuilder.h>

#include "render/llvm/module.hpp"

namespace lathe::render {

struct ByteTable {
  int parts = 0;      // 0: the target looks vectors of so many bytes up in memory
  int part_bytes = 0; // of the table, in a part
  int lanes = 0;      // of the vectors that hold the parts: places that are looked up at a time
};
/// How the target looks up a vector of so many bytes.
ByteTable byte_table_for(const LlvmTarget& target, int lanes);

/// The vector for part `k`, made of the bytes of all parts.
llvm::Value* part_of(llvm::IRBuilderBase& b, const ByteTable& table, std::span<llvm::Value* const> bytes,
                     int k);

/// The bytes of the table at `places`, a vector of bytes.
llvm::Value* look_up_bytes(llvm::IRBuilderBase& b, const ByteTable& table,
                           std::span<llvm::Value* const> parts, llvm::Value* places);

} // namespace lathe::render
