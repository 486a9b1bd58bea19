#include "compile/view/reader.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <unordered_map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "lathe/error.hpp"

namespace lathe::view {
namespace {

using Json = nlohmann::ordered_json;
using Texts = std::vector<std::string>;

[[noreturn]] void bad(const std::string& what) { throw Error(ErrorKind::Syntax, what); }

uint64_t hash_of(const Json& text) {
  const std::string digits = text.get<std::string>();
  if (digits.size() != 16 || digits.find_first_not_of("0123456789abcdef") != std::string::npos)
    bad("a hash is '" + digits + "', expected 16 hexadecimal digits");
  return std::stoull(digits, nullptr, 16);
}

double number(const Json& value) {
  const double seconds = value.get<double>();
  if (!std::isfinite(seconds) || seconds < 0)
    bad("a number is negative or infinite, expected one of at least 0");
  return seconds;
}

template <class T> T part_or(const Json& record, const char* key, T otherwise) {
  return record.contains(key) ? record.at(key).get<T>() : otherwise;
}

Terms terms_of(const Json& object) {
  Terms terms;
  for (const auto& [name, seconds] : object.items()) terms.emplace_back(name, number(seconds));
  return terms;
}

std::vector<std::pair<int64_t, std::string>> names_of(const Json& list) {
  std::vector<std::pair<int64_t, std::string>> names;
  for (const Json& pair : list) names.emplace_back(pair.at(0).get<int64_t>(), pair.at(1).get<std::string>());
  return names;
}

search::Target target_of(const Json& record) {
  search::Target target;
  target.device = record.at("device").get<std::string>();
  target.vector_bytes = record.at("vector_bytes").get<int>();
  target.vector_registers = record.at("vector_registers").get<int>();
  for (const Json& name : record.at("instructions")) {
    const auto row =
        std::find_if(std::begin(kInstructions), std::end(kInstructions),
                     [&](const InstructionInfo& known) { return known.name == name.get<std::string>(); });
    if (row == std::end(kInstructions))
      bad(fmt::format("a target has the instruction {}, expected one of the table", name.dump()));
    target.instructions.push_back(static_cast<Instruction>(row - std::begin(kInstructions)));
  }
  target.threads = record.at("threads").get<int>();
  target.groups = record.at("groups").get<bool>();
  target.gpu = record.at("gpu").get<bool>();
  target.local_bytes = record.at("local_bytes").get<int64_t>();
  target.constant_bytes = record.at("constant_bytes").get<int64_t>();
  target.constants = record.at("constants").get<int>();
  if (target.vector_bytes < 1 || target.threads < 1) bad("a target has no vectors or threads, expected some");
  return target;
}

/// Adds records to the compilation that they belong to.
class Reader {
public:
  explicit Reader(std::vector<Compilation>& compilations) : compilations_(compilations) {}

  std::string take(const Json& record, int64_t line) {
    const std::string kind = record.at("k").get<std::string>();
    const std::string id = record.at("c").get<std::string>();
    const double now = number(record.at("t"));
    if (kind == "trace") return begin(record, id), kind;
    const auto of = by_id_.find(id);
    if (of == by_id_.end()) bad("belongs to compilation " + id + ", expected its record 'trace' before");
    static const std::unordered_map<std::string, void (Reader::*)(const Json&)> takers{
        {"graph", &Reader::graph},     {"rewrite", &Reader::rewrite},
        {"origins", &Reader::origins}, {"program", &Reader::program},
        {"search", &Reader::search},   {"found", &Reader::found},
        {"plan", &Reader::plan},       {"plans", &Reader::plans},
        {"root", &Reader::root},       {"kernels", &Reader::kernels},
        {"kept", &Reader::kept},       {"measured", &Reader::measured},
        {"chosen", &Reader::chosen},   {"kernel", &Reader::kernel},
        {"memory", &Reader::memory},   {"machine", &Reader::machine},
        {"launch", &Reader::launch},   {"run", &Reader::run},
        {"part", &Reader::part},       {"explanation", &Reader::explanation},
        {"pass", &Reader::pass}};
    const auto taker = takers.find(kind);
    if (taker == takers.end()) bad("a record of kind '" + kind + "', expected one of docs/trace.md");
    at_ = &compilations_[of->second];
    at_->seconds = now_ = now;
    line_ = line;
    (this->*taker->second)(record);
    return kind;
  }

private:
  void begin(const Json& record, const std::string& id) {
    if (const int version = record.at("version").get<int>(); version != 1)
      bad(fmt::format("version {}, expected 1", version));
    Compilation made;
    made.id = id;
    made.version = record.at("lathe").get<std::string>();
    made.machine = record.at("machine").get<std::string>();
    made.device = record.at("device").get<std::string>();
    made.date = record.at("date").get<int64_t>();
    made.threads = record.at("threads").get<int>();
    by_id_[id] = compilations_.size();
    compilations_.push_back(std::move(made));
  }

