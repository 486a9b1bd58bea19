// A program as one list of instructions.
#include <fmt/format.h>

#include "onnx/program/program.hpp"

namespace lathe::onnx {
namespace {

struct Line {
  std::string text;
  const Segment* target = nullptr; // of a jump: its text continues with where that segment begins
  std::string condition{};
};

std::string text_of(const Value& value) {
  if (value.is_none()) return "nothing";
  if (value.is_sequence()) {
    std::string text;
    for (const Value& element : value.elements()) text += (text.empty() ? "" : ", ") + text_of(element);
    return "(" + text + ")";
  }
  if (value.is_map() || value.is_map_rows())
    return fmt::format("map{} {} to {}", value.is_map() ? "" : "s", text_of(value.keys()),
                       text_of(value.values()));
  if (value.is_strings() && !value.ids()) return "constant " + type_text(value);
  if (has_symbols(value)) {
    std::string text;
    for (const Expr element : *value.integers()) text += (text.empty() ? "" : ", ") + to_string(element);
    return "{" + text + "}";
  }
  const std::vector<std::string> named = value.is_strings() ? value.ids()->inputs() : value.tensor().inputs();
  return named.empty() ? "constant " + type_text(value) : "%" + named[0];
}

/// The op's texts as they stand, but for what no line holds.
std::string text_of(const HostStep& step) {
  std::string operands;
  for (const Value& input : step.inputs) operands += (operands.empty() ? "" : ", ") + text_of(input);
  for (const std::string& text : step.op.texts) {
    operands += ", \"";
    for (const char c : text)
      operands += std::isprint(static_cast<unsigned char>(c))
                      ? std::string(1, c)
                      : fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    operands += '"';
  }
  for (const int64_t number : step.op.integers) operands += fmt::format(", {}", number);
  return fmt::format("host %{} = {}({})", step.outputs.at(0), step.op.name, operands);
}

std::string text_of(const std::vector<Scalar>& seen) {
  std::string text;
  for (size_t k = 0; k < seen.size() && k < 8; ++k) text += (k ? ", " : "") + to_string(seen[k]);
  return text + (seen.size() > 8 ? ", ..." : "");
}

/// "seen0 = 2 to 65536, 3, seen0 + 1": a variable with its bounds.
std::string text_of(const OpenBranch& branch) {
  std::string text;
  for (const Expr number : branch.numbers) {
    text += (text.empty() ? "" : ", ") + to_string(number);
    if (number.is_var() || (-number).is_var()) text += fmt::format(" = {} to {}", number.lo(), number.hi());
  }
  return text;
}

class Printer {
public:
  std::string run(const Program::Impl& program) {
    if (!program.is_closed()) {
      line("look at the inputs' shapes");
      for (const auto& [shapes, root] : program.roots)
        jump(root.get(), shapes.empty() ? "sizes of one name are equal, and no version has them" : shapes);
      line("trace what the model does with them, and go on there");
      for (auto root = program.roots.rbegin(); root != program.roots.rend(); ++root)
        open_.push_back(root->second.get());
    } else {
      for (const auto& [shapes, root] : program.roots) open_.push_back(root.get());
    }
    while (!open_.empty()) {
      const Segment* segment = open_.back();
      open_.pop_back();
      print(*segment);
    }
    std::string out;
    for (size_t k = 0; k < lines_.size(); ++k)
      out += fmt::format("{:>4}  {}{}\n", k, lines_[k].text,
                         lines_[k].target
                             ? fmt::format(" {} if {}", starts_.at(lines_[k].target), lines_[k].condition)
                             : "");
    return out;
  }

private:
  void line(std::string text) { lines_.push_back({std::move(text)}); }
  void jump(const Segment* target, const std::string& condition) {
    if (target->made) lines_.push_back({"jump", target, condition});
  }

  void print(const Segment& segment) {
    starts_[&segment] = lines_.size();
    if (!segment.made) return;
    if (segment.code) {
      const std::string code = segment.code->now().print();
      for (size_t start = 0; start < code.size();) {
        const size_t end = std::min(code.find('\n', start), code.size());
        line(code.substr(start, end - start));
        start = end + 1;
      }
    }
    if (segment.is_last()) {
      std::string results;
      for (const auto& [name, value] : segment.results)
        results += (results.empty() ? " " : ", ") + name + " = " + text_of(value);
      return line("return" + results);
    }
    line(segment.host ? text_of(*segment.host) : "look %" + segment.looked_at);
    for (const auto& [seen, next] : segment.next)
      jump(next.get(), segment.host ? "its sizes are " + text_of(seen) : text_of(seen));
    for (const OpenBranch& branch : segment.open)
      if (branch.state == OpenBranch::State::Taken)
        jump(branch.segment.get(), (segment.host ? "its sizes are " : "") + text_of(branch));
    line("trace what the model does with it, and go on there");
    for (auto branch = segment.open.rbegin(); branch != segment.open.rend(); ++branch)
      if (branch->state == OpenBranch::State::Taken) open_.push_back(branch->segment.get());
    for (auto next = segment.next.rbegin(); next != segment.next.rend(); ++next)
      open_.push_back(next->second.get());
  }

  std::vector<Line> lines_;
  std::map<const Segment*, size_t> starts_;
  std::vector<const Segment*> open_; // to be printed, the next one last
};

} // namespace

std::string Program::print() const {
  std::lock_guard lock(impl_->mutex);
  return Printer().run(*impl_);
}

} // namespace lathe::onnx
