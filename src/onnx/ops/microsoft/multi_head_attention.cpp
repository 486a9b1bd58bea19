// Attention, QAttention and MultiHeadAttention: the forms in which their queries, keys, values and masks
// come.
#include "onnx/ops/attention.hpp"
#include "onnx/ops/microsoft/refuse.hpp"
#include "onnx/ops/microsoft/requantise.hpp"
#include "onnx/ops/microsoft/tables.hpp"
#include "onnx/ops/values.hpp"

namespace lathe::onnx {
namespace {

constexpr double kFilter = -10000; // the default of mask_filter_value

/// Features [begin, begin + count) of the last axis.
Tensor features(const Tensor& x, int64_t begin, int64_t count) {
  return x.index({Ellipsis{}, Slice{begin, begin + count}});
}

/// Each [B, N, S or T, H].
struct Heads {
  Tensor q, k, v;
  Expr past = 0; // the keys that were there before these queries

  /// Keys and values behind those of the past.
  void append_to(const Tensor& past_key, const Tensor& past_value) {
    past = past_key.size(2);
    k = concat({past_key, k}, 2);
    v = concat({past_value, v}, 2);
  }
};

/// Places [begin, begin + count) of a cache [B, N, room, H].
Tensor places(const Tensor& cache, Expr begin, Expr count) { return slices(cache, 2, begin, count).tensor(); }

/// A cache with room behind the `past` keys or values in it; `all` holds those and this step's.
Tensor stored(const Call& call, const Tensor& cache, const Tensor& all) {
  const int64_t room = fixed_size(call, cache, 2), used = fixed_size(call, all, 2);
  if (used > room)
    call.fail(ErrorKind::Shape, "a cache with room for " + std::to_string(room) +
                                    " keys, expected at least " + std::to_string(used));
  return used == room ? all : concat({all, places(cache, used, room - used)}, 2);
}

/// Which keys `mask` lets count, [B, 1, 1 or S, T]. It is positive for those, [B, T] or [B, S, T]; or it has
/// the number of keys of each sequence, [B]; or their ends and then their beginnings, [2 B].
Tensor counting_keys(const Call& call, const Tensor& mask, const Expr& batch, const Expr& keys) {
  if (mask.rank() == 3) return (mask > 0).unsqueeze(1);
  if (mask.rank() == 2) return (mask > 0).unsqueeze(1).unsqueeze(1);
  if (mask.rank() == 1 && mask.size(0) == batch) return keys_before(mask, keys);
  if (mask.rank() == 1 && mask.size(0) == batch * 2) {
    const Tensor ends = slices(mask, 0, 0, batch).tensor(), begins = slices(mask, 0, batch, batch).tensor();
    return keys_before(ends, keys) & keys_before(begins, keys).logical_not();
  }
  call.fail(ErrorKind::Shape, "a mask of " + to_string(mask.shape()) + " for a batch of " + to_string(batch) +
                                  ", expected [B], [2 B], [B, T] or [B, S, T]");
}

/// No key behind the query, but for the last query: it sees all keys there are, as in ONNX Runtime.
Tensor causal_keys(const Heads& heads) {
  const Expr queries = heads.q.size(2);
  const Tensor is_last = Tensor::iota({queries, 1}, 0) == Tensor::scalar(queries - 1);
  return visible_keys(queries, heads.k.size(2), Tensor::scalar(heads.past), {}, 0) | is_last;
}

struct MaskInputs { // which inputs they are
  size_t mask;
  std::optional<size_t> bias;
};

/// The mask adds a number to the scores of the keys it hides: they may keep some weight.
AttentionRules attention_rules(const Call& call, const Heads& heads, const MaskInputs& inputs) {
  AttentionRules rules;
  if (const double scale = call.number("scale", 0.0); scale != 0.0) rules.scale = scale;
  const double filter = call.number("mask_filter_value", kFilter);
  if (const auto mask = call.optional_tensor(inputs.mask)) {
    const Tensor counts = counting_keys(call, *mask, heads.q.size(0), heads.k.size(2));
    rules.add(where(counts, weak(0.0, DType::F32), weak(filter, DType::F32)));
  }
  if (call.integer("unidirectional", 0) != 0) rules.allow(causal_keys(heads));
  if (!inputs.bias) return rules;
  if (const auto bias = call.optional_tensor(*inputs.bias)) rules.add(bias->cast(DType::F32));
  return rules;
}

Tensor attend_joined(const Call& call, const Heads& heads, const MaskInputs& inputs) {
  return join_heads(attend(call, heads.q, heads.k, heads.v, attention_rules(call, heads, inputs)));
}

// ---- Attention and QAttention: with the projection of their input ----

/// The features of queries, keys and values.
std::vector<int64_t> projected_sizes(const Call& call, int64_t all) {
  std::vector<int64_t> sizes = call.integers("qkv_hidden_sizes", std::vector<int64_t>{});
  if (sizes.empty() && all % 3 == 0) sizes.assign(3, all / 3);
  if (sizes.size() != 3 || sizes[0] + sizes[1] + sizes[2] != all || sizes[0] != sizes[1])
    call.fail(ErrorKind::Value, "qkv_hidden_sizes for " + std::to_string(all) +
                                    " features, expected three that sum to them, the first two equal");
  return sizes;
}

/// Queries, keys and values one behind the other, [B, S, features].
Heads projected_heads(const Call& call, const Tensor& all) {
  const int64_t count = call.integer("num_heads");
  const std::vector<int64_t> sizes = projected_sizes(call, fixed_size(call, all, 2));
  const auto heads = [&](int64_t begin, int64_t size) {
    return split_heads(call, features(all, begin, size), count);
  };
  return {heads(0, sizes[0]), heads(sizes[0], sizes[1]), heads(sizes[0] + sizes[1], sizes[2])};
}

/// `past`: the input that holds earlier keys and values.
std::vector<Value> self_attention(Call& call, const Tensor& projected, size_t past,
                                  const MaskInputs& inputs) {
  for (const char* name : {"do_rotary", "past_present_share_buffer"}) refuse_attribute(call, name);
  call.ignore("rotary_embedding_dim"); // of do_rotary
  Heads heads = projected_heads(call, projected);
  if (const auto kept = call.optional_tensor(past))
    heads.append_to(slice_at(*kept, 0, 0), slice_at(*kept, 0, 1));
  std::vector<Value> outputs{attend_joined(call, heads, inputs)};
  if (call.wants(1)) outputs.push_back(stack({heads.k, heads.v}, 0));
  return outputs;
}

std::vector<Value> attention(Call& call) {
  refuse_input(call, 6, "past_sequence_length");
  const Tensor product = call.tensor(0).matmul(call.tensor(1));
  const auto bias = call.optional_tensor(2);
  return self_attention(call, bias ? product + *bias : product, 4, {3, 5});
}

/// The projection is one of integers; from there on in f32.
std::vector<Value> quantised_attention(Call& call) {
  const Tensor sums = centred_rows(call, 0, 6).matmul(centred_columns(call, 1, 7));
  return self_attention(call, scale_product(sums, call.tensor(3), call.tensor(4), call.tensor(2)), 8,
                        {5, {}});
}

// ---- MultiHeadAttention: queries, keys and values are inputs ----

struct BiasedSplit {
  const Call& call;
  int64_t count; // of heads
  std::optional<Tensor> bias;

