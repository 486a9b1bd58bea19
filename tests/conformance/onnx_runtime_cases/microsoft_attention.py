"""Attention of com.microsoft."""

import numpy as np

from .harness import Node, run_onnx_runtime
from .microsoft_quantised import maybe


def masks(draw, batch, queries, keys, forms=("none", "ends", "ranges", "keys", "pairs")):
    """A mask of one of the forms, each sequence of which has a key that counts."""
    form = draw.pick(forms)
    if form == "none":
        return None
    if form == "ends":
        return draw.integers([batch], np.int32, 1, keys + 1)
    if form == "ranges":
        ends = draw.integers([batch], np.int32, 1, keys + 1)
        return np.concatenate([ends, draw.integers([batch], np.int32, 0, ends)]).astype(np.int32)
    mask = draw.integers([batch, keys] if form == "keys" else [batch, queries, keys], np.int32, 0, 2)
    mask[..., 0] = 1  # all that a causal query may see is not masked
    return mask


def sizes(draw):
    """Of a batch, its sequences, the heads and their features."""
    return draw.pick([1, 2, 3]), draw.pick([1, 2, 5]), draw.pick([1, 2, 3]), draw.pick([4, 8])


def attention(draw):
    batch, length, heads, size = sizes(draw)
    width, v_size, past = draw.pick([4, 6]), size, draw.pick([0, 0, 1, 3])
    attributes = {"num_heads": heads, "unidirectional": int(draw.flag())}
    if draw.flag() and not past:
        v_size = draw.pick([4, 12])
        attributes["qkv_hidden_sizes"] = [heads * size, heads * size, heads * v_size]
    if draw.flag():
        attributes["scale"] = 0.3
    keys, hidden = past + length, heads * (2 * size + v_size)
    mask = masks(draw, batch, length, keys)
    if mask is not None and draw.flag():
        attributes["mask_filter_value"] = -500.0
    # ONNX Runtime refuses a bias beside a past.
    bias = (
        None
        if past or draw.flag()
        else draw.floats([draw.pick([1, batch]), draw.pick([1, heads]), length, keys])
    )
    inputs = [
        draw.floats([batch, length, width]),
        draw.floats([width, hidden]),
        draw.floats([hidden]),
        mask,
        draw.floats([2, batch, heads, past, size]) if past else None,
        bias,
    ]
    presents = past or (v_size == size and draw.flag())
    named = (0,) if mask is None and bias is None and not past else ()
    return Node("Attention", inputs, attributes, outputs=2 if presents else 1, tolerance=2e-3, named=named)


def quantised_attention(draw):
    batch, length, heads, size = sizes(draw)
    width, hidden, past = draw.pick([4, 7]), 3 * heads * size, draw.pick([0, 0, 1, 3])
    dtype = draw.pick([np.uint8, np.int8])
    columns = [hidden] if draw.flag() else [1]
    inputs = [
        draw.integers([batch, length, width], np.uint8, 0, 256),
        draw.integers([width, hidden], dtype, np.iinfo(dtype).min, np.iinfo(dtype).max + 1),
        draw.floats([hidden]),
        np.float32(0.01).reshape([1]),
        (draw.integers(columns, np.int32, 1, 5) / 200).astype(np.float32),
        masks(draw, batch, length, past + length, ("none", "ends", "keys", "pairs")),
        draw.integers([1], np.uint8, 100, 150),
        draw.integers([1], dtype, 0, 20) if draw.flag() else None,
        draw.floats([2, batch, heads, past, size]) if past else None,
    ]
    attributes = {"num_heads": heads, "unidirectional": int(draw.flag())}
    constants = (1, 3, 4, 6, 7)
    return Node(
        "QAttention", inputs, attributes, outputs=2 if past else 1, tolerance=2e-3, constants=constants
    )


