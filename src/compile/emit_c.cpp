#include "compile/emit_c.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include <fmt/format.h>

#include "compile/constants.hpp"
#include "compile/shape_values.hpp"
#include "compile/target.hpp"
#include "lathe/error.hpp"
#include "render/c_dialect.hpp"
#include "render/c_names.hpp"
#include "render/render.hpp"

namespace lathe::pipeline {
namespace {

class ProgramWriter {
public:
  ProgramWriter(const search::Plan& plan, const std::vector<KernelParam>& declared,
                const CompileOptions& options)
      : plan_(plan), program_(*plan.program), declared_(declared),
        vector_bytes_(vector_bytes_of(options.cpu)), dialect_(render::make_c_dialect(vector_bytes_)) {}

  std::string write() {
    std::string out = render::c_prelude();
    write_kernels(out);
    std::vector<std::string> params;
    name_inputs(out, params);
    name_outputs(params);
    name_vars(params);
    place_intermediates(out);
    out += fmt::format("\n/* Not to be called from two threads at once{}. */\nvoid lathe_program({}) {{\n",
                       arena_bytes_ ? ": intermediates are static" : "",
                       params.empty() ? "void" : fmt::format("{}", fmt::join(params, ", ")));
    for (const std::string& line : unused_) out += "  (void)" + line + ";\n";
    for (size_t k = 0; k < plan_.kernels.size(); ++k) out += "  " + call(k) + "\n";
    for (const std::string& line : copies_) out += "  " + line + "\n";
    return out + "}\n";
  }

private:
  void write_kernels(std::string& out) {
    for (const search::KernelPlanRef& plan : plan_.kernels) {
      ast::Kernel kernel = finalise(plan->kernel);
      kernel.name = names_.fresh(plan->kernel.name);
      functions_.push_back(render::function_name(kernel));
      out += "\nstatic " + render::render_c(kernel, {vector_bytes_, true, {}});
    }
  }

  std::string pointer(DType dtype, const std::string& name, bool written) {
    return fmt::format("{}{}* {}", written ? "" : "const ", dialect_->storage_type(dtype), name);
  }

  void name_inputs(std::string& out, std::vector<std::string>& params) {
    std::map<std::string, std::string> name_of;
    for (const KernelParam& input : declared_) {
      const std::string name = name_of[input.name] = names_.fresh(input.name);
      params.push_back(pointer(input.dtype, name, false));
      unused_.push_back(name);
    }
    std::map<int, StorageRef> constants; // by buffer
    for (const lower::InputBuffer& input : program_.inputs) {
      const auto& attr = std::get<graph::InputAttr>(input.node->attr);
      if (attr.data)
        constants[input.buffer->id] = attr.data;
      else
        place_[input.buffer->id] = name_of.at(attr.name);
    }
    for (const search::KernelPlanRef& plan : plan_.kernels) {
      for (const ast::Kernel& fill : plan->constants)
        constants[fill.params[1].buffer->id] =
            laid_out_constant(fill, constants.at(fill.params[0].buffer->id));
      for (const ast::Param& param : plan->kernel.params) { // of a constant only what is read is written down
        const auto data = constants.find(param.buffer->id);
        if (data == constants.end() || place_.count(param.buffer->id)) continue;
        const std::string name = names_.fresh(param.buffer->name);
        write_data(out, name, *param.buffer, *data->second);
        place_[param.buffer->id] = name + ".values";
      }
    }
  }

  /// By their bits, so that every value comes through as it is.
  void write_data(std::string& out, const std::string& name, const ast::Buffer& buffer, const Storage& data) {
    const auto width = static_cast<size_t>(size_of(buffer.dtype));
    const auto count = static_cast<size_t>(num_elements(buffer.shape).value());
    out += fmt::format("\nstatic const union {{\n  uint{0}_t bits[{1}];\n  {2} values[{1}];\n}} {3} "
                       "__attribute__((aligned(128))) = {{{{",
                       width * 8, count, dialect_->storage_type(buffer.dtype), name);
    const auto* bytes = static_cast<const unsigned char*>(data.data());
    for (size_t k = 0; k < count; ++k) {
      uint64_t bits = 0;
      std::memcpy(&bits, bytes + k * width, width);
      out += fmt::format("{}0x{:x}{}",
                         k == 0        ? ""
                         : k % 12 == 0 ? ",\n  "
                                       : ", ",
                         bits, width == 8 ? "u" : "");
    }
    out += "}};\n";
  }

  void name_outputs(std::vector<std::string>& params) {
    std::vector<lower::OutputBuffer> sorted = program_.outputs;
    std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
    for (const lower::OutputBuffer& output : sorted) {
      const ast::Buffer& buffer = *program_.stages[static_cast<size_t>(output.stage)].buffer;
      const std::string name = names_.fresh(output.name);
      params.push_back(pointer(buffer.dtype, name, true));
      const auto [it, is_first] = place_.emplace(buffer.id, name);
      if (is_first) continue;
      copy_later_.push_back({name, it->second, &buffer});
    }
  }

