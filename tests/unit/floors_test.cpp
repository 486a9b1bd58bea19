// The plan of the house, checked over the real #include lines: an include points downwards or inside its own
// room, there along the order of the room's README, and third-party types stay in the rooms that own them.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

namespace fs = std::filesystem;

namespace {

/// What each room may include of the project, besides itself. "lathe" is include/lathe.
const std::map<std::string, std::set<std::string>> kMayInclude = {
    {"lathe", {}},
    {"shared", {}},
    {"core", {"lathe"}},
    {"view", {"lathe", "core"}},
    {"graph", {"lathe", "core", "view"}},
    {"ast", {"lathe", "core", "view"}},
    {"lower", {"lathe", "core", "view", "graph", "ast"}},
    {"render", {"lathe", "core", "view", "graph", "ast"}},
    {"search", {"lathe", "core", "view", "graph", "ast", "lower", "render"}},
    {"runtime", {"lathe", "core", "view", "graph", "ast", "lower", "render"}},
    {"compile", {"lathe", "core", "view", "graph", "ast", "lower", "render", "search", "runtime"}},
    {"onnx", {"lathe"}},
    {"cli", {"lathe"}},
    {"tools", {"lathe", "cli"}},
    {"bench", {"lathe", "search", "compile", "cli"}},
    {"examples", {"lathe"}},
};

/// Of rooms that have rooms of their own: what each of these may include of the others. "" is what lies in
/// the folder itself.
using Order = std::map<std::string, std::set<std::string>>;
const std::map<std::string, Order> kInside = {
    {"graph",
     {{"", {}},
      {"tensor", {""}},
      {"array_functions", {""}},
      {"linear_algebra", {""}},
      {"control", {""}},
      {"forms", {""}},
      {"folding", {""}}}},
    {"ast", {{"", {}}, {"passes", {""}}, {"machine", {"", "passes"}}}},
    {"search",
     {{"machine", {}},
      {"moves", {"machine"}},
      {"cost", {"machine", "moves"}},
      {"suggest", {"machine", "moves", "cost"}},
      {"store", {"moves"}},
      {"beam", {"machine", "moves", "cost", "suggest", "store"}}}},
    {"compile",
     {{"trace", {}},
      {"view", {"trace", "run", "explain"}},
      {"front", {"trace"}},
      {"run", {"trace", "front"}},
      {"explain", {"front", "run"}},
      {"measure", {"front", "run"}},
      {"", {"trace", "front", "run", "measure"}},
      {"export", {"front", "run", "explain", ""}},
      {"saved", {"front", "run", ""}}}},
};

/// Where a room's files are, unless in the folder of src that bears its name.
const std::map<std::string, std::string> kFolder = {{"lathe", "include/lathe"},
                                                    {"cli", "tools/cli"},
                                                    {"tools", "tools/lathe"},
                                                    {"bench", "bench"},
                                                    {"examples", "examples"}};

/// Which files may include a header that is not for all, such as a third party's: a pattern for the header,
/// one for the path.
const std::vector<std::pair<std::regex, std::regex>> kThirdParty = {
    {std::regex("(llvm|llvm-c)/.*"), std::regex("src/(render|runtime)/llvm.*")},
    {std::regex("CL/.*"), std::regex("src/runtime/opencl.*")},
    {std::regex("Eigen/.*"), std::regex("bench/.*")},
    {std::regex("sqlite3.*"), std::regex("src/search/store/database.*")},
    {std::regex("re2/.*"), std::regex("src/onnx/strings/pattern.*")},
    {std::regex(".*\\.pb\\.h|google/protobuf/.*"), std::regex("src/onnx/.*")},
    {std::regex("lathe/detail/held.hpp"), std::regex("(src|tests|include/lathe)/.*")}, // of private members
    {std::regex("lathe/detail/(?!held.hpp).*"), std::regex("(src|tests|include/lathe/detail)/.*")},
};

struct Include {
  std::string file;   // from the repository's root
  std::string room;   // of the file
  std::string header; // as written
};

std::vector<Include> includes_of(const fs::path& root, const std::string& folder, const std::string& room) {
  static const std::regex line_pattern(R"re(\s*#\s*include\s*([<"])([^>"]+)[>"].*)re");
  std::vector<Include> found;
  if (!fs::exists(root / folder)) return found;
  for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
    std::string ext = entry.path().extension();
    if (ext != ".cpp" && ext != ".hpp" && ext != ".def" && ext != ".h") continue;
    std::ifstream in(entry.path());
    std::smatch match;
    for (std::string line; std::getline(in, line);)
      if (std::regex_match(line, match, line_pattern))
        found.push_back({fs::relative(entry.path(), root), room, match[2]});
  }
  return found;
}

