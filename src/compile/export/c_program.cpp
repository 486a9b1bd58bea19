#include "compile/export/c_program.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "compile/export/export_text.hpp"
#include "compile/front/shape_values.hpp"
#include "graph/scan.hpp"
#include "lathe/error.hpp"
#include "render/render.hpp"

namespace lathe::pipeline {

CProgram::CProgram(const ProgramLayout& layout, int threads, int64_t begin, const CProgram* outer)
    : layout_(layout), threads_(threads), outer_(outer), end_(begin) {
  for (const auto& [dtype, bytes] : layout_.arenas) region_[dtype] = reserve(bytes);
  for (const ast::Kernel& kernel : layout_.kernels) {
    scratch_.push_back(runtime::layout_scratch(kernel));
    scratch_bytes_ = std::max(scratch_bytes_, static_cast<int64_t>(scratch_.back().bytes));
  }
  recurrences_.resize(layout_.kernels.size());
  for (size_t k = 0; k < recurrences_.size(); ++k) {
    const auto& recurrence = layout_.recurrences[k];
    if (!recurrence) continue;
    Recurrence& made = recurrences_[k];
    made.body.reset(new CProgram(recurrence->body, threads, end_, this));
    end_ = made.body->end_;
    scratch_bytes_ = std::max(scratch_bytes_, made.body->scratch_bytes_);
    const graph::ScanBody& body = *std::get<graph::ScanAttr>(recurrence->program->node->attr).body;
    for (size_t i = 0; i < body.states; ++i)
      for (int turn = 0; turn < 2; ++turn)
        made.states.push_back(
            reserve(largest_bytes({0, "state", body.results[i]->dtype, body.results[i]->shape})));
  }
}

int64_t CProgram::reserve(int64_t bytes) {
  const int64_t begin = end_;
  end_ += (bytes + kPlaceAlignment - 1) / kPlaceAlignment * kPlaceAlignment;
  return begin;
}

std::string CProgram::kernels(int vector_bytes) const {
  std::string out;
  for (size_t k = 0; k < scratch_.size(); ++k) {
    if (recurrences_[k].body) {
      out += recurrences_[k].body->kernels(vector_bytes);
      continue;
    }
    render::COptions options;
    options.vector_bytes = vector_bytes;
    options.standalone = true;
    options.scratch_offsets = scratch_[k].offset_of;
    options.parallel = parallel();
    out.append("\n").append(layout_.comments[k]).append(render::render_c(layout_.kernels[k], options));
  }
  return out;
}

/// The statements that run a recurrence. Pointers have the names of the body's inputs and outputs.
class CProgram::RecurrenceText {
public:
  RecurrenceText(const CProgram& program, size_t kernel, const ConstantText& constant)
      : program_(program), kernel_(program.layout_.kernels[kernel]), made_(program.recurrences_[kernel]),
        recurrence_(*program.layout_.recurrences[kernel]->program),
        layout_(program.layout_.recurrences[kernel]->body), constant_(constant),
        attr_(std::get<graph::ScanAttr>(recurrence_.node->attr)), body_(*attr_.body) {}

  std::string run(const std::string& indent) const {
    std::string out = indent + "{\n", step, next, last;
    const std::string inner = indent + "  ", innermost = inner + "  ";
    const auto line = [](std::string& to, const std::string& before, const std::string& text) {
      if (!text.empty()) to += before + text + "\n";
    };
    line(out, inner, leaves_steps_out() ? "int64_t step, turn = 0;" : "int64_t step;");
    for (size_t k = 0; k < body_.parameters.size(); ++k) {
      if (is_row(k))
        line(step, innermost, parameter(k));
      else
        line(out, inner, parameter(k));
    }
    for (size_t k = 0; k < body_.results.size(); ++k) line(step, innermost, result(k));
    step += made_.body->calls(constant_, innermost);
    for (const ProgramLayout::Copy& copy : layout_.copies)
      if (!body_.is_state(result_of(copy.to)) && !is_written_as(result_of(copy.from), result_of(copy.to)))
        line(step, innermost, made_.body->copy(copy));
    for (size_t i = 0; i < body_.states; ++i) {
      if (!is_kept(i)) continue;
      line(next, innermost, fmt::format("{} = {};", state_name(i), written_name(i)));
      line(last, inner, last_state(i));
    }
    if (leaves_steps_out()) {
      step.insert(0, left_out(innermost));
      line(next, innermost, "++turn;");
    }
    const std::string goes_on = body_.ends_early() ? fmt::format(" && *{}", state_name(*body_.when)) : "";
    if (body_.ends_early()) last.insert(0, cleared(inner, "step", steps() + " - step"));
    return out + fmt::format("{0}for (step = 0; step < {1}{2}; ++step) {{\n{3}{4}{0}}}\n{5}{6}}}\n", inner,
                             steps(), goes_on, step, next, last, indent);
  }

private:
  bool is_row(size_t k) const { return k >= body_.states && k < body_.states + body_.scanned; }

