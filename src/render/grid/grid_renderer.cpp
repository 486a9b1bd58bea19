#include "render/grid/grid_renderer.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "ast/machine/machine_form.hpp"
#include "lathe/error.hpp"
#include "render/c_family.hpp"
#include "render/grid/group_sync.hpp"

namespace lathe::render {
namespace {

int64_t bytes_of(const ast::Buffer& buffer) {
  return num_elements(buffer.shape).hi() * size_of(buffer.dtype);
}

bool uses_f64(const ast::Kernel& kernel) {
  bool found = std::any_of(kernel.params.begin(), kernel.params.end(),
                           [](const ast::Param& p) { return p.buffer->dtype == DType::F64; });
  ast::visit(kernel.body, [&](const ast::Stmt& stmt, const auto&) {
    const auto* store = std::get_if<ast::Store>(&stmt.node);
    if (!store || found) return;
    const auto check = [&](const ast::ValueRef& v) {
      // The cast of a 64-bit integer to bf16 goes by way of f64.
      found |= v->dtype == DType::F64 ||
               (v->op == Op::Cast && v->dtype == DType::BF16 && size_of(v->sources[0]->dtype) == 8);
    };
    ast::visit(store->value, check);
    if (store->scatter) ast::visit(store->scatter, check);
  });
  return found;
}

class GridRenderer : public CFamily {
public:
  GridRenderer(const ast::Kernel& kernel, const GridLanguage& language)
      : CFamily(language.dialect()), kernel_(kernel), language_(language), name_(names_.fresh(kernel.name)) {
    for (const ast::Param& p : kernel.params) names_.buffer(*p.buffer);
    for (Expr v : kernel.shape_vars) names_.variable(v);
  }

  GridSource render() {
    std::vector<const ast::Stmt*> nests;
    find_nests(kernel_.body, nests);
    out_.needs_f64 = uses_f64(kernel_);
    for (const ast::Stmt* nest : nests) {
      nest_ = {*nest};
      function(nest_[0]);
    }
    const std::string helpers = language_.helpers(out_.text, out_.needs_f64);
    out_.head = helpers.size();
    out_.text = helpers + out_.text;
    return std::move(out_);
  }

private:
  /// Finds the nests at top level. A buffer allocated around them outlives each function, so it becomes an
  /// argument of every function.
  void find_nests(const ast::Block& body, std::vector<const ast::Stmt*>& nests) {
    for (const ast::Stmt& stmt : body) {
      if (std::holds_alternative<ast::Barrier>(stmt.node)) continue; // functions run one after the other
      const auto* alloc = std::get_if<ast::Alloc>(&stmt.node);
      if (!alloc || alloc->buffer->scope == ast::Scope::Register ||
          alloc->buffer->scope == ast::Scope::Local) {
        nests.push_back(&stmt);
        continue;
      }
      temporaries_.push_back(alloc->buffer);
      out_.temporaries.push_back({alloc->buffer->id, std::max<int64_t>(1, bytes_of(*alloc->buffer))});
      find_nests(alloc->body, nests);
    }
  }

  // ---- one function ----
  void function(const ast::Stmt& nest) {
    text_.clear();
    forget_loads();
    used_buffers_.clear();
    local_arrays_.clear();
    local_names_.clear();
    local_bytes_ = 0;
    pending_.clear();
    uniform_.clear();
    axes_.clear();
    parallel_as_group_ = nullptr;
    const std::string name =
        out_.functions.empty() ? name_ : names_.fresh(fmt::format("{}_{}", name_, out_.functions.size()));
    const GridLaunch launch = measure(nest);
    shares_ = has_local_loop(nest);
    if (shares_)
      group_block(nest_);
    else
      block(nest_);
    std::vector<std::string> args;
    for (const ast::Param& p : kernel_.params) args.push_back(pointer_to(*p.buffer, p.written));
    for (const ast::BufferRef& t : temporaries_) args.push_back(pointer_to(*t, true));
    const std::string index = dialect_.index_type();
    for (Expr v : kernel_.shape_vars) args.push_back(fmt::format("const {} {}", index, names_.variable(v)));
    std::string starts;
    for (size_t i = 0; i < kernel_.params.size(); ++i) {
      args.push_back(fmt::format("const {} lathe_begin{}", index, i));
      const ast::Buffer& buffer = *kernel_.params[i].buffer;
      if (used_buffers_.count(buffer.id))
        starts += fmt::format("  {} += lathe_begin{};\n", names_.buffer(buffer), i);
    }
    out_.text += fmt::format("\n{}\nvoid {}({}) {{\n{}{}{}}}\n", language_.head(launch), name,
                             fmt::join(args, ", "), local_arrays_, starts, text_);
    out_.functions.push_back(name);
    out_.launches.push_back(launch);
    out_.local_bytes = std::max(out_.local_bytes, local_bytes_);
  }