std::vector<Include> all_includes(const fs::path& root) {
  std::vector<Include> found;
  for (const auto& [room, below] : kMayInclude) {
    auto folder = kFolder.find(room);
    auto more = includes_of(root, folder == kFolder.end() ? "src/" + room : folder->second, room);
    found.insert(found.end(), more.begin(), more.end());
  }
  return found;
}

/// The room of the project that a header belongs to; empty if it is the standard library's or a third
/// party's.
std::string room_of(const std::string& header) {
  size_t slash = header.find('/');
  std::string first = slash == std::string::npos ? "" : header.substr(0, slash);
  return kMayInclude.count(first) ? first : "";
}

/// The room inside `room` that a path, from the root or as it is included, lies in; empty if it lies in the
/// folder itself.
std::string inner_room(const std::string& path, const std::string& room) {
  const std::string rest = path.substr(path.find(room + "/") + room.size() + 1);
  const size_t slash = rest.find('/');
  return slash == std::string::npos ? "" : rest.substr(0, slash);
}

/// Why this include breaks the order inside its room; empty if it doesn't.
std::string objection_inside(const Include& include) {
  const auto order = kInside.find(include.room);
  if (order == kInside.end() || room_of(include.header) != include.room) return "";
  const std::string from = inner_room(include.file, include.room),
                    to = inner_room(include.header, include.room);
  const auto allowed = order->second.find(from);
  if (allowed == order->second.end()) return include.file + " lies in a room that the plan does not name";
  if (from == to || allowed->second.count(to)) return "";
  return include.file + " includes " + include.header + ": " + from + " may not stand on " + to;
}

/// Why this include breaks the plan; empty if it doesn't.
std::string objection(const Include& include) {
  if (const std::string inside = objection_inside(include); !inside.empty()) return inside;
  std::string target = room_of(include.header);
  if (!target.empty() && target != include.room && !kMayInclude.at(include.room).count(target))
    return include.file + " includes " + include.header + ": " + include.room + " may not stand on " + target;
  for (const auto& [header, owner] : kThirdParty)
    if (std::regex_match(include.header, header) && !std::regex_match(include.file, owner))
      return include.file + " includes " + include.header + ", which belongs to another room";
  return "";
}

/// Adds the classes and enumerations that a file defines in named namespaces, with these, to those found.
void add_definitions(const fs::path& file, std::map<std::string, std::vector<std::string>>& found) {
  static const std::regex space(R"(namespace ?([\w:]*) ?\{(.*))"), close(R"(\} // namespace.*)");
  static const std::regex type(
      R"((?:class|struct|union|enum class|enum)(?: \[\[\w+\]\])? ([A-Z]\w*)(?: final)?(?: : [^;]*)? \{.*)");
  std::ifstream in(file);
  std::vector<std::string> spaces;
  std::smatch match;
  for (std::string line; std::getline(in, line);) {
    if (std::regex_match(line, match, space) && match[2].str().find('}') == std::string::npos)
      spaces.push_back(match[1]);
    else if (std::regex_match(line, close) && !spaces.empty())
      spaces.pop_back();
    else if (std::regex_match(line, match, type) &&
             std::find(spaces.begin(), spaces.end(), "") == spaces.end()) {
      std::string name;
      for (const std::string& s : spaces) name += s + "::";
      found[name + match[1].str()].push_back(file.filename());
    }
  }
}

} // namespace

