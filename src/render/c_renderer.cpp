// C11 from a kernel: functions, parameters, scratch and parallel loops.
#include <algorithm>

#include <fmt/format.h>

#include "ast/machine/machine_form.hpp"
#include "lathe/error.hpp"
#include "render/c_family.hpp"
#include "render/render.hpp"

namespace lathe::render {
namespace {

constexpr const char* kParameters =
    "void* const* buffers, const int64_t* vars, char* scratch, const struct lathe_env* env";
constexpr const char* kBodyParameters = "int64_t {}, void* const* buffers, const int64_t* vars, char* outer, "
                                        "char* scratch, const struct lathe_env* env";

class CRenderer : public CFamily {
public:
  CRenderer(const ast::Kernel& kernel, const COptions& options, const Dialect& dialect)
      : CFamily(dialect), kernel_(kernel), options_(options), function_(names_.fresh(kernel.name)) {
    for (const ast::Param& p : kernel.params) names_.buffer(*p.buffer);
    for (Expr v : kernel.shape_vars) names_.variable(v);
  }

  std::string render() {
    block(kernel_.body);
    const std::string body = finish_body({});
    const std::string head =
        options_.standalone ? standalone_head() : fmt::format("void {}({})", function_, kParameters);
    return fmt::format("{}{} {{\n{}}}\n", functions_, head, body);
  }

private:
  std::string standalone_head() {
    std::vector<std::string> params;
    for (const ast::Param& p : kernel_.params)
      params.push_back(fmt::format("{}{}* LATHE_RESTRICT {}", p.written ? "" : "const ",
                                   dialect_.storage_type(p.buffer->dtype), names_.buffer(*p.buffer)));
    for (Expr v : kernel_.shape_vars) params.push_back(fmt::format("int64_t {}", names_.variable(v)));
    if (options_.parallel || !options_.scratch_offsets.empty()) params.push_back("char* scratch");
    if (options_.parallel) params.push_back("const struct lathe_env* env");
    return fmt::format("static void {}({})", function_,
                       params.empty() ? "void" : fmt::format("{}", fmt::join(params, ", ")));
  }

  /// The text written so far, after declarations of the names that it uses. `inside_parallel` are the buffers
  /// in the scratch of the thread that runs this iteration; others are in the caller's scratch.
  std::string finish_body(const std::set<int>& inside_parallel) {
    std::string out;
    const auto declare = [&](const std::string& line) { out += "  " + line + "\n"; };
    if (options_.standalone) silence_unused(declare);
    if (!options_.standalone || in_parallel_) {
      for (size_t i = 0; i < kernel_.params.size(); ++i) {
        const ast::Param& p = kernel_.params[i];
        if (!used_buffers_.count(p.buffer->id)) continue;
        const std::string type = (p.written ? "" : "const ") + dialect_.storage_type(p.buffer->dtype);
        declare(fmt::format("{0}* const {1} = ({0}*)buffers[{2}];", type, names_.buffer(*p.buffer), i));
      }
      for (size_t i = 0; i < kernel_.shape_vars.size(); ++i)
        if (used_shape_vars_.count(kernel_.shape_vars[i].name()))
          declare(fmt::format("const int64_t {} = vars[{}];", names_.variable(kernel_.shape_vars[i]), i));
    }
    for (const auto& [id, buffer] : used_buffers_) {
      const auto offset = scratch_offset(id);
      if (!offset) continue;
      const bool outer = in_parallel_ && !inside_parallel.count(id);
      declare(fmt::format("{0}* const {1} = ({0}*)({2} + {3});", scratch_type(buffer->dtype),
                          names_.buffer(*buffer), outer ? "outer" : "scratch", *offset));
    }
    out += text_;
    if (streams_) out += "  lathe_stream_fence();\n";
    return out;
  }

  /// Declares casts to void of parameters that the function may not use.
  template <class Declare> void silence_unused(const Declare& declare) {
    if (in_parallel_) {
      for (const char* name : {"buffers", "vars", "outer", "scratch", "env"})
        declare(fmt::format("(void){};", name));
      return;
    }
    for (const ast::Param& p : kernel_.params)
      if (!used_buffers_.count(p.buffer->id)) declare(fmt::format("(void){};", names_.buffer(*p.buffer)));
    for (Expr v : kernel_.shape_vars)
      if (!used_shape_vars_.count(v.name())) declare(fmt::format("(void){};", names_.variable(v)));
    if (options_.parallel) declare("(void)scratch;"), declare("(void)env;");
  }

