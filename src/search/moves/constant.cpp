// prepack: a constant operand is copied once, before the first run, into the order in which a nest reads it.
#include <algorithm>

#include <fmt/format.h>

#include "ast/buffer.hpp"
#include "search/moves/draft.hpp"
#include "search/moves/ids.hpp"

namespace lathe::search {

using namespace ast;

namespace {

constexpr int64_t kMostBytes = int64_t{1} << 30;
constexpr int64_t kMostGrowth = 4; // elements of a copy for each of the constant's; more is no mere layout

} // namespace

const lower::InputBuffer* find_constant(const lower::Program& program, BufferHandle name) {
  for (const lower::InputBuffer& input : program.inputs)
    if (input.is_constant && input.buffer->name == name.name()) return &input;
  return nullptr;
}

Verdict prepack(Draft& draft, StageHandle handle, BufferHandle constant) {
  const std::string &stage_name = handle.buffer().name(), &operand = constant.name();
  const int stage = handle.index;
  const lower::InputBuffer* input = find_constant(*draft.program, constant);
  if (!input) return fmt::format("{} is no constant", operand);

  // The one load of the constant for the stage, and the loops around it.
  ValueRef packed;
  std::vector<For*> around;
  Verdict verdict;
  for_each_store(draft.body, [&](Store& store, const std::vector<For*>& loops) {
    if (draft.stage_of(*store.buffer) != stage) return;
    ast::visit(store.value, [&](const ValueRef& value) {
      const auto* attr = std::get_if<LoadAttr>(&value->attr);
      if (!attr || attr->buffer->id != input->buffer->id) return;
      if (value->op == Op::Gather)
        verdict = fmt::format("{} is read at a computed index", operand);
      else if (packed)
        verdict = fmt::format("{} is read at several places", operand);
      packed = value;
      around = loops;
    });
  });
  if (!verdict.empty()) return verdict;
  if (!packed) return fmt::format("the nest of {} does not read {}", stage_name, operand);
  const LoadAttr source = std::get<LoadAttr>(packed->attr);

  const std::vector<const For*> dims = loops_used(source, around);
  if (dims.empty()) return fmt::format("{} does not move along any loop", operand);
  for (const For* f : dims)
    for (const For* other : around)
      if (depends_on(f->extent, other->var) && std::find(dims.begin(), dims.end(), other) == dims.end())
        return fmt::format("the extent of {} depends on {}", f->var.name(), other->var.name());

  std::vector<Expr> vars_used;
  for (Expr e : source.index) collect_vars(e, vars_used);
  for (Expr e : source.guards) collect_vars(e, vars_used);
  for (const For* f : dims) collect_vars(f->extent, vars_used);
  for (Expr v : vars_used)
    if (v.id() < 0) return fmt::format("what is read of {} depends on {}", operand, v.name());

  Buffer buffer;
  const int first = ids::first_copy(stage);
  buffer.id = first;
  for (const Kernel& c : draft.constants)
    if (const int id = c.params[1].buffer->id; id >= first && id < first + ids::kCopiesPerStage)
      buffer.id = std::max(buffer.id, id + 1);
  if (buffer.id == first + ids::kCopiesPerStage)
    return fmt::format("{} has too many copies of constants", stage_name);
  const BufferHandle copy_name = handle.buffer().copy(Part::Constant, buffer.id - first);
  buffer.name = copy_name.name();
  buffer.dtype = source.buffer->dtype;
  const int64_t original = num_elements(source.buffer->shape).hi();
  const int64_t most = std::min(kMostGrowth * original, kMostBytes / size_of(buffer.dtype));
  int64_t elements = 1;
  for (const For* f : dims) {
    const int64_t extent = f->extent.hi();
    if (extent > most || (elements *= extent) > most)
      return fmt::format("a copy of {} in the order of the loops of {} is too large", operand, stage_name);
    buffer.shape.push_back(extent);
  }
  const auto copy = make_buffer(std::move(buffer));
  draft.handles.add(copy->id, copy_name);

  Kernel fill;
  fill.name = fmt::format("{}_of_t{}", operand, stage);
  fill.params = {{source.buffer, false}, {copy, true}};
  Substitution vars;
  std::vector<For> heads;
  for (const For* f : dims) {
    const Expr extent = substitute(f->extent, vars);
    const Expr var = loop_var(static_cast<int>(heads.size()) + 1, fmt::format("c{}", heads.size()), extent);
    vars.emplace_back(f->var, var);
    heads.push_back({var, extent, LoopKind::Serial, 0, {}});
  }
  Store store;
  store.buffer = copy;
  for (const For& head : heads) store.index.push_back(head.var);
  store.value = ast::substitute(packed, vars);
  fill.body.push_back(nest(std::move(heads), std::move(store)));
  draft.constants.push_back(std::move(fill));

  std::vector<Expr> index;
  for (const For* f : dims) index.push_back(f->var);
  const ValueRef from_copy = load(copy, index);
  Rewriter rewriter;
  rewriter.on_value = [&](const ValueRef& value) { return value == packed ? from_copy : value; };
  rewrite_values(draft.body, rewriter, [&](const Store& s) { return draft.stage_of(*s.buffer) == stage; });
  return {};
}

} // namespace lathe::search
