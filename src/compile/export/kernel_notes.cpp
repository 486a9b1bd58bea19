#include "compile/export/kernel_notes.hpp"

#include <algorithm>
#include <sstream>

#include <fmt/format.h>

#include "compile/explain/duration.hpp"
#include "compile/front/target.hpp"
#include "search/moves/kernel_handles.hpp"

namespace lathe::pipeline {
namespace {

constexpr size_t kWidth = 110; // of a comment's line

/// Lines of comments that begin with `title`. A line that is too long goes on below itself.
void add(std::string& out, std::string_view title, const std::string& text) {
  std::istringstream words(in_comment(text));
  std::string line = fmt::format("// {:<10}", title);
  const size_t margin = line.size();
  for (std::string word; words >> word;) {
    if (line.size() > margin && line.size() + 1 + word.size() > kWidth) {
      out += line + "\n";
      line = fmt::format("// {:<10}", "") + "  ";
    }
    line += " " + word;
  }
  out += line + "\n";
}

/// The loop's name as it was lowered: without what splits and others added.
std::string_view lowered_name(std::string_view loop) {
  const size_t stage = loop.find('.');
  return stage == std::string_view::npos ? loop : loop.substr(0, loop.find('.', stage + 1));
}

} // namespace

std::string in_comment(std::string text) {
  for (size_t k = 0; k < text.size(); ++k) {
    const auto c = static_cast<unsigned char>(text[k]);
    if (c == '\\' || c < 32 || c == 127 || (c == '?' && k > 0 && text[k - 1] == '?')) text[k] = '_';
  }
  return text;
}

void add_comment(render::GridSource& source, const std::string& comment) {
  const bool is_empty_line = source.text[source.head] == '\n'; // which stays before the comment
  source.text.insert(source.head + is_empty_line, comment);
}

KernelNotes::KernelNotes(const search::Plan& plan, const CompileOptions& options, const ValueNames& names)
    : plan_(plan), options_(options), names_(names), formulas_(*plan.program, names.calls),
      target_(target_for(options, *plan.program)), machine_(search::machine_profile()) {
  for (const lower::Stage& stage : plan.program->stages) {
    if (stage.node->sources.empty()) continue;
    const Shape& reduced = stage.node->sources[0]->shape;
    for (const lower::StageLoop& loop : stage.loops) {
      const bool reduces = loop.role == lower::LoopRole::Reducing;
      const auto axis = static_cast<size_t>(loop.axis);
      const Shape& shape = reduces ? reduced : stage.node->shape;
      if (axis >= shape.size() || shape[axis].kind() != ExprKind::Var) continue;
      const char kind = reduces ? 'r' : loop.role == lower::LoopRole::Result ? 'i' : 'z';
      axis_names_.emplace(fmt::format("{}.{}{}", stage.buffer->name, kind, axis),
                          stage.buffer->name + "." + lower::axis_name(kind, axis, shape[axis]));
    }
  }
}

std::string KernelNotes::outputs_of(int stage) const {
  std::string out;
  for (const lower::OutputBuffer& output : plan_.program->outputs)
    if (output.stage == stage) out += fmt::format(", the output \"{}\"", output.name);
  return out;
}

/// The user's names of values that the kernel computes.
std::string KernelNotes::origins_of(const search::KernelPlan& kernel) const {
  std::set<const graph::Node*> computed;
  for (const auto* stages : {&kernel.inlined, &kernel.stages})
    for (const int number : *stages)
      computed.insert(plan_.program->stages[static_cast<size_t>(number)].node.get());
  std::string out;
  for (const auto& [node, name] : names_.origins)
    if (computed.contains(node.get())) out += (out.empty() ? "" : ", ") + name;
  return out;
}

/// A parameter's name, dtype and shape. Users know the inputs' shapes whole.
std::string KernelNotes::text_of(const ast::Buffer& buffer) const {
  const bool is_input = search::stage_of(*plan_.program, buffer) < 0;
  return fmt::format("{} {}{}", buffer.name, to_string(buffer.dtype),
                     is_input ? to_string(buffer.shape) : lower::longer_axes(buffer.shape));
}

std::string KernelNotes::reads_of(const search::KernelPlan& kernel) const {
  std::string out;
  for (const ast::Param& param : kernel.kernel.params)
    if (!param.written) out += (out.empty() ? "" : ", ") + text_of(*param.buffer);
  return out;
}

std::string KernelNotes::predicted(const search::KernelPlan& kernel) const {
  const search::Cost cost = search::cost(kernel, target_, machine_);
  const auto most = std::max_element(cost.terms.begin(), cost.terms.end(),
                                     [](const auto& a, const auto& b) { return a.seconds < b.seconds; });
  std::string out = duration(cost.seconds);
  if (most != cost.terms.end()) out += ", most of it " + most->name;
  return out + (target_.gpu ? "; the model has not been fitted to GPUs" : "");
}

std::string KernelNotes::comment(const search::KernelPlan& kernel) const {
  if (kernel.recurrence >= 0) return "";
  std::string out;
  const auto add_if_any = [&](const char* title, const std::string& text) {
    if (!text.empty()) add(out, title, text);
  };
  add_if_any("from", origins_of(kernel));
  add_if_any("reads", reads_of(kernel));
  const std::set<int> inlined(kernel.inlined.begin(), kernel.inlined.end());
  const char* title = "computes";
  for (const int number : kernel.stages) {
    const ast::Buffer& buffer = *plan_.program->stages[static_cast<size_t>(number)].buffer;
    add(out, title,
        fmt::format("{}: {}{}", text_of(buffer), formulas_.of(number, inlined), outputs_of(number)));
    title = "";
  }
  std::string moves;
  for (const search::Move& move : kernel.moves) moves += (moves.empty() ? "" : "; ") + to_string(move);
  add(out, "schedule", moves.empty() ? "as lowered" : moves);
  add(out, "predicted", predicted(kernel));
  return out;
}

ast::Kernel KernelNotes::with_axis_names(const search::KernelPlan& kernel) const {
  ast::Kernel named = kernel.kernel;
  if (axis_names_.empty()) return named;
  Substitution vars;
  ast::visit(named.body, [&](const ast::Stmt& stmt, const auto&) {
    const auto* loop = std::get_if<ast::For>(&stmt.node);
    if (!loop) return;
    const std::string& name = loop->var.name();
    const std::string_view lowered = lowered_name(name);
    if (const auto found = axis_names_.find(lowered); found != axis_names_.end())
      vars.emplace_back(loop->var, loop_var(loop->var.id(), found->second + name.substr(lowered.size()),
                                            *loop->var.extent()));
  });
  ast::Rewriter rewriter;
  rewriter.on_stmt = [&](ast::Stmt stmt) {
    if (auto* loop = std::get_if<ast::For>(&stmt.node))
      for (const auto& [from, to] : vars)
        if (loop->var == from) loop->var = to;
    ast::Block block;
    block.push_back(std::move(stmt));
    return block;
  };
  named.body = ast::substitute(ast::rewrite(named.body, rewriter), vars);
  return named;
}

} // namespace lathe::pipeline
