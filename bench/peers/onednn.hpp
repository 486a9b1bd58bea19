// What the files of the oneDNN peer share: a network of primitives, and those that several workloads need.
#pragma once
#include <oneapi/dnnl/dnnl.hpp>

#include "convolution.hpp"
#include "peers/peers.hpp"

namespace lathe::bench::onednn {

using dnnl::memory;
using Dims = memory::dims;
using Tag = memory::format_tag;

memory::data_type type_of(DType dtype);
memory::desc plain(const Dims& dims, DType dtype = DType::F32); ///< row-major
memory::desc any(const Dims& dims, DType dtype = DType::F32);   ///< as the primitive likes it best
memory::desc strided(const Dims& dims, const Dims& strides);

/// Primitives in order, with their memory.
class Network {
public:
  explicit Network(const Case& c) : case_(c) {}

  dnnl::engine& engine() { return engine_; }
  memory input(const std::string& name, const memory::desc& md) {
    return {md, engine_, const_cast<void*>(case_.inputs.at(name).data())};
  }
  memory wrap(HostTensor& tensor, const memory::desc& md) { return {md, engine_, tensor.data()}; }
  memory temporary(const memory::desc& md) { return kept_.emplace_back(md, engine_); }

  void add(const dnnl::primitive& primitive, std::unordered_map<int, memory> args) {
    steps_.push_back({primitive, std::move(args)});
  }
  /// `from` in the layout `md`, converted now and never again.
  memory packed(memory from, const memory::desc& md) {
    if (from.get_desc() == md) return from;
    memory to(md, engine_);
    dnnl::reorder(from, to).execute(stream_, from, to);
    stream_.wait();
    return to;
  }
  /// `from` in the layout `md`, converted at each run.
  memory reordered(memory from, const memory::desc& md) {
    if (from.get_desc() == md) return from;
    memory to = temporary(md);
    add(dnnl::reorder(from, to), {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
    return to;
  }
  void run() {
    for (auto& [primitive, args] : steps_) primitive.execute(stream_, args);
    stream_.wait();
  }

private:
  const Case& case_;
  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  std::vector<memory> kept_; ///< others may see it through a pointer
  std::vector<std::pair<dnnl::primitive, std::unordered_map<int, memory>>> steps_;
};

/// What is fused behind a matrix product, in order.
struct Epilogue {
  std::vector<dnnl::algorithm> activations;
  std::vector<memory> addends;
  float scale = 1;
};

/// dst = epilogue(a * b + bias). Weights `b` are packed ahead if `pack`.
void multiply(Network& net, memory a, memory b, memory dst, bool pack, const memory& bias = {},
              const Epilogue& epilogue = {});
void softmax(Network& net, memory src, memory dst);
void layer_norm(Network& net, memory src, memory weight, memory bias, memory dst);

/// No bias if that is empty.
dnnl::convolution_forward::desc convolution_desc(const ConvGeometry& g, dnnl::algorithm algorithm,
                                                 const memory::desc& x, const memory::desc& w,
                                                 const memory::desc& bias, const memory::desc& y);
std::vector<Contender> convolutions(const Case& c);
/// The whole programs; weights are packed.
void build_attention(Network& net, const Case& c, memory y);
void build_mlp(Network& net, const Case& c, memory y);
void build_encoder(Network& net, const Case& c, memory y);
std::vector<Contender> resnets(const Case& c);

} // namespace lathe::bench::onednn
