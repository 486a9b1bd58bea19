"""Functions of arrays of com.microsoft."""

import numpy as np

from .harness import Node


def inverse(draw):
    size, dtype = draw.pick([1, 2, 3, 7]), draw.pick([np.float32, np.float64])
    matrices = draw.floats([*draw.pick([[], [2], [2, 3]]), size, size], dtype) + 3 * np.eye(size, dtype=dtype)
    return Node(
        "Inverse",
        [matrices[..., draw.random.permutation(size), :]],
        tolerance=1e-2 if dtype == np.float32 else 1e-6,
    )


def cdist(draw):
    rows, others, width = draw.shape(3)
    dtype = draw.pick([np.float32, np.float64])
    return Node(
        "CDist",
        [draw.floats([rows, width], dtype), draw.floats([others, width], dtype)],
        {"metric": draw.pick(["sqeuclidean", "euclidean"])},
        tolerance=1e-2 if dtype == np.float32 else 1e-6,
    )


def expand_dims(draw):
    x = draw.integers(draw.shape(2), draw.pick([np.int32, np.uint8]))
    return Node("ExpandDims", [x, np.int32(draw.pick(range(-3, 3)))], constants=(1,))


def crop_and_resize(draw):
    shape, count = [2, draw.size(), draw.pick([2, 5]), draw.pick([3, 7])], draw.pick([1, 4])
    regions = draw.floats([count, 4], low=-0.3, high=1.3)
    crop = np.array([draw.pick([1, 2, 5]), draw.pick([1, 3, 4])], np.int32)
    return Node(
        "CropAndResize",
        [draw.floats(shape), regions, draw.integers([count], np.int32, 0, 2), crop],
        {"mode": draw.pick(["bilinear", "nearest"]), "extrapolation_value": 0.5},
        constants=(3,),
    )


def ngram_repeat_block(draw):
    length = draw.pick([3, 8, 17])
    return Node(
        "NGramRepeatBlock",
        [draw.integers([2, length], np.int64, 0, 3), draw.floats([2, 5])],
        {"ngram_size": draw.pick([1, 2, 3])},
    )


def trilu(draw):
    x = draw.floats(draw.shape(draw.pick([2, 3])))
    k = np.int64(draw.pick(range(-3, 4))) if draw.flag() else None
    return Node("Trilu", [x, k], {"upper": draw.pick([0, 1])})


def unique(draw):
    return Node(
        "Unique",
        [draw.integers([draw.pick([1, 7, 23])], np.int64, 0, 5).astype(draw.pick([np.float32]))],
        outputs=3,
    )


def pad(draw):
    x, mode = draw.floats([3, 4, 5]), draw.pick(["constant", "reflect", "edge"])
    pads = draw.integers([6], np.int64, -1 if mode == "constant" else 0, 3)
    value = draw.floats([1]) if mode == "constant" and draw.flag() else None
    return Node("Pad", [x, pads.reshape(draw.pick([[6], [1, 6]])), value], {"mode": mode}, constants=(1, 2))


def grid_sample(draw):
    x = draw.floats([2, draw.size(), 4, 5])
    grid = draw.floats([2, 3, draw.size(), 2], low=-1.3, high=1.3)
    return Node(
        "GridSample",
        [x, grid],
        {
            "mode": draw.pick(["bilinear", "nearest", "bicubic"]),
            "padding_mode": draw.pick(["zeros", "border", "reflection"]),
            "align_corners": draw.pick([0, 1]),
        },
        tolerance=1e-2,
    )


def range_of(draw):
    dtype = draw.pick([np.int32, np.int64, np.int16, np.float32, np.float64])
    step = draw.pick([None, 2, -1])
    first, last = (9, 1) if step == -1 else (1, 9)
    delta = None if step is None else np.array([step], dtype)
    return Node("Range", [np.array([first], dtype), np.array([last], dtype), delta], constants=(0, 1, 2))


def gather_nd(draw):
    x = draw.floats([3, 4, 5])
    depth = draw.pick([1, 2, 3])
    index = np.stack([draw.integers([2, 3], np.int64, 0, size) for size in x.shape[:depth]], -1)
    return Node("GatherND", [x, index])


def rfft(draw):
    x = draw.floats([*draw.shape(draw.pick([0, 1, 2])), draw.pick([2, 4, 6, 10, 16])])
    spectrum = np.fft.rfft(x.astype(np.float64))
    parts = np.stack([spectrum.real, spectrum.imag], -1).astype(np.float32)
    return Node("Rfft", [x], {"signal_ndim": 1}, expected=[parts + np.float32(0)], tolerance=1e-2)


def irfft(draw):
    x = draw.floats([*draw.shape(draw.pick([0, 1, 2])), draw.pick([2, 4, 6, 10, 16])], low=0.5)
    spectrum = np.fft.rfft(x.astype(np.float64))
    return Node(
        "Irfft",
        [np.stack([spectrum.real, spectrum.imag], -1).astype(np.float32)],
        {"signal_ndim": 1},
        expected=[x],
    )


CASES = [
    rfft,
    irfft,
    inverse,
    cdist,
    expand_dims,
    crop_and_resize,
    ngram_repeat_block,
    trilu,
    unique,
    pad,
    grid_sample,
    range_of,
    gather_nd,
]
