// Loops, allocations and functions.
#include <algorithm>
#include <fmt/core.h>
#include <limits>
#include <llvm/IR/IntrinsicsX86.h>

#include "ast/machine/machine_form.hpp"
#include "lathe/error.hpp"
#include "render/llvm/emitter.hpp"
#include "render/prefetch.hpp"

namespace lathe::render {
namespace {

using llvm::BasicBlock;
using llvm::Type;
using llvm::Value;

/// Calls f on the stores of a block that are not in a parallel loop, with their innermost loop.
template <class F> void for_each_store(std::span<const ast::Stmt> body, const ast::For* inner, F&& f) {
  for (const ast::Stmt& stmt : body) {
    if (const auto* store = std::get_if<ast::Store>(&stmt.node)) f(*store, inner);
    if (const auto* alloc = std::get_if<ast::Alloc>(&stmt.node)) for_each_store(alloc->body, inner, f);
    if (const auto* loop = std::get_if<ast::For>(&stmt.node)) for_each_store(loop->body, loop, f);
  }
}

[[noreturn]] void not_for_cpu(const char* what) {
  throw Error(ErrorKind::Device,
              fmt::format("cpu: {} only OpenCL has, expected serial, parallel and vector loops", what));
}

} // namespace

llvm::Function* make_function(ModuleState& state, const std::string& name, std::span<Type* const> parameters,
                              llvm::GlobalValue::LinkageTypes linkage) {
  auto* type =
      llvm::FunctionType::get(Type::getVoidTy(state.context), {parameters.data(), parameters.size()}, false);
  auto* function = llvm::Function::Create(type, linkage, name, state.module);
  function->addFnAttr(llvm::Attribute::NoUnwind);
  function->addFnAttr("target-cpu", state.target.cpu);
  if (!state.target.features.empty()) function->addFnAttr("target-features", state.target.features);
  function->addFnAttr("prefer-vector-width", "512");
  function->addFnAttr("min-legal-vector-width", "0");
  return function;
}

FunctionEmitter::FunctionEmitter(ModuleState& state, llvm::Function* function, const Arguments& arguments,
                                 std::set<int> outer)
    : state_(state), function_(function), arguments_(arguments), outer_(std::move(outer)), b_(state.context) {
}

void FunctionEmitter::run(const ast::Block& body, std::optional<Expr> index) {
  entry_ = BasicBlock::Create(state_.context, "entry", function_);
  auto* start = BasicBlock::Create(state_.context, "start", function_);
  b_.SetInsertPoint(entry_);
  b_.CreateBr(start);
  b_.SetInsertPoint(start);
  levels_.emplace_back();
  levels_[0].written = written_in(body);
  if (index) loop_vars_[index->id()] = {function_->getArg(arguments_.index), 0};
  for (int id : outer_)
    bases_[id] = at_entry([&] {
      return b_.CreateConstGEP1_64(b_.getInt8Ty(), function_->getArg(arguments_.outer),
                                   state_.scratch_offset.at(id));
    });
  find_tiles(body, all_tiles_);
  if (!all_tiles_.empty() && has_one_configuration()) configure_tiles(all_tiles_[0]);
  nests(body);
  if (!all_tiles_.empty()) release_tiles();
  b_.CreateRetVoid();
}

void FunctionEmitter::enter(BasicBlock* body, const std::set<int>& written, bool nonempty) {
  levels_[depth()].preheader = b_.GetInsertBlock();
  levels_.emplace_back();
  levels_.back().written = written;
  levels_.back().nonempty = nonempty;
  b_.SetInsertPoint(body);
}

void FunctionEmitter::leave(BasicBlock* after) {
  levels_.pop_back();
  b_.SetInsertPoint(after);
}

bool FunctionEmitter::can_stream(const ast::Store& store, const ast::For& loop) const {
  if (!store.streaming || store.combine || store.lanes != ast::LaneAccess{ast::LaneKind::Whole}) return false;
  if (loop.width * size_of(store.buffer->dtype) < 16) return false;
  const auto& params = state_.kernel.params; // the kernel reads its own temporaries again
  if (std::none_of(params.begin(), params.end(),
                   [&](const ast::Param& p) { return p.buffer->id == store.buffer->id; }))
    return false;
  const Expr flat = flat_index(*store.buffer, store.index);
  return mod(substitute(flat, {{loop.var, Expr(0)}}), loop.width).is_const(0);
}

/// An i1: whether all buffers that `body` streams to are aligned for that; null if it streams to none.
Value* FunctionEmitter::streams_are_aligned(Statements body) {
  std::map<int, std::pair<const ast::Buffer*, int64_t>> streamed;
  for_each_store(body, nullptr, [&](const ast::Store& store, const ast::For* loop) {
    if (!loop || !can_stream(store, *loop)) return;
    auto& [buffer, bytes] = streamed[store.buffer->id];
    buffer = store.buffer.get();
    bytes = std::max<int64_t>(bytes, loop->width * size_of(buffer->dtype));
  });
  Value* wrong = nullptr;
  for (const auto& [id, need] : streamed) {
    Value* low =
        b_.CreateAnd(b_.CreatePtrToInt(base_of(*need.first), b_.getInt64Ty()), b_.getInt64(need.second - 1));
    wrong = wrong ? b_.CreateOr(wrong, low) : low;
  }
  return wrong ? b_.CreateICmpEQ(wrong, b_.getInt64(0)) : nullptr;
}

/// Emits the statements of a function. A statement with streamed stores gets two copies. Such a store needs
/// an aligned address, and the alignment is known only at run time.
void FunctionEmitter::nests(Statements body) {
  const bool top = arguments_.index < 0;
  for (const ast::Stmt& stmt : body) {
    const auto* loop = std::get_if<ast::For>(&stmt.node);
    const Statements one(&stmt, 1);
    Value* aligned =
        top && loop && loop->kind == ast::LoopKind::Parallel ? nullptr : streams_are_aligned(one);
    if (!aligned) {
      block(one);
      continue;
    }
    auto* stream = BasicBlock::Create(state_.context, "stream", function_);
    auto* plain = BasicBlock::Create(state_.context, "plain", function_);
    auto* after = BasicBlock::Create(state_.context, "after", function_);
    b_.CreateCondBr(aligned, stream, plain);
    BasicBlock* const before = b_.GetInsertBlock();
    for (bool streaming : {true, false}) {
      b_.SetInsertPoint(before);
      enter(streaming ? stream : plain, written_in(one), true);
      streaming_ = streaming;
      block(one);
      streaming_ = false;
#if defined(__x86_64__) || defined(__i386__)
      if (streaming) b_.CreateIntrinsic(llvm::Intrinsic::x86_sse_sfence, {}, {});
#else
      if (streaming) b_.CreateFence(llvm::AtomicOrdering::SequentiallyConsistent);
#endif
      b_.CreateBr(after);
      leave(after);
    }
  }
}

void FunctionEmitter::block(Statements body) {
  operand_tiles_.clear();
  for (const ast::Stmt& stmt : body) {
    const auto* tensor = std::get_if<ast::For>(&stmt.node);
    if (!tensor || tensor->kind != ast::LoopKind::Tensor) operand_tiles_.clear();
    if (const auto* store = std::get_if<ast::Store>(&stmt.node)) {
      this->store(*store);
    } else if (const auto* alloc = std::get_if<ast::Alloc>(&stmt.node)) {
      this->alloc(*alloc);
    } else if (const auto* loop = std::get_if<ast::For>(&stmt.node)) {
      switch (loop->kind) {
      case ast::LoopKind::Serial:
      case ast::LoopKind::Unroll: serial_loop(*loop); break;
      case ast::LoopKind::Vector: vector_loop(*loop); break;
      case ast::LoopKind::Tensor: tensor_loops(*loop); break;
      case ast::LoopKind::Parallel: parallel_loop(*loop); break;
      case ast::LoopKind::Group:
      case ast::LoopKind::Local: not_for_cpu("group and local loops");
      }
    } else if (const auto* hint = std::get_if<ast::Prefetch>(&stmt.node)) {
      Value* from = address(*hint->buffer, flat_index(*hint->buffer, hint->index));
      constexpr int kRead = 0, kSecondLevel = static_cast<int>(CacheLevel::Second), kData = 1;
      b_.CreateIntrinsic(llvm::Intrinsic::prefetch, {from->getType()},
                         {from, b_.getInt32(kRead), b_.getInt32(kSecondLevel), b_.getInt32(kData)});
    } else {
      not_for_cpu("barriers");
    }
  }
  operand_tiles_.clear();
}

void FunctionEmitter::alloc(const ast::Alloc& alloc) {
  const ast::Buffer& buffer = *alloc.buffer;
  if (buffer.scope == ast::Scope::Local) not_for_cpu("work-group memory");
  if (buffer.scope == ast::Scope::Register) {
    int64_t count = kWidestLanes; // elements of padding: whole vectors may reach past the end
    const Expr elements = num_elements(buffer.shape);
    count += elements.hi();
    auto* type = llvm::ArrayType::get(memory_type(state_.context, buffer.dtype, 0), count);
    bases_[buffer.id] = at_entry([&] {
      auto* memory = b_.CreateAlloca(type, nullptr, buffer.name);
      memory->setAlignment(llvm::Align(64));
      return memory;
    });
  } else {
    const uint64_t offset = state_.scratch_offset.at(buffer.id);
    bases_[buffer.id] = at_entry([&] {
      return b_.CreateConstGEP1_64(b_.getInt8Ty(), function_->getArg(arguments_.scratch), offset,
                                   buffer.name);
    });
  }
  open_tiles(buffer);
  block(alloc.body);
  forget(buffer.id);
  bases_.erase(buffer.id);
}

/// Emits a loop of at most one iteration as a condition.
void FunctionEmitter::once_or_never(const ast::For& loop) {
  loop_vars_[loop.var.id()] = {b_.getInt64(0), 0};
  if (loop.extent.lo() >= 1) {
    block(loop.body);
  } else {
    auto* body = BasicBlock::Create(state_.context, loop.var.name(), function_);
    auto* after = BasicBlock::Create(state_.context, "after", function_);
    b_.CreateCondBr(b_.CreateICmpSGT(expr(loop.extent), b_.getInt64(0)), body, after);
    enter(body, written_in(loop.body), false);
    block(loop.body);
    b_.CreateBr(after);
    leave(after);
  }
  loop_vars_.erase(loop.var.id());
}

void FunctionEmitter::serial_loop(const ast::For& loop) {
  if (loop.extent.hi() <= 0) return;
  if (loop.extent.hi() == 1) return once_or_never(loop);
  Value* extent = expr(loop.extent);
  auto* body = BasicBlock::Create(state_.context, loop.var.name(), function_);
  auto* after = BasicBlock::Create(state_.context, "after", function_);
  BasicBlock* before = b_.GetInsertBlock();
  const bool nonempty = loop.extent.lo() >= 1;
  if (nonempty)
    b_.CreateBr(body);
  else
    b_.CreateCondBr(b_.CreateICmpSGT(extent, b_.getInt64(0)), body, after);
  enter(body, written_in(loop.body), nonempty);
  auto* counter = b_.CreatePHI(b_.getInt64Ty(), 2, loop.var.name());
  counter->addIncoming(b_.getInt64(0), before);
  loop_vars_[loop.var.id()] = {counter, depth()};
  block(loop.body);
  loop_vars_.erase(loop.var.id());
  Value* next = b_.CreateAdd(counter, b_.getInt64(1), "", true, true);
  counter->addIncoming(next, b_.GetInsertBlock());
  b_.CreateCondBr(b_.CreateICmpSLT(next, extent), body, after);
  leave(after);
}

void FunctionEmitter::parallel_loop(const ast::For& loop) {
  if (!loop_vars_.empty() || arguments_.index >= 0) return serial_loop(loop);
  Type *pointer = b_.getPtrTy(), *i64 = b_.getInt64Ty();
  Type* parameters[] = {i64, pointer, pointer, pointer, pointer, pointer};
  auto* function = make_function(state_, fmt::format("parallel_{}", state_.functions++), parameters,
                                 llvm::GlobalValue::InternalLinkage);
  std::set<int> outer;
  for (const auto& [id, base] : bases_)
    if (base && state_.scratch_offset.count(id)) outer.insert(id);
  FunctionEmitter(state_, function, {0, 1, 2, 3, 4, 5}, std::move(outer)).run(loop.body, loop.var);
  // KernelEnv begins with parallel_for.
  Value* env = function_->getArg(arguments_.env);
  Value* call = b_.CreateAlignedLoad(pointer, env, llvm::Align(8));
  Type* call_parameters[] = {pointer, i64, pointer, pointer, pointer, pointer};
  b_.CreateCall(llvm::FunctionType::get(b_.getVoidTy(), call_parameters, false), call,
                {env, expr(loop.extent), function, function_->getArg(arguments_.buffers),
                 function_->getArg(arguments_.vars), function_->getArg(arguments_.scratch)});
  for (int id : written_in(loop.body)) forget(id);
  // The function has released them.
  if (!all_tiles_.empty() && has_one_configuration()) configure_tiles(all_tiles_[0]);
}

void FunctionEmitter::open_lanes(const ast::For& loop) {
  lanes_ = loop.width;
  lane_ = loop.var;
  if (loop.extent.is_const(loop.width)) return;
  mask_ = compare_lanes(loop.extent, true);
  mask_level_ = level_of(loop.extent);
}

void FunctionEmitter::close_lanes() {
  lanes_ = 0;
  mask_ = nullptr;
  mask_level_ = 0;
}

void FunctionEmitter::vector_loop(const ast::For& loop) {
  if (loop.extent.hi() <= 0) return;
  const bool nonempty = loop.extent.lo() >= 1;
  BasicBlock* after = nullptr;
  if (!nonempty) {
    auto* body = BasicBlock::Create(state_.context, "lanes", function_);
    after = BasicBlock::Create(state_.context, "after", function_);
    b_.CreateCondBr(b_.CreateICmpSGT(expr(loop.extent), b_.getInt64(0)), body, after);
    enter(body, written_in(loop.body), false);
  }
  open_lanes(loop);
  const bool allowed = streaming_;
  for (const ast::Stmt& stmt : loop.body) {
    const auto& store = std::get<ast::Store>(stmt.node);
    streaming_ = allowed && can_stream(store, loop);
    this->store(store);
  }
  streaming_ = allowed;
  close_lanes();
  if (after) {
    b_.CreateBr(after);
    leave(after);
  }
}

std::unique_ptr<llvm::Module> build_llvm_module(llvm::LLVMContext& context, const ast::Kernel& given,
                                                const std::map<int, size_t>& scratch_offset,
                                                const LlvmTarget& target) {
  ast::VectorForms forms;
  forms.bytes = std::numeric_limits<int>::max(); // LLVM splits vectors into registers itself
  forms.most_lanes = kWidestLanes;
  forms.pads_registers = true; // see alloc()
  forms.copies_tensors = true;
  forms.masks_spaced = true;
  forms.scales = target.has_scalef;
  if (!target.has_fma) forms.instructions.clear(); // without FMA, LLVM would call a function
  forms.instructions.insert(forms.instructions.end(), target.instructions.begin(), target.instructions.end());
  const ast::Kernel kernel = ast::machine_form(given, forms);
  auto module = std::make_unique<llvm::Module>(kernel.name, context);
#if LLVM_VERSION_MAJOR >= 21
  module->setTargetTriple(llvm::Triple(target.triple));
#else
  module->setTargetTriple(target.triple);
#endif
  module->setDataLayout(target.data_layout);
  auto* bytes = llvm::ArrayType::get(Type::getInt8Ty(context), kZeroBytes);
  auto* zeros = new llvm::GlobalVariable(*module, bytes, true, llvm::GlobalValue::PrivateLinkage,
                                         llvm::ConstantAggregateZero::get(bytes), "zeros");
  zeros->setAlignment(llvm::Align(64));
  ModuleState state{context, *module, kernel, scratch_offset, target, zeros};
  Type* pointer = llvm::PointerType::getUnqual(context);
  Type* parameters[] = {pointer, pointer, pointer, pointer};
  auto* function = make_function(state, kLlvmEntry, parameters, llvm::GlobalValue::ExternalLinkage);
  FunctionEmitter(state, function, {}, {}).run(kernel.body, {});
  if (zeros->use_empty()) zeros->eraseFromParent();
  return module;
}

} // namespace lathe::render
