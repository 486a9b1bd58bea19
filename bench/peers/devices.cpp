// lathe's devices as peers: the same moves, made into code by another renderer and compiler.
#include "compiled.hpp"
#include "peers/peers.hpp"

namespace lathe::bench {

std::vector<Peer> device_peers() {
  std::vector<Peer> found;
  for (const DeviceInfo& device : devices()) {
    const auto contenders = [name = device.name](const Case& c, CompileOptions plan) {
      plan.device = name;
      auto compiled = std::make_shared<Compiled>(c, plan);
      std::shared_ptr<HostTensors> outputs(compiled, &compiled->outputs());
      return std::vector<Contender>{{name, [compiled] { compiled->run(); }, nullptr, std::move(outputs)}};
    };
    found.push_back({device.name, device.available, device.detail, contenders, true});
  }
  return found;
}

} // namespace lathe::bench