  void define(const Json& nodes) {
    for (const Json& node : nodes) {
      NodeRecord made{node.at("op").get<std::string>(), node.at("dtype").get<std::string>(),
                      node.at("attr").get<std::string>(), node.at("shape").get<Texts>(),
                      node.at("from").get<std::vector<int64_t>>()};
      for (const int64_t source : made.from) known_node(source);
      at_->nodes.emplace(node.at("id").get<int64_t>(), std::move(made));
    }
  }
  int64_t known_node(int64_t id) const {
    if (!at_->nodes.contains(id)) bad(fmt::format("node {} is not defined, expected that before", id));
    return id;
  }
  std::vector<int64_t> known_nodes(const Json& ids) const {
    for (const Json& id : ids) known_node(id.get<int64_t>());
    return ids.get<std::vector<int64_t>>();
  }
  void graph(const Json& record) {
    define(record.at("nodes"));
    at_->steps.push_back({record.at("step").get<std::string>(), known_nodes(record.at("added")),
                          known_nodes(record.at("removed")), known_nodes(record.at("outputs")),
                          at_->rewrites.size()});
  }
  void rewrite(const Json& record) {
    define(record.at("nodes"));
    at_->rewrites.push_back({record.at("rule").get<std::string>(),
                             known_node(record.at("before").get<int64_t>()),
                             known_node(record.at("after").get<int64_t>())});
  }
  void origins(const Json& record) { at_->origins = names_of(record.at("names")); }

  void program(const Json& record) {
    ProgramRecord made;
    made.graph = record.at("graph").get<std::string>();
    made.outputs = record.at("outputs").get<Texts>();
    for (const Json& data : record.at("data"))
      made.data.push_back({data.at("id").get<uint64_t>(), data.at("dtype").get<std::string>(),
                           data.at("shape").get<Texts>()});
    for (const Json& stage : record.at("stages"))
      made.stages.push_back({stage.at("name").get<std::string>(), stage.at("kind").get<std::string>(),
                             stage.at("node").get<int64_t>(), stage.at("reads").get<std::vector<int>>(),
                             stage.at("output").get<bool>()});
    made.target = target_of(record.at("target"));
    if (record.contains("origins")) made.origins = names_of(record.at("origins"));
    at_->programs[record.at("id").get<int64_t>()] = std::move(made);
  }

  int64_t known_program(const Json& record) const {
    const auto id = record.at("program").get<int64_t>();
    if (!at_->programs.contains(id)) bad(fmt::format("program {} has no record, expected one before", id));
    return id;
  }
  int64_t known_search(const Json& record) const {
    const auto id = record.at("search").get<int64_t>();
    if (!at_->searches.contains(id)) bad(fmt::format("search {} has no record, expected one before", id));
    return id;
  }
  StateRecord& known_state(int64_t id) const {
    const auto found = at_->states.find(id);
    if (found == at_->states.end()) bad(fmt::format("state {} has no record, expected one before", id));
    return found->second;
  }

  void search(const Json& record) {
    at_->searches[record.at("id").get<int64_t>()] = {record.at("in").get<int64_t>(),
                                                     known_program(record),
                                                     record.at("start").get<Texts>(),
                                                     {},
                                                     record.at("measures").get<bool>(),
                                                     now_,
                                                     0,
                                                     0,
                                                     0};
  }
  void found(const Json& record) {
    SearchRecord& search = at_->searches[known_search(record)];
    search.ends = now_;
    search.moves = record.at("moves").get<Texts>();
    search.predicted = number(record.at("predicted"));
    search.measured = number(record.at("measured"));
  }

