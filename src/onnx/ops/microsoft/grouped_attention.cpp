// GroupQueryAttention, whose keys and values go on in a cache, and RotaryEmbedding.
#include <algorithm>

#include "onnx/ops/attention.hpp"
#include "onnx/ops/microsoft/refuse.hpp"
#include "onnx/ops/microsoft/tables.hpp"
#include "onnx/ops/values.hpp"

namespace lathe::onnx {
namespace {

/// Rotary embeddings, with the cosines and sines of all positions.
struct Rotation {
  Tensor cosines, sines; // [positions, pairs of features that turn]
  bool interleaved;

  /// x [B, heads, T, features] at positions [B, T] or [1, T].
  Tensor operator()(const Call& call, const Tensor& x, const Tensor& positions) const {
    if (cosines.rank() != 2 || sines.rank() != 2)
      call.fail(ErrorKind::Shape, "caches " + to_string(cosines.shape()) + " and " +
                                      to_string(sines.shape()) + ", expected [positions, pairs of features]");
    const auto at = [&](const Tensor& cache) { return cache.take(positions, 0).unsqueeze(1); };
    return rotate_features(call, x, at(cosines), at(sines), interleaved);
  }
};

// ---- rotary embeddings alone ----

/// Input 1: positions [B, S], or the first one of all sequences.
std::vector<Value> rotary_embedding(Call& call) {
  if (call.integer("is_packed_batching", 0) != 0)
    call.fail(ErrorKind::Value, "is_packed_batching, expected 0");
  if (call.number("scale", 1.0) != 1.0)
    call.fail(ErrorKind::Value, "scale " + std::to_string(call.number("scale")) + ", expected 1");
  const Rotation rotation{call.tensor(2), call.tensor(3), call.integer("interleaved", 0) != 0};
  const Tensor input = call.tensor(0), given = call.tensor(1);
  const int64_t turned = call.integer("rotary_embedding_dim", 0),
                pairs = fixed_size(call, rotation.cosines, 1);
  if (turned != 0 && turned != 2 * pairs)
    call.fail(ErrorKind::Value, "rotary_embedding_dim " + std::to_string(turned) + ", expected twice the " +
                                    std::to_string(pairs) + " of the caches");
  Tensor x = input;
  if (input.rank() == 3) {
    const int64_t heads = call.integer("num_heads", 0), all = fixed_size(call, input, 2);
    x = split_heads(call, input, heads > 0 ? heads : all / (2 * pairs));
  } else {
    call.ignore("num_heads"); // an axis says it
  }
  if (x.rank() != 4)
    call.fail(ErrorKind::Shape, "input " + to_string(input.shape()) + ", expected 3 or 4 axes");
  const Tensor positions =
      given.rank() == 2 ? given
                        : (Tensor::iota({x.size(2)}, 0) + given.reshape({}).cast(DType::I64)).unsqueeze(0);
  const Tensor result = rotation(call, x, positions);
  return {input.rank() == 3 ? join_heads(result) : result};
}

// ---- with a cache ----

/// Where this step's keys go in the cache, for each sequence of the batch.
struct Step {
  Tensor past;  // [B, 1], i64: the keys before
  Tensor total; // [B, 1]: with those of this step
  Expr keys;    // that the results have room for
  Expr length;  // of the queries

  /// [B, S]: the positions of the queries. Those that only fill up a sequence have any.
  Tensor positions() const { return past + Tensor::iota({length}, 0); }

  /// A cache with zeros for what is left in it behind each sequence: that may be anything, even NaN.
  Tensor without_rest(const Tensor& cache) const {
    return where(keys_before(total, keys).transpose(), cache, weak(0.0, cache.dtype()));
  }

