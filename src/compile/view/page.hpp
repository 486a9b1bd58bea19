// The viewer as one HTML file: the page of tools/viewer with the data of traces in it.
#pragma once
#include <string>
#include <vector>

#include "compile/view/reader.hpp"

namespace lathe::view {

struct PageTrace {
  std::string name;
  const Compilation* of;
};
/// The page's text, of less than 3 MB: sources and loop nests are left out where they don't fit.
std::string page_of(const std::vector<PageTrace>& traces);
/// The data of one of so many traces, as JSON.
std::string page_data(const PageTrace& trace, size_t of_traces);

/// The viewer's files as one text, of tools/viewer.
struct ViewerText {
  const char* html; // with the words STYLE, SCRIPT and DATA, each between two at signs
  const char* style;
  const char* script;
};
ViewerText viewer_text();

} // namespace lathe::view
