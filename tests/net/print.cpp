// Programs as text: one line a step, C++ that compiles, and JSON for tests/net/peers.py.
#include "net/program.hpp"
#include "net/rows.hpp"

namespace lathe::net {
namespace {

std::string value_text(DType d, Cell c) {
  if (d == DType::Bool) return bool_text(c.v != 0);
  if (d == DType::U64) return fmt::format("{}u", static_cast<uint64_t>(c.v));
  if (!is_float(d)) {
    const auto v = static_cast<int64_t>(c.v);
    return v == INT64_MIN ? "INT64_MIN" : fmt::format("{}", v);
  }
  if (std::isnan(c.v)) return "NAN";
  if (std::isinf(c.v)) return c.v < 0 ? "-INFINITY" : "INFINITY";
  const std::string text = fmt::format("{}", static_cast<double>(c.v));
  return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
}

std::string data_text(const Array& a) {
  static const char* const types[] = {"bool",    "int8_t",   "int16_t",  "int32_t",  "int64_t",
                                      "uint8_t", "uint16_t", "uint32_t", "uint64_t", "double",
                                      "double",  "float",    "double"};
  std::string values;
  for (size_t k = 0; k < a.at.size(); ++k) {
    if (k) values += k % 16 ? ", " : ",\n      ";
    const std::string v = value_text(a.dtype, a.at[k]);
    values += a.dtype == DType::F32 && v.find('N') == std::string::npos ? v + "f" : v;
  }
  return fmt::format("Tensor::from(std::vector<{}>{{{}}}, {}){}", types[static_cast<int>(a.dtype)], values,
                     shape_text(a.shape),
                     is_half(a.dtype) ? fmt::format(".cast({})", dtype_text(a.dtype)) : "");
}

Texts names_of(const Step& s) {
  Texts names;
  for (int k : s.in) names.push_back(fmt::format("x{}", k));
  return names;
}

std::string number_json(Real v) {
  if (std::isnan(v)) return "\"nan\"";
  if (std::isinf(v)) return v < 0 ? "\"-inf\"" : "\"inf\"";
  if (v == std::trunc(v) && std::fabs(v) <= 18446744073709551615.0L && std::fabs(v) > 9e15L)
    return v < 0 ? fmt::format("{}", static_cast<int64_t>(v)) : fmt::format("{}", static_cast<uint64_t>(v));
  return fmt::format("{:.17g}", static_cast<double>(v));
}

std::string cells_json(const Array& a) {
  std::string v, e;
  for (Cell c : a.at) {
    v += (v.empty() ? "" : ", ") + number_json(c.v);
    e += (e.empty() ? "" : ", ") + (c.decided() ? number_json(c.exact() ? 0 : c.e) : "\"inf\"");
  }
  return fmt::format("\"values\": [{}], \"bounds\": [{}]", v, e);
}

} // namespace

std::string shape_text(const Sizes& shape) { return list_text(shape); }

std::string as_lines(const Program& program) {
  std::string out;
  for (size_t k = 0; k < program.steps.size(); ++k) {
    const Step& s = program.steps[k];
    out += fmt::format("  x{} = {}\n", k,
                       is_leaf(s)
                           ? fmt::format("{} {}{}", s.function->name, to_string(s.dtype), shape_text(s.ints))
                           : s.function->text(s, names_of(s)));
  }
  return out;
}

std::string as_cpp(const Program& program, const RunOptions& options) {
  const std::vector<Array> values = evaluate_reference(program);
  std::string out = "#include <cmath>\n#include <iostream>\n#include <lathe/lathe.hpp>\nusing namespace "
                    "lathe;\n\nint main() {\n";
  out += fmt::format("  set_default_device(\"{}\");\n", options.device);
  std::string feeds, outputs;
  for (size_t k = 0; k < program.steps.size(); ++k) {
    const Step& s = program.steps[k];
    if (is_input(s)) {
      out += fmt::format("  const Tensor x{0} = Tensor::input(\"x{0}\", {1}, {2});\n", k, shape_text(s.ints),
                         dtype_text(s.dtype));
      feeds += fmt::format("{}{{\"x{}\", {}}}", feeds.empty() ? "" : ",\n                              ", k,
                           data_text(values[k]));
    } else if (is_leaf(s)) {
      out += fmt::format("  const Tensor x{} = {};\n", k, data_text(values[k]));
    } else {
      out += fmt::format("  const Tensor x{} = {};\n", k, s.function->text(s, names_of(s)));
    }
  }
  for (size_t k = 0; k < program.outputs.size(); ++k)
    outputs += fmt::format("{}{{\"o{}\", x{}}}", k ? ", " : "", k, program.outputs[k]);
  out += fmt::format("  const Executable run = compile({{{}}}, {{.device = \"{}\"{}, .winograd = 0}});\n",
                     outputs, options.device, options.quick ? ", .search = Search::Quick" : "");
  out += fmt::format("  const NamedTensors out = run({{{}}});\n", feeds);
  for (size_t k = 0; k < program.outputs.size(); ++k) {
    const Array& a = values[static_cast<size_t>(program.outputs[k])];
    std::string want;
    for (size_t i = 0; i < std::min<size_t>(a.at.size(), 64); ++i)
      want += (i ? " " : "") + (a.at[i].decided() ? value_text(a.dtype, a.at[i]) : "?");
    out += fmt::format("  std::cout << out.at(\"o{}\") << \"\\n\"; // expected: {}\n", k, want);
  }
  return out + "}\n";
}

std::string as_json(const Program& program, const std::vector<Array>& reference) {
  std::string out = "{\"steps\": [";
  for (size_t k = 0; k < program.steps.size(); ++k) {
    const Step& s = program.steps[k];
    std::string reals;
    for (double r : s.reals) reals += (reals.empty() ? "" : ", ") + number_json(r);
    out +=
        fmt::format("{}\n  {{\"function\": \"{}\", \"in\": [{}], \"ints\": [{}], \"more\": [{}], \"reals\": "
                    "[{}], \"text\": \"{}\", \"asked\": \"{}\", \"dtype\": \"{}\", \"shape\": [{}], {}}}",
                    k ? "," : "", s.function->name, fmt::join(s.in, ", "), fmt::join(s.ints, ", "),
                    fmt::join(s.more, ", "), reals, s.text, to_string(s.dtype), to_string(reference[k].dtype),
                    fmt::join(reference[k].shape, ", "), cells_json(reference[k]));
  }
  return out + fmt::format("],\n \"outputs\": [{}]}}", fmt::join(program.outputs, ", "));
}

} // namespace lathe::net
