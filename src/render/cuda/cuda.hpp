// The parts of the CUDA C renderer.
#pragma once
#include <memory>
#include <string>

#include "render/c_dialect.hpp"

namespace lathe::render {

std::unique_ptr<Dialect> make_cuda_dialect();
/// Types, vectors and functions that emitted CUDA C is written in, beside the helpers that all languages
/// share.
std::string cuda_helpers();

} // namespace lathe::render