  /// The launch size of the nest, from the extents of its group and local loops. Sets axes_, the sizes and
  /// parallel_as_group_.
  GridLaunch measure(const ast::Stmt& nest) {
    std::vector<const ast::For*> groups, locals;
    ast::visit(nest_, [&](const ast::Stmt& stmt, const auto&) {
      const auto* f = std::get_if<ast::For>(&stmt.node);
      if (f && f->kind == ast::LoopKind::Group) groups.push_back(f);
      if (f && f->kind == ast::LoopKind::Local) locals.push_back(f);
    });
    GridLaunch launch;
    for (Expr& g : group_sizes_) g = 1;
    for (int64_t& l : local_sizes_) l = 1;
    const auto add_group = [&](int axis, Expr extent) {
      std::vector<Expr> vars;
      collect_vars(extent, vars);
      if (std::any_of(vars.begin(), vars.end(), [](Expr v) { return v.id() >= 0; })) extent = extent.hi();
      group_sizes_[axis] = max(group_sizes_[axis], extent);
    };
    const auto* outermost = std::get_if<ast::For>(&nest.node);
    if (groups.empty() && outermost && outermost->kind == ast::LoopKind::Parallel) {
      parallel_as_group_ = outermost;
      add_group(0, outermost->extent);
    }
    for (const ast::For* f : groups) add_group(f->width, f->extent);
    for (const ast::For* f : locals)
      local_sizes_[f->width] = std::max(local_sizes_[f->width], f->extent.hi());
    for (int axis = 0; axis < 3; ++axis) {
      if (local_sizes_[axis] > 1) axes_.push_back(axis);
      launch.local[axis] = local_sizes_[axis];
      launch.global[axis] = group_sizes_[axis] * local_sizes_[axis];
    }
    return launch;
  }

  // ---- code that all work-items of a group run, where there are several ----
  void group_block(const ast::Block& body) {
    for (size_t i = 0; i < body.size(); ++i) {
      const ast::Stmt& stmt = body[i];
      if (std::holds_alternative<ast::Barrier>(stmt.node)) {
        emit_barrier();
      } else if (has_local_loop(stmt)) {
        shared_statement(stmt);
      } else if (share_out(stmt)) {
        continue;
      } else { // one work-item runs the statements up to the next local loop or barrier
        ast::Block alone;
        std::vector<GroupAccess> accesses;
        for (; i < body.size() && !has_local_loop(body[i]) &&
               !std::holds_alternative<ast::Barrier>(body[i].node);
             ++i) {
          const auto more = group_accesses(body[i]);
          accesses.insert(accesses.end(), more.begin(), more.end());
          alone.push_back(body[i]);
        }
        --i;
        synchronise(accesses);
        const std::string first = is_first(axes_);
        add(first.empty() ? "{" : fmt::format("if ({}) {{", first));
        ++indent_;
        block(alone);
        --indent_;
        add("}");
      }
    }
  }