  const ProgramLayout::Port* input(size_t k) const {
    const std::string& name = std::get<graph::InputAttr>(body_.parameters[k]->attr).name;
    for (const ProgramLayout::Port& port : layout_.inputs)
      if (port.declared.name == name) return &port;
    return nullptr; // the body does not read it
  }
  size_t output(size_t result) const {
    const std::string name = fmt::format("r{}", result);
    const auto at = std::find_if(layout_.outputs.begin(), layout_.outputs.end(),
                                 [&](const ProgramLayout::Port& port) { return port.declared.name == name; });
    return static_cast<size_t>(at - layout_.outputs.begin());
  }
  size_t result_of(size_t output) const {
    return std::stoull(layout_.outputs[output].declared.name.substr(1));
  }
  const ProgramLayout::Copy* copy_to(size_t result) const {
    for (const ProgramLayout::Copy& copy : layout_.copies)
      if (copy.to == output(result)) return &copy;
    return nullptr;
  }

  std::string steps() const { return size_text(attr_.steps, program_.layout_.var_names); }

  /// Whether a row says of each step whether it runs.
  bool leaves_steps_out() const { return body_.when && !body_.ends_early(); }

  /// The statement that leaves a step out.
  std::string left_out(const std::string& indent) const {
    const size_t k = *body_.when;
    const std::string rows = program_.place_text(*recurrence_.sources[k], constant_);
    return fmt::format("{0}if (!({1})[{2}]) {{\n{3}{0}  continue;\n{0}}}\n", indent, rows,
                       position(k - body_.states, "step"), cleared(indent + "  ", "step", "1"));
  }

  /// Statements that make the rows of `count` steps from `first` on 0.
  std::string cleared(const std::string& indent, const std::string& first, const std::string& count) const {
    std::string out;
    for (size_t k = body_.states; k < body_.results.size(); ++k) {
      if (recurrence_.stages[k] < 0 || !body_.is_cleared(k)) continue;
      const size_t flag = body_.scanned + k - body_.states;
      const std::string begin =
          position(flag, body_.backward[flag] ? fmt::format("({} + {} - 1)", first, count) : first);
      out += fmt::format("{}memset({} + (size_t){} * (size_t){}, 0, (size_t)({}) * (size_t){} * {});\n",
                         indent, place_of(k), begin, this->count(body_.results[k]), count,
                         this->count(body_.results[k]), size_of(body_.results[k]->dtype));
    }
    return out;
  }

  /// Whether anything reads the state.
  bool is_kept(size_t state) const {
    return input(state) || recurrence_.stages[state] >= 0 || (body_.ends_early() && *body_.when == state);
  }

  /// The stacked result that equals a state, so that the state lies in its row; 0: none.
  size_t row_of_state(size_t state) const {
    for (const ProgramLayout::Copy& copy : layout_.copies)
      if (copy.from == output(state) && !body_.is_state(result_of(copy.to))) return result_of(copy.to);
    return 0;
  }
  bool is_a_states_row(size_t result) const {
    const ProgramLayout::Copy* copy = copy_to(result);
    return copy && is_written_as(result_of(copy->from), result);
  }
  bool is_written_as(size_t state, size_t result) const {
    return body_.is_state(state) && row_of_state(state) == result;
  }

  std::string state_name(size_t i) const {
    const ProgramLayout::Port* port = input(i);
    return port ? port->name : layout_.outputs[output(i)].name + "_before";
  }
  /// Where a step left a state: a value that equals another is written once.
  const std::string& written_name(size_t i) const {
    const ProgramLayout::Copy* copy = copy_to(i);
    return layout_.outputs[copy ? copy->from : output(i)].name;
  }

  std::string count(const graph::NodeRef& node) const {
    return count_text(node->shape, program_.layout_.var_names);
  }
  /// The offset of this step's row.
  std::string row(size_t flag, const graph::NodeRef& node) const {
    return fmt::format("(size_t){} * (size_t){}", position(flag, "step"), count(node));
  }
  /// The position of a step's row.
  std::string position(size_t flag, const std::string& step) const {
    return body_.backward[flag] ? fmt::format("({} - 1 - {})", steps(), step) : step;
  }

  /// The pointer to a source, or to a row of it.
  std::string parameter(size_t k) const {
    const graph::NodeRef& node = body_.parameters[k];
    const bool is_state = k < body_.states;
    if (is_state ? !is_kept(k) : !input(k)) return {};
    const std::string source = program_.place_text(*recurrence_.sources[k], constant_);
    return fmt::format("const {}* {}{} = {}{};", storage_type(node->dtype), is_state ? "" : "const ",
                       is_state ? state_name(k) : input(k)->name, source,
                       is_row(k) ? " + " + row(k - body_.states, node) : "");
  }

