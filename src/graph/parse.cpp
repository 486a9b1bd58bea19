// Reads what print() writes. Every fault of the text is Error(Syntax) naming the line.
#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "core/scanner.hpp"
#include "graph/function.hpp"
#include "graph/node.hpp"
#include "graph/scan.hpp"

namespace lathe::graph {
namespace {

// Whether the view reads inside its source. Text can state any view, and one that reaches outside must not be
// run. Symbolic sizes are tried at both ends of their bounds.
bool stays_inside(const View& v, const Shape& source) {
  for (const bool high : {false, true}) {
    const auto at = [&](Expr e) { return evaluate(e, [&](Expr var) { return high ? var.hi() : var.lo(); }); };
    __int128 least = at(v.offset()), most = least;
    bool empty = false;
    for (size_t i = 0; i < v.shape().size(); ++i) {
      const int64_t begin = at(v.mask()[i].begin), end = at(v.mask()[i].end), stride = at(v.strides()[i]);
      empty |= begin >= end;
      if (begin < 0 || end > at(v.shape()[i])) return false;
      const __int128 first = static_cast<__int128>(stride) * begin,
                     last = static_cast<__int128>(stride) * (end - 1);
      least += std::min(first, last);
      most += std::max(first, last);
    }
    __int128 count = 1;
    for (Expr size : source) count *= at(size);
    if (!empty && (least < 0 || most >= count)) return false;
  }
  return true;
}

class Parser {
public:
  explicit Parser(const std::function<NodeRef(uint64_t)>& realised_input) : realised_input_(realised_input) {}

  std::vector<NodeRef> run(std::string_view text) {
    while (!text.empty() && !returned_) {
      const std::string_view s = next_line(text);
      if (s.starts_with("body ")) {
        body(s, text);
      } else {
        line(s);
      }
    }
    if (!returned_) fail("the end of the text", "a line 'return %i, ...'");
    return std::move(results_);
  }

private:
  /// Takes a line from the text.
  std::string_view next_line(std::string_view& text) {
    const size_t end = text.find('\n');
    ++line_number_;
    const std::string_view s = trim(text.substr(0, end));
    text = end == std::string_view::npos ? std::string_view{} : text.substr(end + 1);
    return s;
  }

  /// Takes the lines of a Scan's body, after its first, from the text.
  void body(std::string_view head, std::string_view& text) {
    const std::string_view start = text;
    for (int depth = 1; depth > 0;) {
      if (text.empty()) fail("the end of the text", "'end' of a body");
      const std::string_view s = next_line(text);
      depth += s.starts_with("body ") ? 1 : s == "end" ? -1 : 0;
    }
    constexpr std::string_view kForm =
        "'body i: states i, scanned i, parameters i, backward [...]', perhaps with ', when i'";
    const size_t colon = head.find(": ");
    if (colon == std::string_view::npos || head.substr(0, colon) != fmt::format("body {}", bodies_.size()))
      fail(head, kForm);
    const auto parts = split_list(head.substr(colon + 2), ',');
    if (parts.size() != 4 && parts.size() != 5) fail(head, kForm);
    auto made = std::make_shared<ScanBody>();
    made->states = number_after("states ", parts[0]);
    made->scanned = number_after("scanned ", parts[1]);
    const size_t parameters = number_after("parameters ", parts[2]);
    if (!parts[3].starts_with("backward ")) fail(head, kForm);
    for (std::string_view b : bracketed(parts[3].substr(9))) made->backward.push_back(integer<int>(b) != 0);
    if (parts.size() == 5) made->when = number_after("when ", parts[4]);
    made->results = Parser(realised_input_).run(start.substr(0, start.size() - text.size()));
    if (parameters > made->results.size()) fail(head, "as many results as parameters or more");
    const auto first = made->results.begin() + static_cast<long>(parameters);
    made->parameters.assign(made->results.begin(), first);
    made->results.erase(made->results.begin(), first);
    bodies_.push_back(std::move(made));
  }
  size_t number_after(std::string_view word, std::string_view s) const {
    if (!s.starts_with(word)) fail(s, fmt::format("'{}i'", word));
    return integer<size_t>(s.substr(word.size()));
  }

  [[noreturn]] void fail(std::string_view found, std::string_view expected) const {
    throw Error(ErrorKind::Syntax,
                fmt::format("graph text: line {}: '{}', expected {}", line_number_, found, expected));
  }

  template <class T> T integer(std::string_view s) const {
    const auto value = to_integer<T>(s);
    if (!value) fail(s, "an integer");
    return *value;
  }