  StateRecord& add_state(StateRecord::Kind kind, int64_t id, int64_t parent, int64_t search,
                         const Json& moves, const Json& seconds, const Json& hash) {
    StateRecord state;
    state.kind = kind;
    state.parent = parent;
    state.search = search;
    state.moves = moves.get<Texts>();
    state.seconds = number(seconds);
    state.hash = hash_of(hash);
    state.made_at = now_;
    state.line = line_;
    return at_->states[id] = std::move(state);
  }
  void plan(const Json& record) {
    add_state(StateRecord::Kind::Plan, record.at("id").get<int64_t>(), -1, known_search(record),
              record.at("moves"), record.at("seconds"), record.at("hash"));
  }
  void root(const Json& record) {
    StateRecord& state =
        add_state(StateRecord::Kind::Root, record.at("id").get<int64_t>(), -1, known_search(record),
                  Json::array(), record.at("seconds"), record.at("hash"));
    state.plan = hash_of(record.at("plan"));
    state.stages = record.at("stages").get<std::vector<int>>();
  }
  void children(const Json& record, StateRecord::Kind kind, int64_t from) {
    const int64_t search = known_state(from).search;
    for (const Json& made : record.at("made")) {
      StateRecord& state =
          add_state(kind, made.at(0).get<int64_t>(), from, search, made.at(1), made.at(2), made.at(3));
      if (made.size() > 4) state.reason = made.at(4).get<std::string>();
    }
    if (record.contains("refused"))
      for (const Json& refused : record.at("refused"))
        at_->refused.push_back({from, refused.at(0).get<Texts>(), refused.at(1).get<std::string>()});
    at_->unlisted += part_or<int64_t>(record, "more_made", 0) + part_or<int64_t>(record, "more_refused", 0);
    at_->repeated += part_or<int64_t>(record, "same", 0);
  }
  void plans(const Json& record) {
    known_search(record);
    children(record, StateRecord::Kind::Plan, record.at("from").get<int64_t>());
  }
  void kernels(const Json& record) {
    children(record, StateRecord::Kind::Kernel, record.at("from").get<int64_t>());
  }
  void kept(const Json& record) {
    const Json& ids = record.at("ids");
    for (size_t k = 0; k < ids.size(); ++k) {
      StateRecord& state = known_state(ids[k].get<int64_t>());
      state.kept = true;
      if (record.contains("terms")) state.terms = terms_of(record.at("terms").at(k));
    }
  }
  void measured(const Json& record) {
    const auto id = record.at("id").get<int64_t>();
    if (id < 0) return; // of a kernel that no record has made
    StateRecord& state = known_state(id);
    state.measured = number(record.at("seconds"));
    state.measured_at = now_;
    state.error = part_or<std::string>(record, "error", "");
    state.terms = terms_of(record.at("terms"));
  }

  void chosen(const Json& record) {
    ChosenRecord made;
    made.program = known_program(record);
    made.how = record.at("how").get<std::string>();
    made.graph_moves = record.at("graph_moves").get<Texts>();
    made.moves = record.at("moves").get<Texts>();
    made.hash = hash_of(record.at("hash"));
    made.predicted = number(record.at("predicted"));
    made.measured = number(record.at("measured"));
    for (const Json& kernel : record.at("kernels"))
      made.terms[hash_of(kernel.at("hash"))] = terms_of(kernel.at("terms"));
    at_->chosen = std::move(made);
  }
  void kernel(const Json& record) {
    KernelRecord made;
    made.name = record.at("name").get<std::string>();
    made.ast = record.at("ast").get<std::string>();
    made.hash = hash_of(record.at("hash"));
    made.stages = record.at("stages").get<std::vector<int>>();
    made.inlined = record.at("inlined").get<std::vector<int>>();
    made.moves = record.at("moves").get<Texts>();
    for (const Json& param : record.at("params")) {
      const Texts shape = param.at("shape").get<Texts>();
      made.params.push_back(
          {param.at("name").get<std::string>(),
           fmt::format("{}[{}]", param.at("dtype").get<std::string>(), fmt::join(shape, ", ")),
           param.at("written").get<bool>()});
    }
    made.predicted = number(record.at("predicted"));
    made.flops = number(record.at("flops"));
    made.bytes = number(record.at("bytes"));
    made.limit = number(record.at("limit"));
    for (const auto& [language, text] : record.at("sources").items())
      made.sources.emplace_back(language, text.get<std::string>());
    at_->kernels.push_back(std::move(made));
  }
  void memory(const Json& record) {
    at_->arena_bytes = record.at("arena").get<int64_t>();
    at_->naive_bytes = record.at("naive").get<int64_t>();
    for (const Json& buffer : record.at("buffers"))
      at_->buffers.push_back({buffer.at("name").get<std::string>(), buffer.at("home").get<std::string>(),
                              buffer.at("bytes").get<int64_t>(), part_or<int64_t>(buffer, "offset", 0),
                              part_or(buffer, "first", 0), part_or(buffer, "last", 0)});
  }
  void machine(const Json& record) {
    at_->flops_per_second = number(record.at("flops_per_second"));
    at_->bytes_per_second = number(record.at("bytes_per_second"));
    at_->threads = record.at("threads").get<int>();
  }
  void explanation(const Json& record) {
    const Json& kernels = record.at("kernels");
    if (kernels.size() != at_->kernels.size())
      bad(fmt::format("an explanation of {} kernels, expected {}", kernels.size(), at_->kernels.size()));
    std::vector<KernelExplanation> explained;
    for (const Json& of : kernels) {
      const std::string name = of.at("kernel").get<std::string>(), &own = at_->kernels[explained.size()].name;
      if (name != own) bad(fmt::format("an explanation of kernel '{}', expected '{}'", name, own));
      explained.push_back(explained_kernel(of));
    }
    std::vector<Saving> savings;
    for (const Json& saving : record.at("savings"))
      savings.push_back({number(saving.at("seconds")), saving.at("what").get<std::string>()});
    at_->explained = std::move(explained);
    at_->savings = std::move(savings);
  }
  static KernelBorder border_of(const Json& b) {
    using Tried = KernelBorder::Tried;
    KernelBorder border{.other = b.at("other").get<std::string>(), .stage = b.at("reads").get<std::string>()};
    border.moves = b.at("moves").get<std::string>();
    border.legal = b.at("legal").get<bool>();
    const auto tried = part_or(b, "tried", std::string("again"));
    border.tried = tried == "search" ? Tried::BySearch : tried == "never" ? Tried::Never : Tried::Again;
    border.at_least = part_or(b, "at_least", false);
    border.earlier = part_or(b, "earlier", false);
    const bool was_tried = border.tried != Tried::Never; // else nobody may know a reason
    border.reason =
        was_tried && !border.legal ? b.at("reason").get<std::string>() : part_or(b, "reason", std::string());
    if (border.legal && was_tried)
      border.apart = number(b.at("apart")), border.together = number(b.at("together"));
    return border;
  }
  static KernelExplanation explained_kernel(const Json& of) {
    KernelExplanation made;
    made.name = of.at("kernel").get<std::string>();
    made.stages = of.at("computes").get<std::string>();
    made.predicted = number(of.at("predicted"));
    made.limit = number(of.at("limit"));
    made.bound = of.at("bound").get<std::string>();
    made.terms = terms_of(of.at("terms"));
    for (const Json& b : of.at("borders")) made.borders.push_back(border_of(b));
    made.best_moves = of.at("best_moves").get<std::string>();
    if (!made.best_moves.empty()) made.with_best_moves = number(of.at("with_best_moves"));
    return made;
  }
  void add_launch(const Json& record, int64_t kernel) {
    const double start = number(record.at("start")), end = number(record.at("end"));
    if (end < start) bad("a launch ends before it starts, expected the other order");
    at_->launches.push_back({kernel, start, end, record.at("thread").get<int64_t>(),
                             part_or(record, "bytes", 0.0), part_or(record, "flops", 0.0),
                             part_or(record, "limit", 0.0)});
  }
  int64_t known_kernel(const Json& record) const {
    const auto kernel = record.at("kernel").get<int64_t>();
    if (kernel < 0 || kernel >= static_cast<int64_t>(at_->kernels.size()))
      bad(fmt::format("a launch of kernel {}, expected one of {}", kernel, at_->kernels.size()));
    return kernel;
  }
  void launch(const Json& record) { add_launch(record, known_kernel(record)); }
  void part(const Json& record) {
    add_launch(record, known_kernel(record));
    at_->launches.back().is_part = true;
  }
  void run(const Json& record) { add_launch(record, -1); }
  void pass(const Json& record) {
    at_->passes.push_back(
        {record.at("name").get<std::string>(), number(record.at("start")), number(record.at("seconds"))});
  }

