"""Ops on strings of ONNX's own domain, and strings and maps in ai.onnx.ml.

Words are drawn from a few, so that they meet vocabularies; some are empty, some hold a zero byte.
"""

import dataclasses

import numpy as np
from onnx import TensorProto, numpy_helper

from . import ml_models, ml_trees
from .harness import Node
from .ml_values import ml_node, positive

WORDS = ["", "a", "b", "ab", "Ab", "a\0b", "Straße", "été", "ÉTÉ", "日本", " a  b ", "b a", "a-b", "--", "😀"]


def words(draw, shape, known=None):
    known = known or WORDS
    picked = draw.random.integers(0, len(known), shape)
    return np.array([known[k] for k in np.ravel(picked)], object).reshape(shape)


def different(draw, count):
    return [WORDS[k] for k in draw.random.permutation(len(WORDS))[:count]]


def node(op, inputs, outputs=1, opset=20, **attributes):
    return Node(op, inputs, attributes, outputs=outputs, opset=opset)


# ---- ONNX's own ----


def string_concat(draw):
    a = draw.shape(int(draw.random.integers(0, 4)))
    b = [size if draw.flag() else 1 for size in a][int(draw.flag() and len(a) > 0) :]
    return node("StringConcat", [words(draw, a), words(draw, b)])


def string_split(draw):
    """ONNX Runtime has no parts of an empty string at a delimiter, where ONNX's own tests' rule is Python's: one."""
    made = {"delimiter": draw.pick(["-", "a", "b ", "--"])} if draw.flag() else {}
    if draw.flag():
        made["maxsplit"] = int(draw.random.integers(0, 3))
    known = WORDS[1:] if "delimiter" in made else WORDS
    return node("StringSplit", [words(draw, draw.shape(int(draw.random.integers(0, 3))), known)], 2, **made)


def string_normalizer(draw):
    """Where the machine has no locale en_US, ONNX Runtime does nothing but drop words as they stand."""
    x = words(draw, (1, draw.size()) if draw.flag() else (draw.size(),))
    return node("StringNormalizer", [x], opset=10, stopwords=different(draw, 4), is_case_sensitive=1)


def regex_full_match(draw):
    pattern = draw.pick(["a.*", "[ab]*", "\\w+", ".", "\\p{L}+", "", "(?i)ÉTÉ", " *a +b *"])
    return node("RegexFullMatch", [words(draw, draw.shape(2))], pattern=pattern)


def tokenizer(draw):
    known = [word for word in WORDS if "\0" not in word] + ["to be, or  not", "aab\tba.b", "x.été.y"]
    how = draw.pick(["separators", "separators", "tokenexp", "characters"])
    made = {"mark": int(draw.flag()), "mincharnum": draw.pick([1, 2]), "pad_value": draw.pick(["#", "<pad>"])}
    if how == "tokenexp":
        made["tokenexp"] = draw.pick(["[a-zA-Z0-9_]+", "\\w\\w+", "a|ab", "\\p{L}+", "[^ ]"])
    elif how == "separators":
        made["separators"] = draw.pick([[" "], [" +", "[,.]"], ["b", "a"], ["[ \\n\\r\\t.!?,;:`\"']"], ["é"]])
    else:
        made |= {"separators": [""], "mincharnum": 1}
    x = words(draw, draw.shape(draw.pick([1, 2])), known)
    return Node("Tokenizer", [x], made)


def equal_strings(draw):
    shape = draw.shape(2)
    return node("Equal", [words(draw, shape), words(draw, shape[1:])], opset=19)


def tfidf_of_strings(draw):
    known = ["a", "b", "ab", "", "é"]
    grams = [[known[k] for k in draw.random.integers(0, 5, 2)] for _ in range(4)]
    grams = [list(pair) for pair in dict.fromkeys(map(tuple, grams))]  # none twice
    count = 3 + len(grams)
    x = words(draw, (draw.size(), draw.size() + 1), known)
    return node(
        "TfIdfVectorizer",
        [x],
        opset=9,
        mode=draw.pick(["TF", "IDF", "TFIDF"]),
        min_gram_length=1,
        max_gram_length=2,
        max_skip_count=int(draw.random.integers(0, 3)),
        ngram_counts=[0, 3],
        ngram_indexes=draw.random.permutation(count).tolist(),
        pool_strings=known[:3] + [word for pair in grams for word in pair],
        weights=positive(draw, count).tolist(),
    )


