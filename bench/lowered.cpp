#include "lowered.hpp"

namespace lathe::bench {

std::shared_ptr<const lower::Program> lowered(const NamedTensors& program) {
  std::vector<graph::NodeRef> nodes = graph::parse(emit(program, {.target = "graph"}));
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
