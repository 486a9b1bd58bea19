// Printing views, and parsing what was printed back.
#include <fmt/core.h>

#include "core/scanner.hpp"
#include "view/view.hpp"

namespace lathe {
namespace {

using Lookup = std::function<std::optional<Expr>(std::string_view)>;

class ViewParser {
public:
  ViewParser(std::string_view text, const Lookup& lookup)
      : in_(fmt::format("view '{}'", text), text), lookup_(lookup) {}

  View parse() {
    in_.expect("view(");
    const Shape shape = list();
    in_.expect(", strides");
    const std::vector<Expr> strides = list();
    in_.expect(", offset");
    const Expr offset = parse_expr(in_.until(",)"), lookup_);
    std::vector<Interval> mask;
    const bool masked = in_.accept(", mask");
    if (masked)
      for (const std::string_view part : bracketed()) {
        const auto ends = split_list(part, ':');
        if (ends.size() != 2) in_.fail("begin:end");
        mask.push_back({parse_expr(ends[0], lookup_), parse_expr(ends[1], lookup_)});
      }
    in_.expect(")");
    if (!in_.at_end()) in_.fail("the end");
    if (strides.size() != shape.size() || (masked && mask.size() != shape.size()))
      in_.fail("as many strides and intervals as axes");
    return View(shape, strides, offset, std::move(mask));
  }

private:
  std::vector<std::string_view> bracketed() {
    in_.expect("[");
    const auto parts = split_list(in_.until("]"), ',');
    in_.expect("]");
    return parts;
  }
  std::vector<Expr> list() {
    std::vector<Expr> out;
    for (const std::string_view part : bracketed()) out.push_back(parse_expr(part, lookup_));
    return out;
  }

  Scanner in_;
  const Lookup& lookup_;
};

} // namespace

std::string to_string(const View& v) {
  std::string out = fmt::format("view({}, strides {}, offset {}", to_string(v.shape()),
                                to_string(v.strides()), to_string(v.offset()));
  if (v.has_mask()) {
    out += ", mask [";
    for (size_t k = 0; k < v.mask().size(); k++)
      out += fmt::format("{}{}:{}", k ? ", " : "", to_string(v.mask()[k].begin), to_string(v.mask()[k].end));
    out += "]";
  }
  return out + ")";
}

View parse_view(std::string_view text, const Lookup& lookup) { return ViewParser(text, lookup).parse(); }

} // namespace lathe
