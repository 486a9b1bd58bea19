// The bounds and the typical value of shape variables.
#pragma once
#include <algorithm>
#include <string>

#include "lathe/expr.hpp"

namespace lathe {

/// The typical value of a variable that is given none.
inline int64_t usual_value(int64_t lo, int64_t hi) { return std::clamp<int64_t>(256, lo, hi); }

inline bool has_usual_value(Expr var) { return var.typical() == usual_value(var.lo(), var.hi()); }

/// As programs are printed: "[1, 4096]", with a typical value that is not the usual one "[1, 4096, 8]".
std::string bounds_text(Expr var);

} // namespace lathe