  /// [B, S, N * H] with features from `begin` on of the bias added, as heads.
  Tensor operator()(const Tensor& x, int64_t begin) const {
    if (!bias) return split_heads(call, x, count);
    return split_heads(call, x + features(*bias, begin, fixed_size(call, x, 2)), count);
  }
};

/// Part `which` of packed [B, S, N, parts, H] as [B, S, N * H].
Tensor unpacked(const Call& call, const Tensor& packed, int64_t parts, int64_t which) {
  if (packed.rank() != 5 || !packed.size(3).is_const(parts))
    call.fail(ErrorKind::Shape, "a packed input of " + to_string(packed.shape()) +
                                    ", expected [batch, sequence, heads, " + std::to_string(parts) +
                                    ", features]");
  return slice_at(packed, 3, which).flatten(2);
}

Heads given_heads(const Call& call, const std::optional<Tensor>& bias) {
  const BiasedSplit split{call, call.integer("num_heads"), bias};
  const Tensor query = call.tensor(0);
  if (!call.has(1)) {
    const Tensor q = unpacked(call, query, 3, 0);
    const int64_t size = fixed_size(call, q, 2);
    return {split(q, 0), split(unpacked(call, query, 3, 1), size),
            split(unpacked(call, query, 3, 2), 2 * size)};
  }
  const Tensor q = split(query, 0), key = call.tensor(1);
  const int64_t size = fixed_size(call, query, 2);
  if (!call.has(2))
    return {q, split(unpacked(call, key, 2, 0), size), split(unpacked(call, key, 2, 1), 2 * size)};
  if (key.rank() == 4) return {q, key, call.tensor(2)}; // heads that an earlier step kept
  return {q, split(key, size), split(call.tensor(2), 2 * size)};
}

/// Where a node has the inputs beside queries, keys and values.
struct Places {
  size_t bias, mask, added, past; // past: keys, and then values
};

/// With `past_length`, the caches have room behind so many keys and values, and the results have as much.
std::vector<Value> multi_head(Call& call, const Places& at, std::optional<int64_t> past_length) {
  refuse_output(call, 3, "the scores");
  Heads heads = given_heads(call, call.optional_tensor(at.bias));
  if (call.has(at.past) != call.has(at.past + 1))
    call.fail(ErrorKind::Value, "one of past_key and past_value, expected both or none");
  Value key = heads.k, value = heads.v;
  if (call.has(at.past)) {
    const Tensor past_key = call.tensor(at.past), past_value = call.tensor(at.past + 1);
    if (!past_length)
      heads.append_to(past_key, past_value);
    else if (*past_length > 0)
      heads.append_to(places(past_key, 0, *past_length), places(past_value, 0, *past_length));
    key = past_length ? stored(call, past_key, heads.k) : heads.k;
    value = past_length ? stored(call, past_value, heads.v) : heads.v;
  }
  std::vector<Value> outputs{attend_joined(call, heads, {at.mask, at.added}), key, value};
  outputs.resize(call.output_count());
  return outputs;
}

/// Input `input`, which says how full caches are, or none.
std::optional<int64_t> past_length(Call& call, size_t input) {
  return call.has(input) ? std::optional(call.integer_at(input)) : std::nullopt;
}

std::vector<Value> multi_head_attention(Call& call) {
  refuse_input(call, 9, "cache_indirection");
  return multi_head(call, {3, 4, 5, 6}, past_length(call, 8));
}

std::vector<Value> decoder_attention(Call& call) {
  refuse_attribute(call, "output_qk");
  refuse_input(call, 8, "beam_width");
  refuse_input(call, 9, "cache_indirection");
  const bool shares = call.integer("past_present_share_buffer", 0) != 0;
  if (shares && call.has(5) && !call.has(7))
    call.fail(ErrorKind::Value, "past_present_share_buffer without past_sequence_length, expected it");
  return multi_head(call, {10, 3, 4, 5}, shares ? past_length(call, 7) : std::nullopt);
}

const OpRow kMicrosoftAttentionOps[] = {
    {"Attention", 1, attention, kMicrosoft, 7},
    {"QAttention", 1, quantised_attention, kMicrosoft, 9},
    {"MultiHeadAttention", 1, multi_head_attention, kMicrosoft, 10},
    {"DecoderMaskedMultiHeadAttention", 1, decoder_attention, kMicrosoft, 11},
};

} // namespace

OpTable microsoft_attention_ops() { return kMicrosoftAttentionOps; }

} // namespace lathe::onnx