  static bool binds_axis(const ast::Stmt& stmt, int axis) {
    const ast::Block* body = nullptr;
    if (const auto* loop = std::get_if<ast::For>(&stmt.node)) {
      if (loop->kind == ast::LoopKind::Local && loop->width == axis) return true;
      body = &loop->body;
    } else if (const auto* alloc = std::get_if<ast::Alloc>(&stmt.node)) {
      body = &alloc->body;
    }
    return body &&
           std::any_of(body->begin(), body->end(), [&](const ast::Stmt& s) { return binds_axis(s, axis); });
  }

  void shared_statement(const ast::Stmt& stmt) {
    if (const auto* alloc = std::get_if<ast::Alloc>(&stmt.node)) {
      if (alloc->buffer->scope != ast::Scope::Local)
        throw Error(
            ErrorKind::Device,
            fmt::format("{}: buffer {} of kernel '{}' is shared by work-items, expected it in local memory",
                        language_.name(), alloc->buffer->name, kernel_.name));
      declare_local(*alloc->buffer);
      return group_block(alloc->body);
    }
    const auto& loop = std::get<ast::For>(stmt.node);
    const std::vector<GroupAccess> before = pending_;
    if (loop.kind == ast::LoopKind::Local) {
      synchronise(group_accesses(stmt));
      // If no loop is bound to an axis, only one work-item along it runs this: all would store the same.
      std::vector<int> unbound;
      for (int axis : axes_)
        if (!binds_axis(stmt, axis)) unbound.push_back(axis);
      const std::string first = is_first(unbound);
      if (first.empty()) return special_loop(loop);
      add(fmt::format("if ({}) {{", first));
      ++indent_;
      special_loop(loop);
      --indent_;
      add("}");
      return;
    }
    if (loop.kind == ast::LoopKind::Group) {
      open_bound(loop, language_.group(loop.width), group_sizes_[loop.width]);
      uniform_.push_back(loop.var);
      group_block(loop.body);
      uniform_.pop_back();
      close_bound();
    } else {
      const auto carried = tail_accesses(loop.body);
      pending_.insert(pending_.end(), carried.begin(), carried.end());
      add(fmt::format("for ({2} {0} = 0; {0} < {1}; ++{0}) {{", names_.variable(loop.var),
                      expr(loop.extent, Level::Sum), dialect_.index_type()));
      ++indent_;
      group_block(loop.body);
      --indent_;
      add("}");
    }
    pending_.insert(pending_.end(), before.begin(), before.end()); // the loop may not have run
  }

  /// The accesses of a loop's body after its last barrier. The next iteration may touch the same elements.
  static std::vector<GroupAccess> tail_accesses(const ast::Block& body) {
    std::vector<GroupAccess> out;
    for (auto stmt = body.rbegin(); stmt != body.rend(); ++stmt) {
      if (std::holds_alternative<ast::Barrier>(stmt->node)) break;
      const auto* alloc = std::get_if<ast::Alloc>(&stmt->node);
      const auto more = alloc ? tail_accesses(alloc->body) : group_accesses(*stmt);
      out.insert(out.end(), more.begin(), more.end());
      if (alloc && std::any_of(alloc->body.begin(), alloc->body.end(), [](const ast::Stmt& s) {
            return std::holds_alternative<ast::Barrier>(s.node);
          }))
        break;
    }
    return out;
  }

  /// Whether the store writes a buffer that work-items share, and other elements in each iteration of
  /// `loops`.
  static bool fills_once(const ast::Store& store, const std::vector<const ast::For*>& loops) {
    const ast::Buffer& buffer = *store.buffer;
    if (store.combine || store.scatter || buffer.scope == ast::Scope::Register ||
        buffer.scope == ast::Scope::Packed)
      return false;
    for (const ast::For* f : loops)
      if (std::find(store.index.begin(), store.index.end(), f->var) == store.index.end()) return false;
    bool reads_itself = false;
    ast::visit(store.value, [&](const ast::ValueRef& v) {
      const auto* attr = std::get_if<ast::LoadAttr>(&v->attr);
      reads_itself |= attr && attr->buffer->id == buffer.id;
    });
    return !reads_itself;
  }
  /// Whether this is true of all statements of `body`, and they all write the same buffer.
  static bool fills_once(const ast::Block& body, const std::vector<const ast::For*>& loops) {
    const ast::Buffer* filled = nullptr;
    bool good = true;
    ast::visit(body, [&](const ast::Stmt& stmt, const auto&) {
      const auto* lanes = std::get_if<ast::For>(&stmt.node);
      if (lanes && lanes->kind == ast::LoopKind::Vector) return;
      const auto* store = std::get_if<ast::Store>(&stmt.node);
      good = good && store && fills_once(*store, loops) && (!filled || filled == store->buffer.get());
      if (good) filled = store->buffer.get();
    });
    return good;
  }