// Two classes of one name have one destructor in a process that links both.
TEST_CASE("no class is defined twice") {
  std::map<std::string, std::vector<std::string>> found;
  for (const char* folder : {"include", "src"})
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(LATHE_SOURCE_DIR) / folder))
      if (entry.path().extension() == ".hpp" || entry.path().extension() == ".cpp")
        add_definitions(entry.path(), found);
  CHECK(found.size() > 200);
  for (const auto& [name, files] : found) {
    CAPTURE(name);
    CAPTURE(files.back());
    CHECK(files.size() == 1);
  }
}

TEST_CASE("every include points downwards") {
  auto includes = all_includes(LATHE_SOURCE_DIR);
  CHECK(includes.size() > 100);
  for (const Include& include : includes) CHECK(objection(include) == "");
}

TEST_CASE("the check objects to what the plan forbids") {
  CHECK(objection({"src/view/view.cpp", "view", "graph/node.hpp"}) != "");
  CHECK(objection({"src/graph/node.cpp", "graph", "ast/ast.hpp"}) != "");
  CHECK(objection({"src/search/beam/search.cpp", "search", "runtime/device.hpp"}) != "");
  CHECK(objection({"bench/main.cpp", "bench", "runtime/device.hpp"}) != "");
  CHECK(objection({"src/onnx/tracer.cpp", "onnx", "graph/node.hpp"}) != "");
  CHECK(objection({"tools/lathe/main.cpp", "tools", "compile/schedule.hpp"}) != "");
  CHECK(objection({"tools/lathe/main.cpp", "tools", "cli/duration.hpp"}) == "");
  CHECK(objection({"include/lathe/tensor.hpp", "lathe", "core/op.hpp"}) != "");
  CHECK(objection({"src/runtime/pool.cpp", "runtime", "llvm/IR/Module.h"}) != "");
  CHECK(objection({"src/runtime/llvm/jit.cpp", "runtime", "llvm/IR/Module.h"}) == "");
  CHECK(objection({"src/search/store/log.cpp", "search", "sqlite3.h"}) != "");
  CHECK(objection({"tools/lathe/main.cpp", "tools", "lathe/detail/access.hpp"}) != "");
  CHECK(objection({"src/onnx/tracer.cpp", "onnx", "lathe/detail/access.hpp"}) == "");
  CHECK(objection({"src/search/moves/loop.cpp", "search", "search/suggest/tile.hpp"}) != "");
  CHECK(objection({"src/search/loop.cpp", "search", "search/suggest/tile.hpp"}) != "");
  CHECK(objection({"src/search/suggest/tile.cpp", "search", "search/moves/plan.hpp"}) == "");
  CHECK(objection({"src/compile/run/kernel.cpp", "compile", "compile/schedule.hpp"}) != "");
  CHECK(objection({"src/compile/export/emit.cpp", "compile", "compile/schedule.hpp"}) == "");
  CHECK(objection({"src/lower/lower.cpp", "lower", "graph/node.hpp"}) == "");
}

TEST_CASE("every folder of src is a room of the plan") {
  for (const auto& entry : fs::directory_iterator(fs::path(LATHE_SOURCE_DIR) / "src"))
    if (entry.is_directory()) CHECK(kMayInclude.count(entry.path().filename()) == 1);
}

TEST_CASE("no folder of src is a drawer") {
  std::map<std::string, int> sources;
  for (const auto& entry : fs::recursive_directory_iterator(fs::path(LATHE_SOURCE_DIR) / "src"))
    if (entry.path().extension() == ".cpp")
      ++sources[fs::relative(entry.path().parent_path(), LATHE_SOURCE_DIR)];
  sources.erase("src/onnx/ops"); // a family of ops each
  for (const auto& [folder, count] : sources) CHECK_MESSAGE(count <= 24, folder);
}