def unique_strings(draw):
    """Of ONNX Runtime only the order of the bytes: it has no axis for strings."""
    return node("Unique", [words(draw, draw.shape(2))], 4, opset=11, sorted=int(draw.flag()))


def text_of_numbers(draw):
    """Of few digits: ONNX Runtime writes eight, where ONNX's own tests have the shortest that read back."""
    dtype = draw.pick([np.float32, np.float64, np.float16, np.int64, np.int32, np.int8, np.uint8, np.uint64, np.bool_])
    if np.issubdtype(dtype, np.floating):
        x = draw.random.integers(-4000, 4000, 9) / 8
        x = np.append(x, [0, -0.0, 1, 100, np.inf, -np.inf, np.nan]).astype(dtype)
    elif dtype == np.bool_:
        x = np.array([True, False])
    else:
        info = np.iinfo(dtype)
        x = draw.random.integers(info.min, info.max, 9, dtype, endpoint=True)
    return node("Cast", [x], to=TensorProto.STRING)


def numbers_of_text(draw):
    to, dtype = draw.pick(
        [(TensorProto.FLOAT, np.float32), (TensorProto.DOUBLE, np.float64), (TensorProto.INT32, np.int32)]
    )
    if dtype == np.int32:
        texts = [str(k) for k in draw.integers((9,), dtype)]
    else:
        texts = [repr(float(k)) for k in draw.random.normal(size=9).astype(dtype)] + ["1e5", "-INF", "nan", "+7"]
    return Node("Cast", [np.array(texts, object)], {"to": to}, opset=20, tolerance=1e-7)


def moved_strings(draw):
    op = draw.pick(["Transpose", "Flatten", "Gather", "Slice", "Concat", "Where", "Expand", "Tile", "Reshape"])
    a, b = (int(draw.random.integers(1, 5)) for _ in range(2))
    x = words(draw, (a, b))
    more = {
        "Gather": [draw.random.integers(-a, a, 3)],
        "Slice": [np.array([1]), np.array([9]), np.array([1]), np.array([2])],
        "Concat": [words(draw, (2, b))],
        "Expand": [np.array([2, a, b])],
        "Tile": [np.array([2, 1])],
        "Reshape": [np.array([b, -1])],
    }.get(op, [])
    inputs = [draw.random.random((a, 1)) < 0.5, x, words(draw, (b,))] if op == "Where" else [x, *more]
    return node(op, inputs, opset=18, **({"axis": 0} if op == "Concat" else {}))


# ---- ai.onnx.ml ----


def label_encoder_of_strings(draw):
    """The pairs of types that ONNX Runtime has. Of repeated keys it takes another than ONNX says."""
    keys = different(draw, 5)
    x = words(draw, (draw.size(), draw.size()))
    kind = draw.pick(["int64", "float", "string"])
    values = {
        "int64": draw.random.integers(-9, 9, 5).tolist(),
        "float": positive(draw, 5).tolist(),
        "string": different(draw, 5),
    }[kind]
    made = {"keys_strings": keys, f"values_{kind}s": values}
    if draw.flag():
        made[f"default_{kind}"] = {"int64": 75, "float": 7.5, "string": "none"}[kind]
    return ml_node("LabelEncoder", [x], version=draw.pick([2, 4]), **made)


def label_encoder_to_strings(draw):
    dtype = draw.pick([np.int64, np.float32])
    x = draw.random.integers(-3, 4, draw.shape(2)).astype(dtype)
    keys = draw.random.permutation(np.arange(-2, 3)).astype(dtype)
    made = {
        "keys_tensor": numpy_helper.from_array(keys),
        "values_tensor": numpy_helper.from_array(np.array(different(draw, 5), object)),
        "default_tensor": numpy_helper.from_array(np.array(["none"], object)),
    }
    return ml_node("LabelEncoder", [x], version=4, **made)


