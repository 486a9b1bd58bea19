"""Features and labels of ai.onnx.ml."""

import numpy as np
from onnx import numpy_helper

from .ml_values import NUMBERS, grid, ml_node, positive


def scaler(draw):
    x = grid(draw, (draw.size(), draw.size())[: draw.random.integers(1, 3)], draw.pick(NUMBERS))
    count = x.shape[-1] if draw.random.random() < 0.7 else 1
    return ml_node("Scaler", [x], offset=grid(draw, count).tolist(), scale=positive(draw, count).tolist())


def normalizer(draw):
    x = grid(draw, (draw.size(), draw.size()), draw.pick(NUMBERS))
    x[0] = 0
    norm = draw.pick(["MAX", "L1", "L2"])
    return ml_node("Normalizer", [x], norm=norm)


def imputer(draw):
    whole = draw.flag()
    x = grid(draw, (draw.size(), draw.size()), np.int64 if whole else np.float32, missing=not whole)
    count = x.shape[1] if draw.random.random() < 0.7 else 1
    if whole:
        return ml_node(
            "Imputer",
            [x],
            replaced_value_int64=int(draw.random.integers(-2, 3)),
            imputed_value_int64s=draw.random.integers(-9, 9, count).tolist(),
        )
    return ml_node(
        "Imputer",
        [x],
        replaced_value_float=float(draw.random.choice([np.nan, 0.5, 0])),
        imputed_value_floats=positive(draw, count).tolist(),
    )


def binarizer(draw):
    x = grid(draw, (draw.size(), draw.size()), np.float32)
    threshold = float(draw.random.choice([0, 0.5, -1.25]))
    return ml_node("Binarizer", [x], threshold=threshold)


def one_hot_encoder(draw):
    dtype = draw.pick([np.float32, np.float64, np.int64])
    x = grid(draw, (draw.size(), draw.size())[: draw.random.integers(1, 3)], dtype)
    zeros = int(draw.random.random() < 0.7)
    known = draw.random.permutation(np.arange(-2, 3))[: 3 if zeros else 5].tolist()
    return ml_node("OneHotEncoder", [x], cats_int64s=known, zeros=zeros)


def array_feature_extractor(draw):
    x = grid(draw, (draw.size(), draw.size(), draw.size())[: draw.random.integers(1, 4)], draw.pick(NUMBERS))
    index = draw.random.integers(0, x.shape[-1], (1, draw.size()))
    return ml_node("ArrayFeatureExtractor", [x, index])


def feature_vectorizer(draw):
    rows, dtype = draw.size(), draw.pick(NUMBERS)
    parts = [grid(draw, (rows, draw.size()), dtype) for _ in range(draw.random.integers(1, 5))]
    return ml_node("FeatureVectorizer", parts, inputdimensions=[x.shape[1] for x in parts])


def label_encoder_2(draw):
    dtype = draw.pick([np.float32, np.int64])
    x, keys = grid(draw, (draw.size(), draw.size()), dtype), np.unique(grid(draw, 9, dtype))
    keys = draw.random.permutation(keys).tolist()
    made = {"keys_floats" if dtype == np.float32 else "keys_int64s": keys}
    floats = draw.flag()
    made["values_floats" if floats else "values_int64s"] = (
        positive(draw, len(keys)) if floats else draw.random.integers(-9, 9, len(keys))
    ).tolist()
    if draw.flag():
        made["default_float" if floats else "default_int64"] = 7.5 if floats else 75
    return ml_node("LabelEncoder", [x], version=2, **made)


def label_encoder_4(draw):
    """The pairs of types that ONNX Runtime has, here as tensors."""
    pairs = [
        (np.int64, np.int64),
        (np.int64, np.float32),
        (np.float32, np.int64),
        (np.float32, np.float32),
        (np.float64, np.float64),
    ]
    dtype, to = draw.pick(pairs)
    x, keys = grid(draw, (draw.size(), draw.size()), dtype, missing=True), np.unique(grid(draw, 9, dtype))
    if dtype != np.int64 and draw.random.random() < 0.7:
        keys = np.append(keys, dtype(np.nan))
    keys = draw.random.permutation(keys)
    values = draw.random.integers(-9, 9, len(keys)).astype(to)
    made = {
        "keys_tensor": numpy_helper.from_array(keys),
        "values_tensor": numpy_helper.from_array(values),
        "default_tensor": numpy_helper.from_array(np.array([42], to)),
    }
    return ml_node("LabelEncoder", [x], version=4, **made)


CASES = [
    scaler,
    normalizer,
    imputer,
    binarizer,
    one_hot_encoder,
    array_feature_extractor,
    feature_vectorizer,
    label_encoder_2,
    label_encoder_4,
]
