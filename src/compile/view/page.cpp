#include "compile/view/page.hpp"

#include "lathe/error.hpp"

namespace lathe::view {
namespace {

void put(std::string& page, const std::string& word, const std::string& text) {
  const size_t at = page.find(word);
  if (at == std::string::npos) throw InternalError("the viewer's page has no place for " + word);
  page.replace(at, word.size(), text);
}

/// JSON inside a script: "</script>" in a string must not end it.
std::string escaped(const std::string& json) {
  std::string out;
  out.reserve(json.size());
  for (const char c : json)
    if (c == '<')
      out += "\\u003c";
    else
      out += c;
  return out;
}

} // namespace

std::string page_of(const std::vector<PageTrace>& traces) {
  const ViewerText viewer = viewer_text();
  std::string data;
  for (const PageTrace& trace : traces) data += (data.empty() ? "[" : ",\n") + escaped(page_data(trace));
  std::string page = viewer.html;
  put(page, "@STYLE@", viewer.style);
  put(page, "@SCRIPT@", viewer.script);
  put(page, "@DATA@", data + "]");
  return page;
}

} // namespace lathe::view