  /// cache [B, N, P, H] with this step's [B, N, S, H] in its place: [B, N, T, H].
  Tensor store(const std::optional<Tensor>& cache, const Tensor& fresh) const {
    if (!cache) return fresh;
    const Shape shape{fresh.size(0), fresh.size(1), keys, fresh.size(3)};
    const Tensor place = Tensor::iota({1, 1, keys, 1}, 2);
    // Places behind the cache read as 0.
    const Tensor longer = cache->size(2) == keys ? *cache : cache->gather(2, place.expand(shape));
    return write_elements(longer, fresh, 2, place - past.reshape({-1, 1, 1, 1}));
  }
};

/// Input 6: the keys of the longest sequence, with this step's.
Tensor longest(const Call& call) { return call.tensor(6).reshape({}).cast(DType::I64); }

/// The keys that a cache and total_sequence_length make room for: the larger of both. Where the length
/// depends on what the model is fed, only how far it goes beyond the cache decides, which hardly changes.
Expr room_for(Call& call, const Expr& kept) {
  const Value value = call.value(6);
  if (!value.integers() || value.integers()->size() != 1)
    return kept + call.look((longest(call) - Tensor::scalar(kept)).clamp(0.0, {})).front();
  const Expr total = value.integers()->front();
  if (proves_le(total, kept)) return kept;
  if (proves_le(kept, total)) return total;
  call.fail(ErrorKind::Shape, "total_sequence_length " + to_string(total) + " and a cache of " +
                                  to_string(kept) + " keys, expected to know which is larger");
}

Step read_step(Call& call, const Tensor& fresh, const std::optional<Tensor>& cache) {
  const Expr length = fresh.size(2), keys = cache ? room_for(call, cache->size(2)) : length;
  const Tensor total = call.tensor(5).cast(DType::I64).reshape({-1, 1}) + 1;
  // A first step has sequences that are shorter than its queries, and nothing before them.
  const Tensor past = maximum(total - Tensor::scalar(length), weak(int64_t{0}, DType::I64));
  return {past, total, keys, length};
}

struct GroupedHeads {
  Tensor q, k, v;
};

/// From three inputs, or from one that holds the features of all.
GroupedHeads grouped_heads(const Call& call) {
  const int64_t count = call.integer("num_heads"), shared = call.integer("kv_num_heads");
  if (count < 1 || shared < 1 || count % shared != 0)
    call.fail(ErrorKind::Value, std::to_string(count) + " heads and " + std::to_string(shared) +
                                    " of keys, expected a multiple");
  const Tensor query = call.tensor(0);
  if (call.has(1))
    return {split_heads(call, query, count), split_heads(call, call.tensor(1), shared),
            split_heads(call, call.tensor(2), shared)};
  const Tensor all = split_heads(call, query, count + 2 * shared);
  const auto part = [&](int64_t begin, int64_t size) {
    return all.index({Slice{}, Slice{begin, begin + size}});
  };
  return {part(0, count), part(count, shared), part(count + shared, shared)};
}

/// The keys that queries see: [B, 1, S, T].
Tensor visible(const Call& call, const Step& step) {
  const int64_t window = call.integer("local_window_size", -1);
  const bool causal = call.integer("causal", 1) != 0;
  const std::optional<int64_t> left = window > 0 ? std::optional(window - 1) : std::nullopt;
  const std::optional<int64_t> right = causal ? std::optional<int64_t>(0) : std::nullopt;
  const Tensor past = step.past.reshape({-1, 1, 1, 1});
  const Tensor near = visible_keys(step.length, step.keys, past, left, right);
  return causal ? near : near & keys_before(step.total, step.keys);
}

/// Where the queries are. ONNX Runtime reads one given position of a first step, and counts from there.
Tensor query_positions(Call& call, const Step& step) {
  const std::optional<Tensor> given = call.optional_tensor(9);
  if (!given) return step.positions();
  if (given->rank() != 2)
    call.fail(ErrorKind::Shape, "position_ids " + to_string(given->shape()) + ", expected [batch, sequence]");
  const Tensor is_first = longest(call) == Tensor::scalar(step.length);
  if (call.look(is_first.cast(DType::I64)).front() == 0) return *given;
  return (given->index({0, 0}).cast(DType::I64) + Tensor::iota({step.length}, 0)).unsqueeze(0);
}

/// The node's own numbers to add, [B or 1, N or 1, S, total], with zeros for room behind.
Tensor bias_for(const Call& call, const Tensor& bias, const Step& step) {
  const Expr behind = bias.rank() == 4 ? step.keys - bias.size(3) : Expr(-1);
  if (!behind.is_const() || behind.value() < 0)
    call.fail(ErrorKind::Shape, "attention_bias " + to_string(bias.shape()) + " for " + to_string(step.keys) +
                                    " keys, expected four axes and as many or fewer");
  return bias.cast(DType::F32).pad({{0, 0}, {0, 0}, {0, 0}, {0, behind.value()}});
}

void refuse_other_forms(const Call& call) {
  for (const char* name : {"k_quant_type", "v_quant_type"})
    if (call.text(name, "NONE") != "NONE")
      call.fail(ErrorKind::Value, std::string(name) + " " + call.text(name) + ", expected NONE");
  for (const char* name : {"sliding_window_cache", "qk_output", "kv_cache_bit_width"})
    refuse_attribute(call, name);
  for (size_t input = 12; input < call.input_count(); ++input)
    refuse_input(call, input, "of quantised caches or norms of queries");
  for (const char* name : {"qk_norm_epsilon", "q_norm_epsilon", "k_norm_epsilon"}) call.ignore(name);
  refuse_output(call, 3, "the scores");
}

/// The scores that take part in the softmax and have no value.
std::optional<Tensor> sink_of(const Call& call) {
  if (const auto sink = call.optional_tensor(11)) return sink->reshape({-1});
  if (call.integer("smooth_softmax", -1) > 0) return Tensor::zeros({call.integer("num_heads")});
  return std::nullopt;
}

std::vector<Value> grouped_attention(Call& call) {
  refuse_other_forms(call);
  GroupedHeads heads = grouped_heads(call);
  const std::optional<Tensor> past_key = call.optional_tensor(3), past_value = call.optional_tensor(4);
  const Step step = read_step(call, heads.k, past_key);
  if (call.integer("do_rotary", 0) != 0) {
    const Rotation rotation{call.tensor(7), call.tensor(8), call.integer("rotary_interleaved", 0) != 0};
    const Tensor positions = query_positions(call, step);
    heads.q = rotation(call, heads.q, positions);
    heads.k = rotation(call, heads.k, positions);
  } else {
    call.ignore("rotary_interleaved");
  }
  const Tensor keys = step.store(past_key, heads.k), values = step.store(past_value, heads.v);
  AttentionRules rules{.softcap = std::max(call.number("softcap", 0.0), 0.0), .sink = sink_of(call)};
  if (const double scale = call.number("scale", 0.0); scale != 0.0) rules.scale = scale;
  rules.allow(visible(call, step));
  if (const auto bias = call.optional_tensor(10)) rules.add(bias_for(call, *bias, step));
  const Tensor y = past_key ? attend(call, heads.q, step.without_rest(keys), step.without_rest(values), rules)
                            : attend(call, heads.q, keys, values, rules);
  std::vector<Value> outputs{join_heads(y), keys, values};
  outputs.resize(call.output_count());
  return outputs;
}

const OpRow kMicrosoftGroupedAttentionOps[] = {
    {"GroupQueryAttention", 1, grouped_attention, kMicrosoft, 17},
    {"RotaryEmbedding", 1, rotary_embedding, kMicrosoft, 4},
};

} // namespace

OpTable microsoft_grouped_attention_ops() { return kMicrosoftGroupedAttentionOps; }

} // namespace lathe::onnx
