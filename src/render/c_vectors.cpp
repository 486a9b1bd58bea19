// What of a kernel can be written with vectors, and which register buffers can be variables.
#include <algorithm>
#include <unordered_set>

#include "render/c_family.hpp"

namespace lathe::render {
namespace {

/// Whether a value of the body depends on the lane, and whether all that do have vector forms.
class VectorCheck {
public:
  VectorCheck(const ast::For& loop, const Dialect& dialect) : loop_(loop), dialect_(dialect) {}

  bool store(const ast::Store& s) {
    if (s.scatter) return false;
    widest_ = std::max(widest_, bytes_in_register(s.buffer->dtype));
    bool good = !is_half(s.buffer->dtype) || dialect_.lane_access();
    ast::visit(s.value, [&](const ast::ValueRef& v) { good = good && value(*v); });
    return good;
  }
  int widest() const { return widest_; }

private:
  bool value(const ast::Value& v) {
    bool varies = false;
    for (const ast::ValueRef& s : v.sources) varies |= varying_.count(s.get()) > 0;
    if (v.op == Op::Load) {
      const auto& attr = std::get<ast::LoadAttr>(v.attr);
      const auto depends = [&](Expr e) { return depends_on(e, loop_.var); };
      varies = std::any_of(attr.index.begin(), attr.index.end(), depends) ||
               std::any_of(attr.guards.begin(), attr.guards.end(), depends);
    } else if (v.op == Op::Index) {
      varies = depends_on(std::get<Expr>(v.attr), loop_.var);
    } else if (v.op == Op::Gather) {
      const auto& guards = std::get<ast::LoadAttr>(v.attr).guards;
      varies |= std::any_of(guards.begin(), guards.end(), [&](Expr e) { return depends_on(e, loop_.var); });
    }
    if (!varies) return true;
    varying_.insert(&v);
    const auto without_form = [&](DType dtype) {
      return is_half(dtype) && (!dialect_.lane_access() || v.op == Op::Bitcast);
    };
    if (v.op == Op::Gather || without_form(v.dtype) ||
        std::any_of(v.sources.begin(), v.sources.end(),
                    [&](const ast::ValueRef& s) { return without_form(s->dtype); }))
      return false;
    if (is_about_position(v))
      positions_.insert(&v);
    else
      widest_ = std::max(widest_, bytes_in_register(v.dtype));
    return !is_elementwise(v.op) || OpPrinter::has_vector_form(dialect_, v.op);
  }

  /// What follows from the loop's variable alone: 64 bits for form's sake, and seldom more than a comparison,
  /// so that it has no say in how many lanes there are.
  bool is_about_position(const ast::Value& v) const {
    if (v.dtype != DType::I64 && v.dtype != DType::Bool) return false;
    if (v.op == Op::Index) return true;
    return is_elementwise(v.op) &&
           std::all_of(v.sources.begin(), v.sources.end(), [&](const ast::ValueRef& s) {
             return varying_.count(s.get()) == 0 || positions_.count(s.get()) > 0;
           });
  }

