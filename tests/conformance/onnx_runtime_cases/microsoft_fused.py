"""Fused products, activations and normalisations of com.microsoft."""

import math

import numpy as np

from .harness import Node
from .microsoft_quantised import broadcast_shapes, maybe, windows

HALF_OR_SINGLE = [np.float32, np.float32, np.float16]


def tolerance(dtype):
    return 2e-2 if dtype == np.float16 else 1e-3


def matmul(op, draw):
    rows, inner, columns = draw.shape(3)
    batch = draw.pick([[], [2], [3, 2], [2, 3, 1]])
    across_a, across_b = draw.flag(), draw.flag()
    a = batch + ([inner, rows] if across_a else [rows, inner])
    b = batch + ([columns, inner] if across_b else [inner, columns])
    attributes = {"transA": int(across_a), "transB": int(across_b), "alpha": float(draw.floats(()))}
    if op == "FusedMatMul" and batch and draw.flag():
        a, b = (moved(shape) for shape in (a, b))
        attributes |= {"transBatchA": 1, "transBatchB": 1}
    return Node(op, [draw.floats(a, low=0.1), draw.floats(b, low=0.1)], attributes)


def moved(shape):
    """The axis before the last one, moved to the front."""
    return [shape[-2], *shape[:-2], shape[-1]]


def fused_matmul(draw):
    return matmul("FusedMatMul", draw)


def transpose_matmul(draw):
    return matmul("TransposeMatMul", draw)


def fused_gemm(draw):
    rows, inner, columns = draw.shape(3)
    across_a, across_b = draw.flag(), draw.flag()
    a = draw.floats([inner, rows] if across_a else [rows, inner])
    b = draw.floats([columns, inner] if across_b else [inner, columns])
    c = maybe(draw, draw.floats(draw.pick([[], [columns], [rows, 1], [rows, columns]])))
    attributes = {"transA": int(across_a), "transB": int(across_b), "alpha": 0.75, "beta": 0.5}
    name = draw.pick(
        [
            "Relu",
            "Tanh",
            "Sigmoid",
            "LeakyRelu",
            "HardSigmoid",
            "Softplus",
            "Softsign",
            "Elu",
            "ThresholdedRelu",
        ]
    )
    attributes["activation"] = name
    if name in ("LeakyRelu", "HardSigmoid", "Elu", "ThresholdedRelu"):
        attributes["activation_alpha"] = 0.3
    if name == "HardSigmoid":
        attributes["activation_beta"] = 0.4
    return Node("FusedGemm", [a, b, c], attributes, tolerance=1e-2)


