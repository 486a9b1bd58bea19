// The functions of lathe/trace.hpp.
#include "lathe/trace.hpp"

#include <algorithm>
#include <filesystem>
#include <ostream>

#include <fmt/format.h>

#include "compile/view/page.hpp"
#include "compile/view/print.hpp"
#include "compile/view/reader.hpp"
#include "compile/view/replay.hpp"
#include "core/files.hpp"
#include "lathe/error.hpp"

namespace lathe {

TraceCheck check_trace(const std::string& path, int64_t states) {
  view::TraceContents contents = view::read_trace(path);
  TraceCheck& check = contents.check;
  if (contents.compilations.empty()) view::pick(contents, path, -1);
  int64_t all = 0;
  for (const view::Compilation& of : contents.compilations) all += static_cast<int64_t>(of.states.size());
  const int64_t step = states > 0 ? std::max<int64_t>(1, (all + states - 1) / states) : all + 1;
  int64_t at = 0;
  for (const view::Compilation& of : contents.compilations) {
    view::Replay replay(of);
    for (const auto& [id, state] : of.states) {
      if (at++ % step) continue;
      try {
        replay.check(id);
        ++check.replayed;
      } catch (const Error& e) {
        check.faults.push_back({state.line, fmt::format("{}:{}: {}", path, state.line, e.what())});
      }
    }
  }
  return check;
}

std::string print_trace(const std::string& path, const TracePrint& what) {
  const view::TraceContents contents = view::read_trace(path);
  const view::Compilation& of = view::pick(contents, path, what.compilation);
  if (what.picture == "graph") return view::print_graph(of);
  if (what.picture == "rewrites") return view::print_rewrites(of);
  if (what.picture == "search") return view::print_search(of);
  if (what.picture == "kernel") return view::print_kernel(of, what.kernel);
  if (what.picture == "timeline") return view::print_timeline(of);
  if (what.picture == "arena") return view::print_arena(of);
  throw Error(
      ErrorKind::Name,
      fmt::format("view: no picture '{}', expected graph, rewrites, search, kernel, timeline or arena",
                  what.picture));
}

void write_trace_page(const std::vector<std::string>& traces, const std::string& page) {
  std::vector<view::TraceContents> contents;
  std::vector<view::PageTrace> shown;
  for (const std::string& path : traces) contents.push_back(view::read_trace(path));
  for (size_t k = 0; k < traces.size(); ++k)
    shown.push_back(
        {std::filesystem::path(traces[k]).filename().string(), &view::pick(contents[k], traces[k], -1)});
  const std::string text = view::page_of(shown);
  write_to_path(page, [&](std::ostream& out) { out << text; });
}

} // namespace lathe