  /// Calls the body of a parallel loop from a function with typed parameters.
  void call_body(const std::string& extent, const std::string& body) {
    std::vector<std::string> buffers, vars;
    for (const ast::Param& p : kernel_.params)
      buffers.push_back(fmt::format("(void*){}", names_.buffer(*p.buffer)));
    for (Expr v : kernel_.shape_vars) vars.push_back(names_.variable(v));
    if (vars.empty()) vars.push_back("0"); // C has no empty arrays
    add("{");
    ++indent_;
    add(fmt::format("void* const buffers[] = {{{}}};", fmt::join(buffers, ", ")));
    add(fmt::format("const int64_t vars[] = {{{}}};", fmt::join(vars, ", ")));
    add(fmt::format("env->parallel_for(env, {}, {}, buffers, vars, scratch);", extent, body));
    --indent_;
    add("}");
  }

  /// A type that may alias others, since buffers of different dtypes share scratch.
  std::string scratch_type(DType dtype) const {
    return fmt::format("lathe_{}_a", dialect_.storage_type(dtype));
  }

  std::optional<size_t> scratch_offset(int id) const {
    const auto it = options_.scratch_offsets.find(id);
    return it == options_.scratch_offsets.end() ? std::nullopt : std::optional(it->second);
  }

  void alloc(const ast::Alloc& a) override {
    if (a.buffer->scope == ast::Scope::Register) return register_alloc(a);
    const int id = a.buffer->id;
    if (!scratch_offset(id))
      throw InternalError(fmt::format("C renderer: no scratch offset for buffer {}", a.buffer->name));
    if (in_parallel_) allocated_inside_.insert(id);
    block(a.body);
  }

  void special_loop(const ast::For& loop) override {
    const bool outermost = indent_ == 1 && !in_parallel_;
    const bool calls_back = !options_.standalone || options_.parallel;
    if (loop.kind != ast::LoopKind::Parallel || !calls_back || !outermost) return serial_loop(loop);
    const std::string name = names_.fresh(fmt::format("{}_body{}", function_, bodies_++));
    std::string outside = std::exchange(text_, {});
    auto buffers = std::exchange(used_buffers_, {});
    auto vars = std::exchange(used_shape_vars_, {});
    const bool streams = std::exchange(streams_, false);
    in_parallel_ = true;
    allocated_inside_.clear();
    forget_loads();
    block(loop.body);
    forget_loads();
    const std::string body = finish_body(allocated_inside_);
    in_parallel_ = false;
    functions_ += fmt::format("static void {}({}) {{\n{}}}\n", name,
                              fmt::format(fmt::runtime(kBodyParameters), names_.variable(loop.var)), body);
    text_ = std::move(outside);
    used_buffers_ = std::move(buffers);
    used_shape_vars_ = std::move(vars);
    streams_ = streams;
    if (options_.standalone) {
      for (const ast::Param& p : kernel_.params) used_buffers_.emplace(p.buffer->id, p.buffer);
      for (Expr v : kernel_.shape_vars) used_shape_vars_.insert(v.name());
      return call_body(expr(loop.extent), name);
    }
    add(fmt::format("env->parallel_for(env, {}, {}, buffers, vars, scratch);", expr(loop.extent), name));
  }

  void barrier() override {
    throw Error(ErrorKind::Device,
                fmt::format("c: kernel '{}' has a barrier, expected one without", kernel_.name));
  }

  const ast::Kernel& kernel_;
  const COptions& options_;
  std::string function_;
  std::string functions_; // the bodies of parallel loops
  int bodies_ = 0;
  bool in_parallel_ = false;
  std::set<int> allocated_inside_;
};

} // namespace

std::string render_c(const ast::Kernel& kernel, const COptions& options) {
  const auto dialect = make_c_dialect(std::min(options.vector_bytes, 64));
  const ast::Kernel form = ast::machine_form(kernel, forms_of(*dialect));
  return CRenderer(form, options, *dialect).render();
}

} // namespace lathe::render