def label_encoder_1(draw):
    classes = different(draw, 5)
    x = words(draw, draw.shape(2)) if draw.flag() else draw.random.integers(-1, 6, draw.shape(2))
    return ml_node("LabelEncoder", [x], classes_strings=classes)


def category_mapper(draw):
    known, numbers = different(draw, 5), draw.random.permutation(np.arange(9))[:5].tolist()
    x = words(draw, draw.shape(2)) if draw.flag() else draw.random.integers(0, 9, draw.shape(2))
    return ml_node("CategoryMapper", [x], cats_strings=known, cats_int64s=numbers)


def one_hot_of_strings(draw):
    zeros = draw.flag()
    known = different(draw, 5)
    x = words(draw, draw.shape(int(draw.random.integers(1, 3))), WORDS if zeros else known)
    return ml_node("OneHotEncoder", [x], cats_strings=known, zeros=int(zeros))


def extracted_strings(draw):
    x = words(draw, (draw.size(), draw.size()))
    return ml_node("ArrayFeatureExtractor", [x, draw.random.integers(0, x.shape[1], (1, draw.size()))])


def with_string_labels(draw, made):
    """A classifier whose labels are strings in place of its numbers."""
    attributes = dict(made.attributes)
    numbers = attributes.pop("classlabels_ints", None) or attributes.pop("classlabels_int64s")
    attributes["classlabels_strings"] = [f"class {k}" for k in numbers]
    return dataclasses.replace(made, attributes=attributes)


def classifier_of_strings(draw):
    makers = [
        ml_models.linear_classifier,
        ml_models.svm_classifier,
        ml_models.linear_svm_classifier,
        ml_trees.tree_classifier,
        ml_trees.tree_classifier_binary,
    ]
    return with_string_labels(draw, draw.pick(makers)(draw))


def zip_map(draw):
    keys = int(draw.random.integers(1, 6))
    made = {"classlabels_strings": different(draw, keys)}
    if draw.flag():
        made = {"classlabels_int64s": draw.random.permutation(9)[:keys].tolist()}
    shape = (keys,) if draw.random.random() < 0.2 else (draw.size(), keys)
    return ml_node("ZipMap", [positive(draw, *shape)], **made)


def dict_vectorizer(draw):
    """Of f32: ONNX Runtime takes a dict of Python's for nothing else."""
    values = (draw.random.integers(-9, 9, 4) / 4).tolist()
    if draw.flag():
        made, keys = {"string_vocabulary": different(draw, 6)}, different(draw, 4)
    else:
        made = {"int64_vocabulary": draw.random.permutation(9)[:6].tolist()}
        keys = draw.random.permutation(9)[:4].tolist()
    return ml_node("DictVectorizer", [(dict(zip(keys, values)), np.float32)], **made)


def cast_map(draw):
    sparse = draw.flag()
    to = draw.pick(["TO_FLOAT", "TO_INT64"] if sparse else ["TO_FLOAT", "TO_INT64", "TO_STRING"])
    keys = draw.random.permutation(9)[:4].tolist()
    values = (draw.random.integers(-40, 40, 4) / 8).tolist()
    form = {"map_form": "SPARSE", "max_map": 9} if sparse else {}
    return ml_node("CastMap", [(dict(zip(keys, values)), np.float32)], cast_to=to, **form)


ONNX_CASES = [
    string_concat,
    string_split,
    string_normalizer,
    regex_full_match,
    equal_strings,
    tfidf_of_strings,
    unique_strings,
    text_of_numbers,
    numbers_of_text,
    moved_strings,
]
MICROSOFT_CASES = [tokenizer]

ML_CASES = [
    label_encoder_of_strings,
    label_encoder_to_strings,
    label_encoder_1,
    category_mapper,
    one_hot_of_strings,
    extracted_strings,
    classifier_of_strings,
    zip_map,
    dict_vectorizer,
    cast_map,
]
