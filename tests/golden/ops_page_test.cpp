// docs/ops.md is the op table, printed. To write it anew: LATHE_UPDATE=1 ctest --test-dir build/release -R
// ops_page
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "core/op.hpp"

using namespace lathe;

namespace {

const char* to_string(OpKind kind) {
  switch (kind) {
  case OpKind::Leaf: return "leaf";
  case OpKind::Unary: return "unary";
  case OpKind::Binary: return "binary";
  case OpKind::Ternary: return "ternary";
  case OpKind::Reduce: return "reduce";
  case OpKind::Memory: return "memory";
  case OpKind::Lowered: return "lowered";
  }
  return "";
}

const char* to_string(DTypeClass cls) {
  switch (cls) {
  case DTypeClass::Any: return "any";
  case DTypeClass::Number: return "numbers";
  case DTypeClass::Float: return "floats";
  case DTypeClass::Integer: return "integers";
  case DTypeClass::BitLike: return "integers, bool";
  }
  return "";
}

std::string page() {
  std::string text = "# The op table\n\n"
                     "Every program is made of these. This page is `src/core/ops.def`, printed by "
                     "`tests/golden/ops_page_test.cpp`.\n\n"
                     "| op | kind | sources | dtypes | meaning |\n|---|---|---|---|---|\n";
  for (int i = 0; i < op_count(); ++i) {
    const OpInfo& row = info(static_cast<Op>(i));
    std::string sources = row.arity < 0 ? "any" : std::to_string(row.arity);
    text += fmt::format("| {} | {} | {} | {} | {} |\n", row.name, to_string(row.kind), sources,
                        to_string(row.dtypes), row.meaning);
  }
  return text;
}

} // namespace

TEST_CASE("docs/ops.md is current") {
  const std::string path = std::string(LATHE_SOURCE_DIR) + "/docs/ops.md";
  if (std::getenv("LATHE_UPDATE")) std::ofstream(path) << page();
  std::ostringstream written;
  written << std::ifstream(path).rdbuf();
  CHECK(written.str() == page());
}

TEST_CASE("the table stays small") { CHECK(op_count() <= 38); }