def multi_head_attention(draw):
    batch, length, heads, size = sizes(draw)
    form = draw.pick(["apart", "apart", "packed", "packed pairs", "kept"])
    v_size = draw.pick([size, 12]) if form == "apart" else size
    hidden, new = heads * size, length if form == "packed" else draw.pick([1, 3, 5])
    past = draw.pick([0, 2, 3]) if form == "apart" and v_size == size else 0
    if past:
        new = length
    attributes = {"num_heads": heads}
    if draw.flag():
        attributes["unidirectional"] = 1
    if draw.flag():
        attributes["scale"] = 0.3
    keys = past + new
    query = draw.floats([batch, length, hidden])
    key, value = draw.floats([batch, new, hidden]), draw.floats([batch, new, heads * v_size])
    if form == "kept":
        key, value = draw.floats([batch, heads, new, size]), draw.floats([batch, heads, new, size])
    bias = draw.floats([2 * hidden + heads * v_size]) if draw.flag() and form in ("apart", "kept") else None
    mask = masks(draw, batch, length, keys, ("none", "ends", "keys", "pairs"))
    added = draw.floats([draw.pick([1, batch]), draw.pick([1, heads]), length, keys]) if draw.flag() else None
    inputs = [query, key, value, bias, mask, added]
    if past:
        inputs += [draw.floats([batch, heads, past, size]), draw.floats([batch, heads, past, size])]
    presents = form == "apart" and (past or draw.flag())
    node = Node("MultiHeadAttention", inputs, attributes, outputs=3 if presents else 1, tolerance=2e-3)
    if not form.startswith("packed"):
        return node
    # Packed inputs have no kernel on the CPU: their results are those of the inputs apart.
    node.expected = run_onnx_runtime("com.microsoft", node)
    kept = [query] if form == "packed pairs" else []
    parts = [x.reshape(batch, -1, heads, size) for x in ([key, value] if kept else [query, key, value])]
    node.inputs[:3] = (kept + [np.stack(parts, 3)] + [None, None])[:3]
    return node


def decoder_masked_multi_head_attention(draw):
    batch, heads, size, past = draw.pick([1, 2]), draw.pick([1, 3]), draw.pick([4, 8]), draw.pick([1, 4])
    hidden, room = heads * size, past + draw.pick([1, 3])
    mask = maybe(draw, masks(draw, batch, 1, past + 1, ["keys"]))
    inputs = [
        draw.floats([batch, 1, hidden]),
        draw.floats([batch, 1, hidden]),
        draw.floats([batch, 1, hidden]),
        mask,
        maybe(draw, draw.floats([1, heads, 1, past + 1])),
        draw.floats([batch, heads, room, size]),
        draw.floats([batch, heads, room, size]),
        np.full([1], past, np.int32),
        None,
        None,
        maybe(draw, draw.floats([3 * hidden])),
    ]
    return Node(
        "DecoderMaskedMultiHeadAttention",
        inputs,
        {"num_heads": heads, "past_present_share_buffer": 1},
        outputs=3,
        constants=(7,),
        tolerance=2e-3,
    )


def caches(draw, positions, pairs, dtype=np.float32):
    angles = draw.floats([positions, pairs], low=0, high=6)
    return np.cos(angles).astype(dtype), np.sin(angles).astype(dtype)


