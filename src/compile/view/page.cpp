#include "compile/view/page.hpp"

#include "lathe/error.hpp"

namespace lathe::view {
namespace {

void put(std::string& page, const std::string& word, const std::string& text) {
  const size_t at = page.find(word);
  if (at == std::string::npos) throw InternalError("the viewer's page has no place for " + word);
  page.replace(at, word.size(), text);
}

/// JSON inside a script: "</script>" and "<!--" in a string must not end it. Of all "<" only these are
/// escaped, for sources are full of them.
std::string escaped(const std::string& json) {
  std::string out;
  out.reserve(json.size());
  for (size_t k = 0; k < json.size(); ++k) {
    const char next = k + 1 < json.size() ? json[k + 1] : ' ';
    if (json[k] == '<' && (next == '/' || next == '!' || next == 's' || next == 'S'))
      out += "\\u003c";
    else
      out += json[k];
  }
  return out;
}

} // namespace

std::string page_of(const std::vector<PageTrace>& traces) {
  const ViewerText viewer = viewer_text();
  std::string data;
  for (const PageTrace& trace : traces)
    data += (data.empty() ? "[" : ",\n") + escaped(page_data(trace, traces.size()));
  std::string page = viewer.html;
  put(page, "@STYLE@", viewer.style);
  put(page, "@SCRIPT@", viewer.script);
  put(page, "@DATA@", data + "]");
  return page;
}

} // namespace lathe::view
