// What the page knows of a trace, in a form that needs no work before the first picture: columns instead of
// objects, texts once each, places computed.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <unordered_map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "compile/run/finalise.hpp"
#include "compile/view/layout.hpp"
#include "compile/view/page.hpp"
#include "compile/view/picture.hpp"
#include "compile/view/replay.hpp"
#include "lathe/error.hpp"
#include "runtime/device.hpp"

namespace lathe::view {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kGap = 14, kNodeHeight = 34, kRowGap = 26; // pixels of the graph at scale 1
constexpr double kLetter = 6.4;                             // width of a letter
constexpr size_t kPageBytes =
    2'600'000; // of the page's data; the viewer itself and what JSON escapes come on top
constexpr size_t kStateBytes = 600'000; // of all states' loop nests and C
constexpr size_t kStatesWithText = 150, kStatesWithC = 24;
constexpr size_t kRefusedShown = 8'000;

/// Texts by number, each once.
class TextTable {
public:
  size_t of(const std::string& text) {
    const auto [known, is_new] = numbers_.try_emplace(text, list_.size());
    if (is_new) list_.push_back(text);
    return known->second;
  }
  const Json& list() const { return list_; }

private:
  std::unordered_map<std::string, size_t> numbers_;
  Json list_ = Json::array();
};

/// As widthOf in tools/viewer/base.js.
double width_of(const PictureNode& node) {
  return std::clamp(kLetter * static_cast<double>(std::max(node.op.size() + 2, node.type.size())) + 18, 64.0,
                    260.0);
}

double rounded(double x) { return std::round(x * 10) / 10; }

Json number(double seconds) { // short, and exact enough for any picture
  return seconds > 0 ? Json(std::stod(fmt::format("{:.4e}", seconds))) : Json(0);
}

Layered layered(const std::vector<PictureNode>& nodes) {
  Layered graph;
  for (const PictureNode& node : nodes) {
    std::vector<int>& above = graph.sources.emplace_back(node.sources);
    const auto n = static_cast<int>(graph.widths.size());
    std::erase_if(above, [&](int source) { return source >= n; }); // read at one time, a reader at another
    graph.widths.push_back(width_of(node));
  }
  return graph;
}

/// A column whose usual value is written once: {n, usual, at: [[position, value], ...]}. A plain list where
/// that is no shorter.
Json column(const Json& list, const Json& usual) {
  Json at = Json::array();
  for (size_t k = 0; k < list.size(); ++k)
    if (list[k] != usual) at.push_back({k, list[k]});
  if (2 * at.size() > list.size()) return list;
  return {{"n", list.size()}, {"usual", usual}, {"at", at}};
}

/// Columns of nodes with their places.
Json nodes_json(const std::vector<PictureNode>& nodes, const Places& places, TextTable& texts) {
  Json op = Json::array(), type = Json::array(), attr = Json::array(), origin = Json::array(),
       from = Json::array(), kernel = Json::array(), x = Json::array(), layer = Json::array(),
       flags = Json::array();
  for (size_t n = 0; n < nodes.size(); ++n) {
    const PictureNode& node = nodes[n];
    op.push_back(texts.of(node.op));
    type.push_back(texts.of(node.type));
    attr.push_back(texts.of(node.attr));
    origin.push_back(texts.of(node.origin));
    Json back = Json::array(); // sources as differences, which are short
    for (const int source : node.sources) back.push_back(static_cast<int>(n) - source);
    from.push_back(std::move(back));
    kernel.push_back(node.kernel);
    x.push_back(std::lround(places.x[n]));
    layer.push_back(places.layers[n]);
    flags.push_back(node.is_stage + 2 * node.is_output);
  }
  const size_t none = texts.of("");
  return {{"op", op},
          {"type", type},
          {"attr", column(attr, none)},
          {"origin", column(origin, none)},
          {"from", from},
          {"kernel", column(kernel, -1)},
          {"x", x},
          {"layer", layer},
          {"flags", column(flags, 0)}};
}

/// The graph of kernels: each is a box; nodes of none, such as inputs, are boxes of their own.
Json groups_json(const Compilation& of, const std::vector<PictureNode>& nodes) {
  std::vector<int> box(nodes.size(), -1);
  std::vector<std::vector<int>> members(of.kernels.size());
  std::set<std::pair<int, int>> edges; // of kernels and lone nodes, by key: kernels first, then nodes
  const auto kernels = static_cast<int>(of.kernels.size());
  const auto key = [&](size_t n) {
    return nodes[n].kernel >= 0 ? nodes[n].kernel : kernels + static_cast<int>(n);
  };
  for (size_t n = 0; n < nodes.size(); ++n) {
    if (nodes[n].kernel >= 0) members[static_cast<size_t>(nodes[n].kernel)].push_back(static_cast<int>(n));
    for (const int source : nodes[n].sources)
      if (key(static_cast<size_t>(source)) != key(n)) edges.emplace(key(static_cast<size_t>(source)), key(n));
  }
  // Number the boxes so that sources come first. Kernels run in order; an input comes before all of them, and
  // any other lone node is taken with the inputs.
  std::map<int, int> number;
  std::vector<int> keys;
  for (size_t n = 0; n < nodes.size(); ++n)
    if (nodes[n].kernel < 0) number.emplace(key(n), static_cast<int>(keys.size())), keys.push_back(key(n));
  for (int k = 0; k < kernels; ++k) number.emplace(k, static_cast<int>(keys.size())), keys.push_back(k);
  Layered graph;
  graph.sources.resize(keys.size());
  Json from = Json::array();
  for (const int at : keys)
    graph.widths.push_back(
        at < kernels
            ? std::clamp(kLetter * static_cast<double>(of.kernels[static_cast<size_t>(at)].name.size()) + 60,
                         130.0, 260.0)
            : width_of(nodes[static_cast<size_t>(at - kernels)]));
  for (const auto& [source, user] : edges)
    if (number.at(source) < number.at(user))
      graph.sources[static_cast<size_t>(number.at(user))].push_back(number.at(source));
  const Places places = lay_out(graph, kGap * 2);
  Json boxes = Json::array();
  for (size_t b = 0; b < keys.size(); ++b) {
    const bool is_kernel = keys[b] < kernels;
    Json one{{"kernel", is_kernel ? keys[b] : -1}, {"node", is_kernel ? -1 : keys[b] - kernels},
             {"from", graph.sources[b]},           {"layer", places.layers[b]},
             {"x", rounded(places.x[b])},          {"width", rounded(graph.widths[b])}};
    if (is_kernel) {
      // The kernel's own nodes, placed for when it is unfolded.
      const std::vector<int>& own = members[static_cast<size_t>(keys[b])];
      std::map<int, int> inner;
      Layered part;
      for (const int n : own) {
        inner.emplace(n, static_cast<int>(inner.size()));
        part.widths.push_back(width_of(nodes[static_cast<size_t>(n)]));
        std::vector<int> sources;
        for (const int source : nodes[static_cast<size_t>(n)].sources)
          if (inner.contains(source)) sources.push_back(inner.at(source));
        part.sources.push_back(std::move(sources));
      }
      const Places inside = lay_out(part, kGap);
      Json x = Json::array();
      for (const double at : inside.x) x.push_back(rounded(at));
      one["nodes"] = own;
      one["inner_x"] = x;
      one["inner_layer"] = inside.layers;
      one["inner_width"] = rounded(inside.width);
    }
    boxes.push_back(std::move(one));
  }
  return boxes;
}

Json terms_json(const Terms& terms, TextTable& texts) {
  Json list = Json::array();
  for (const auto& [name, seconds] : terms) list.push_back({texts.of(name), number(seconds)});
  return list;
}

/// The states whose loop nests a page shows: the best measured, then kept ones, each with its parents.
std::vector<int64_t> states_to_show(const Compilation& of) {
  std::vector<std::pair<double, int64_t>> ranked;
  for (const auto& [id, state] : of.states) {
    if (state.kind == StateRecord::Kind::Plan) continue;
    if (state.measured > 0)
      ranked.emplace_back(state.measured, id);
    else if (!state.error.empty())
      ranked.emplace_back(1e3, id);
    else if (state.kept)
      ranked.emplace_back(2e3 + state.seconds, id);
  }
  std::sort(ranked.begin(), ranked.end());
  std::vector<int64_t> shown = improvements(of);
  for (const auto& [rank, id] : ranked) shown.push_back(id);
  std::vector<int64_t> with_parents;
  std::set<int64_t> taken;
  for (const int64_t id : shown)
    for (int64_t at = id; at >= 0 && taken.insert(at).second && with_parents.size() < kStatesWithText;) {
      with_parents.push_back(at);
      const auto state = of.states.find(at);
      at = state == of.states.end() ? -1 : state->second.parent;
    }
  return with_parents;
}

std::string c_of(const search::KernelPlan& kernel, int threads) {
  try {
    return runtime::device("c").source(pipeline::finalise(kernel.kernel), {threads, "native", false});
  } catch (const Error&) { // no C compiler here
    return {};
  }
}

Json state_texts(const Compilation& of) {
  Json texts = Json::object();
  Replay replay(of);
  const InExprScope inside(replay.scope());
  size_t bytes = 0, with_c = 0;
  for (const int64_t id : states_to_show(of)) {
    if (bytes > kStateBytes) break;
    try {
      const search::KernelPlanRef kernel = replay.kernel(id);
      Json one{{"loops", ast::print(kernel->kernel)}};
      if (with_c++ < kStatesWithC)
        if (std::string c = c_of(*kernel, of.threads < 1 ? 1 : of.threads); !c.empty())
          one["c"] = std::move(c);
      bytes += one.dump().size();
      texts[std::to_string(id)] = std::move(one);
    } catch (const Error& e) {
      texts[std::to_string(id)] = {{"fault", e.what()}};
    }
  }
  return texts;
}

/// `shown`: the states whose loop nests the page has; of these it also has the rest.
Json states_json(const Compilation& of, const Json& shown, TextTable& texts) {
  Json id = Json::array(), parent = Json::array(), search = Json::array(), kind = Json::array(),
       moves = Json::array(), lists = Json::array(), seconds = Json::array(), measured = Json::array(),
       measured_at = Json::array(), kept = Json::array(), fates = Json::array();
  Json terms = Json::object(), stages = Json::object(), hash = Json::object(), made = Json::object();
  std::map<std::vector<std::string>, size_t> known; // lists of moves, which many states share
  int64_t last = -1;                                // ids as differences, which are short
  for (const auto& [number_of, state] : of.states) {
    id.push_back(number_of - last);
    last = number_of;
    parent.push_back(state.parent);
    search.push_back(state.search);
    kind.push_back(static_cast<int>(state.kind));
    const auto [list, is_new] = known.try_emplace(state.moves, lists.size());
    if (is_new) {
      Json own = Json::array();
      for (const std::string& move : state.moves) own.push_back(texts.of(move));
      lists.push_back(std::move(own));
    }
    moves.push_back(list->second);
    seconds.push_back(number(state.seconds));
    measured.push_back(number(state.measured));
    measured_at.push_back(number(state.measured_at));
    kept.push_back(state.kept ? 1 : 0);
    fates.push_back(texts.of(fate(of, state)));
    const std::string key = std::to_string(number_of);
    if (!state.stages.empty()) stages[key] = state.stages;
    if (state.measured == 0 && state.error.empty() && !shown.contains(key)) continue;
    hash[key] = fmt::format("{:x}", state.hash);
    made[key] = number(state.made_at);
    if (!state.terms.empty()) terms[key] = terms_json(state.terms, texts);
  }
  return {{"id", {{"steps", id}}},
          {"parent", parent},
          {"search", column(search, 0)},
          {"kind", column(kind, static_cast<int>(StateRecord::Kind::Kernel))},
          {"moves", moves},
          {"lists", lists},
          {"seconds", seconds},
          {"measured", column(measured, 0)},
          {"measured_at", column(measured_at, 0)},
          {"kept", column(kept, 0)},
          {"fate", column(fates, texts.of("ranked behind the beam"))},
          {"hash", hash},
          {"made", made},
          {"terms", terms},
          {"stages", stages},
          {"best", improvements(of)}};
}

Json search_json(const Compilation& of, TextTable& texts) {
  Json searches = Json::array(), refused = Json::array();
  for (const auto& [id, search] : of.searches)
    searches.push_back({{"id", id},
                        {"in", search.in},
                        {"measures", search.measures},
                        {"begins", number(search.begins)},
                        {"ends", number(search.ends)},
                        {"predicted", number(search.predicted)},
                        {"measured", number(search.measured)}});
  for (size_t k = 0; k < std::min(of.refused.size(), kRefusedShown); ++k)
    refused.push_back(
        {of.refused[k].from, texts.of(moves_text(of.refused[k].moves)), texts.of(of.refused[k].reason)});
  Json shown = state_texts(of);
  Json states = states_json(of, shown, texts);
  return {{"searches", searches},     {"states", std::move(states)},
          {"refused", refused},       {"refused_in_all", of.refused.size()},
          {"unlisted", of.unlisted},  {"repeated", of.repeated},
          {"texts", std::move(shown)}};
}

Json rewrites_json(const Compilation& of, TextTable& texts) {
  const RewritePicture picture = rewrite_picture(of);
  Json steps = Json::array();
  for (const RewriteStep& step : picture.steps)
    steps.push_back({{"name", texts.of(step.name)},
                     {"before", step.before},
                     {"after", step.after},
                     {"added", step.added},
                     {"removed", step.removed},
                     {"rewired", step.rewired}});
  return {{"first", of.steps.empty() ? "" : of.steps[0].name},
          {"nodes", nodes_json(picture.nodes, lay_out(layered(picture.nodes), kGap), texts)},
          {"live", picture.live},
          {"steps", steps}};
}

/// `room`: bytes that the sources may take.
Json kernels_json(const Compilation& of, size_t room, TextTable& texts) {
  Json kernels = Json::array();
  size_t bytes = 0;
  std::map<uint64_t, size_t> same; // kernels of equal structure share their text
  const Explanation why = explanation(of);
  for (const KernelRecord& kernel : of.kernels) {
    Json params = Json::array(), sources = Json::array();
    for (const KernelRecord::Param& param : kernel.params)
      params.push_back({param.name, param.type, param.written});
    const auto [like, is_first] = same.try_emplace(kernel.hash, kernels.size());
    for (const auto& [language, text] : kernel.sources) {
      const bool fits = bytes + text.size() + text.size() / 16 <= room;
      if (is_first && fits) bytes += text.size() + text.size() / 16; // and what JSON escapes
      if (is_first)
        sources.push_back({language, fits ? text
                                          : fmt::format("{} bytes, left out: lathe view TRACE --print "
                                                        "kernel {}",
                                                        text.size(), kernel.name)});
    }
    const auto terms = of.chosen.terms.find(kernel.hash);
    Json one{{"name", kernel.name},
             {"hash", fmt::format("{:x}", kernel.hash)},
             {"moves", kernel.moves},
             {"params", params},
             {"predicted", number(kernel.predicted)},
             {"flops", kernel.flops},
             {"bytes", kernel.bytes},
             {"limit", number(kernel.limit)},
             {"terms", terms == of.chosen.terms.end() ? Json::array() : terms_json(terms->second, texts)},
             {"loops", kernel.ast},
             {"sources", sources}};
    if (!is_first) one["like"] = like->second;
    if (!why.kernels.empty()) one["why"] = to_string(why.kernels[kernels.size()]);
    kernels.push_back(std::move(one));
  }
  return kernels;
}

Json run_json(const Compilation& of) {
  Json launches = Json::array(), parts = Json::array(), buffers = Json::array(), passes = Json::array(),
       savings = Json::array();
  for (const LaunchRecord& launch : of.launches)
    if (launch.is_part)
      parts.push_back({launch.kernel, launch.start, launch.end, launch.thread});
    else
      launches.push_back(
          {launch.kernel, launch.start, launch.end, launch.thread, launch.bytes, launch.flops, launch.limit});
  for (const BufferRecord& buffer : of.buffers)
    buffers.push_back({buffer.name, buffer.home, buffer.bytes, buffer.offset, buffer.first, buffer.last});
  for (const PassRecord& pass : of.passes) passes.push_back({pass.name, pass.start, pass.seconds});
  for (const Saving& saving : explanation(of).savings)
    savings.push_back({number(saving.seconds), saving.what});
  return {{"launches", launches},
          {"parts", parts},
          {"savings", savings},
          {"buffers", buffers},
          {"passes", passes},
          {"arena", of.arena_bytes},
          {"naive", of.naive_bytes},
          {"flops_per_second", of.flops_per_second},
          {"bytes_per_second", of.bytes_per_second}};
}

} // namespace