def group_query_attention(draw):
    first, length, shared, size = draw.flag(), draw.pick([1, 1, 2, 5]), draw.pick([1, 2]), draw.pick([8, 16])
    heads = shared * draw.pick([1, 2, 3])
    batch = draw.pick([1, 2, 3]) if first or length == 1 else 1  # all that ONNX Runtime takes
    past = 0 if first else draw.pick([1, 4, 7])
    total = length if first else past + length
    room = total if first else past  # of the cache
    ends = np.full([batch], total - 1, np.int32)
    attributes = {"num_heads": heads, "kv_num_heads": shared}
    packed, turned = draw.flag(), size == 16 and draw.flag()
    if draw.flag():
        attributes["scale"] = 0.3
    if draw.flag():
        attributes["local_window_size"] = draw.pick([1, 2, 4])
    if draw.flag():
        attributes["softcap"] = 2.0
    if draw.flag():
        attributes["smooth_softmax"] = 1
    if packed:
        given = [draw.floats([batch, length, (heads + 2 * shared) * size]), None, None]
    else:
        given = [draw.floats([batch, length, n * size]) for n in (heads, shared, shared)]
    cached = [None, None] if first else [draw.floats([batch, shared, room, size]) for _ in range(2)]
    angles = [None, None]
    if turned:
        attributes |= {"do_rotary": 1, "rotary_interleaved": int(draw.flag())}
        angles = list(caches(draw, total + 9, size // 2))
    positions = draw.integers([batch, length], np.int64, 0, 9) if turned and draw.flag() else None
    sink = None
    if "smooth_softmax" not in attributes and draw.flag():
        sink = draw.floats([heads])
    added = (
        draw.floats([draw.pick([1, batch]), draw.pick([1, heads]), length, total]) if draw.flag() else None
    )
    inputs = [*given, *cached, ends, np.int32(total), *angles, positions, added, sink]
    constants = draw.pick([(), (6,)])  # whether the length is known beforehand
    return Node("GroupQueryAttention", inputs, attributes, outputs=3, constants=constants, tolerance=2e-3)


def group_query_attention_with_room(draw):
    """The cache has room for more keys than there are; sequences of a batch have lengths of their own."""
    batch, shared, size, room = draw.pick([1, 2, 3]), draw.pick([1, 2]), 16, 12
    heads = shared * draw.pick([1, 2])
    ends = draw.integers([batch], np.int32, 2, room - 1)
    total = int(ends.max()) + 1
    given = [draw.floats([batch, 1, n * size]) for n in (heads, shared, shared)]
    cached = [draw.floats([batch, shared, room, size]) for _ in range(2)]
    for cache in cached:
        cache[:, :, total:] = np.nan  # anything may be left there
    attributes = {"num_heads": heads, "kv_num_heads": shared}
    angles = [None, None]
    added = draw.floats([1, heads, 1, total]) if draw.flag() else None
    if draw.flag():
        attributes["do_rotary"] = 1
        angles = list(caches(draw, room, size // 2))
    if draw.flag():
        attributes["local_window_size"] = draw.pick([1, 3])
    node = Node(
        "GroupQueryAttention",
        [*given, *cached, ends, np.int32(total), *angles, None, added],
        attributes,
        outputs=3,
        constants=(6,),
        tolerance=2e-3,
    )
    node.expected = run_onnx_runtime("com.microsoft", node)
    for present, past in zip(node.expected[1:], cached):
        for b, end in enumerate(ends):  # behind the last key ONNX Runtime leaves what was in memory
            present[b, :, end + 1 :] = past[b, :, end + 1 :]
    return node


def rotary_embedding(draw):
    batch, length, heads, size = (
        draw.pick([1, 2]),
        draw.pick([1, 3, 5]),
        draw.pick([1, 2, 3]),
        draw.pick([8, 16]),
    )
    part, dtype = draw.flag(), draw.pick([np.float32, np.float32, np.float16])
    turned = size // 2 if part else size
    attributes = {"interleaved": int(draw.flag())}
    shape = [batch, heads, length, size] if draw.flag() else [batch, length, heads * size]
    if part:
        attributes |= {"num_heads": heads, "rotary_embedding_dim": turned}
    elif len(shape) == 3 and draw.flag():
        attributes["num_heads"] = heads
    positions = (
        draw.integers([batch, length], np.int64, 0, 9) if draw.flag() else draw.integers([1], np.int64, 0, 4)
    )
    return Node(
        "RotaryEmbedding",
        [draw.floats(shape, dtype), positions, *caches(draw, 9, turned // 2, dtype)],
        attributes,
        named=(0, 1) if positions.ndim == 2 else (0,),
        tolerance=1e-3 if dtype == np.float32 else 3e-2,
    )


CASES = [
    attention,
    quantised_attention,
    multi_head_attention,
    decoder_masked_multi_head_attention,
    group_query_attention,
    group_query_attention_with_room,
    rotary_embedding,
]