  const ast::For& loop_;
  const Dialect& dialect_;
  std::unordered_set<const ast::Value*> varying_, positions_;
  int widest_ = 1;
};

} // namespace

std::vector<Chunk> chunks_of(const ast::For& loop, const Dialect& dialect) {
  if (!loop.extent.is_const() || (!dialect.lane_access() && !loop.extent.is_const(loop.width))) return {};
  VectorCheck check(loop, dialect);
  for (const ast::Stmt& stmt : loop.body) {
    const auto* store = std::get_if<ast::Store>(&stmt.node);
    if (!store || !check.store(*store)) return {};
  }
  const int most = std::min(loop.width, dialect.vector_bytes() / check.widest());
  int lanes = 1;
  while (2 * lanes <= std::min(most, 16) && loop.width % (2 * lanes) == 0) lanes *= 2;
  if (lanes < 2) return {};
  std::vector<Chunk> chunks;
  const auto extent = static_cast<int>(loop.extent.value());
  for (int first = 0; first < extent; first += lanes)
    chunks.push_back({loop.var, first, lanes, std::min(lanes, extent - first)});
  return chunks;
}

std::optional<ast::MovedUp> moved_up(const ast::LoadAttr& load, const Chunk& chunk) {
  if (is_half(load.buffer->dtype)) return {};
  if (chunk.first != 0 || chunk.active < chunk.lanes || chunk.var.hi() >= chunk.lanes) return {};
  return ast::as_moved_up(load, chunk.var, chunk.lanes);
}

std::optional<Slices> register_slices(const ast::Alloc& alloc, const Dialect& dialect) {
  constexpr size_t kMostSlices = 256;
  const ast::Buffer& buffer = *alloc.buffer;
  if ((is_half(buffer.dtype) && !dialect.lane_access()) || buffer.dtype == DType::Bool) return {};
  Slices slices;
  std::vector<int64_t> elements; // touched one at a time
  bool good = true;
  const auto access = [&](const std::vector<Expr>& index, const std::vector<Expr>* guards,
                          const std::vector<Chunk>& chunks) {
    const Expr flat = flat_index(buffer, index);
    if (chunks.empty() || !depends_on(flat, chunks[0].var)) {
      good = good && flat.is_const();
      if (good) elements.push_back(flat.value());
      return;
    }
    if (guards && !guards->empty()) good = false;
    const auto stride = stride_of(flat, chunks[0].var);
    const int lanes = chunks[0].lanes;
    const bool column = guards && stride && stride->is_const() && stride->value() >= lanes;
    for (const Chunk& chunk : chunks) {
      const Expr start = at_lane(flat, chunk, 0);
      good = good && start.is_const() && stride && (column || stride->is_const(1));
      if (!good) return;
      if (column) {
        for (int i = 0; i < chunk.active; ++i) elements.push_back(start.value() + i * stride->value());
        continue;
      }
      Slice& slice = slices.emplace(start.value(), Slice{"", lanes, 0}).first->second;
      good = slice.lanes == lanes;
      slice.active = std::max(slice.active, chunk.active);
    }
  };
  ast::visit(alloc.body, [&](const ast::Stmt& stmt, const std::vector<const ast::For*>& loops) {
    const auto* store = std::get_if<ast::Store>(&stmt.node);
    if (!store || !good) return;
    const bool in_vector = !loops.empty() && loops.back()->kind == ast::LoopKind::Vector;
    const auto chunks = in_vector ? chunks_of(*loops.back(), dialect) : std::vector<Chunk>();
    const auto values = [&](const ast::ValueRef& root) {
      ast::visit(root, [&](const ast::ValueRef& v) {
        const auto* attr = std::get_if<ast::LoadAttr>(&v->attr);
        if (!attr || attr->buffer->id != buffer.id) return;
        const auto moved = chunks.empty() ? std::nullopt : moved_up(*attr, chunks[0]);
        if (moved) attr = &std::get<ast::LoadAttr>(moved->whole->attr);
        if (v->op == Op::Gather)
          good = false;
        else
          access(attr->index, &attr->guards, chunks);
      });
    };
    values(store->value);
    if (store->scatter) values(store->scatter);
    if (store->buffer->id != buffer.id) return;
    if (store->scatter)
      good = false;
    else
      access(store->index, nullptr, chunks);
  });
  if (!good) return {};
  int64_t end = 0;
  for (const auto& [first, slice] : slices) {
    if (first < end) return {};
    end = first + slice.active;
  }
  for (int64_t e : elements) {
    const auto after = slices.upper_bound(e);
    const bool inside =
        after != slices.begin() && e < std::prev(after)->first + std::prev(after)->second.active;
    if (!inside) slices.emplace(e, Slice{"", 1, 1});
  }
  if (slices.size() > kMostSlices) return {};
  return slices;
}

} // namespace lathe::render
