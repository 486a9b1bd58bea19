// The instruction table of instructions.def as C++.
#pragma once
#include <span>

#include "core/op.hpp"

namespace lathe {

enum class Instruction : uint8_t {
#define LATHE_INSTRUCTION(name, m, n, k, dtypes, meaning) name,
#include "core/instructions.def"
};

struct InstructionInfo {
  std::string_view name;
  int m, n, k;
  DTypeClass dtypes;
  std::string_view meaning;
};
/// Indexed by Instruction.
inline constexpr InstructionInfo kInstructions[] = {
#define LATHE_INSTRUCTION(name, m, n, k, dtypes, meaning) {#name, m, n, k, DTypeClass::dtypes, meaning},
#include "core/instructions.def"
};
inline const InstructionInfo& info(Instruction instruction) {
  return kInstructions[static_cast<size_t>(instruction)];
}

} // namespace lathe
