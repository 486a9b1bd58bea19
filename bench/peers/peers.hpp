// Peers: the libraries that lathe is compared with, each found or not at configure time, and lathe's own
// other devices. A peer computes a case into memory of its own, so that its result is verified like lathe's.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "timing.hpp"
#include "workloads.hpp"

namespace lathe::bench {

/// One way in which a peer computes a case; some have several (weights packed or not).
struct Contender {
  std::string name;
  std::function<void()> run;            ///< timed
  std::function<void()> finish;         ///< not timed: brings the result into `outputs`; may be null
  std::shared_ptr<HostTensors> outputs; ///< named as the case's program; a part of them may do
  Calls seconds{};                      ///< how to time it, if not by calling `run`
  double tolerance = 1e-3;              ///< of max_error: fast algorithms (Winograd) round more than ours
};

struct Peer {
  std::string name;
  bool available;
  std::string detail; ///< its version, or why it is absent
  /// Ways to compute the case with as many threads as lathe does by `plan`, which has all its moves; none if
  /// the peer has no such function. The case outlives them.
  std::function<std::vector<Contender>(const Case& c, const CompileOptions& plan)> contenders;
  bool only_if_named = false;
  bool takes_blocks = false; ///< has products with weights in blocks of few bits
};
/// The libraries of this process.
const std::vector<Peer>& peers();

/// lathe's devices, each by the same plan: how what one makes of it compares with what another does.
std::vector<Peer> device_peers();

/// Of `all`, peers by name, "eigen,onednn"; if empty, all that are available but those only_if_named.
/// Error(Name) for an unknown or absent one.
std::vector<Peer> select_peers(const std::vector<Peer>& all, const std::string& names);

Peer eigen_peer();
Peer openblas_peer();
Peer onednn_peer();
Peer libxsmm_peer();
Peer by_hand_peer();
Peer ggml_peer();

/// f32 tensors for a contender's outputs, as the case's program has them.
std::shared_ptr<HostTensors> make_outputs(const Case& c);

} // namespace lathe::bench
