"""Quantised ops of com.microsoft."""

import numpy as np

from .harness import Node

EIGHT = [np.uint8, np.int8]


def zero_point(draw, dtype, shape=()):
    return draw.integers(shape, dtype)


def maybe(draw, value):
    return value if draw.flag() else None


def maybe_zero(draw, dtype, shape=()):
    """ONNX Runtime takes an output without a zero point for U8."""
    return None if dtype == np.uint8 and draw.flag() else zero_point(draw, dtype, shape)


def quantity(draw, shape, dtype, needs_zero=False):
    zero = zero_point(draw, dtype) if needs_zero else maybe_zero(draw, dtype)
    return [draw.integers(shape, dtype), draw.scale(), zero]


def broadcast_shapes(draw):
    shape = draw.shape(draw.pick([1, 2, 3, 4]))
    form = draw.pick(["same", "scalar", "row", "column", "rank"])
    other = {
        "same": shape,
        "scalar": [],
        "row": [1] * (len(shape) - 1) + shape[-1:],
        "column": shape[:-1] + [1],
        "rank": shape[1:],
    }[form]
    return (shape, other) if draw.flag() else (other, shape)


def binary(op, draw):
    dtype = draw.pick(EIGHT)
    a, b = broadcast_shapes(draw)
    # ONNX Runtime's type inference refuses nodes without a zero point.
    return Node(
        op,
        [
            *quantity(draw, a, dtype, True),
            *quantity(draw, b, dtype, True),
            draw.scale(),
            zero_point(draw, dtype),
        ],
    )


def qlinear_add(draw):
    return binary("QLinearAdd", draw)


def qlinear_mul(draw):
    return binary("QLinearMul", draw)


def qlinear_add_all_pairs(draw):
    return every_pair("QLinearAdd", draw)


def qlinear_mul_all_pairs(draw):
    return every_pair("QLinearMul", draw)


def every_pair(op, draw):
    dtype = draw.pick(EIGHT)
    every = np.arange(256).astype(np.uint8).view(dtype)
    a, b = np.repeat(every, 256), np.tile(every, 256)
    return Node(
        op,
        [
            a,
            draw.scale(),
            zero_point(draw, dtype),
            b,
            draw.scale(),
            zero_point(draw, dtype),
            draw.scale(),
            zero_point(draw, dtype),
        ],
    )


def every_number(draw, dtype):
    return [np.arange(256).astype(np.uint8).view(dtype), draw.scale(), maybe_zero(draw, dtype)]


def qlinear_sigmoid(draw):
    dtype = draw.pick(EIGHT)
    return Node("QLinearSigmoid", every_number(draw, dtype) + [draw.scale(), maybe_zero(draw, dtype)])


def qlinear_leaky_relu(draw):
    dtype = draw.pick(EIGHT)
    attributes = {"alpha": float(draw.floats(()))} if draw.flag() else {}
    return Node(
        "QLinearLeakyRelu", every_number(draw, dtype) + [draw.scale(), maybe_zero(draw, dtype)], attributes
    )


def qlinear_softmax(draw):
    dtype = draw.pick(EIGHT)
    shape = draw.shape(draw.pick([2, 3, 4]))
    attributes = {"opset": draw.pick([11, 13]), "axis": draw.pick(range(-len(shape), len(shape)))}
    y_scale = np.float32(draw.pick([1 / 256, 1 / 255, 0.01]))
    zero = dtype(0 if dtype == np.uint8 else -128)
    return Node("QLinearSoftmax", quantity(draw, shape, dtype) + [y_scale, zero], attributes)


def qlinear_concat(draw):
    dtype, rank = draw.pick(EIGHT), draw.pick([1, 2, 3])
    shape, axis = draw.shape(rank), draw.pick(range(-rank, rank))
    inputs = [draw.scale(), zero_point(draw, dtype)]
    for _ in range(draw.pick([1, 2, 3])):
        shape[axis] = draw.size()
        inputs += [
            draw.integers(shape, dtype),
            *(inputs[:2] if draw.flag() else [draw.scale(), zero_point(draw, dtype)]),
        ]
    return Node("QLinearConcat", inputs, {"axis": axis})


