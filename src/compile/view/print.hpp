// Pictures as text.
#pragma once
#include <string>

#include "compile/view/reader.hpp"

namespace lathe::view {

std::string print_graph(const Compilation& of);
std::string print_rewrites(const Compilation& of);
std::string print_search(const Compilation& of);
/// Error(Name) if there is no such kernel.
std::string print_kernel(const Compilation& of, const std::string& name);
std::string print_timeline(const Compilation& of);
std::string print_arena(const Compilation& of);

} // namespace lathe::view