  Expr expr(std::string_view s) const {
    return parse_expr(s, [&](std::string_view name) { return lookup(name); });
  }
  std::optional<Expr> lookup(std::string_view name) const {
    const auto it = variables_.find(name);
    return it == variables_.end() ? std::nullopt : std::optional<Expr>(it->second);
  }

  NodeRef reference(std::string_view s) const {
    if (s.empty() || s[0] != '%') fail(s, "a reference like %3");
    const size_t i = integer<size_t>(s.substr(1));
    if (i >= nodes_.size()) fail(s, "a node defined above");
    return nodes_[i];
  }

  std::vector<std::string_view> bracketed(std::string_view s) const {
    if (s.size() < 2 || s.front() != '[' || s.back() != ']') fail(s, "a list in brackets");
    return split_list(s.substr(1, s.size() - 2), ',');
  }

  void line(std::string_view s) {
    if (s.empty()) return;
    if (s.starts_with("var ")) return variable(trim(s.substr(4)));
    if (s == "return" || s.starts_with("return ")) {
      for (std::string_view r : split_list(s.substr(6), ',')) results_.push_back(reference(r));
      returned_ = true;
      return;
    }
    definition(s);
  }

  void variable(std::string_view s) {
    const size_t in = s.find(" in ");
    if (in == std::string_view::npos) fail(s, "'var n in [lo, hi]'");
    const auto bounds = bracketed(trim(s.substr(in + 4)));
    if (bounds.size() != 2 && bounds.size() != 3) fail(s, "two bounds, and perhaps a typical value");
    std::optional<int64_t> typical;
    if (bounds.size() == 3) typical = integer<int64_t>(bounds[2]);
    const std::string_view name = trim(s.substr(0, in));
    variables_.insert_or_assign(
        std::string(name),
        Var(name, integer<int64_t>(bounds[0]), integer<int64_t>(bounds[1]), typical).expr());
  }

  void definition(std::string_view s) {
    const size_t equals = s.find(" = "), open = s.find('('), colon = s.rfind(") : ");
    if (equals == std::string_view::npos || open == std::string_view::npos ||
        colon == std::string_view::npos || open < equals || colon < open)
      fail(s, "'%i = Op(arguments) : dtype[shape]'");
    if (s.substr(0, equals) != fmt::format("%{}", nodes_.size()))
      fail(s.substr(0, equals), fmt::format("%{}", nodes_.size()));
    const Op op = parse_op(s.substr(equals + 3, open - equals - 3));
    const std::string_view type = trim(s.substr(colon + 4));
    const size_t bracket = type.find('[');
    if (bracket == std::string_view::npos) fail(type, "dtype[shape]");
    const DType dtype = parse_dtype(type.substr(0, bracket));
    Shape shape;
    for (std::string_view size : bracketed(type.substr(bracket))) shape.push_back(expr(size));
    NodeRef node = build(op, dtype, shape, split_list(s.substr(open + 1, colon - open - 1), ','));
    const auto [made, its_shape] = op == Op::Input ? declared_as(node) : Declared{node->dtype, node->shape};
    if (made != dtype || its_shape != shape)
      fail(type, fmt::format("{}{}, which the sources give", to_string(made), to_string(its_shape)));
    nodes_.push_back(std::move(node));
  }