std::string page_data(const PageTrace& trace, size_t of_traces) {
  const Compilation& of = *trace.of;
  TextTable texts;
  const GraphPicture graph = graph_picture(of);
  Json data{{"name", trace.name},
            {"lathe", of.version},
            {"machine", of.machine},
            {"device", of.device},
            {"threads", of.threads},
            {"date", of.date},
            {"how", of.chosen.how},
            {"predicted", number(of.chosen.predicted)},
            {"measured", number(of.chosen.measured)},
            {"graph",
             {{"nodes", nodes_json(graph.nodes, lay_out(layered(graph.nodes), kGap), texts)},
              {"boxes", groups_json(of, graph.nodes)}}},
            {"rewrites", rewrites_json(of, texts)},
            {"search", search_json(of, texts)},
            {"run", run_json(of)},
            {"heights", {{"node", kNodeHeight}, {"gap", kRowGap}}}};
  const auto text = [](const Json& json) {
    return json.dump(-1, ' ', false, Json::error_handler_t::replace);
  };
  data["kernels"] = kernels_json(of, 0, texts);
  data["texts"] = texts.list();
  const size_t without = text(data).size(), most = kPageBytes / of_traces;
  if (without < most) data["kernels"] = kernels_json(of, most - without, texts);
  return text(data);
}

} // namespace lathe::view
