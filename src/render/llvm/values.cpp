// Values and the stores that use them.
#include <unordered_map>
#include <unordered_set>

#include "ast/passes/detour.hpp"
#include "ast/passes/math.hpp"
#include "lathe/error.hpp"
#include "render/llvm/code_table.hpp"
#include "render/llvm/emitter.hpp"

namespace lathe::render {

using llvm::Value;

Value* FunctionEmitter::op(Op op, DType result, DType operand, llvm::ArrayRef<Value*> args) {
  return emit_op(b_, op, result, operand, args, state_.target.has_f16c);
}

Value* FunctionEmitter::widened(Placed value) {
  if (!lanes_ || value.value->getType()->isVectorTy()) return value.value;
  constexpr uint32_t kWiden = 0x3000;
  return once(value.level, kWiden, value.value->getType(), {value.value, b_.getInt32(lanes_)},
              [&] { return splat(b_, value.value, lanes_); });
}

Value* FunctionEmitter::both(Value* x, Value* y, int level) {
  if (!x || !y) return x ? x : y;
  return once(level, static_cast<uint32_t>(Op::And), x->getType(), {x, y},
              [&] { return b_.CreateAnd(x, y); });
}

Placed FunctionEmitter::operation(Op op, DType result, DType operand, std::span<const Placed> sources,
                                  int least_level) {
  bool vector = false;
  int level = least_level;
  for (const Placed& source : sources) {
    vector |= source.value->getType()->isVectorTy();
    level = std::max(level, source.level);
  }
  std::array<Value*, 3> args{};
  for (size_t i = 0; i < sources.size(); i++) args[i] = vector ? widened(sources[i]) : sources[i].value;
  const uint32_t code =
      static_cast<uint32_t>(op) | static_cast<uint32_t>(result) << 16 | static_cast<uint32_t>(operand) << 20;
  return {once(level, code, nullptr, args,
               [&] { return this->op(op, result, operand, llvm::ArrayRef(args.data(), sources.size())); }),
          level};
}

/// `value` as y * 2^n, possibly plus a term. Nothing if it is not of that form, or the target has no
/// instruction that scales vectors of this many lanes.
std::optional<Placed> FunctionEmitter::scaled(const ast::Value& value, const Known& known, int least_level) {
  if (!state_.target.has_scalef || !can_scale(lanes_)) return {};
  const auto parts = ast::math::as_scaled(value);
  if (!parts) return {};
  // If a load from a register gives the shifted n, only another statement may have computed n itself.
  const auto n_known = known.find(parts->n.get());
  const Placed y = known.at(parts->y.get()),
               n = n_known == known.end() ? value_of(parts->n) : n_known->second;
  if (!n.value->getType()->isVectorTy()) return {};
  constexpr uint32_t kScale = 0x4000; // beside the ops' codes
  const int level = std::max({y.level, n.level, least_level});
  const std::array<Value*, 3> args{widened(y), widened(n), nullptr};
  const Placed product{once(level, kScale, nullptr, args, [&] { return scale(b_, args[0], args[1]); }),
                       level};
  if (value.op == Op::Mul)
    return parts->negated ? operation(Op::Neg, value.dtype, value.dtype, std::array{product}, least_level)
                          : product;
  return operation(parts->negated ? Op::Sub : Op::Add, value.dtype, value.dtype,
                   std::array{known.at(value.sources[2].get()), product}, least_level);
}

/// `value` as numbers of a table. Nothing if it does not depend on four bits alone, or the target has no
/// instruction for it.
std::optional<Placed> FunctionEmitter::looked_up(const ast::Value& value, const Known& known,
                                                 int least_level) {
  if (!state_.target.has_permute || lanes_ != CodeTable::kCodes) return {};
  const std::optional<CodeTable> table = find_code_table(value);
  if (!table) return {};
  const auto bytes = known.find(table->bytes.get());
  if (bytes == known.end() || !bytes->second.value->getType()->isVectorTy()) return {};
  Placed code = bytes->second;
  if (table->bytes->dtype != DType::I32)
    code = operation(Op::Cast, DType::I32, table->bytes->dtype, std::array{code}, least_level);
  if (table->shift)
    code =
        operation(Op::Shr, DType::I32, DType::I32,
                  std::array{code, Placed{b_.getInt32(static_cast<uint32_t>(table->shift)), 0}}, least_level);
  llvm::Constant* numbers = llvm::ConstantDataVector::get(state_.context, table->numbers);
  constexpr uint32_t kLookUp = 0x5000; // beside the ops' codes
  const int level = std::max(code.level, least_level);
  return Placed{once(level, kLookUp, nullptr, {numbers, code.value, nullptr},
                     [&] { return look_up(b_, numbers, code.value); }),
                level};
}

Placed FunctionEmitter::one_value(const ast::Value& value, const Known& known, int least_level) {
  switch (value.op) {
  case Op::Const: return {scalar_constant(state_.context, std::get<Scalar>(value.attr)), 0};
  case Op::Index: return index_number(std::get<Expr>(value.attr), value.dtype);
  case Op::Load: return load(std::get<ast::LoadAttr>(value.attr));
  case Op::Gather: return gather(value, known.at(value.sources[0].get()));
  default: {
    if (const auto product = scaled(value, known, least_level)) return *product;
    if (const auto numbers = looked_up(value, known, least_level)) return *numbers;
    std::vector<Placed> sources;
    for (const auto& source : value.sources) sources.push_back(known.at(source.get()));
    return operation(value.op, value.dtype, value.sources.back()->dtype, sources, least_level);
  }
  }
}

Placed FunctionEmitter::value_of(const ast::ValueRef& root) {
  const std::vector<ast::Detour> detours = ast::find_detours(root);
  std::unordered_map<const ast::Value*, const ast::Detour*> detour_of; // by its Where
  std::unordered_set<const ast::Value*> aside;
  for (const ast::Detour& detour : detours) {
    detour_of[detour.where.get()] = &detour;
    for (const ast::ValueRef& value : detour.values) aside.insert(value.get());
  }
  Known known;
  ast::visit(root, [&](const ast::ValueRef& value) {
    if (aside.count(value.get())) return;
    const auto detour = detour_of.find(value.get());
    known[value.get()] =
        detour == detour_of.end() ? one_value(*value, known, 0) : choose(*detour->second, known);
  });
  return known.at(root.get());
}

/// What the Where of a detour computes, and from which values: its ops with their sources, each an odd number
/// if it is a value of the detour. Lanes are those of the first loop with as many, so that the copies that
/// unrolling makes have one key.
FunctionEmitter::DetourKey FunctionEmitter::detour_key(const ast::Detour& detour, const Known& known) {
  DetourKey key{static_cast<uintptr_t>(lanes_)}; // what they have in common is widened
  const auto add = [&](const auto* part) { key.push_back(reinterpret_cast<uintptr_t>(part)); };
  const Expr lane = lanes_ ? first_lanes_.try_emplace(lanes_, lane_).first->second : Expr(0);
  const auto add_index = [&](const Expr& e) {
    add((lanes_ && lane != lane_ ? substitute(e, {{lane_, lane}}) : e).node());
  };
  std::unordered_map<const ast::Value*, uintptr_t> inside;
  const auto add_source = [&](const ast::ValueRef& source) {
    const auto place = inside.find(source.get());
    if (place != inside.end())
      key.push_back(place->second);
    else
      add(known.at(source.get()).value);
  };
  for (const ast::ValueRef& value : detour.values) {
    key.push_back(static_cast<uintptr_t>(value->op) << 8 | static_cast<uintptr_t>(value->dtype));
    if (value->op == Op::Const) add(one_value(*value, known, 0).value);
    if (value->op == Op::Index) add_index(std::get<Expr>(value->attr));
    if (const auto* attr = std::get_if<ast::LoadAttr>(&value->attr)) {
      const int buffer = attr->buffer->id;
      key.insert(key.end(), {static_cast<uintptr_t>(buffer), static_cast<uintptr_t>(writes_[buffer]),
                             attr->index.size(), attr->guards.size()});
      add(mask_);
      for (const Expr& e : attr->index) add_index(e);
      for (const Expr& e : attr->guards) add_index(e);
    }
    for (const ast::ValueRef& source : value->sources) add_source(source);
    inside.emplace(value.get(), inside.size() * 2 + 1);
  }
  for (const ast::ValueRef& source : detour.where->sources) add_source(source);
  return key;
}

/// The Where of a detour. Its first choice is computed only if some lane takes it.
Placed FunctionEmitter::choose(const ast::Detour& detour, Known& known) {
  const Placed condition = known.at(detour.where->sources[0].get());
  if (condition.level != depth()) { // the condition does not change in this loop, so the code goes before it
    for (const ast::ValueRef& value : detour.values) known[value.get()] = one_value(*value, known, 0);
    return one_value(*detour.where, known, 0);
  }
  DetourKey key = detour_key(detour, known);
  const auto same = levels_[depth()].detours.find(key);
  if (same != levels_[depth()].detours.end()) return same->second;
  const Placed made = jump(detour, known);
  levels_[depth()].detours.emplace(std::move(key), made);
  return made;
}

Placed FunctionEmitter::jump(const ast::Detour& detour, Known& known) {
  const Placed condition = known.at(detour.where->sources[0].get());
  Value* otherwise = widened(known.at(detour.where->sources[2].get()));
  const bool vector = condition.value->getType()->isVectorTy();
  Value* any = vector ? b_.CreateOrReduce(condition.value) : condition.value;
  any = b_.CreateFreeze(any); // lanes past a loop's end may be undefined, and no jump may depend on that
  llvm::BasicBlock* before = b_.GetInsertBlock();
  auto* body = llvm::BasicBlock::Create(state_.context, "detour", function_);
  auto* after = llvm::BasicBlock::Create(state_.context, "after", function_);
  b_.CreateCondBr(any, body, after);
  enter(body, {}, false);
  for (const ast::ValueRef& value : detour.values) known[value.get()] = one_value(*value, known, depth());
  Value* chosen = widened(known.at(detour.where->sources[1].get()));
  Value* mixed = b_.CreateSelect(condition.value, chosen, otherwise);
  llvm::BasicBlock* end = b_.GetInsertBlock();
  b_.CreateBr(after);
  leave(after);
  auto* result = b_.CreatePHI(otherwise->getType(), 2);
  result->addIncoming(otherwise, before);
  result->addIncoming(mixed, end);
  return {result, depth()};
}

Value* FunctionEmitter::combined(const ast::Store& store, Value* old) {
  const DType dtype = store.buffer->dtype;
  auto fitting = [&](const ast::ValueRef& part) {
    const Placed placed = value_of(part);
    return old->getType()->isVectorTy() ? widened(placed) : placed.value;
  };
  if (!store.by) return op(*store.combine, dtype, dtype, {old, fitting(store.value)});
  Value *a = fitting(store.value->sources[0]), *b = fitting(store.value->sources[1]);
  return op(Op::Fma, dtype, dtype, {a, b, old});
}

void FunctionEmitter::store(const ast::Store& store) {
  const ast::Buffer& buffer = *store.buffer;
  if (store.scatter) {
    lanes_ ? scatter_row(store) : scatter(store);
    forget(buffer.id);
    return;
  }
  const Expr flat = flat_index(buffer, store.index);
  if (lanes_ && store.lanes.kind == ast::LaneKind::One) {
    reduce_lanes(store, flat);
    forget(buffer.id);
    return;
  }
  if (!lanes_) {
    Value* to = address(buffer, flat);
    Value* result =
        store.combine ? combined(store, read_scalar(buffer, to, nullptr)) : value_of(store.value).value;
    b_.CreateAlignedStore(to_memory(b_, result, buffer.dtype), to, alignment(buffer));
    forget(buffer.id);
    levels_[depth()].loads[buffer.id][{flat.node(), nullptr, nullptr, nullptr, 0}] = result;
    return;
  }
  const Lanes lanes = lanes_of(flat);
  // The value of a masked store is kept for the next load of the same lanes: neither LLVM nor the core forwards
  // a masked store to a load.
  const LoadKey key{lanes.base.node(), lanes.stride ? lanes.stride->node() : nullptr, mask_, nullptr, lanes_};
  const auto old = [&]() -> Value* {
    auto& written = levels_[depth()].loads[buffer.id];
    const auto found = mask_ && lanes.stride ? written.find(key) : written.end();
    return found != written.end() ? found->second
                                  : read_lanes(buffer, store.lanes.kind, lanes, mask_, nullptr);
  };
  Value* result = store.combine ? combined(store, old()) : widened(value_of(store.value));
  write_lanes(store, lanes, result);
  forget(buffer.id);
  if (!lanes.stride) return;
  if (mask_)
    result =
        b_.CreateSelect(mask_, result, llvm::Constant::getNullValue(result->getType())); // as a load gives it
  levels_[depth()].loads[buffer.id][key] = result;
}

void FunctionEmitter::reduce_lanes(const ast::Store& store, Expr flat) {
  const DType dtype = store.buffer->dtype;
  Value* lanes = widened(value_of(store.value));
  if (mask_) lanes = b_.CreateSelect(mask_, lanes, splat(b_, neutral(*store.combine, dtype), lanes_));
  Value* to = address(*store.buffer, flat);
  Value* old = read_scalar(*store.buffer, to, nullptr);
  Value* result = op(*store.combine, dtype, dtype, {old, across_lanes(*store.combine, dtype, lanes)});
  b_.CreateAlignedStore(to_memory(b_, result, dtype), to, alignment(*store.buffer));
}

void FunctionEmitter::scatter(const ast::Store& store) {
  const ast::Buffer& buffer = *store.buffer;
  const Placed value = value_of(store.value);
  Value* index = value_of(store.scatter).value;
  Value* valid = in_range(buffer, index, store.scatter->dtype);
  Value* to = b_.CreateGEP(memory_type(state_.context, buffer.dtype, 0), base_of(buffer), index);
  auto* write = llvm::BasicBlock::Create(state_.context, "write", function_);
  auto* after = llvm::BasicBlock::Create(state_.context, "after", function_);
  b_.CreateCondBr(valid, write, after);
  b_.SetInsertPoint(write);
  Value* result = value.value;
  if (store.combine)
    result = op(*store.combine, buffer.dtype, buffer.dtype, {read_scalar(buffer, to, nullptr), result});
  b_.CreateAlignedStore(to_memory(b_, result, buffer.dtype), to, alignment(buffer));
  b_.CreateBr(after);
  b_.SetInsertPoint(after);
}

/// Lanes side by side. As a rule all are in range, which the first tells: it is computed apart, so that no
/// vector of indices is. Masked stores are slow with AVX2, and the next load of the same row would wait for
/// one.
void FunctionEmitter::scatter_row(const ast::Store& store) {
  const ast::Buffer& buffer = *store.buffer;
  const DType index_dtype = store.scatter->dtype;
  Value* value = widened(value_of(store.value));
  Value* index = widened(value_of(store.scatter));
  Value* valid = in_range(buffer, index, index_dtype);
  if (mask_) valid = b_.CreateAnd(valid, mask_);
  Value* first = value_of(ast::substitute(store.scatter, {{lane_, 0}})).value;
  first = op(Op::Cast, DType::I64, index_dtype, {first});
  Value* to = b_.CreateGEP(memory_type(state_.context, buffer.dtype, 0), base_of(buffer), first);
  Value* rows_end = expr(max(num_elements(buffer.shape) - (lanes_ - 1), 0));
  Value* all = mask_ ? b_.CreateAndReduce(valid) : b_.CreateICmpULT(first, rows_end);
  llvm::Type* type = memory_type(state_.context, buffer.dtype, lanes_);
  const auto result = [&](Value* old) {
    if (!store.combine) return to_memory(b_, value, buffer.dtype);
    old = from_memory(b_, old, buffer.dtype);
    return to_memory(b_, op(*store.combine, buffer.dtype, buffer.dtype, {old, value}), buffer.dtype);
  };
  auto* whole = llvm::BasicBlock::Create(state_.context, "whole", function_);
  auto* part = llvm::BasicBlock::Create(state_.context, "part", function_);
  auto* after = llvm::BasicBlock::Create(state_.context, "after", function_);
  b_.CreateCondBr(b_.CreateFreeze(all), whole, part);
  b_.SetInsertPoint(whole);
  Value* old = store.combine ? b_.CreateAlignedLoad(type, to, alignment(buffer)) : nullptr;
  b_.CreateAlignedStore(result(old), to, alignment(buffer));
  b_.CreateBr(after);
  b_.SetInsertPoint(part);
  if (store.combine)
    old = b_.CreateMaskedLoad(type, to, alignment(buffer), valid, llvm::Constant::getNullValue(type));
  b_.CreateMaskedStore(result(old), to, alignment(buffer), valid);
  b_.CreateBr(after);
  b_.SetInsertPoint(after);
}

} // namespace lathe::render
