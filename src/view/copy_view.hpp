// The elements of a view, read from memory without a compiled program.
#pragma once
#include "view/view.hpp"

namespace lathe {

/// Writes the elements of a view of constant size in row-major order to `to`; masked ones are 0. `from`: the buffer that the
/// view is of; `element_bytes`: the size of an element.
void copy_view(const View& view, size_t element_bytes, const void* from, void* to);

}  // namespace lathe
