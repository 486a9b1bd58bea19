// Buffers are interned: equal descriptions are one object, so that loads of them are one value.
#pragma once
#include "ast/ast.hpp"

namespace lathe::ast {

/// The buffer of this description, made if there is none. Thread-safe. Freed with its last reference.
BufferRef make_buffer(Buffer buffer);

} // namespace lathe::ast
