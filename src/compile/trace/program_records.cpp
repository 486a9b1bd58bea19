// The records of programs: their stages and graphs, compiled kernels, memory and launches.
#include <unistd.h>

#include "compile/trace/trace_state.hpp"
#include "lathe/explain.hpp"
#include "search/moves/plan_hash.hpp"
#include "search/store/database.hpp"

namespace lathe::tracing {
namespace {

constexpr int kRuns = 20; // recorded of a program; a benchmark runs it a million times

const char* kind_of(const lower::Stage& stage) {
  return stage.is_transform ? "transform" : stage.is_scatter ? "scatter" : stage.is_reduction ? "sum" : "map";
}

Json json_of(const search::Target& target) {
  Json instructions = Json::array();
  for (const Instruction instruction : target.instructions) instructions.push_back(info(instruction).name);
  return {{"device", target.device},
          {"vector_bytes", target.vector_bytes},
          {"vector_registers", target.vector_registers},
          {"instructions", std::move(instructions)},
          {"threads", target.threads},
          {"groups", target.groups},
          {"gpu", target.gpu},
          {"local_bytes", target.local_bytes},
          {"constant_bytes", target.constant_bytes},
          {"constants", target.constants}};
}

} // namespace

int64_t Trace::State::program(uint64_t hash, std::string_view fields, double now) {
  const auto [known, is_new] = programs.try_emplace(hash, static_cast<int64_t>(programs.size()));
  if (!is_new) return known->second;
  JsonLine line = this->line("program", now);
  line.key("id").number(known->second).fields(fields);
  write_line(line);
  return known->second;
}

std::string Trace::fields_of(const lower::Program& program, uint64_t hash,
                             const search::Target& target) const {
  std::vector<graph::NodeRef> outputs;
  Json names = Json::array();
  for (const lower::OutputBuffer& output : program.outputs) {
    outputs.push_back(output.node);
    names.push_back(output.name);
  }
  const std::vector<graph::NodeRef> order = graph::topological_order(outputs);
  std::unordered_map<const graph::Node*, size_t> number; // as in the graph's text
  for (const graph::NodeRef& node : order) number.emplace(node.get(), number.size());
  Json data = Json::array();
  for (const graph::NodeRef& node : order)
    if (const auto* input = std::get_if<graph::InputAttr>(&node->attr); input && input->data)
      data.push_back({{"id", input->id},
                      {"dtype", std::string(to_string(node->dtype))},
                      {"shape", texts_of(node->shape)}});
  Json stages = Json::array();
  for (const lower::Stage& stage : program.stages) {
    const auto at = number.find(stage.node.get());
    stages.push_back({{"name", stage.buffer->name},
                      {"node", at == number.end() ? -1 : static_cast<int64_t>(at->second)},
                      {"kind", kind_of(stage)},
                      {"reads", stage.reads},
                      {"output", stage.is_output}});
  }
  Json origins = Json::array();
  for (const auto& [name, node] : state_->named)
    if (const auto at = number.find(node.get()); at != number.end()) origins.push_back({at->second, name});

  Json record;
  record["hash"] = hex(hash);
  record["graph"] = graph::print(outputs);
  record["outputs"] = names;
  record["data"] = data;
  record["stages"] = stages;
  record["target"] = json_of(target);
  if (!origins.empty()) record["origins"] = origins;
  return fields_text(record);
}

void Trace::chosen(const search::Plan& plan, const search::CostModel& model, const std::string& how,
                   double predicted_seconds, double measured_seconds) {
  Json record = state_->record("chosen");
  const uint64_t hash = search::program_hash(*plan.program);
  const auto known = state_->programs.find(hash);
  record["program"] = known != state_->programs.end()
                          ? known->second
                          : state_->program(hash, fields_of(*plan.program, hash, model.target()), now());
  record["how"] = how;
  std::vector<search::Move> moves = plan.moves(), graph_moves;
  for (const search::Move& move : moves)
    if (search::rewrites_graph(move.kind)) graph_moves.push_back(move);
  std::erase_if(moves, [](const search::Move& m) { return search::rewrites_graph(m.kind); });
  record["graph_moves"] = texts_of(graph_moves);
  record["moves"] = texts_of(moves);
  record["hash"] = hex(search::plan_hash(plan));
  record["predicted"] = rounded(predicted_seconds);
  record["measured"] = rounded(measured_seconds);
  Json terms = Json::array();
  for (const search::KernelPlanRef& kernel : plan.kernels)
    terms.push_back({{"stages", kernel->stages},
                     {"hash", hex(kernel->hash)},
                     {"terms", terms_of(search::cost(*kernel, model.target(), model.machine()))}});
  record["kernels"] = terms;
  state_->write(record);
}

void Trace::kernel(const KernelText& kernel) {
  Json record = state_->record("kernel");
  record["name"] = kernel.name;
  record["stages"] = kernel.plan->stages;
  record["inlined"] = kernel.plan->inlined;
  record["hash"] = hex(kernel.plan->hash);
  record["moves"] = texts_of(kernel.plan->moves);
  record["predicted"] = rounded(kernel.predicted_seconds);
  record["flops"] = kernel.flops;
  record["bytes"] = kernel.bytes;
  record["limit"] = rounded(kernel.limit_seconds);
  Json params = Json::array();
  for (const ast::Param& param : kernel.plan->kernel.params)
    params.push_back({{"name", param.buffer->name},
                      {"dtype", std::string(to_string(param.buffer->dtype))},
                      {"shape", texts_of(param.buffer->shape)},
                      {"written", param.written}});
  record["params"] = params;
  record["ast"] = ast::print(kernel.plan->kernel);
  Json sources = Json::object();
  for (const auto& [language, text] : kernel.sources) sources[language] = text;
  record["sources"] = sources;
  state_->write(record);
}

void Trace::memory(const std::vector<PlacedBuffer>& buffers, int64_t arena_bytes, int64_t naive_bytes) {
  Json record = state_->record("memory");
  record["arena"] = arena_bytes;
  record["naive"] = naive_bytes;
  Json list = Json::array();
  for (const PlacedBuffer& buffer : buffers) {
    list.push_back({{"name", buffer.name}, {"home", buffer.home}, {"bytes", buffer.bytes}});
    if (buffer.home != "arena") continue;
    list.back()["offset"] = buffer.offset;
    list.back()["first"] = buffer.first;
    list.back()["last"] = buffer.last;
  }
  record["buffers"] = list;
  state_->write(record);
}

void Trace::machine(double flops_per_second, double bytes_per_second, int threads) {
  Json record = state_->record("machine");
  record["flops_per_second"] = flops_per_second;
  record["bytes_per_second"] = bytes_per_second;
  record["threads"] = threads;
  state_->write(record);
}

void Trace::explained(const Explanation& explanation) {
  Json record = state_->record("explanation");
  record["kernels"] = Json::parse(to_json(explanation.kernels));
  record["savings"] = Json::parse(to_json(explanation.savings));
  state_->write(record);
}

bool Trace::begins_run() {
  return state_->runs.load(std::memory_order_relaxed) < kRuns && state_->runs.fetch_add(1) < kRuns;
}

void Trace::launch(size_t kernel, double start, const LaunchTime& launch) {
  Json record = state_->record("launch");
  record["kernel"] = kernel;
  record["start"] = start;
  record["end"] = start + launch.seconds;
  record["thread"] = static_cast<int64_t>(::gettid());
  record["bytes"] = launch.bytes;
  record["flops"] = launch.flops;
  record["limit"] = rounded(launch.limit_seconds);
  state_->write(record);
}

void Trace::part(size_t kernel, Clock::time_point start, Clock::time_point end, int64_t thread) {
  Json record = state_->record("part");
  const auto seconds = [&](Clock::time_point at) {
    return std::chrono::duration<double>(at - began_).count();
  };
  record["kernel"] = kernel;
  record["start"] = seconds(start);
  record["end"] = seconds(end);
  record["thread"] = thread;
  state_->write(record);
}

void Trace::ends_run(double start) {
  Json record = state_->record("run");
  record["start"] = start;
  record["end"] = now();
  record["thread"] = static_cast<int64_t>(::gettid());
  state_->write(record);
}

} // namespace lathe::tracing
