// Tensor loops as instructions of the CPU: dot products in the lanes of vectors, and products of tiles (AMX).
#include <algorithm>
#include <llvm/IR/IntrinsicsX86.h>
#include <numeric>

#include "ast/machine/tensors.hpp"
#include "ast/tensor.hpp"
#include "lathe/error.hpp"
#include "render/llvm/emitter.hpp"

namespace lathe::render {
namespace {

using llvm::Value;
namespace Intrinsic = llvm::Intrinsic;

constexpr uint32_t kGroup = 0x7000; // beside the ops' codes

/// A call whose arguments are cast to the types that this version of LLVM declares.
Value* call(llvm::IRBuilderBase& b, Intrinsic::ID id, std::vector<Value*> arguments) {
  auto* module = b.GetInsertBlock()->getModule();
#if LLVM_VERSION_MAJOR >= 20
  llvm::Function* function = Intrinsic::getOrInsertDeclaration(module, id);
#else
  llvm::Function* function = Intrinsic::getDeclaration(module, id);
#endif
  for (size_t i = 0; i < arguments.size(); ++i)
    arguments[i] = b.CreateBitCast(arguments[i], function->getFunctionType()->getParamType(i));
  return b.CreateCall(function, arguments);
}

Intrinsic::ID dot_intrinsic(Instruction instruction, int lanes) {
  const bool bf16 = instruction == Instruction::DotBF16;
  switch (lanes) {
  case 4: return bf16 ? Intrinsic::x86_avx512bf16_dpbf16ps_128 : Intrinsic::x86_avx512_vpdpbusd_128;
  case 8: return bf16 ? Intrinsic::x86_avx512bf16_dpbf16ps_256 : Intrinsic::x86_avx512_vpdpbusd_256;
  default: return bf16 ? Intrinsic::x86_avx512bf16_dpbf16ps_512 : Intrinsic::x86_avx512_vpdpbusd_512;
  }
}

Intrinsic::ID pair_intrinsic(int lanes) {
  return lanes == 4   ? Intrinsic::x86_sse2_pmadd_wd
         : lanes == 8 ? Intrinsic::x86_avx2_pmadd_wd
                      : Intrinsic::x86_avx512_pmaddw_d_512;
}

/// The numbers in a vector of pairs, as numbers of 16 bits.
Value* widened(llvm::IRBuilderBase& b, Value* pairs, DType dtype) {
  if (dtype == DType::I16) return pairs;
  const unsigned count = 2 * llvm::cast<llvm::FixedVectorType>(pairs->getType())->getNumElements();
  Value* bytes = b.CreateBitCast(pairs, llvm::FixedVectorType::get(b.getInt8Ty(), count));
  auto* type = llvm::FixedVectorType::get(b.getInt16Ty(), count);
  return dtype == DType::I8 ? b.CreateSExt(bytes, type) : b.CreateZExt(bytes, type);
}

/// `sum` plus the products of each lane's groups of elements.
Value* dot_product(llvm::IRBuilderBase& b, const InstructionInfo& row, Instruction by, int lanes, Value* sum,
                   Value* left, Value* right) {
  if (row.is_pair())
    return b.CreateAdd(sum,
                       call(b, pair_intrinsic(lanes), {widened(b, left, row.a), widened(b, right, row.b)}));
  // vpdpbusd takes its unsigned operand first.
  if (by == Instruction::DotI8U8) std::swap(left, right);
  return call(b, dot_intrinsic(by, lanes), {sum, left, right});
}

Intrinsic::ID tile_intrinsic(Instruction instruction) {
  switch (instruction) {
  case Instruction::TileI8I8: return Intrinsic::x86_tdpbssd;
  case Instruction::TileI8U8: return Intrinsic::x86_tdpbsud;
  case Instruction::TileU8I8: return Intrinsic::x86_tdpbusd;
  case Instruction::TileU8U8: return Intrinsic::x86_tdpbuud;
  case Instruction::TileBF16: return Intrinsic::x86_tdpbf16ps;
  default: throw InternalError("llvm: no instruction on tiles");
  }
}

/// Bytes from one iteration of the loop to the next.
Expr step_of(const ast::Buffer& buffer, const std::vector<Expr>& index, const ast::For& loop) {
  return *stride_of(flat_index(buffer, index), loop.var) * size_of(buffer.dtype);
}

} // namespace

/// Adds to `out` the configurations of tile registers for the products in `body`, outside of parallel loops.
void FunctionEmitter::find_tiles(Statements body, std::vector<Tiles>& out) {
  for (const ast::Stmt& stmt : body) {
    if (const auto* alloc = std::get_if<ast::Alloc>(&stmt.node)) find_tiles(alloc->body, out);
    const auto* loop = std::get_if<ast::For>(&stmt.node);
    if (!loop || loop->kind == ast::LoopKind::Parallel) continue;
    const auto nest = loop->kind == ast::LoopKind::Tensor ? ast::tensor_nest(*loop) : std::nullopt;
    if (!nest) find_tiles(loop->body, out);
    if (!nest || !nest->store->by || !info(*nest->store->by).is_tile()) continue;
    const auto grid = ast::tile_grid(*ast::tensor_product(*nest));
    const int64_t elements = num_elements(nest->store->buffer->shape).value();
    const Tiles tiles{nest->store->buffer->id, static_cast<int>(grid.tiles_in(elements)),
                      static_cast<int>(grid.rows), static_cast<int>(grid.k_rows),
                      info(*nest->store->by).pack * size_of(info(*nest->store->by).a)};
    if (std::find(out.begin(), out.end(), tiles) == out.end()) out.push_back(tiles);
  }
}

int FunctionEmitter::Tiles::a_registers() const { return (ast::kTileRegisters - sums) / 2; }

/// Whether all arrays take tile registers of the same sizes.
bool FunctionEmitter::has_one_configuration() const {
  return std::all_of(all_tiles_.begin(), all_tiles_.end(), [&](Tiles tiles) {
    tiles.array = all_tiles_[0].array;
    return tiles == all_tiles_[0];
  });
}

/// Opens the array's tile registers, if it lies in some.
void FunctionEmitter::open_tiles(const ast::Buffer& array) {
  const auto tiles =
      std::find_if(all_tiles_.begin(), all_tiles_.end(), [&](const Tiles& t) { return t.array == array.id; });
  if (tiles == all_tiles_.end()) return;
  tiles_ = *tiles;
  if (!has_one_configuration()) configure_tiles(tiles_);
}

/// Gives the tile registers their sizes. The first hold sums, the next operands A, the last operands B.
void FunctionEmitter::configure_tiles(const Tiles& tiles) {
  constexpr int kWidth = 64; // bytes of a row of sums, and of B
  std::array<uint8_t, 64> configuration{};
  configuration[0] = 1; // the palette
  const auto set = [&](int number, int rows, int bytes) {
    configuration[16 + 2 * number] = static_cast<uint8_t>(bytes); // of a row, in 16 bits
    configuration[48 + number] = static_cast<uint8_t>(rows);
  };
  for (int number = 0; number < ast::kTileRegisters; ++number)
    if (number < tiles.sums)
      set(number, tiles.rows, kWidth);
    else if (number < tiles.sums + tiles.a_registers())
      set(number, tiles.rows, tiles.k_rows * tiles.pack_bytes);
    else
      set(number, tiles.k_rows, kWidth);
  auto* bytes = llvm::ConstantDataArray::get(state_.context, configuration);
  auto* global = new llvm::GlobalVariable(state_.module, bytes->getType(), true,
                                          llvm::GlobalValue::PrivateLinkage, bytes, "tiles");
  global->setAlignment(llvm::Align(64));
  call(b_, Intrinsic::x86_ldtilecfg, {global});
}

void FunctionEmitter::release_tiles() { call(b_, Intrinsic::x86_tilerelease, {}); }

void FunctionEmitter::tensor_loops(const ast::For& loop) {
  const auto nest = ast::tensor_nest(loop);
  const ast::Store& store = *nest->store;
  if (store.by)
    info(*store.by).is_tile() ? multiply_tiles(*nest) : add_dot_products(*nest);
  else if (const auto copy = ast::tensor_copy(*nest))
    copy_side_by_side(*nest, *copy);
  else
    move_tile(*nest);
}

/// Rows of k as one vector, in which the elements of a column lie side by side.
void FunctionEmitter::copy_side_by_side(const ast::TensorNest& nest, const ast::TensorCopy& copy) {
  const ast::Buffer &from = *copy.from->buffer, &to = *copy.store->buffer;
  const auto columns = static_cast<int>(copy.columns->extent.value()),
             k = static_cast<int>(copy.k->extent.value());
  const Expr first = ast::first_of(from, copy.from->index, nest), flat = flat_index(from, copy.from->index);
  const Expr across = *stride_of(flat, copy.columns->var), down = *stride_of(flat, copy.k->var);
  llvm::Type* element = memory_type(state_.context, from.dtype, 0);
  Value* all = nullptr;
  if (across.is_const(1)) {
    std::vector<Value*> rows;
    for (int i = 0; i < k; ++i)
      rows.push_back(b_.CreateAlignedLoad(llvm::FixedVectorType::get(element, columns),
                                          address(from, first + down * i), alignment(from)));
    while (rows.size() > 1) { // row i beside row i + half
      std::vector<Value*> pairs;
      const size_t half = rows.size() / 2;
      const int lanes = columns * k / static_cast<int>(rows.size());
      std::vector<int> pick;
      for (int i = 0; i < lanes; ++i) pick.insert(pick.end(), {i, lanes + i});
      for (size_t i = 0; i < half; ++i)
        pairs.push_back(b_.CreateShuffleVector(rows[i], rows[i + half], pick));
      rows = std::move(pairs);
    }
    all = rows[0];
  } else { // the elements of a column lie side by side already
    llvm::Type* group = b_.getIntNTy(8 * k * size_of(from.dtype));
    all = llvm::PoisonValue::get(llvm::FixedVectorType::get(group, columns));
    for (int i = 0; i < columns; ++i)
      all = b_.CreateInsertElement(
          all, b_.CreateAlignedLoad(group, address(from, first + across * i), alignment(from)),
          b_.getInt64(i));
  }
  b_.CreateAlignedStore(all, address(to, ast::first_of(to, copy.store->index, nest)), alignment(to));
  forget(to.id);
}

/// The elements of A that all lanes share, in each lane.
Value* FunctionEmitter::read_group(const ast::LoadAttr& load, Expr first, const InstructionInfo& row,
                                   int lanes) {
  const ast::Buffer& buffer = *load.buffer;
  const int level = load_level(buffer, level_of(first));
  Value* from = address(buffer, first);
  llvm::Type* word = b_.getIntNTy(8 * row.k * size_of(buffer.dtype));
  Value*& known = levels_[level].loads[buffer.id][{first.node(), nullptr, nullptr, nullptr, -row.k}];
  if (!known) known = at(level, [&] { return b_.CreateAlignedLoad(word, from, alignment(buffer)); });
  Value* group = known;
  return once(level, kGroup, word, {group, b_.getInt32(lanes)}, [&] { return splat(b_, group, lanes); });
}

/// The elements of B for all lanes, of which each takes k consecutive ones.
Value* FunctionEmitter::read_groups(const ast::LoadAttr& load, Expr first, const InstructionInfo& row,
                                    int lanes) {
  const ast::Buffer& buffer = *load.buffer;
  const int level = load_level(buffer, level_of(first));
  Value* from = address(buffer, first);
  auto* type = llvm::FixedVectorType::get(b_.getIntNTy(8 * row.k * size_of(buffer.dtype)), lanes);
  Value*& known =
      levels_[level].loads[buffer.id][{first.node(), Expr(row.k).node(), nullptr, nullptr, lanes}];
  if (!known) known = at(level, [&] { return b_.CreateAlignedLoad(type, from, alignment(buffer)); });
  return known;
}

void FunctionEmitter::add_dot_products(const ast::TensorNest& nest) {
  const ast::TensorProduct product = *ast::tensor_product(nest);
  const ast::Store& store = *product.store;
  const InstructionInfo& row = info(*store.by);
  const auto lanes = static_cast<int>(product.columns->extent.value());
  Value* a = read_group(*product.a, ast::first_of(*product.a->buffer, product.a->index, nest), row, lanes);
  Value* b = read_groups(*product.b, ast::first_of(*product.b->buffer, product.b->index, nest), row, lanes);
  const ast::Buffer& sums = *store.buffer;
  const Expr first = ast::first_of(sums, store.index, nest);
  Value* to = address(sums, first);
  llvm::Type* type = memory_type(state_.context, sums.dtype, lanes);
  Value* old = b_.CreateAlignedLoad(type, to, alignment(sums));
  // A schedule for wider vectors than this CPU's takes several instructions.
  const int step = std::min(lanes, state_.target.vector_bytes / size_of(sums.dtype));
  for (int part = 0; part < lanes; part += step) {
    const auto piece = [&](Value* whole) {
      std::vector<int> pick(static_cast<size_t>(step));
      std::iota(pick.begin(), pick.end(), part);
      return step == lanes ? whole : b_.CreateShuffleVector(whole, pick);
    };
    Value* sum = dot_product(b_, row, *store.by, step, piece(old), piece(a), piece(b));
    b_.CreateAlignedStore(b_.CreateBitCast(sum, memory_type(state_.context, sums.dtype, step)),
                          b_.CreateConstGEP1_64(type->getScalarType(), to, static_cast<uint64_t>(part)),
                          alignment(sums));
  }
  forget(sums.id);
}

/// The number of the tile register that holds what the nest accesses of an array in tile registers.
int FunctionEmitter::tile_of(const ast::Buffer& array, const std::vector<Expr>& index,
                             const ast::TensorNest& nest) {
  const ast::TileGrid grid{nest.loops[0]->extent.value(),
                           stride_of(flat_index(array, index), nest.loops[0]->var)->value(), 0};
  return static_cast<int>(*grid.tile_at(ast::first_of(array, index, nest).value()));
}

/// The number of a tile register that holds the operand: one of `count` from `first_register` on, which hold
/// the operands of their kind that were used last.
int FunctionEmitter::operand_tile(const ast::LoadAttr& load, const ast::TensorNest& nest,
                                  const ast::For& rows, int first_register, int count) {
  const ast::Buffer& buffer = *load.buffer;
  const Expr first = ast::first_of(buffer, load.index, nest), step = step_of(buffer, load.index, rows);
  const OperandTile wanted{buffer.id, first.node(), step.node(), 0};
  std::vector<OperandTile>& tiles = operand_tiles_[first_register];
  auto held = std::find_if(tiles.begin(), tiles.end(),
                           [&](const OperandTile& tile) { return tile.holds_same(wanted); });
  if (held == tiles.end()) {
    if (static_cast<int>(tiles.size()) < count) {
      tiles.push_back(wanted);
      tiles.back().number = first_register + static_cast<int>(tiles.size()) - 1;
      held = std::prev(tiles.end());
    } else { // the first is the one not used for longest
      held = tiles.begin();
      const int number = held->number;
      *held = wanted;
      held->number = number;
    }
    call(b_, Intrinsic::x86_tileloadd64,
         {b_.getInt8(static_cast<uint8_t>(held->number)), address(buffer, first), expr(step)});
  }
  const int number = held->number;
  std::rotate(held, std::next(held), tiles.end());
  return number;
}

void FunctionEmitter::multiply_tiles(const ast::TensorNest& nest) {
  const ast::TensorProduct product = *ast::tensor_product(nest);
  const ast::Store& store = *product.store;
  const int sum = tile_of(*store.buffer, store.index, nest);
  const int a_first = tiles_.sums, b_first = a_first + tiles_.a_registers();
  const int a = operand_tile(*product.a, nest, *product.rows, a_first, tiles_.a_registers());
  const int b = operand_tile(*product.b, nest, *product.k_rows, b_first, ast::kTileRegisters - b_first);
  const auto number = [&](int tile) { return b_.getInt8(static_cast<uint8_t>(tile)); };
  call(b_, tile_intrinsic(*store.by), {number(sum), number(a), number(b)});
}

/// Sets a tile to 0, or stores it to memory.
void FunctionEmitter::move_tile(const ast::TensorNest& nest) {
  const ast::Store& store = *nest.store;
  const auto number = [&](const ast::Buffer& array, const std::vector<Expr>& index) {
    return b_.getInt8(static_cast<uint8_t>(tile_of(array, index, nest)));
  };
  if (store.value->op == Op::Const) {
    call(b_, Intrinsic::x86_tilezero, {number(*store.buffer, store.index)});
    return;
  }
  const auto& from = std::get<ast::LoadAttr>(store.value->attr);
  const ast::Buffer& to = *store.buffer;
  call(b_, Intrinsic::x86_tilestored64,
       {number(*from.buffer, from.index), address(to, ast::first_of(to, store.index, nest)),
        expr(step_of(to, store.index, *nest.loops[0]))});
  forget(to.id);
}

} // namespace lathe::render