  void name_vars(std::vector<std::string>& params) {
    for (const Expr var : program_.shape_vars) {
      const std::string name = var_name_[var.name()] = names_.fresh(var.name());
      params.push_back("int64_t " + name);
      unused_.push_back(name);
    }
    for (const Copy& copy : copy_later_) {
      std::string bytes = fmt::format("(size_t){}", size_of(copy.buffer->dtype));
      for (const Expr size : copy.buffer->shape) bytes += fmt::format(" * (size_t)({})", size_text(size));
      copies_.push_back(fmt::format("memcpy({}, {}, {});", copy.to, copy.from, bytes));
    }
  }

  std::string size_text(Expr e) const {
    const auto both = [&](const char* format) {
      return fmt::format(fmt::runtime(format), size_text(e.lhs()), size_text(e.rhs()));
    };
    switch (e.kind()) {
    case ExprKind::Const: return std::to_string(e.value());
    case ExprKind::Var: return var_name_.at(e.name());
    case ExprKind::Add: return both("({} + {})");
    case ExprKind::Mul: return both("({} * {})");
    case ExprKind::FloorDiv: return both("lathe_floordiv({}, {})");
    case ExprKind::Mod: return both("lathe_floormod({}, {})");
    case ExprKind::Min: return both("lathe_min({}, {})");
    case ExprKind::Max: return both("lathe_max({}, {})");
    case ExprKind::Lt: return both("({} < {})");
    case ExprKind::Le: return both("({} <= {})");
    case ExprKind::Eq: return both("({} == {})");
    case ExprKind::And: return both("({} && {})");
    }
    throw InternalError("emit: unknown kind of expression");
  }

  /// Memory is shared by intermediates of the same dtype only: C's aliasing rules see to the rest.
  void place_intermediates(std::string& out) {
    struct Intermediate {
      ast::BufferRef buffer;
      lower::LiveRange range;
    };
    std::map<DType, std::vector<Intermediate>> by_dtype;
    std::map<int, std::pair<DType, size_t>> known;
    for (size_t k = 0; k < plan_.kernels.size(); ++k)
      for (const ast::Param& param : plan_.kernels[k]->kernel.params) {
        const int id = param.buffer->id, when = static_cast<int>(k);
        if (place_.count(id)) continue;
        auto& list = by_dtype[param.buffer->dtype];
        const auto [it, is_new] = known.emplace(id, std::pair{param.buffer->dtype, list.size()});
        if (is_new)
          list.push_back({param.buffer, {when, when, largest_bytes(*param.buffer)}});
        else
          list[it->second.second].range.last = when;
      }
    for (const auto& [dtype, list] : by_dtype) {
      std::vector<lower::LiveRange> ranges;
      for (const Intermediate& one : list) ranges.push_back(one.range);
      const lower::MemoryPlan memory = lower::plan_memory(ranges, 128);
      arena_bytes_ += memory.peak;
      const std::string name = names_.fresh(std::string("arena_") + to_string(dtype));
      out += fmt::format("\nstatic {} {}[{}] __attribute__((aligned(128)));\n", dialect_->storage_type(dtype),
                         name, std::max<int64_t>(1, memory.peak / size_of(dtype)));
      for (size_t k = 0; k < list.size(); ++k)
        place_[list[k].buffer->id] = fmt::format("{} + {}", name, memory.offsets[k] / size_of(dtype));
    }
  }

  std::string call(size_t k) {
    const ast::Kernel& kernel = plan_.kernels[k]->kernel;
    std::vector<std::string> arguments;
    for (const ast::Param& param : kernel.params) arguments.push_back(place_.at(param.buffer->id));
    for (const Expr var : kernel.shape_vars) arguments.push_back(var_name_.at(var.name()));
    return fmt::format("{}({});", functions_[k], fmt::join(arguments, ", "));
  }

  struct Copy {
    std::string to, from;
    const ast::Buffer* buffer;
  };
  const search::Plan& plan_;
  const lower::Program& program_;
  const std::vector<KernelParam>& declared_;
  const int vector_bytes_;
  std::unique_ptr<render::Dialect> dialect_;
  render::Names names_;
  std::vector<std::string> functions_, unused_, copies_;
  std::vector<Copy> copy_later_;
  std::map<int, std::string> place_; // of a buffer, by id
  std::map<std::string, std::string> var_name_;
  int64_t arena_bytes_ = 0;
};

} // namespace

std::string emit_c(const search::Plan& plan, const std::vector<KernelParam>& declared_inputs,
                   const CompileOptions& options) {
  return ProgramWriter(plan, declared_inputs, options).write();
}

} // namespace lathe::pipeline
