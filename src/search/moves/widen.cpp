// widen: a copy of 8-bit integers keeps them in 16 bits, as instructions on pairs take them.
#include <fmt/format.h>

#include "ast/buffer.hpp"
#include "search/moves/draft.hpp"

namespace lathe::search {

using namespace ast;

namespace {

/// The packed copy, or the copy of a constant, by this id; null if there is none.
BufferRef find_copy(const Draft& draft, int id) {
  for (const Kernel& fill : draft.constants)
    if (fill.params[1].buffer->id == id) return fill.params[1].buffer;
  BufferRef found;
  ast::visit(draft.body, [&](const Stmt& stmt, const auto&) {
    const auto* alloc = std::get_if<Alloc>(&stmt.node);
    if (alloc && alloc->buffer->id == id && alloc->buffer->scope == Scope::Packed) found = alloc->buffer;
  });
  return found;
}

bool loads(const ValueRef& value, int id) {
  const auto* attr = std::get_if<LoadAttr>(&value->attr);
  return attr && attr->buffer->id == id;
}

/// Whether all that is made of the copy's elements are casts to integers of 32 bits or more.
bool is_cast_wherever_read(Draft& draft, int id) {
  bool is_cast = true;
  const auto look = [&](const ValueRef& root) {
    if (!root) return;
    is_cast &= !loads(root, id);
    ast::visit(root, [&](const ValueRef& value) {
      const bool widens = value->op == Op::Cast && is_integer(value->dtype) && size_of(value->dtype) >= 4;
      for (const ValueRef& source : value->sources) is_cast &= widens || !loads(source, id);
    });
  };
  for_each_store(draft.body, [&](Store& store, const auto&) {
    look(store.value);
    look(store.scatter);
  });
  return is_cast;
}

/// What the copy is filled with, in 16 bits.
void widen_stores(Block& body, int id) {
  for_each_store(body, [&](Store& store, const auto&) {
    if (store.buffer->id == id) store.value = make(Op::Cast, DType::I16, {store.value});
  });
}

} // namespace

Verdict widen(Draft& draft, BufferHandle handle) {
  const std::string& name = handle.name();
  const int id = draft.id_of(handle);
  const BufferRef copy = find_copy(draft, id);
  if (!copy) return name + " is no packed copy, and none of a constant";
  if (!is_integer(copy->dtype) || size_of(copy->dtype) != 1 || is_narrow(copy->dtype))
    return name + " holds no integers of 8 bits";
  if (!is_cast_wherever_read(draft, id)) return name + " is not cast to 32 bits wherever it is read";
  bool is_plain = true;
  for_each_store(draft.body, [&](Store& store, const auto&) {
    is_plain &= store.buffer->id != id || (!store.combine && !store.scatter);
  });
  if (!is_plain) return name + " is more than copied to";

  Buffer wide = *copy;
  wide.dtype = DType::I16;
  const BufferRef made = make_buffer(std::move(wide));
  widen_stores(draft.body, id);
  Rewriter rewriter;
  rewriter.on_buffer = [&](const BufferRef& buffer) { return buffer->id == id ? made : buffer; };
  draft.body = ast::rewrite(draft.body, rewriter);
  for (Kernel& fill : draft.constants) {
    if (fill.params[1].buffer->id != id) continue;
    widen_stores(fill.body, id);
    fill.body = ast::rewrite(fill.body, rewriter);
    fill.params[1].buffer = made;
  }
  return {};
}

} // namespace lathe::search