  std::vector<Compilation>& compilations_;
  std::unordered_map<std::string, size_t> by_id_;
  Compilation* at_ = nullptr;
  double now_ = 0;
  int64_t line_ = 0;
};

} // namespace

TraceContents read_trace(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  // A directory opens but doesn't read: look before asking whether there is a line.
  if (!in || (in.peek(), in.bad())) throw Error(ErrorKind::File, path + ": can't be read, expected a trace");
  TraceContents contents;
  Reader reader(contents.compilations);
  std::string line;
  for (int64_t number = 1; std::getline(in, line); ++number) {
    if (in.eof()) { // no end of line: the writer was stopped
      contents.check.cut = true;
      break;
    }
    if (line.empty()) continue;
    const auto fault = [&](const std::string& what) {
      contents.check.faults.push_back({number, fmt::format("{}:{}: {}", path, number, what)});
    };
    try {
      ++contents.check.records[reader.take(Json::parse(line), number)];
    } catch (const Json::exception& e) {
      fault(fmt::format("no record of a trace ({}), expected one of docs/trace.md", e.what()));
    } catch (const Error& e) {
      fault(e.what());
    }
  }
  if (in.bad()) throw Error(ErrorKind::File, path + ": can't be read to its end, expected a trace");
  return contents;
}

const Compilation& pick(const TraceContents& contents, const std::string& path, int64_t which) {
  const auto count = static_cast<int64_t>(contents.compilations.size());
  if (count == 0)
    throw Error(ErrorKind::File, contents.check.faults.empty()
                                     ? path + ": no trace, expected a file that --trace wrote"
                                     : contents.check.faults[0].message);
  if (which < -1 || which >= count)
    throw Error(ErrorKind::Name,
                fmt::format("{}: compilation {}, expected one of 0 to {}", path, which, count - 1));
  return contents.compilations[static_cast<size_t>(which < 0 ? count - 1 : which)];
}

} // namespace lathe::view