def qlinear_where(draw):
    dtype = draw.pick(EIGHT)
    a, b = broadcast_shapes(draw)
    condition = draw.integers(draw.pick([a, b]), np.uint8, 0, 2).astype(bool)
    return Node(
        "QLinearWhere",
        [
            condition,
            *quantity(draw, a, dtype, True),
            *quantity(draw, b, dtype, True),
            draw.scale(),
            zero_point(draw, dtype),
        ],
    )


def requantised(real, scale, zero, dtype):
    info = np.iinfo(dtype)
    return np.clip(np.rint(real / np.float64(scale)) + zero, info.min, info.max).astype(dtype)


def qlinear_reduce_mean(draw):
    dtype = draw.pick(EIGHT)
    x, x_scale, zero = quantity(draw, draw.shape(3), dtype)
    y_scale, y_zero, keeps = draw.scale(), zero_point(draw, dtype), draw.flag()
    axes = draw.pick([[0], [1], [-1], [0, 2], [0, 1, 2]])
    real = (x.astype(np.float64) - (0 if zero is None else zero)).mean(
        axis=tuple(axes), keepdims=keeps
    ) * np.float64(x_scale)
    return Node(
        "QLinearReduceMean",
        [x, x_scale, zero, y_scale, y_zero],
        {"axes": axes, "keepdims": int(keeps)},
        expected=[requantised(real.astype(np.float32), y_scale, y_zero, dtype)],
    )


def qlinear_global_average_pool(draw):
    dtype, last, rank = draw.pick(EIGHT), draw.flag(), draw.pick([3, 4, 5])
    return Node(
        "QLinearGlobalAveragePool",
        quantity(draw, draw.shape(rank), dtype, True) + [draw.scale(), zero_point(draw, dtype)],
        {"channels_last": int(last)},
        named=(0,),
    )


def windows(draw, rank, last):
    """A shape, and attributes of windows that fit."""
    kernel = [draw.pick([1, 2, 3]) for _ in range(rank)]
    spatial = [k + draw.pick([0, 1, 2, 4, 6]) for k in kernel]
    shape = [draw.pick([1, 2]), *spatial, draw.size()] if last else [draw.pick([1, 2]), draw.size(), *spatial]
    attributes = {"kernel_shape": kernel}
    if draw.flag():
        attributes["strides"] = [draw.pick([1, 2, 3]) for _ in range(rank)]
    if draw.flag():
        attributes["pads"] = [draw.pick(range(k)) for k in kernel * 2]
    elif draw.flag():
        attributes["auto_pad"] = draw.pick(["SAME_UPPER", "SAME_LOWER", "VALID"])
    return shape, attributes


def qlinear_average_pool(draw):
    dtype, last = draw.pick(EIGHT), draw.flag()
    shape, attributes = windows(draw, draw.pick([1, 2, 2, 3]), last)
    attributes |= {
        "channels_last": int(last),
        "count_include_pad": draw.pick([0, 1]),
        "ceil_mode": draw.pick([0, 1]),
    }
    x = quantity(draw, shape, dtype, True)
    y = x[1:] if draw.flag() else [draw.scale(), zero_point(draw, dtype)]
    return Node("QLinearAveragePool", x + y, attributes, named=(0,))


def nhwc_max_pool(draw):
    shape, attributes = windows(draw, draw.pick([1, 2, 3]), True)
    if draw.flag() and "auto_pad" not in attributes:
        attributes["ceil_mode"] = 1
    return Node("NhwcMaxPool", [draw.integers(shape, draw.pick(EIGHT))], attributes, named=(0,))


def eight_bits_beside(draw, a_type, shape, b_type):
    """Where I8 meets U8, 7 bits: on CPUs without VNNI ONNX Runtime's sums of two saturate at 16."""
    return draw.integers(shape, b_type, *((-64, 64) if (a_type, b_type) == (np.uint8, np.int8) else ()))


