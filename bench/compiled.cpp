#include "compiled.hpp"
#include "compile/front/target.hpp"
#include "search/machine/machine_limits.hpp"
#include "search/machine/profile.hpp"

#include <algorithm>
#include <limits>

namespace lathe::bench {
namespace {

/// How much more than direct sums tiles of 4 by 4 round: 11 to 12 times on 3x3 convolutions of 64 to 256
/// channels.
constexpr double kWinogradRounding = 16;

bool uses_winograd(const Executable& executable) {
  const std::vector<std::string> moves = executable.moves();
  return std::any_of(moves.begin(), moves.end(),
                     [](const std::string& m) { return m.starts_with("winograd("); });
}

} // namespace

Compiled::Compiled(const Case& c, const CompileOptions& options) : Compiled(c, compile(c.program, options)) {}

Compiled::Compiled(const Case& c, Executable executable)
    : executable_(std::move(executable)),
      tolerance_(c.tolerance * (uses_winograd(executable_) ? kWinogradRounding : 1)) {
  for (const KernelParam& input : executable_.inputs()) inputs_[input.name] = c.inputs.at(input.name).data();
  for (const KernelParam& output : executable_.outputs()) {
    Sizes sizes;
    for (const Expr& size : output.shape) sizes.push_back(size.value());
    auto [place, added] = memory_.emplace(output.name, HostTensor(output.dtype, sizes));
    outputs_[output.name] = place->second.data();
  }
}

double Compiled::verify(const Reference& want) {
  for (auto& [name, tensor] : memory_) tensor.poison();
  run();
  return max_error(memory_, want);
}

double max_error(const HostTensors& got, const Reference& want) {
  double worst = 0;
  for (const auto& [name, values] : want) {
    auto found = got.find(name);
    worst = std::max(worst, found == got.end() ? std::numeric_limits<double>::infinity()
                                               : max_error(found->second, values));
  }
  return worst;
}

Row start_row(const Case& c, const CompileOptions& options, const Executable& executable) {
  Row row;
  row.workload = c.workload;
  row.group = find_workload(c.workload).group;
  row.shape = c.shape;
  row.dtype = c.elements().name();
  row.device = options.device;
  row.threads = options.threads;
  row.tuned = executable.tuned();
  row.kernels = executable.kernel_count();
  row.flops = c.flops;
  row.bytes = c.bytes_read + c.bytes_written;
  const search::Target target = pipeline::target_for(options, {});
  const double speed = search::tensor_speed(target.instructions, c.dtype, target.vector_bytes);
  row.limit = search::machine_limit(search::machine_profile(), options.threads, size_of(c.dtype), c.flops,
                                    {c.bytes_read, c.bytes_written}, speed);
  return row;
}

} // namespace lathe::bench
