// A log that an earlier version wrote: its moves read as they were written, and rebuild the same kernels. Its
// lines are plans of small programs, by search and by random walks, that hold every kind of move; `kernel` is
// a hash of all kernels of a plan. A new line is written by the version that could first read it; none is
// ever renewed.
#include <map>
#include <set>

#include <doctest/doctest.h>

#include "core/hash.hpp"
#include "graph/tensor_impl.hpp"
#include "search/moves/plan.hpp"
#include "search/store/database.hpp"
#include "search/store/log.hpp"
#include "support/programs.hpp"

using namespace lathe;

TEST_CASE("a log of an earlier version is read, and its plans are the same") {
  std::map<uint64_t, std::shared_ptr<const lower::Program>> programs;
  for (auto some : {test::small_programs, test::rewritable_programs, test::long_sums})
    for (const test::NamedProgram& program : some()) {
      std::vector<lower::NamedOutput> outputs;
      for (const auto& [label, tensor] : program.outputs) outputs.push_back({label, graph::node_of(tensor)});
      auto lowered = std::make_shared<const lower::Program>(lower::lower(outputs));
      programs.emplace(search::program_hash(*lowered), lowered);
    }
  const std::string path = std::string(LATHE_SOURCE_DIR) + "/tests/golden/old_log.jsonl";
  const search::LogContents log = search::read_log(path);
  CHECK(log.damaged.empty());
  REQUIRE(log.records.size() > 100);
  std::set<search::MoveKind> kinds;
  for (const search::LogRecord& record : log.records) {
    CAPTURE(record.label);
    REQUIRE(programs.contains(record.program));
    search::Target target;
    target.device = record.device;
    target.threads = 2;
    target.groups = record.device == "opencl";
    const search::Plan plan = search::replay(programs.at(record.program), record.moves, target);
    uint64_t hash = hash_text("plan");
    for (const auto& kernel : plan.kernels) hash = mix(hash, kernel->hash);
    CHECK(hash == record.kernel);
    for (const search::Move& move : record.moves) kinds.insert(move.kind);
  }
  CHECK(kinds.size() >= 22);
}
