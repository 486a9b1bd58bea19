// Peers in Python: a process for each framework, which prepares a case, makes so many calls when told, and
// times them itself. Tensors go through files; peer.py says how the two talk.
#pragma once
#include "peers/peers.hpp"

namespace lathe::bench {

/// tinygrad, JAX, ONNX Runtime and PyTorch, as far as the virtual environment in the folder has them, each
/// with so many threads. Error(File) if there is no Python.
std::vector<Peer> python_peers(const std::string& environment, int threads);

} // namespace lathe::bench