  /// Shares out a nest of serial loops among the work-items if it fills a buffer, each element once. Returns
  /// false if the nest does not.
  bool share_out(const ast::Stmt& stmt) {
    std::vector<const ast::For*> loops;
    const ast::Block* body = nullptr; // of the innermost loop
    for (const ast::Stmt* at = &stmt; at;) {
      const auto* f = std::get_if<ast::For>(&at->node);
      if (!f || f->kind != ast::LoopKind::Serial) break;
      loops.push_back(f);
      body = &f->body;
      at = body->size() == 1 ? &body->front() : nullptr;
    }
    if (loops.empty() || axes_.empty() || !fills_once(*body, loops)) return false;

    synchronise(group_accesses(stmt));
    const size_t shared = std::min(axes_.size(), loops.size());
    // Along axes without a loop, only the first work-item runs the nest.
    const std::string first = is_first({axes_.begin() + static_cast<long>(shared), axes_.end()});
    if (!first.empty()) add(fmt::format("if ({})", first));
    for (size_t i = 0; i < loops.size(); ++i) {
      const std::string var = names_.variable(loops[i]->var), extent = expr(loops[i]->extent, Level::Sum);
      const size_t from_inside = loops.size() - 1 - i;
      if (from_inside < shared)
        add(fmt::format("for ({4} {0} = {2}; {0} < {1}; {0} += {3}) {{", var, extent,
                        language_.item(axes_[from_inside]), local_sizes_[axes_[from_inside]],
                        dialect_.index_type()));
      else
        add(fmt::format("for ({2} {0} = 0; {0} < {1}; ++{0}) {{", var, extent, dialect_.index_type()));
      ++indent_;
    }
    block(*body);
    for (size_t i = 0; i < loops.size(); ++i) {
      --indent_;
      add("}");
    }
    return true;
  }

  void synchronise(const std::vector<GroupAccess>& accesses) {
    if (may_meet(pending_, accesses, axes_, uniform_)) emit_barrier();
    pending_.insert(pending_.end(), accesses.begin(), accesses.end());
  }
  void emit_barrier() {
    pending_.clear();
    forget_loads();
    if (!axes_.empty()) add(language_.barrier());
  }

  // ---- loops and buffers of one work-item ----
  /// Opens the loop's one iteration that this group or work-item runs. `size` is the number of groups or
  /// work-items along the axis.
  void open_bound(const ast::For& loop, const std::string& id, Expr size) {
    const std::string var = names_.variable(loop.var);
    add("{");
    ++indent_;
    add(fmt::format("const {} {} = {};", dialect_.index_type(), var, id));
    bounded_.push_back(loop.extent != size);
    if (!bounded_.back()) return;
    add(fmt::format("if ({} < {}) {{", var, expr(loop.extent, Level::Sum)));
    ++indent_;
  }
  void close_bound() {
    for (int braces = bounded_.back() ? 2 : 1; braces > 0; --braces) {
      --indent_;
      add("}");
    }
    bounded_.pop_back();
  }

  void special_loop(const ast::For& loop) override {
    if (loop.kind == ast::LoopKind::Parallel) {
      if (!parallel_as_group_ || loop.var != parallel_as_group_->var) return serial_loop(loop);
      open_bound(loop, language_.group(0), group_sizes_[0]);
    } else if (loop.kind == ast::LoopKind::Group) {
      open_bound(loop, language_.group(loop.width), group_sizes_[loop.width]);
    } else {
      open_bound(loop, language_.item(loop.width), local_sizes_[loop.width]);
    }
    block(loop.body);
    close_bound();
  }

