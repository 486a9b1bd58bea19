#include "peers/peers.hpp"

#include <algorithm>

namespace lathe::bench {

#ifndef LATHE_PEER_OPENBLAS
Peer openblas_peer() { return {"openblas", false, "not found when lathe-bench was configured", nullptr}; }
#endif
#ifndef LATHE_PEER_ONEDNN
Peer onednn_peer() { return {"onednn", false, "not found when lathe-bench was configured", nullptr}; }
#endif
#ifndef LATHE_PEER_LIBXSMM
Peer libxsmm_peer() { return {"libxsmm", false, "not found when lathe-bench was configured", nullptr}; }
#endif
#ifndef LATHE_PEER_GGML
Peer ggml_peer() { return {"ggml", false, "not found when lathe-bench was configured", nullptr}; }
#endif

const std::vector<Peer>& peers() {
  static const std::vector<Peer> all{eigen_peer(),   onednn_peer(),  openblas_peer(),
                                     libxsmm_peer(), by_hand_peer(), ggml_peer()};
  return all;
}

std::vector<Peer> select_peers(const std::vector<Peer>& all, const std::string& names) {
  std::vector<Peer> selected;
  if (names.empty()) {
    std::copy_if(all.begin(), all.end(), std::back_inserter(selected),
                 [](const Peer& p) { return p.available && !p.only_if_named; });
    return selected;
  }
  for (size_t begin = 0; begin <= names.size();) {
    size_t end = std::min(names.find(',', begin), names.size());
    std::string name = names.substr(begin, end - begin), known;
    auto found = std::find_if(all.begin(), all.end(), [&](const Peer& p) { return p.name == name; });
    for (const Peer& peer : all) known += (known.empty() ? "" : ",") + peer.name;
    if (found == all.end())
      throw Error(ErrorKind::Name, "--peers: '" + name + "' is unknown, expected some of " + known);
    if (!found->available) throw Error(ErrorKind::Name, "--peers: " + name + " is absent, " + found->detail);
    selected.push_back(*found);
    begin = end + 1;
  }
  return selected;
}

std::shared_ptr<HostTensors> make_outputs(const Case& c) {
  auto tensors = std::make_shared<HostTensors>();
  for (const auto& [name, value] : c.program) {
    Sizes sizes;
    for (const Expr& size : value.shape()) sizes.push_back(size.value());
    tensors->emplace(name, HostTensor(value.dtype(), sizes));
  }
  return tensors;
}

} // namespace lathe::bench
