// Plans on disk are one library's: the hash of the sources that decide them covers all that the search is
// made of. The real #include lines say what that is.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <string>
#include <vector>

namespace fs = std::filesystem;

namespace {

const fs::path kRoot = LATHE_SOURCE_DIR;

std::set<fs::path> hashed_sources() {
  std::set<fs::path> files;
  std::ifstream list(LATHE_SEARCH_SOURCES);
  for (std::string line; std::getline(list, line);)
    if (!line.empty()) files.insert(fs::weakly_canonical(line));
  return files;
}

/// The project's own headers that a file includes. A quoted name is relative to src, an angled one may be a
/// public header.
std::vector<fs::path> headers_of(const fs::path& file) {
  static const std::regex line_pattern(R"re(\s*#\s*include\s*[<"]([^>"]+)[>"].*)re");
  std::vector<fs::path> found;
  std::ifstream in(file);
  std::smatch match;
  for (std::string line; std::getline(in, line);) {
    if (!std::regex_match(line, match, line_pattern)) continue;
    for (const char* base : {"src", "include"})
      if (const fs::path header = kRoot / base / match[1].str(); fs::exists(header))
        found.push_back(fs::weakly_canonical(header));
  }
  return found;
}

/// The files, what they include, and the sources that belong to the headers among them.
std::set<fs::path> closure(std::vector<fs::path> open) {
  std::set<fs::path> known;
  while (!open.empty()) {
    const fs::path file = fs::weakly_canonical(open.back());
    open.pop_back();
    if (!known.insert(file).second) continue;
    for (const fs::path& header : headers_of(file)) open.push_back(header);
    fs::path source = file;
    if (source.replace_extension(".cpp"); file.extension() == ".hpp" && fs::exists(source))
      open.push_back(source);
  }
  return known;
}

} // namespace

TEST_CASE("the hash of the search's sources covers all that decides a plan") {
  std::vector<fs::path> search;
  for (const auto& entry : fs::recursive_directory_iterator(kRoot / "src/search"))
    if (entry.path().extension() == ".cpp") search.push_back(entry.path());
  REQUIRE(search.size() > 50);
  const std::set<fs::path> hashed = hashed_sources(), needed = closure(search);
  CHECK(needed.size() > 100);
  for (const fs::path& file : needed) CHECK_MESSAGE(hashed.contains(file), file);
  // Who asks for a search decides what is searched, and for which target.
  for (const char* file :
       {"src/compile/schedule.cpp", "src/compile/front/target.cpp", "src/compile/pipeline.cpp"})
    CHECK_MESSAGE(hashed.contains(fs::weakly_canonical(kRoot / file)), file);
  // What went unnoticed once: a constant of the cost model that lies in another room.
  CHECK(needed.contains(fs::weakly_canonical(kRoot / "src/render/prefetch.hpp")));
}
