// oneDNN: attention, MLP and encoder block.
#include <cmath>

#include "peers/onednn.hpp"

namespace lathe::bench::onednn {

namespace {
/// One [out] bias as a row.
memory bias_row(Network& net, const std::string& name, int64_t size) {
  return net.input(name, plain({1, size}));
}

/// Heads are matrices [tokens, features] at any strides.
void attend(Network& net, memory q, memory k_transposed, memory v, memory y) {
  Dims dims = q.get_desc().dims();
  memory scores = net.temporary(plain({dims[0], dims[1], dims[1]})),
         weights = net.temporary(scores.get_desc());
  Epilogue epilogue;
  epilogue.scale = 1 / std::sqrt(static_cast<float>(dims[2]));
  multiply(net, q, k_transposed, scores, false, {}, epilogue);
  softmax(net, scores, weights);
  multiply(net, weights, v, y, false);
}
} // namespace

void build_attention(Network& net, const Case& c, memory y) {
  const Sizes& s = c.shape;
  memory k_transposed = net.input("k", strided({s[0], s[2], s[1]}, {s[1] * s[2], 1, s[2]}));
  attend(net, net.input("q", plain(s)), k_transposed, net.input("v", plain(s)), y);
}

void build_mlp(Network& net, const Case& c, memory y) {
  memory x = net.input("x", plain({c.shape[0], c.shape[1]}));
  for (int layer = 1; layer <= 3; ++layer) {
    int64_t in = c.shape[static_cast<size_t>(layer)], out = c.shape[static_cast<size_t>(layer) + 1];
    std::string n = std::to_string(layer);
    memory dst = layer == 3 ? y : net.temporary(plain({c.shape[0], out}));
    Epilogue epilogue;
    if (layer < 3) epilogue.activations.push_back(dnnl::algorithm::eltwise_relu);
    multiply(net, x, net.input("w_" + n, plain({in, out})), dst, true, bias_row(net, "b_" + n, out),
             epilogue);
    x = dst;
  }
}

void build_encoder(Network& net, const Case& c, memory y) {
  int64_t tokens = c.shape[0], d = c.shape[1], heads = c.shape[2], hidden = c.shape[3], each = d / heads;
  memory::desc wide = plain({tokens, d});
  auto norm = [&](memory x, const std::string& name) {
    memory dst = net.temporary(wide);
    layer_norm(net, x, net.input("weight_" + name, plain({d})), net.input("bias_" + name, plain({d})), dst);
    return dst;
  };
  auto linear = [&](memory x, const std::string& name, int64_t in, int64_t out, memory dst,
                    const Epilogue& epilogue) {
    multiply(net, x, net.input("w_" + name, plain({in, out})), dst, true, bias_row(net, "b_" + name, out),
             epilogue);
    return dst;
  };
  memory x = net.input("x", wide), n = norm(x, "attention");
  auto projected = [&](const std::string& name) { return linear(n, name, d, d, net.temporary(wide), {}); };
  memory q = projected("q"), k = projected("k"), v = projected("v"), mixed = net.temporary(wide);
  auto heads_of = [&](memory m) {
    return memory(strided({heads, tokens, each}, {each, d, 1}), net.engine(), m.get_data_handle());
  };
  memory k_transposed(strided({heads, each, tokens}, {each, 1, d}), net.engine(), k.get_data_handle());
  attend(net, heads_of(q), k_transposed, heads_of(v), heads_of(mixed));
  memory h = linear(mixed, "out", d, d, net.temporary(wide), {{}, {x}, 1});
  memory up = net.temporary(plain({tokens, hidden}));
  linear(norm(h, "network"), "up", d, hidden, up, {{dnnl::algorithm::eltwise_gelu_erf}, {}, 1});
  linear(up, "down", hidden, d, y, {{}, {h}, 1});
}

} // namespace lathe::bench::onednn
