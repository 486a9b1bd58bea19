#include "lowered.hpp"

#include <sstream>

namespace lathe::bench {

namespace {
/// The constants that a printed graph names "Input(#ID) : DTYPE[SHAPE]", by id. Their values are not printed:
/// those here are zeros.
std::map<uint64_t, graph::NodeRef> constants_of(const std::string& graph) {
  std::map<uint64_t, graph::NodeRef> constants;
  std::istringstream lines(graph);
  for (std::string line; std::getline(lines, line);) {
    size_t at = line.find("Input(#"), close = line.find(") : ");
    if (at == std::string::npos || close == std::string::npos) continue;
    // The same declaration as a named input: parsed, it gives the dtype and the shape.
    graph::NodeRef declared = graph::parse("%0 = Input(x" + line.substr(close) + "\nreturn %0\n")[0];
    Expr bytes = num_elements(declared->shape) * size_of(declared->dtype);
    StorageRef zeros = Storage::allocate(static_cast<size_t>(bytes.value()));
    std::memset(zeros->data(), 0, zeros->bytes());
    constants[std::stoull(line.substr(at + 7))] = graph::realised(zeros, declared->dtype, declared->shape);
  }
  return constants;
}
} // namespace

std::shared_ptr<const lower::Program> lowered(const NamedTensors& program) {
  std::string graph = emit(program, {.target = "graph"});
  auto constants = constants_of(graph);
  std::vector<graph::NodeRef> nodes = graph::parse(graph, [&](uint64_t id) { return constants[id]; });
  if (nodes.size() != program.size())
    throw InternalError("the printed graph has " + std::to_string(nodes.size()) + " outputs, not " +
                        std::to_string(program.size()));
  std::vector<lower::NamedOutput> outputs;
  for (const auto& [name, tensor] : program) outputs.push_back({name, nodes[outputs.size()]});
  return std::make_shared<const lower::Program>(lower::lower(outputs));
}

search::Target host_target(int threads) {
  search::Target target;
  bool avx512 = __builtin_cpu_supports("avx512f"), avx = __builtin_cpu_supports("avx");
  target.vector_bytes = avx512 ? 64 : avx ? 32 : 16;
  target.vector_registers = avx512 ? 32 : 16;
  target.threads = threads;
  return target;
}

} // namespace lathe::bench