def fused_conv(draw):
    shape, attributes = windows(draw, draw.pick([1, 2]), False)
    channels, group = (3, 1) if draw.flag() else (4, 2)
    shape[1] = channels
    attributes["group"] = group
    name = draw.pick([None, "Relu", "Tanh", "Sigmoid", "LeakyRelu", "Clip", "HardSigmoid"])
    if name:
        attributes["activation"] = name
    parameters = {"LeakyRelu": [0.2], "Clip": [-0.5, 0.75], "HardSigmoid": [0.3, 0.4]}.get(name)
    if parameters:
        attributes["activation_params"] = parameters
    inputs = [
        draw.floats(shape),
        draw.floats([4, channels // group, *attributes["kernel_shape"]]),
        maybe(draw, draw.floats([4])),
    ]
    if draw.flag() and "auto_pad" not in attributes:
        strides, pads = attributes.get("strides", [1, 1]), attributes.get("pads", [0] * 4)
        count = len(shape) - 2
        spatial = [
            (shape[2 + k] + pads[k] + pads[k + len(pads) // 2] - attributes["kernel_shape"][k]) // strides[k]
            + 1
            for k in range(count)
        ]
        inputs.append(draw.floats([shape[0], 4, *spatial]))
    return Node("FusedConv", inputs, attributes, tolerance=1e-2)


# ---- activations ----


def erf(x):
    return np.vectorize(math.erf)(x)


def gelu(x):
    return x * 0.5 * (1 + erf(x / math.sqrt(2)))


def features(draw):
    return draw.floats(draw.shape(draw.pick([1, 2, 3])))


def gelu_of_one(draw):
    return Node("Gelu", [features(draw)])


def bias_gelu(draw):
    x = features(draw)
    return Node("BiasGelu", [x, draw.floats(x.shape[-1:])])


def fast_gelu(draw):
    x = features(draw)
    return Node("FastGelu", [x, maybe(draw, draw.floats(x.shape[-1:]))])


def quick_gelu(draw):
    return Node("QuickGelu", [features(draw)], {"alpha": float(draw.floats(()))} if draw.flag() else {})


def bias_split_gelu(draw):
    dtype, half = draw.pick(HALF_OR_SINGLE), draw.size()
    x, bias = draw.floats([2, draw.size(), 2 * half], dtype), draw.floats([2 * half], dtype)
    total = x.astype(np.float64) + bias
    return Node(
        "BiasSplitGelu",
        [x, bias],
        tolerance=tolerance(dtype),
        expected=[(total[..., :half] * gelu(total[..., half:])).astype(dtype)],
    )


def bias_add(draw):
    dtype, shape = draw.pick(HALF_OR_SINGLE), draw.shape(3)
    x, bias, skip = draw.floats(shape, dtype), draw.floats(shape[-1:], dtype), draw.floats(shape, dtype)
    total = x.astype(np.float64) + bias + skip
    return Node("BiasAdd", [x, bias, skip], tolerance=tolerance(dtype), expected=[total.astype(dtype)])


def softmax(x, axis):
    powers = np.exp(x - x.max(axis=axis, keepdims=True))
    return powers / powers.sum(axis=axis, keepdims=True)


def bias_softmax(draw):
    batch, heads, rows, columns = draw.shape(4)
    inner = draw.flag()
    x, bias = draw.floats([batch, heads, rows, columns]), draw.floats(
        [batch, 1, 1, columns] if inner else [1, 1, rows, columns]
    )
    return Node(
        "BiasSoftmax",
        [x, bias],
        {"axis": 3, "is_inner_broadcast": int(inner)},
        expected=[softmax(x.astype(np.float64) + bias, -1).astype(np.float32)],
    )


# ---- normalisations ----


def skip_norm(op, draw):
    dtype, shape = draw.pick(HALF_OR_SINGLE), draw.shape(2) + [draw.pick([2, 5, 8, 16])]
    beta = [maybe(draw, draw.floats(shape[-1:], dtype))] if op == "SkipLayerNormalization" else []
    skip = draw.pick([shape, [1, *shape[1:]], shape[1:]]) if op == "SkipLayerNormalization" else shape
    inputs = [
        draw.floats(shape, dtype),
        draw.floats(skip, dtype),
        draw.floats(shape[-1:], dtype),
        *beta,
        maybe(draw, draw.floats(shape[-1:], dtype)),
    ]
    return Node(
        op,
        inputs,
        {"epsilon": draw.pick([1e-5, 1e-3])} if draw.flag() else {},
        outputs=draw.pick([(0,), (0, 3)]),
        named=(0, 1) if skip == shape else (0,),
        tolerance=3e-2 if dtype == np.float16 else 1e-3,
    )


def skip_layer_normalization(draw):
    return skip_norm("SkipLayerNormalization", draw)


def skip_simplified_layer_normalization(draw):
    return skip_norm("SkipSimplifiedLayerNormalization", draw)


def group_norm(draw):
    return grouped(draw, "GroupNorm")


def skip_group_norm(draw):
    return grouped(draw, "SkipGroupNorm")


def grouped(draw, op):
    dtype, last, groups, silu = (
        draw.pick(HALF_OR_SINGLE),
        draw.flag(),
        draw.pick([1, 2, 4]),
        draw.pick([0, 1]),
    )
    batch, rows, columns = draw.pick([1, 2]), draw.pick([2, 3]), draw.pick([3, 5])
    channels = groups * draw.pick([2, 3])
    x = draw.floats([batch, channels, rows, columns], dtype)
    gamma, beta = draw.floats([channels], dtype), draw.floats([channels], dtype)
    total, extra = x.astype(np.float64), []
    if op == "SkipGroupNorm":
        skip = draw.floats([batch, channels] + draw.pick([[], [1, 1], [rows, columns]]), dtype)
        bias = maybe(draw, draw.floats([channels], dtype))
        total = total + (skip[..., None, None] if skip.ndim == 2 else skip)
        total = total if bias is None else total + bias[:, None, None]
        extra = [to_last(skip) if last and skip.ndim == 4 else skip, bias]
    parts = total.reshape(batch, groups, -1)
    normal = (parts - parts.mean(-1, keepdims=True)) / np.sqrt(parts.var(-1, keepdims=True) + 1e-5)
    y = normal.reshape(x.shape) * gamma.astype(np.float64)[:, None, None] + beta[:, None, None]
    y = y / (1 + np.exp(-y)) if silu else y
    results = [y, total][: 1 if op == "GroupNorm" else draw.pick([1, 2])]
    results = [(to_last(r) if last else r).astype(dtype) for r in results]
    attributes = {"groups": groups, "activation": silu} | ({} if last else {"channels_last": 0})
    return Node(
        op,
        [to_last(x) if last else x, gamma, beta, *extra],
        attributes,
        outputs=len(results),
        tolerance=5e-2 if dtype == np.float16 else 1e-3,
        expected=results,
    )


def to_last(x):
    return np.ascontiguousarray(np.moveaxis(x, 1, -1))


def embed_layer_normalization(draw):
    batch, length = draw.shape(2)
    hidden = draw.pick([4, 8])
    words = draw.integers([batch, length], np.int32, 0, 11)
    segments = draw.flag()
    inputs = [
        words,
        draw.integers([batch, length], np.int32, 0, 2) if segments else None,
        draw.floats([11, hidden]),
        draw.floats([16, hidden]),
        draw.floats([2, hidden]) if segments else None,
        draw.floats([hidden]),
        draw.floats([hidden]),
        maybe(draw, draw.integers([batch, length], np.int32, 0, 2)),
        maybe(draw, draw.integers([draw.pick([1, batch]), length], np.int32, 0, 16)),
    ]
    return Node(
        "EmbedLayerNormalization", inputs, {"epsilon": 1e-5}, outputs=draw.pick([2, 3]), named=(0, 1, 7)
    )


def quantised_embed_layer_normalization(draw):
    batch, length = draw.shape(2)
    hidden, segments = draw.pick([4, 8]), draw.flag()
    dtype = draw.pick([np.uint8, np.int8])
    codes = lambda shape: draw.integers(shape, dtype, np.iinfo(dtype).min, np.iinfo(dtype).max + 1)  # noqa: E731
    tables = [codes([11, hidden]), codes([16, hidden]), codes([2, hidden]) if segments else None]
    tables += [codes([hidden]), codes([hidden])]
    scales = [None if x is None else np.float32(draw.pick([0.01, 0.02])).reshape([]) for x in tables]
    zero_points = [None if x is None else draw.integers([], dtype, 0, 20) for x in tables]
    inputs = [
        draw.integers([batch, length], np.int32, 0, 11),
        draw.integers([batch, length], np.int32, 0, 2) if segments else None,
        *tables,
        draw.integers([batch, length], np.int32, 0, 2) if draw.flag() else None,
        *scales,
        *zero_points,
    ]
    return Node("QEmbedLayerNormalization", inputs, {"epsilon": 1e-5}, outputs=2, named=(0, 1, 7))


def simplified_layer_normalization(draw):
    dtype, shape, axis = (
        draw.pick(HALF_OR_SINGLE),
        draw.shape(2) + [draw.pick([2, 8])],
        draw.pick([-1, 1, -2]),
    )
    inputs = [draw.floats(shape, dtype), draw.floats(shape[axis:] if axis < 0 else shape[axis:], dtype)]
    return Node(
        "SimplifiedLayerNormalization",
        inputs,
        {"axis": axis, "epsilon": 1e-4},
        outputs=draw.pick([1, 2]),
        tolerance=tolerance(dtype),
    )


def layer_normalization_before_onnx(draw):
    """ONNX Runtime's optimiser writes it into models of any opset."""
    shape = draw.shape(2) + [draw.pick([3, 8])]
    inputs = [draw.floats(shape), draw.floats(shape[-1:]), draw.floats(shape[-1:]) if draw.flag() else None]
    return Node("LayerNormalization", inputs, {"axis": -1, "epsilon": 1e-4}, opset=draw.pick([9, 12, 16]))


def withdrawn(op, **attributes):
    def case(draw):
        x = draw.floats([draw.pick([1, 2]), 3, draw.pick([5, 6]), draw.pick([4, 7])])
        return Node(op, [x], {name: value(draw) for name, value in attributes.items()}, opset=9)

    case.__name__ = op.lower()
    return case


def half(draw):
    return draw.pick([0.5, -1.5, 2.0])


CASES = [
    fused_matmul,
    transpose_matmul,
    fused_gemm,
    fused_conv,
    gelu_of_one,
    bias_gelu,
    fast_gelu,
    quick_gelu,
    bias_split_gelu,
    bias_add,
    bias_softmax,
    skip_layer_normalization,
    skip_simplified_layer_normalization,
    group_norm,
    skip_group_norm,
    embed_layer_normalization,
    quantised_embed_layer_normalization,
]
ONNX_CASES = [
    simplified_layer_normalization,
    layer_normalization_before_onnx,
    withdrawn("Affine", alpha=half, beta=half),
    withdrawn("Scale", scale=half),
    withdrawn("ScaledTanh", alpha=half, beta=half),
    withdrawn("ParametricSoftplus", alpha=half, beta=half),
    withdrawn("ImageScaler", scale=half, bias=lambda draw: [0.5, -2.0, 1.0]),
    withdrawn("Crop", border=lambda draw: draw.pick([[1, 0, 2, 1], [0, 0, 0, 0], [0, 3, 1, 0]])),
    withdrawn("Crop", border=lambda draw: [1, 2, 0, 0], scale=lambda draw: draw.pick([[2, 3], [3, 1]])),
]