  NodeRef build(Op op, DType dtype, const Shape& shape, const std::vector<std::string_view>& args) const {
    const auto want = [&](size_t least, size_t most) {
      if (args.size() < least || args.size() > most)
        fail(to_string(op), least == most ? fmt::format("{} arguments", least)
                                          : fmt::format("{} to {} arguments", least, most));
    };
    switch (op) {
    case Op::Const:
      want(1, 1);
      if (args[0].starts_with("expr ")) return constant(expr(args[0].substr(5)), dtype, shape);
      return constant(parse_scalar(dtype, args[0]), shape);
    case Op::Input: want(1, 1); return input_of(args[0], dtype, shape);
    case Op::Iota:
      want(1, 1);
      if (!args[0].starts_with("axis ")) fail(args[0], "'axis i'");
      return iota(integer<int>(args[0].substr(5)), dtype, shape);
    case Op::Cast: want(1, 1); return cast(reference(args[0]), dtype);
    case Op::Bitcast: want(1, 1); return bitcast(reference(args[0]), dtype);
    case Op::Where: want(3, 3); return where(reference(args[0]), reference(args[1]), reference(args[2]));
    case Op::Reduce: {
      want(3, 3);
      if (!args[2].starts_with("axes ")) fail(args[2], "'axes [i, ...]'");
      std::vector<int> axes;
      for (std::string_view axis : bracketed(args[2].substr(5))) axes.push_back(integer<int>(axis));
      return reduce(combine(args[1]), reference(args[0]), std::move(axes));
    }
    case Op::Transform: {
      want(3, 16);
      if (!args[1].starts_with("axes ")) fail(args[1], "'axes [i, ...]'");
      TransformAttr attr;
      for (std::string_view axis : bracketed(args[1].substr(5))) attr.axes.push_back(integer<int>(axis));
      want(attr.axes.size() + 2, attr.axes.size() + 2);
      for (size_t k = 2; k < args.size(); ++k) attr.matrices.push_back(matrix(args[k]));
      return transform(reference(args[0]), std::move(attr));
    }
    case Op::View: {
      want(2, 2);
      const View v = parse_view(args[1], [&](std::string_view name) { return lookup(name); });
      NodeRef source = reference(args[0]);
      if (!stays_inside(v, source->shape))
        fail(args[1], "a view inside its source of " + to_string(source->shape));
      return view(std::move(source), v);
    }
    case Op::Gather: want(2, 2); return gather(reference(args[0]), reference(args[1]));
    case Op::Scatter:
      want(3, 4);
      return scatter(reference(args[0]), reference(args[1]), reference(args[2]),
                     args.size() == 4 ? std::optional<Op>(combine(args[3])) : std::nullopt);
    case Op::Function: {
      want(2, 8);
      const size_t space = args.back().find(' ');
      const FunctionRule* rule = function_rule(args.back().substr(0, space));
      if (!rule) fail(args.back(), "a function with a derivative of its own");
      want(rule->arguments + 2, rule->arguments + 2);
      std::vector<NodeRef> sources;
      for (size_t k = 0; k + 1 < args.size(); ++k) sources.push_back(reference(args[k]));
      const double parameter = space == std::string_view::npos
                                   ? 0
                                   : parse_scalar(DType::F64, args.back().substr(space + 1)).as_float();
      return function(std::move(sources), {rule, parameter});
    }
    case Op::Scan: {
      want(3, args.size());
      const size_t count = args.size() - 3;
      const size_t position = number_after("body ", args[count]);
      if (position >= bodies_.size()) fail(args[count], "a body defined above");
      if (!args[count + 1].starts_with("steps ")) fail(args[count + 1], "'steps n'");
      const Expr steps = expr(args[count + 1].substr(6));
      const auto result = static_cast<int>(number_after("result ", args[count + 2]));
      std::vector<NodeRef> sources;
      for (size_t k = 0; k < count; ++k) sources.push_back(reference(args[k]));
      return scan_result(std::move(sources), {bodies_[position], steps, result});
    }
    case Op::Contiguous: want(1, 1); return contiguous(reference(args[0]));
    default:
      if (info(op).kind == OpKind::Unary) {
        want(1, 1);
        return unary(op, reference(args[0]));
      }
      if (info(op).kind == OpKind::Binary) {
        want(2, 2);
        return binary(op, reference(args[0]), reference(args[1]));
      }
      fail(to_string(op), "an op of the graph");
    }
  }

  SmallMatrix matrix(std::string_view text) const {
    SmallMatrix m;
    for (std::string_view row : bracketed(text)) {
      ++m.rows;
      const auto numbers = bracketed(row);
      m.columns = static_cast<int>(numbers.size());
      for (std::string_view v : numbers) m.values.push_back(parse_scalar(DType::F64, v).as_float());
    }
    return m;
  }

  Op combine(std::string_view name) const {
    const Op op = parse_op(name);
    if (op != Op::Add && op != Op::Mul && op != Op::Max && op != Op::Or && op != Op::And)
      fail(name, "Add, Mul, Max, Or or And");
    return op;
  }

  NodeRef input_of(std::string_view arg, DType dtype, const Shape& shape) const {
    if (!arg.starts_with('#')) return input(std::string(arg), dtype, shape);
    NodeRef node = realised_input_ ? realised_input_(integer<uint64_t>(arg.substr(1))) : NodeRef{};
    if (!node) fail(arg, "the id of a realised tensor that is known here");
    return node;
  }

  const std::function<NodeRef(uint64_t)>& realised_input_;
  std::map<std::string, Expr, std::less<>> variables_;
  std::vector<NodeRef> nodes_, results_;
  std::vector<ScanBodyRef> bodies_;
  size_t line_number_ = 0;
  bool returned_ = false;
};

} // namespace

std::vector<NodeRef> parse(std::string_view text, const std::function<NodeRef(uint64_t)>& realised_input) {
  return Parser(realised_input).run(text);
}

} // namespace lathe::graph
