// The parts of the CUDA C renderer.
#pragma once
#include <memory>
#include <string>

#include "render/c_dialect.hpp"

namespace lathe::render {

std::unique_ptr<Dialect> make_cuda_dialect();
/// The helpers that only emitted CUDA C uses: types, vectors and functions. Other helpers are shared by all
/// languages.
std::string cuda_helpers();

} // namespace lathe::render