  /// The pointer to what a step writes; none for a state that equals another result.
  std::string result(size_t k) const {
    const graph::NodeRef& node = body_.results[k];
    const std::string type = storage_type(node->dtype);
    if (!body_.is_state(k)) {
      if (recurrence_.stages[k] < 0 || is_a_states_row(k)) return {};
      return fmt::format("{}* const {} = {} + {};", type, layout_.outputs[output(k)].name, place_of(k),
                         row(body_.scanned + k - body_.states, node));
    }
    if (copy_to(k)) return {};
    if (const size_t stacked = row_of_state(k))
      return fmt::format("{}* const {} = {} + {};", type, layout_.outputs[output(k)].name, place_of(stacked),
                         row(body_.scanned + stacked - body_.states, node));
    return fmt::format("{0}* const {1} = ({0}*)(memory + ({2} % 2 ? {3} : {4}));", type,
                       layout_.outputs[output(k)].name, leaves_steps_out() ? "turn" : "step",
                       made_.states[2 * k + 1], made_.states[2 * k]);
  }

  std::string last_state(size_t i) const {
    if (recurrence_.stages[i] < 0) return {};
    const graph::NodeRef& node = body_.results[i];
    return fmt::format("memcpy({}, {}, (size_t){} * (size_t){});", place_of(i), state_name(i),
                       size_of(node->dtype), count(node));
  }

  /// The place of a result in the program around the body. The kernel writes the results that are read, in
  /// their order.
  std::string place_of(size_t result) const {
    const auto& stages = recurrence_.stages;
    auto before = std::count_if(stages.begin(), stages.begin() + static_cast<long>(result),
                                [](int stage) { return stage >= 0; });
    for (const ast::Param& param : kernel_.params)
      if (param.written && before-- == 0) return program_.place_text(*param.buffer, constant_);
    throw InternalError("a recurrence without a place for its result");
  }

  const CProgram& program_;
  const ast::Kernel& kernel_;
  const Recurrence& made_;
  const lower::Recurrence& recurrence_;
  const ProgramLayout& layout_; // of the body
  const ConstantText& constant_;
  const graph::ScanAttr& attr_;
  const graph::ScanBody& body_;
};

std::string CProgram::calls(const ConstantText& constant, const std::string& indent) const {
  std::string out;
  for (size_t k = 0; k < scratch_.size(); ++k)
    out += recurrences_[k].body ? RecurrenceText(*this, k, constant).run(indent)
                                : indent + call(k, constant) + "\n";
  return out;
}

std::string CProgram::copy(const ProgramLayout::Copy& copy) const {
  return fmt::format("memcpy({}, {}, (size_t){} * (size_t){});", layout_.outputs[copy.to].name,
                     layout_.outputs[copy.from].name, size_of(copy.buffer->dtype),
                     count_text(copy.buffer->shape, layout_.var_names));
}

std::string CProgram::statements(const ConstantText& constant) const {
  std::string out = calls(constant, "  ");
  if (parallel()) out = "  lathe_begin(&team);\n" + out + "  lathe_end(&team);\n";
  for (const ProgramLayout::Copy& copy : layout_.copies) out += "  " + this->copy(copy) + "\n";
  return out;
}

std::string CProgram::place_text(const ast::Buffer& buffer, const ConstantText& constant) const {
  const ProgramLayout::Place& place = layout_.places.at(buffer.id);
  const std::string type = storage_type(buffer.dtype);
  switch (place.home) {
  case ProgramLayout::Home::Input: return layout_.inputs[place.index].name;
  case ProgramLayout::Home::Output: return layout_.outputs[place.index].name;
  case ProgramLayout::Home::Constant: return constant(place.index, type);
  case ProgramLayout::Home::Arena: break;
  }
  return fmt::format("({}*)(memory + {})", type, region_.at(buffer.dtype) + place.offset);
}

std::string CProgram::call(size_t k, const ConstantText& constant) const {
  const ast::Kernel& kernel = layout_.kernels[k];
  const CProgram* whole = this;
  while (whole->outer_) whole = whole->outer_;
  std::vector<std::string> arguments;
  for (const ast::Param& param : kernel.params) arguments.push_back(place_text(*param.buffer, constant));
  for (const Expr var : kernel.shape_vars) arguments.push_back(layout_.var_names.at(var.name()));
  if (parallel() || !scratch_[k].offset_of.empty())
    arguments.push_back(whole->scratch_bytes_ ? fmt::format("(char*)(memory + {})", whole->end_) : "NULL");
  if (parallel()) arguments.push_back("&team.env");
  return fmt::format("{}({});", render::function_name(kernel), fmt::join(arguments, ", "));
}

} // namespace lathe::pipeline
