// Buffers are interned: equal descriptions are one object, so that loads of them are one value.
#pragma once
#include "ast/ast.hpp"

namespace lathe::ast {

/// The one buffer with this description; makes it if there is none. The buffer is freed with its last
/// reference. Thread-safe.
BufferRef make_buffer(Buffer buffer);

} // namespace lathe::ast