  void barrier() override {
    if (shares_)
      throw InternalError(fmt::format("{} renderer: a barrier inside a local loop of kernel '{}'",
                                      language_.name(), kernel_.name));
  }

  void alloc(const ast::Alloc& alloc) override {
    const ast::Buffer& buffer = *alloc.buffer;
    if (buffer.scope == ast::Scope::Register) return register_alloc(alloc);
    if (buffer.scope != ast::Scope::Local && bytes_of(buffer) <= kMostPrivateBytes) {
      add("{");
      ++indent_;
      add(language_.private_array(dialect_.storage_type(buffer.dtype), names_.buffer(buffer),
                                  elements(buffer)));
      block(alloc.body);
      --indent_;
      return add("}");
    }
    if (shares_ && buffer.scope != ast::Scope::Local)
      throw Error(
          ErrorKind::Device,
          fmt::format("{}: buffer {} of kernel '{}' takes {} bytes of each work-item, expected at most {}",
                      language_.name(), buffer.name, kernel_.name, bytes_of(buffer), kMostPrivateBytes));
    declare_local(buffer); // a group of one work-item: its local memory is private
    block(alloc.body);
  }

  std::string pointer_to(const ast::Buffer& buffer, bool is_written) {
    return language_.pointer(dialect_.storage_type(buffer.dtype), is_written) + " " + names_.buffer(buffer);
  }

  /// The condition that this work-item is the first along `axes`; empty if there are no axes.
  std::string is_first(const std::vector<int>& axes) const {
    std::string condition;
    for (int axis : axes)
      condition += fmt::format("{}{} == 0", condition.empty() ? "" : " && ", language_.item(axis));
    return condition;
  }

  static int64_t elements(const ast::Buffer& buffer) {
    return std::max<int64_t>(1, num_elements(buffer.shape).hi());
  }

  void declare_local(const ast::Buffer& buffer) {
    const std::string& name = names_.buffer(buffer);
    if (!local_names_.insert(name).second) return;
    const std::string type = dialect_.storage_type(buffer.dtype);
    local_arrays_ += fmt::format("  {}\n", language_.shared_array(type, name, elements(buffer)));
    local_bytes_ += (elements(buffer) * size_of(buffer.dtype) + 63) / 64 * 64;
  }

  const ast::Kernel& kernel_;
  const GridLanguage& language_;
  std::string name_;
  GridSource out_;
  std::vector<ast::BufferRef> temporaries_;
  // Of the function being written:
  ast::Block nest_; // holds the one statement
  Expr group_sizes_[3]{1, 1, 1};
  int64_t local_sizes_[3]{1, 1, 1};
  std::vector<int> axes_; // with more than one work-item
  bool shares_ = false;   // there are local loops
  const ast::For* parallel_as_group_ = nullptr;
  std::string local_arrays_;
  std::set<std::string> local_names_;
  int64_t local_bytes_ = 0;
  std::vector<bool> bounded_;        // by open group or local loop: whether an if around it checks its extent
  std::vector<GroupAccess> pending_; // accesses since the last barrier
  std::vector<Expr> uniform_;        // variables of the group loops around
};

} // namespace

GridSource render_grid(const ast::Kernel& kernel, const GridLanguage& language) {
  const ast::Kernel form = ast::machine_form(kernel, forms_of(language.dialect()));
  return GridRenderer(form, language).render();
}

std::string join_grid(const std::vector<GridSource>& sources, const GridLanguage& language) {
  std::string functions;
  bool needs_f64 = false;
  for (const GridSource& source : sources) {
    needs_f64 |= source.needs_f64;
    functions += source.text.substr(source.head);
  }
  return language.helpers(functions, needs_f64) + functions;
}

} // namespace lathe::render