def qlinear_conv(draw):
    last, rank = draw.flag(), draw.pick([1, 2, 3])
    shape, attributes = windows(draw, rank, last)
    channels, group = (3, 1) if draw.flag() else (4, 2)
    shape[-1 if last else 1] = channels
    outputs = 6
    attributes |= {"channels_last": int(last), "group": group}
    x_type, w_type = draw.pick([(np.uint8, np.uint8), (np.uint8, np.int8), (np.int8, np.int8)])
    by_channel = draw.flag()
    scale = draw.scale([outputs]) if by_channel else draw.scale()
    zero = (
        np.zeros(scale.shape, w_type)
        if w_type == np.int8
        else np.full(scale.shape, draw.integers((), w_type))
    )
    weight = eight_bits_beside(
        draw, x_type, [outputs, channels // group, *attributes["kernel_shape"]], w_type
    )
    bias = draw.integers([outputs], np.int32, -500, 500) if draw.flag() else None
    return Node(
        "QLinearConv",
        [
            *quantity(draw, shape, x_type, True),
            weight,
            scale,
            zero,
            draw.floats((), low=0.5, high=2),
            zero_point(draw, x_type),
            bias,
        ],
        attributes,
        constants=(1, 2, 3, 4, 5, 6, 7, 8),
        named=(0,),
    )


def qgemm(draw):
    rows, inner, columns = draw.shape(3)
    a_type, b_type = draw.pick([(np.uint8, np.uint8), (np.uint8, np.int8), (np.int8, np.int8)])
    across_a, across_b = draw.flag(), draw.flag()
    a = draw.integers([inner, rows] if across_a else [rows, inner], a_type)
    b = eight_bits_beside(draw, a_type, [columns, inner] if across_b else [inner, columns], b_type)
    shape = [columns] if draw.flag() else []
    c = draw.integers(
        draw.pick([[], [columns], [1, columns], [rows, 1], [rows, columns]]), np.int32, -500, 500
    )
    y = draw.pick([[], [draw.floats((), low=0.05, high=2), zero_point(draw, a_type)]])
    attributes = {"transA": int(across_a), "transB": int(across_b)}
    if draw.flag():
        attributes["alpha"] = float(draw.floats(()))
    inputs = [
        a,
        draw.scale(),
        zero_point(draw, a_type),
        b,
        draw.scale(shape),
        zero_point(draw, b_type, shape),
        maybe(draw, c),
        *y,
    ]
    return Node("QGemm", inputs, attributes)


def matmul_integer_to_float(draw):
    a_type, b_type = draw.pick([(np.uint8, np.uint8), (np.uint8, np.int8), (np.int8, np.int8)])
    rows, inner, columns = draw.shape(3)
    batch = draw.pick([[], [2], [3, 2]])
    shape = [columns] if draw.flag() else []
    b = eight_bits_beside(draw, a_type, [inner, columns] if draw.flag() else [*batch, inner, columns], b_type)
    if len(b.shape) > 2:
        shape = []
    inputs = [
        draw.integers([*batch, rows, inner], a_type),
        b,
        draw.scale(),
        draw.scale(shape),
        maybe(draw, zero_point(draw, a_type)),
        maybe(draw, zero_point(draw, b_type, shape)),
        maybe(draw, draw.floats([columns])),
    ]
    return Node("MatMulIntegerToFloat", inputs)


def dynamic_quantize_matmul(draw):
    rows, inner, columns = draw.shape(3)
    b_type = draw.pick(EIGHT)
    shape = [columns] if draw.flag() else []
    inputs = [
        draw.floats([*draw.pick([[], [2], [3, 2]]), rows, inner]),
        eight_bits_beside(draw, np.uint8, [inner, columns], b_type),
        draw.scale(shape),
        maybe(draw, zero_point(draw, b_type, shape)),
        maybe(draw, draw.floats([columns])),
    ]
    return Node("DynamicQuantizeMatMul", inputs)


def quantize_linear(draw):
    x_type, dtype = draw.pick([np.float32, np.float16]), draw.pick([np.uint8, np.int8, np.uint16, np.int16])
    x, axis = draw.floats(draw.shape(3), x_type, -8, 8), draw.pick([None, 0, 1, -1])
    shape = () if axis is None else (x.shape[axis],)
    zero = draw.integers(shape, dtype)
    if dtype == np.uint8 and axis is None and draw.flag():
        zero = None
    return Node(
        "QuantizeLinear", [x, draw.scale(shape).astype(x_type), zero], {} if axis is None else {"axis": axis}
    )


def dequantize_linear(draw):
    x_type, dtype = draw.pick([np.float32, np.float16]), draw.pick(
        [np.uint8, np.int8, np.uint16, np.int16, np.int32]
    )
    x, axis = draw.integers(draw.shape(3), dtype, 0, 100), draw.pick([None, 0, 1, -1])
    shape = () if axis is None else (x.shape[axis],)
    zero = None if draw.flag() else draw.integers(shape, dtype, 0, 1 if dtype == np.int32 else 100)
    return Node(
        "DequantizeLinear",
        [x, draw.scale(shape).astype(x_type), zero],
        {} if axis is None else {"axis": axis},
    )


def dynamic_quantize_lstm(draw):
    steps, batch, width, hidden = draw.pick([1, 3]), draw.pick([1, 2]), draw.pick([3, 8]), draw.pick([2, 4])
    direction = draw.pick(["forward", "reverse", "bidirectional"])
    ways = 2 if direction == "bidirectional" else 1
    dtype, by_row = draw.pick(EIGHT), draw.flag()
    shape = [ways, 4 * hidden] if by_row else [ways]
    zero = (lambda: np.zeros(shape, np.int8)) if dtype == np.int8 else lambda: np.full(shape, 120, np.uint8)
    weights = [eight_bits_beside(draw, np.uint8, [ways, n, 4 * hidden], dtype) for n in (width, hidden)]
    scales = [draw.floats(shape, low=0.002, high=0.01) for _ in range(2)]
    lengths = maybe(draw, draw.integers([batch], np.int32, 1, steps + 1))
    inputs = [
        draw.floats([steps, batch, width]),
        *weights,
        maybe(draw, draw.floats([ways, 8 * hidden])),
        lengths,
        maybe(draw, draw.floats([ways, batch, hidden])),
        maybe(draw, draw.floats([ways, batch, hidden])),
        maybe(draw, draw.floats([ways, 3 * hidden])),
        scales[0],
        zero(),
        scales[1],
        zero(),
    ]
    # A number of the state that is next to a half may be rounded the other way.
    return Node(
        "DynamicQuantizeLSTM",
        inputs,
        {"direction": direction, "hidden_size": hidden},
        outputs=3,
        tolerance=2e-2,
        constants=(1, 2, 8, 9, 10, 11),
    )


def matmul_integer_16(draw):
    types = draw.pick(
        [(np.int16, np.int16), (np.uint16, np.uint16), (np.int16, np.uint16), (np.uint16, np.int16)]
    )
    rows, inner, columns = draw.shape(3)
    a, b = draw.integers([2, rows, inner], types[0]), draw.integers([inner, columns], types[1])
    out = np.uint32 if types == (np.uint16, np.uint16) else np.int32
    return Node("MatMulInteger16", [a, b], expected=[(a.astype(np.int64) @ b.astype(np.int64)).astype(out)])


def mul_integer(draw):
    dtype = draw.pick(EIGHT)
    a, b = (draw.integers(shape, dtype) for shape in broadcast_shapes(draw))
    zeros = [maybe(draw, zero_point(draw, dtype)) for _ in range(2)]
    wide = [x.astype(np.int32) - (0 if zero is None else zero) for x, zero in zip((a, b), zeros)]
    return Node("MulInteger", [a, zeros[0], b, zeros[1]], expected=[wide[0] * wide[1]])


def reduce_sum_integer(draw):
    dtype, axes, keeps = draw.pick(EIGHT), draw.pick([[0], [1, -1], [0, 1, 2]]), draw.flag()
    x = draw.integers(draw.shape(3), dtype)
    out = np.int32 if dtype == np.int8 else np.uint32
    total = x.sum(axis=tuple(axes), keepdims=keeps, dtype=out)
    return Node("ReduceSumInteger", [x], {"axes": axes, "keepdims": int(keeps)}, expected=[np.asarray(total)])


def packed(values, bits):
    """Numbers along the last axis as bytes, low bits first."""
    per_byte = 8 // bits
    padding = -values.shape[-1] % per_byte
    values = np.pad(values, [(0, 0)] * (values.ndim - 1) + [(0, padding)]).reshape(
        *values.shape[:-1], -1, per_byte
    )
    return sum(values[..., k] << (k * bits) for k in range(per_byte)).astype(np.uint8)


def matmul_nbits(draw):
    bits, block = draw.pick([4, 8, 2]), draw.pick([16, 32, 128])
    columns, outputs = draw.pick([block, 2 * block, 3 * block]), draw.pick([1, 3, 8, 17])
    dtype = draw.pick([np.float32, np.float32, np.float16])
    count = -(-columns // block)
    weights = packed(draw.integers([outputs, count, block], np.uint8, 0, 2**bits), bits)
    points = draw.pick(
        [
            None,
            packed(draw.integers([outputs, count], np.uint8, 0, 2**bits), bits),
            draw.floats([outputs, count], dtype, 0, 2**bits),
        ]
    )
    a = draw.floats([*draw.pick([[1], [5], [2, 3]]), columns], dtype)
    bias = draw.floats([outputs], dtype) if draw.flag() else None
    scales = draw.floats([outputs, count], dtype, 0.01, 0.1)
    attributes = {"K": columns, "N": outputs, "bits": bits, "block_size": block}
    given = [a, weights, scales, points, None, bias]
    wide = np.array(
        [[unpacked(weights[n, c], bits, block) for c in range(count)] for n in range(outputs)], np.float32
    )
    zero = np.full([outputs, count], 2.0 ** (bits - 1)) if points is None else points.astype(np.float32)
    if points is not None and points.dtype == np.uint8:
        zero = np.array([unpacked(row, bits, count) for row in points], np.float32)
    wide = ((wide - zero[..., None]) * scales.astype(np.float32)[..., None]).reshape(outputs, -1)[:, :columns]
    y = a.astype(np.float64) @ wide.T + (0 if bias is None else bias)
    tolerance = 1e-3 if dtype == np.float32 else 2e-2
    # Forms without a kernel on the CPU, and some of the others.
    no_kernel = (
        dtype == np.float16 or bits == 2 or (bits == 8 and points is not None and points.dtype != np.uint8)
    )
    reference = [y.astype(dtype)] if no_kernel or draw.flag() else None
    return Node(
        "MatMulNBits",
        given,
        attributes,
        constants=(1, 2, 3, 5),
        named=(0,),
        tolerance=tolerance,
        expected=reference,
    )


def unpacked(row, bits, count):
    return [(int(byte) >> (k * bits)) & (2**bits - 1) for byte in row for k in range(8 // bits)][:count]


def gather_block_quantized(draw):
    bits, block, rows = draw.pick([4, 8]), draw.pick([16, 32]), draw.size()
    columns = draw.pick([2, 4, 16, 34, 64])
    count = -(-columns // block)
    data = packed(draw.integers([rows, columns], np.uint8, 0, 2**bits), bits)
    index = draw.integers(draw.shape(draw.pick([1, 2])), draw.pick([np.int32, np.int64]), -rows, rows)
    dtype = draw.pick([np.float32, np.float16])
    points = maybe(draw, packed(draw.integers([rows, count], np.uint8, 0, 2**bits), bits))
    return Node(
        "GatherBlockQuantized",
        [data, index, draw.floats([rows, count], dtype, 0.01, 0.1), points],
        {"bits": bits, "block_size": block, "quantize_axis": -1},
        constants=(0, 2, 3),
    )


CASES = [
    qlinear_add,
    qlinear_mul,
    qlinear_add_all_pairs,
    qlinear_mul_all_pairs,
    qlinear_sigmoid,
    qlinear_leaky_relu,
    qlinear_softmax,
    qlinear_concat,
    qlinear_where,
    qlinear_reduce_mean,
    qlinear_global_average_pool,
    qlinear_average_pool,
    nhwc_max_pool,
    qlinear_conv,
    qgemm,
    matmul_integer_to_float,
    dynamic_quantize_matmul,
    dynamic_quantize_lstm,
    quantize_linear,
    dequantize_linear,
    matmul_integer_16,
    mul_integer,
    reduce_sum_integer,
    matmul_nbits,
    gather_block_quantized,
]
