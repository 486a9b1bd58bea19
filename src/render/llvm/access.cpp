// Loads and stores of buffers: addresses built up by loop level, and vectors according to the lane's stride.
#include <algorithm>

#include "ast/computed_index.hpp"
#include "ast/machine/access.hpp"
#include "ast/machine/moved_up.hpp"
#include "lathe/error.hpp"
#include "render/llvm/emitter.hpp"
#include "render/prefetch.hpp"
#include "render/transpose.hpp"

namespace lathe::render {
namespace {

using llvm::Value;

constexpr uint32_t kAddress = 0x2000, kMovedUp = 0x5000, kZeros = 0x6000; // beside the ops' codes

/// Whether an access from `first` on may be a whole vector, because the buffer is padded past its end (see
/// alloc()). A register buffer stays in registers only if all its accesses are whole.
bool reaches_whole(const ast::Buffer& buffer, Expr first) {
  return buffer.scope == ast::Scope::Register && ast::begins_inside(buffer, first);
}

std::vector<int> reversed(int lanes) {
  std::vector<int> order(lanes);
  for (int i = 0; i < lanes; i++) order[i] = lanes - 1 - i;
  return order;
}

} // namespace

Value* FunctionEmitter::base_of(const ast::Buffer& buffer) {
  Value*& base = bases_[buffer.id];
  if (base) return base;
  const auto& params = state_.kernel.params;
  for (size_t i = 0; i < params.size(); i++) {
    if (params[i].buffer->id != buffer.id) continue;
    return base = at_entry([&] {
             Value* slot = b_.CreateConstGEP1_64(b_.getPtrTy(), function_->getArg(arguments_.buffers), i);
             return b_.CreateAlignedLoad(b_.getPtrTy(), slot, llvm::Align(8), buffer.name);
           });
  }
  throw InternalError("llvm: buffer " + buffer.name + " is not reachable from a parallel loop");
}

/// The base plus the terms of each loop level in turn, so that an inner loop adds only the terms that change
/// in it.
Value* FunctionEmitter::address(const ast::Buffer& buffer, Expr flat) {
  std::map<std::pair<int, bool>, Expr> parts; // by level; a constant comes last, to fold into the access
  auto split = [&](auto&& self, Expr e) -> void {
    if (e.kind() == ExprKind::Add) {
      self(self, e.lhs());
      self(self, e.rhs());
    } else {
      const std::pair where = e.is_const() ? std::pair(depth() + 1, true) : std::pair(level_of(e), false);
      parts[where] = parts[where] + e;
    }
  };
  split(split, flat);
  llvm::Type* type = memory_type(state_.context, buffer.dtype, 0);
  Value* at_here = base_of(buffer);
  int reached = 0;
  for (const auto& [where, part] : parts) {
    if (part.is_const(0)) continue;
    if (!where.second) reached = where.first;
    Value *from = at_here, *offset = expr(part);
    at_here = once(reached, kAddress, type, {from, offset}, [&] { return b_.CreateGEP(type, from, offset); });
  }
  return at_here;
}

FunctionEmitter::Lanes FunctionEmitter::lanes_of(Expr flat) const {
  const auto steps = ast::steps_of(flat, lane_);
  if (!steps) return {flat, {}, level_of(flat)};
  return {steps->first, steps->step, std::max(level_of(steps->first), level_of(steps->step))};
}

Value* FunctionEmitter::lane_addresses(const ast::Buffer& buffer, const Lanes& lanes) {
  llvm::Type* type = memory_type(state_.context, buffer.dtype, 0);
  Value* base = lanes.stride ? address(buffer, lanes.base) : base_of(buffer);
  Value* offsets = nullptr;
  if (!lanes.stride) {
    offsets = vector_expr(lanes.base, 64);
  } else if (lanes.stride->is_const()) {
    llvm::Constant* step = llvm::ConstantInt::getSigned(b_.getInt64Ty(), lanes.stride->value());
    offsets = b_.CreateMul(lane_numbers(b_.getInt64Ty(), lanes_), splat(b_, step, lanes_));
  } else {
    Value* step = widened({expr(*lanes.stride), level_of(*lanes.stride)});
    offsets = b_.CreateMul(lane_numbers(b_.getInt64Ty(), lanes_), step);
  }
  return b_.CreateGEP(type, base, offsets);
}

/// The outermost level, at least `least`, in which a load may be: no deeper level writes the buffer, and all
/// deeper levels surely run.
int FunctionEmitter::load_level(const ast::Buffer& buffer, int least) const {
  for (int level = depth(); level > least; level--)
    if (!levels_[level].nonempty || levels_[level].written.count(buffer.id)) return level;
  return least;
}

FunctionEmitter::Guard FunctionEmitter::guard_of(const std::vector<Expr>& guards) {
  Guard out;
  for (Expr guard : guards) {
    if (guard.is_const()) {
      out.never |= guard.value() == 0;
      continue;
    }
    const int level = level_of(guard);
    const bool per_lane = lanes_ && depends_on(guard, lane_);
    Value* next = per_lane ? vector_condition(guard) : condition(guard);
    Value*& all = per_lane ? out.lanes : out.scalar;
    out.level = std::max(out.level, level);
    Value* so_far = all;
    all = so_far ? once(out.level, static_cast<uint32_t>(Op::And), next->getType(), {so_far, next},
                        [&] { return b_.CreateAnd(so_far, next); })
                 : next;
  }
  return out;
}

Value* FunctionEmitter::read_scalar(const ast::Buffer& buffer, Value* from, Value* guard) {
  if (guard) from = b_.CreateSelect(guard, from, state_.zeros);
  return from_memory(
      b_, b_.CreateAlignedLoad(memory_type(state_.context, buffer.dtype, 0), from, alignment(buffer)),
      buffer.dtype);
}

Value* FunctionEmitter::read_vector(const ast::Buffer& buffer, bool forward, const Lanes& lanes, Value* mask,
                                    Value* guard) {
  llvm::Type* type = memory_type(state_.context, buffer.dtype, lanes_);
  const llvm::Align align = alignment(buffer);
  const Expr first = forward ? lanes.base : lanes.base - (lanes_ - 1);
  Value* from = address(buffer, first);
  if (guard) from = b_.CreateSelect(guard, from, state_.zeros);
  if (mask && !forward) mask = b_.CreateShuffleVector(mask, reversed(lanes_));
  Value* zero = llvm::Constant::getNullValue(type);
  Value* raw = nullptr;
  if (mask && reaches_whole(buffer, first))
    raw = b_.CreateSelect(mask, b_.CreateAlignedLoad(type, from, align), zero);
  else if (mask)
    raw = b_.CreateMaskedLoad(type, from, align, mask, zero);
  else
    raw = b_.CreateAlignedLoad(type, from, align);
  return from_memory(b_, forward ? raw : b_.CreateShuffleVector(raw, reversed(lanes_)), buffer.dtype);
}

/// With a mask, loads of the vectors between the lanes only what the mask's lanes use.
Value* FunctionEmitter::read_spaced(const ast::Buffer& buffer, const Lanes& lanes, Value* mask,
                                    Value* guard) {
  llvm::Type* type = memory_type(state_.context, buffer.dtype, lanes_);
  const int step = static_cast<int>(lanes.stride->value());
  const ast::SpacedLoad spaced = ast::spaced_load(lanes_, step);
  const auto used_from = [&](int start) {
    std::vector<int> pick(static_cast<size_t>(lanes_), lanes_); // of the mask and, after it, zeros
    for (int k = 0; k < lanes_; ++k)
      if ((start + k) % step == 0 && (start + k) / step < lanes_)
        pick[static_cast<size_t>(k)] = (start + k) / step;
    return b_.CreateShuffleVector(mask, llvm::Constant::getNullValue(mask->getType()), pick);
  };
  std::vector<Value*> vectors;
  for (const int start : spaced.starts) {
    Value* from = address(buffer, lanes.base + start);
    if (guard) from = b_.CreateSelect(guard, from, state_.zeros);
    if (mask)
      vectors.push_back(b_.CreateMaskedLoad(type, from, alignment(buffer), used_from(start),
                                            llvm::Constant::getNullValue(type)));
    else
      vectors.push_back(b_.CreateAlignedLoad(type, from, alignment(buffer)));
  }
  for (const auto& merge : spaced.merges)
    vectors.push_back(b_.CreateShuffleVector(vectors[merge.left], vectors[merge.right], merge.pick));
  return from_memory(b_, vectors.back(), buffer.dtype);
}

Value* FunctionEmitter::read_picked(const ast::Buffer& buffer, const ast::PickedLoad& picked, Value* guard) {
  Value* from = address(buffer, picked.first);
  if (guard) from = b_.CreateSelect(guard, from, state_.zeros);
  Value* whole = b_.CreateAlignedLoad(memory_type(state_.context, buffer.dtype, picked.elements), from,
                                      alignment(buffer));
  return from_memory(b_, b_.CreateShuffleVector(whole, picked.pick), buffer.dtype);
}

Value* FunctionEmitter::read_lanes(const ast::Buffer& buffer, ast::LaneKind kind, const Lanes& lanes,
                                   Value* mask, Value* guard) {
  if (kind == ast::LaneKind::Whole || kind == ast::LaneKind::Backwards)
    return read_vector(buffer, kind == ast::LaneKind::Whole, lanes, mask, guard);
  if (kind == ast::LaneKind::Spaced) return read_spaced(buffer, lanes, mask, guard);
  llvm::Type* type = memory_type(state_.context, buffer.dtype, lanes_);
  const llvm::Align align = alignment(buffer);
  const bool in_registers = buffer.scope == ast::Scope::Register && lanes.base.is_const();
  if (lanes.stride && lanes.stride->is_const() && !mask && !guard &&
      (in_registers || !gathers(buffer.dtype))) {
    Value* raw = llvm::PoisonValue::get(type);
    for (int i = 0; i < lanes_; i++) {
      Value* from = address(buffer, lanes.base + *lanes.stride * i);
      raw = b_.CreateInsertElement(raw, b_.CreateAlignedLoad(type->getScalarType(), from, align), i);
    }
    return from_memory(b_, raw, buffer.dtype);
  }
  if (guard) mask = mask ? b_.CreateAnd(mask, splat(b_, guard, lanes_)) : splat(b_, guard, lanes_);
  if (!mask) mask = llvm::Constant::getAllOnesValue(llvm::FixedVectorType::get(b_.getInt1Ty(), lanes_));
  Value* raw = b_.CreateMaskedGather(type, lane_addresses(buffer, lanes), align, mask,
                                     llvm::Constant::getNullValue(type));
  return from_memory(b_, raw, buffer.dtype);
}

void FunctionEmitter::write_vector(const ast::Store& store, const Lanes& lanes, Value* value) {
  const ast::Buffer& buffer = *store.buffer;
  const bool forward = store.lanes.kind == ast::LaneKind::Whole, streams = store.streaming && streaming_;
  const Expr first = forward ? lanes.base : lanes.base - (lanes_ - 1);
  Value *to = address(buffer, first), *mask = mask_;
  if (!forward) value = b_.CreateShuffleVector(value, reversed(lanes_));
  if (mask && !forward) mask = b_.CreateShuffleVector(mask, reversed(lanes_));
  if (mask && !reaches_whole(buffer, first)) {
    b_.CreateMaskedStore(value, to, alignment(buffer), mask);
    return;
  }
  if (mask)
    value = b_.CreateSelect(mask, value, b_.CreateAlignedLoad(value->getType(), to, alignment(buffer)));
  const uint64_t bytes = static_cast<uint64_t>(lanes_) * size_of(buffer.dtype);
  llvm::StoreInst* made = b_.CreateAlignedStore(value, to, streams ? llvm::Align(bytes) : alignment(buffer));
  if (streams)
    made->setMetadata(llvm::LLVMContext::MD_nontemporal,
                      llvm::MDNode::get(state_.context, llvm::ConstantAsMetadata::get(b_.getInt32(1))));
}

void FunctionEmitter::write_lanes(const ast::Store& store, const Lanes& lanes, Value* value) {
  const ast::Buffer& buffer = *store.buffer;
  value = to_memory(b_, value, buffer.dtype);
  if (store.lanes.kind == ast::LaneKind::Whole || store.lanes.kind == ast::LaneKind::Backwards)
    return write_vector(store, lanes, value);
  const bool one_by_one =
      buffer.scope == ast::Scope::Register ? lanes.base.is_const() : !gathers(buffer.dtype);
  if (one_by_one && lanes.stride && lanes.stride->is_const() && !mask_) {
    for (int i = 0; i < lanes_; i++)
      b_.CreateAlignedStore(b_.CreateExtractElement(value, i),
                            address(buffer, lanes.base + *lanes.stride * i), alignment(buffer));
    return;
  }
  b_.CreateMaskedScatter(value, lane_addresses(buffer, lanes), alignment(buffer), mask_);
}

/// Prefetches, line by line, the cache lines that lie `ahead` elements past the vector or element at `first`.
void FunctionEmitter::ask_for(const ast::Buffer& buffer, Expr first, int64_t ahead, int level) {
  constexpr int kRead = 0, kData = 1;
  const auto where = static_cast<int>(cache_level_ahead(ahead * size_of(buffer.dtype)));
  const int64_t line = 64 / size_of(buffer.dtype), count = std::max(1, lanes_);
  Value* from = address(buffer, first);
  at(level, [&]() -> Value* {
    for (int64_t at_line = 0; at_line < count; at_line += line) {
      Value* there =
          b_.CreateGEP(memory_type(state_.context, buffer.dtype, 0), from, b_.getInt64(ahead + at_line));
      b_.CreateIntrinsic(llvm::Intrinsic::prefetch, {there->getType()},
                         {there, b_.getInt32(kRead), b_.getInt32(where), b_.getInt32(kData)});
    }
    return nullptr;
  });
}

/// One lane from each row of a tile in registers. Transposes as many rows as lanes at once, and remembers all
/// their columns as loads of this level, till the buffer is written. Reads a row whole if it begins inside
/// the buffer, even if most of it lies past the end, since the buffer is padded. A row that begins past the
/// end becomes zeros; a mask leaves out its lane.
Value* FunctionEmitter::read_column(const ast::Buffer& buffer, const Lanes& lanes, int level) {
  const int64_t row = lanes.stride->value(), base = lanes.base.value();
  const int64_t first = base - base % row % lanes_, elements = num_elements(buffer.shape).hi();
  const auto known = [&](int64_t start, int64_t stride) -> Value*& {
    return levels_[level]
        .loads[buffer.id][{Expr(start).node(), Expr(stride).node(), nullptr, nullptr, lanes_}];
  };
  if (Value* column = known(base, row)) return column;
  std::vector<Value*> rows;
  for (int64_t start = first; start < first + lanes_ * row; start += row) {
    if (start >= elements) {
      rows.push_back(llvm::Constant::getNullValue(rows.at(0)->getType()));
      continue;
    }
    Value*& whole = known(start, 1);
    if (!whole)
      whole = at(level, [&] { return read_vector(buffer, true, {start, Expr(1), 0}, nullptr, nullptr); });
    rows.push_back(whole);
  }
  const auto shuffle = [&](Value* x, Value* y, const std::vector<int>& pick) {
    return b_.CreateShuffleVector(x, y, pick);
  };
  const int piece = std::min(lanes_, 16 / size_of(buffer.dtype));
  const auto columns = at(level, [&] { return transposed(std::move(rows), piece, shuffle); });
  for (int i = 0; i < lanes_; i++) known(first + i, row) = columns[i];
  return known(base, row);
}

Placed FunctionEmitter::moved_up(const ast::LoadAttr& attr) {
  const auto moved = ast::as_moved_up(attr, lane_, lanes_);
  const Placed whole = load(std::get<ast::LoadAttr>(moved->whole->attr));
  llvm::Type* type = whole.value->getType();
  // The zeros come from memory. If LLVM knew that they are zeros, it would make an AVX-512 expand instruction
  // of the shuffle, which takes several times as long as a shuffle of two vectors.
  Value* zero = once(0, kZeros, type, {}, [&] {
    return at_entry([&] { return b_.CreateAlignedLoad(type, state_.zeros, llvm::Align(64)); });
  });
  return {once(whole.level, kMovedUp, nullptr, {whole.value, b_.getInt32(moved->by)},
               [&] { return b_.CreateShuffleVector(zero, whole.value, moved->picked(lanes_)); }),
          whole.level};
}

Placed FunctionEmitter::load(const ast::LoadAttr& attr) {
  const ast::Buffer& buffer = *attr.buffer;
  const ast::LaneKind kind = lanes_ ? attr.lanes.kind : ast::LaneKind::One;
  if (kind == ast::LaneKind::MovedUp) return moved_up(attr);
  const Expr flat = flat_index(buffer, attr.index);
  const Guard guard = guard_of(attr.guards);
  const bool one = kind == ast::LaneKind::One, scalar = one && !guard.lanes;
  if (guard.never)
    return {llvm::Constant::getNullValue(value_type(state_.context, buffer.dtype, scalar ? 0 : lanes_)), 0};
  if (scalar) {
    const int level = load_level(buffer, std::max(guard.level, level_of(flat)));
    Value* from = address(buffer, flat);
    Value*& known = levels_[level].loads[buffer.id][{flat.node(), nullptr, nullptr, guard.scalar, 0}];
    if (known) return {known, level};
    if (attr.ahead) ask_for(buffer, flat, attr.ahead, level);
    known = at(level, [&] { return read_scalar(buffer, from, guard.scalar); });
    return {known, level};
  }
  const Lanes lanes = lanes_of(flat);
  // The load, together with its mask, may move out of loops that it does not depend on.
  Value* own = attr.lanes.masked ? mask_ : nullptr;
  const int mask_level = std::max(guard.level, own ? mask_level_ : 0);
  Value* mask = both(own, guard.lanes, mask_level);
  const int level = load_level(buffer, std::max(mask_level, lanes.level));
  Value*& known = levels_[level].loads[buffer.id][{
      lanes.base.node(), lanes.stride ? lanes.stride->node() : nullptr, mask, guard.scalar, lanes_}];
  if (known) return {known, level};
  if (one) { // some lanes use the element: read it if any lane does
    Value* from = address(buffer, flat);
    known = at(level, [&] {
      Value* any = b_.CreateOrReduce(mask);
      if (guard.scalar) any = b_.CreateAnd(any, guard.scalar);
      Value* read = splat(b_, read_scalar(buffer, from, any), lanes_);
      return b_.CreateSelect(mask, read, llvm::Constant::getNullValue(read->getType()));
    });
    return {known, level};
  }
  if (const auto picked = kind == ast::LaneKind::Scattered && !mask
                              ? ast::picked_load(buffer, flat, lane_, lanes_)
                              : std::nullopt) {
    known = at(level, [&] { return read_picked(buffer, *picked, guard.scalar); });
    return {known, level};
  }
  if (attr.ahead && kind == ast::LaneKind::Whole) ask_for(buffer, lanes.base, attr.ahead, level);
  if (kind == ast::LaneKind::Column) {
    known = read_column(buffer, lanes, level);
    if (mask)
      known = at(level, [&] {
        return b_.CreateSelect(mask, known, llvm::Constant::getNullValue(known->getType()));
      });
  } else {
    known = at(level, [&] { return read_lanes(buffer, kind, lanes, mask, guard.scalar); });
  }
  return {known, level};
}

/// Whether `index` is inside the buffer. Makes `index` an i64, or leaves it an i32, which gathers better.
Value* FunctionEmitter::in_range(const ast::Buffer& buffer, Value*& index, DType dtype) {
  const Expr count = num_elements(buffer.shape);
  const bool narrow = dtype == DType::I32 && count.hi() <= INT32_MAX;
  if (!narrow) index = op(Op::Cast, DType::I64, dtype, {index});
  Value* limit = expr(count);
  if (narrow) limit = b_.CreateTrunc(limit, b_.getInt32Ty());
  if (index->getType()->isVectorTy()) limit = splat(b_, limit, lanes_);
  return b_.CreateICmpULT(index, limit); // a negative index is a large unsigned number
}

/// How the vector of a Gather's results is looked up in registers.
ByteTable FunctionEmitter::byte_table_of(const ast::Value& gather) const {
  return ast::is_byte_look_up(gather) ? byte_table_for(state_.target, lanes_) : ByteTable{};
}

/// The parts of a table of bytes, which loops that don't write it share.
std::vector<Value*> FunctionEmitter::parts_of(const ast::Buffer& table, const ByteTable& form) {
  const int level = load_level(table, 0);
  auto& loads = levels_[level].loads[table.id];
  llvm::Type* type = memory_type(state_.context, table.dtype, form.part_bytes);
  std::vector<Value*> bytes, parts;
  for (int64_t first = 0; first < int64_t{form.parts} * form.part_bytes; first += form.part_bytes) {
    Value* from = address(table, first);
    Value*& known = loads[{Expr(first).node(), Expr(1).node(), nullptr, nullptr, form.part_bytes}];
    if (!known) known = at(level, [&] { return b_.CreateAlignedLoad(type, from, alignment(table)); });
    bytes.push_back(known);
  }
  for (int k = 0; k < form.parts; ++k) {
    Value*& known = loads[{Expr(k).node(), Expr(1).node(), nullptr, nullptr, -form.lanes}];
    if (!known) known = at(level, [&] { return part_of(b_, form, bytes, k); });
    parts.push_back(known);
  }
  return parts;
}

Placed FunctionEmitter::gather(const ast::Value& value, Placed index) {
  const auto& attr = std::get<ast::LoadAttr>(value.attr);
  const ast::Buffer& buffer = *attr.buffer;
  const Guard guard = guard_of(attr.guards);
  const bool vector = index.value->getType()->isVectorTy() || guard.lanes;
  if (guard.never)
    return {llvm::Constant::getNullValue(value_type(state_.context, value.dtype, vector ? lanes_ : 0)), 0};
  const int least = std::max({index.level, guard.level, vector && mask_ ? mask_level_ : 0});
  const int level = load_level(buffer, least);
  Value* mask = vector ? both(mask_, guard.lanes, least) : nullptr;
  Value* where = vector ? widened(index) : index.value;
  Value* base = base_of(buffer);
  expr(num_elements(buffer.shape));
  llvm::Type* type = memory_type(state_.context, buffer.dtype, 0);
  const ByteTable table = vector ? byte_table_of(value) : ByteTable{};
  std::vector<Value*> parts;
  if (table.parts > 0) parts = parts_of(buffer, table);
  const bool is_row = vector && ast::masks_loads(state_.target.vector_bytes, buffer.dtype) &&
                      ast::computed_step(*value.sources[0], lane_) == 1;
  auto make = [&]() -> Value* {
    if (table.parts > 0) {
      Value* bytes = b_.CreateTrunc(where, llvm::FixedVectorType::get(b_.getInt8Ty(), lanes_));
      Value* found = look_up_bytes(b_, table, parts, bytes);
      Value* valid = guard.scalar ? splat(b_, guard.scalar, lanes_) : nullptr;
      if (mask) valid = valid ? b_.CreateAnd(valid, mask) : mask;
      if (valid) found = b_.CreateSelect(valid, found, llvm::Constant::getNullValue(found->getType()));
      return from_memory(b_, found, buffer.dtype);
    }
    Value* place = where;
    Value* valid = in_range(buffer, place, value.sources[0]->dtype);
    if (ast::is_byte_look_up(value)) valid = llvm::Constant::getAllOnesValue(valid->getType());
    if (guard.scalar) valid = b_.CreateAnd(valid, vector ? splat(b_, guard.scalar, lanes_) : guard.scalar);
    if (!vector) return read_scalar(buffer, b_.CreateGEP(type, base, place), valid);
    llvm::Type* wide = memory_type(state_.context, buffer.dtype, lanes_);
    if (mask) valid = b_.CreateAnd(valid, mask);
    if (is_row) {
      Value* first = b_.CreateGEP(type, base, b_.CreateExtractElement(place, uint64_t{0}));
      return from_memory(
          b_, b_.CreateMaskedLoad(wide, first, alignment(buffer), valid, llvm::Constant::getNullValue(wide)),
          buffer.dtype);
    }
    Value* addresses = b_.CreateGEP(type, base, place);
    return from_memory(
        b_,
        b_.CreateMaskedGather(wide, addresses, alignment(buffer), valid, llvm::Constant::getNullValue(wide)),
        buffer.dtype);
  };
  if (mask) return {at(level, make), level};
  Value*& known =
      levels_[level].loads[buffer.id][{nullptr, nullptr, where, guard.scalar, vector ? lanes_ : 0}];
  if (!known) known = at(level, make);
  return {known, level};
}

void FunctionEmitter::forget(int buffer) {
  ++writes_[buffer];
  for (Level& level : levels_) level.loads.erase(buffer);
}

} // namespace lathe::render
