#!/usr/bin/env python3
"""Compares random models of ai.onnx.ml with ONNX Runtime.

    python3 tests/conformance/onnx_runtime_ml.py build/release/lathe [--seed 1] [--count 3] [--only tree]

Every case is a function that draws a model of one node and its inputs. ONNX Runtime computes the outputs, and
`lathe check` compares. Exits with 77 where onnx or onnxruntime is not installed. Where ONNX Runtime departs
from ONNX's text (src/onnx/ops/ml/README.md), a case draws no such model, or says in its docstring what it
changes.
"""
import argparse
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import onnx
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

ML = "ai.onnx.ml"
MODES = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"]
FLOATS = [np.float32, np.float64]
NUMBERS = [np.float32, np.float64, np.int64, np.int32]


def model(op, inputs, outputs, version=3, **attributes):
    """One node. `inputs`: arrays; `outputs`: element types."""
    names = [f"x{k}" for k in range(len(inputs))]
    made = [f"y{k}" for k in range(len(outputs))]
    given = {name: value for name, value in attributes.items() if value is not None}
    node = helper.make_node(op, names, made, domain=ML, **given)
    graph = helper.make_graph(
        [node],
        "graph",
        [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
         for n, x in zip(names, inputs)],
        [helper.make_tensor_value_info(n, t, None) for n, t in zip(made, outputs)])
    opsets = [helper.make_opsetid(ML, version), helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def size(rng):
    return int(rng.choice([1, 2, 3, 5, 7, 13, 31]))


def grid(rng, shape, dtype=np.float32, missing=False):
    """Multiples of 1/8, so that inputs meet thresholds and sums are exact; NaN here and there."""
    values = rng.integers(-16, 17, shape)
    if np.issubdtype(dtype, np.integer):
        return (values // 8).astype(dtype)
    values = (values / 8).astype(dtype)
    if missing:
        values[rng.random(shape) < 0.15] = np.nan
    return values


# ---- trees ----


def random_trees(rng, features, modes, missing):
    """Attributes nodes_* of a few random trees, and the leaves as (tree, node)."""
    nodes, leaves = [], []
    for tree in range(int(rng.choice([1, 3, 8, 40]))):
        count = 0
        open_nodes = [(0, 0)]  # number, depth
        count = 1
        while open_nodes:
            number, depth = open_nodes.pop(int(rng.integers(len(open_nodes))))
            if depth == 6 or rng.random() < 0.25:
                leaves.append((tree, number))
                nodes.append((tree, number, "LEAF", 0, 0.0, 0, 0, 0))
                continue
            nodes.append((tree, number, str(rng.choice(modes)), int(rng.integers(features)),
                          float(rng.integers(-16, 17) / 8), count, count + 1,
                          int(missing and rng.random() < 0.5)))
            open_nodes += [(count, depth + 1), (count + 1, depth + 1)]
            count += 2
    nodes.sort(key=lambda n: n[:2])
    columns = list(zip(*nodes))
    names = ["treeids", "nodeids", "modes", "featureids", "values", "truenodeids", "falsenodeids",
             "missing_value_tracks_true"]
    attributes = {"nodes_" + name: list(column) for name, column in zip(names, columns)}
    if not missing:
        del attributes["nodes_missing_value_tracks_true"]
    return attributes, leaves


def votes(rng, prefix, leaves, targets, signed=True, dense=False):
    cast = []
    for tree, node in leaves:
        chosen = range(targets) if dense else [int(rng.integers(targets))]
        for target in chosen:
            weight = float(rng.integers(-64 if signed else 1, 65) / 64)
            cast.append((tree, node, target, weight if weight else 0.25))
    columns = list(zip(*cast))
    names = ["treeids", "nodeids", "ids", "weights"]
    return {f"{prefix}_{name}": list(column) for name, column in zip(names, columns)}


def as_doubles(attributes, *names):
    for name in names:
        values = np.array(attributes.pop(name), np.float64)
        attributes[name + "_as_tensor"] = numpy_helper.from_array(values, name)


def tree_modes(rng, missing):
    """One comparison of all nodes, or all kinds. ONNX Runtime lets NaN hold for BRANCH_NEQ."""
    known = MODES[:5] if missing else MODES
    return known if rng.random() < 0.5 else [str(rng.choice(known))]


def tree_regressor(rng):
    """ONNX Runtime leaves out base_values of a target that no leaf of a row votes for."""
    features, targets = size(rng), int(rng.integers(1, 5))
    dtype = NUMBERS[rng.integers(4)]
    missing = bool(rng.random() < 0.5) and dtype in FLOATS
    attributes, leaves = random_trees(rng, features, tree_modes(rng, missing), missing)
    dense = rng.random() < 0.5
    attributes |= votes(rng, "target", leaves, targets, dense=dense)
    if dense or targets == 1:
        attributes["base_values"] = grid(rng, targets).tolist()
    transforms = ["NONE"] if targets == 1 else ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO"]
    attributes["post_transform"] = str(rng.choice(transforms))
    attributes["aggregate_function"] = str(rng.choice(["SUM", "AVERAGE", "MIN", "MAX"]))
    if dtype == np.float64:
        doubles = ["nodes_values", "target_weights", "base_values"]
        as_doubles(attributes, *(name for name in doubles if name in attributes))
    x = grid(rng, (size(rng), features), dtype, missing)
    return model("TreeEnsembleRegressor", [x], [TensorProto.FLOAT], n_targets=targets, **attributes), [x]


def tree_classifier(rng):
    features, classes = size(rng), int(rng.integers(3, 6))
    dtype = NUMBERS[rng.integers(4)]
    missing = bool(rng.random() < 0.5) and dtype in FLOATS
    attributes, leaves = random_trees(rng, features, tree_modes(rng, missing), missing)
    attributes |= votes(rng, "class", leaves, classes, dense=rng.random() < 0.5)
    if rng.random() < 0.5:
        attributes["base_values"] = grid(rng, classes).tolist()
    attributes["post_transform"] = str(rng.choice(["NONE", "SOFTMAX", "LOGISTIC"]))
    attributes["classlabels_int64s"] = rng.permutation(classes * 2)[:classes].tolist()
    x = grid(rng, (size(rng), features), dtype, missing)
    return model("TreeEnsembleClassifier", [x], [TensorProto.INT64, TensorProto.FLOAT], **attributes), [x]


def tree_classifier_binary(rng):
    features, voted_for = size(rng), int(rng.random() < 0.3)
    attributes, leaves = random_trees(rng, features, tree_modes(rng, True), True)
    attributes |= votes(rng, "class", leaves, 1, signed=rng.random() < 0.5)
    attributes["class_ids"] = [voted_for] * len(attributes["class_ids"])
    if voted_for == 0 and rng.random() < 0.5:
        attributes["base_values"] = grid(rng, 1).tolist()
    attributes["post_transform"] = str(rng.choice(["NONE", "LOGISTIC"] + ["SOFTMAX"] * voted_for))
    attributes["classlabels_int64s"] = [int(v) for v in rng.permutation(9)[:2]]
    x = grid(rng, (size(rng), features), np.float32, True)
    return model("TreeEnsembleClassifier", [x], [TensorProto.INT64, TensorProto.FLOAT], **attributes), [x]


def tree_ensemble(rng):
    """Version 5. ONNX Runtime takes the numbers of SOFTMAX and LOGISTIC for one another, and looks for the
    whole part of a feature in a set: where there are sets, features are whole and not NaN."""
    features, targets, with_sets = size(rng), int(rng.integers(1, 4)), rng.random() < 0.5
    dtype = FLOATS[rng.integers(2)]
    flat, leaves = random_trees(rng, features, MODES[:5], True)
    place, inner, leaf = {}, [], []
    keys = list(zip(flat["nodes_treeids"], flat["nodes_nodeids"]))
    for k, key in enumerate(keys):
        kind = leaf if flat["nodes_modes"][k] == "LEAF" else inner
        place[key] = (kind is leaf, len(kind))
        kind.append(k)
    roots = []
    sides = {"true": [], "false": []}
    modes, values = [MODES.index(flat["nodes_modes"][k]) for k in inner], []
    feature_ids = [flat["nodes_featureids"][k] for k in inner]
    splits = [flat["nodes_values"][k] for k in inner]
    tracks = [flat["nodes_missing_value_tracks_true"][k] for k in inner]
    for k in inner:
        for side in sides:
            sides[side].append(place[(keys[k][0], flat[f"nodes_{side}nodeids"][k])])
    for tree in sorted(set(flat["nodes_treeids"])):
        is_leaf, at = place[(tree, 0)]
        roots.append(len(modes) if is_leaf else at)
        if is_leaf:  # a node both of whose sides are the leaf
            modes, feature_ids, splits, tracks = modes + [0], feature_ids + [0], splits + [0.0], tracks + [0]
            for side in sides:
                sides[side].append((True, at))
    members = []
    for k in range(len(modes)):
        if with_sets and rng.random() < 0.3:
            modes[k], splits[k] = 6, 0.0
            members += sorted({float(v) for v in rng.integers(1, 5, rng.integers(1, 5))}) + [np.nan]
    transform = int(rng.integers(4)) if targets > 1 else 0
    attributes = {
        "tree_roots": roots, "nodes_featureids": feature_ids, "nodes_missing_value_tracks_true": tracks,
        "nodes_modes": numpy_helper.from_array(np.array(modes, np.uint8), "modes"),
        "nodes_splits": numpy_helper.from_array(np.array(splits, dtype), "splits"),
        "leaf_targetids": rng.integers(0, targets, len(leaf)).tolist(),
        "leaf_weights": numpy_helper.from_array((rng.integers(1, 65, len(leaf)) / 64).astype(dtype)),
        "n_targets": targets, "post_transform": transform, "aggregate_function": int(rng.integers(4)),
    }
    for side, below in sides.items():
        attributes[f"nodes_{side}nodeids"] = [at for _, at in below]
        attributes[f"nodes_{side}leafs"] = [int(is_leaf) for is_leaf, _ in below]
    if members:
        attributes["membership_values"] = numpy_helper.from_array(np.array(members, dtype), "members")
    x = grid(rng, (size(rng), features), dtype, True)
    if with_sets:
        x = rng.integers(0, 5, x.shape).astype(dtype)
    output = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    made = model("TreeEnsemble", [x], [output], version=5, **attributes)
    swapped = model("TreeEnsemble", [x], [output], version=5,
                    **attributes | {"post_transform": [0, 2, 1, 3][transform]})
    return made, [x], swapped


# ---- linear models and support vector machines: numbers of one sign, so that no sum cancels ----


def positive(rng, *shape):
    return rng.uniform(0.25, 1, shape).astype(np.float32)


def labels(rng, classes):
    return rng.permutation(classes * 2)[:classes].tolist()


def rows_of_numbers(rng, features, dtype):
    if np.issubdtype(dtype, np.integer):
        return rng.integers(1, 9, (size(rng), features)).astype(dtype)
    return rng.uniform(0.25, 1, (size(rng), features)).astype(dtype)


def linear_regressor(rng):
    features, targets = size(rng), int(rng.integers(1, 5))
    x = rows_of_numbers(rng, features, np.float32)
    transforms = ["NONE"] if targets == 1 else ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO"]
    return model("LinearRegressor", [x], [TensorProto.FLOAT], version=1, targets=targets,
                 coefficients=positive(rng, targets * features).tolist(),
                 intercepts=positive(rng, targets).tolist() if rng.random() < 0.7 else None,
                 post_transform=str(rng.choice(transforms))), [x]


def probit_regressor(rng):
    """Scores between 0.1 and 0.4: ONNX Runtime rounds a difference that cancels, most of all around 0.5."""
    features, targets = size(rng), int(rng.integers(1, 5))
    x = rows_of_numbers(rng, features, np.float32)
    return model("LinearRegressor", [x], [TensorProto.FLOAT], version=1, targets=targets,
                 coefficients=(positive(rng, targets * features) * 0.3 / features).tolist(),
                 intercepts=[0.1] * targets, post_transform="PROBIT"), [x]


def linear_classifier(rng):
    features, classes = size(rng), int(rng.integers(2, 6))
    x = rows_of_numbers(rng, features, NUMBERS[rng.integers(4)])
    outputs = 1 if classes == 2 and rng.random() < 0.5 else classes
    transforms = ["NONE", "LOGISTIC"] if outputs == 1 else ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO"]
    sign = -1 if outputs == 1 and rng.random() < 0.5 else 1
    return model("LinearClassifier", [x], [TensorProto.INT64, TensorProto.FLOAT], version=1,
                 coefficients=(sign * positive(rng, outputs * features) / 8).tolist(),
                 intercepts=(sign * positive(rng, outputs)).tolist(), classlabels_ints=labels(rng, classes),
                 post_transform=str(rng.choice(transforms)), multi_class=int(rng.integers(2))), [x]


KERNELS = ["LINEAR", "POLY", "RBF", "SIGMOID"]


def kernel(rng):
    return {"kernel_type": str(rng.choice(KERNELS)), "kernel_params": [0.25, 0.5, float(rng.integers(1, 5))]}


def svm_regressor(rng):
    features, vectors, one_class = size(rng), size(rng) * int(rng.random() < 0.8), int(rng.random() < 0.3)
    x = rows_of_numbers(rng, features, np.float32)
    return model("SVMRegressor", [x], [TensorProto.FLOAT], version=1, n_supports=vectors, one_class=one_class,
                 coefficients=positive(rng, vectors or features).tolist(),
                 support_vectors=positive(rng, vectors * features).tolist() if vectors else None,
                 rho=[0.25 - one_class], **kernel(rng)), [x]


def svm_classifier(rng):
    features, classes = size(rng), int(rng.integers(2, 6))
    x = rows_of_numbers(rng, features, NUMBERS[rng.integers(4)])
    per_class = rng.integers(1, 6, classes)
    vectors, pairs = int(per_class.sum()), classes * (classes - 1) // 2
    probabilities = rng.random() < 0.5
    signs = rng.choice([-1, 1], (classes - 1, 1))
    coefficients = (signs * positive(rng, classes - 1, vectors) / 4).ravel()
    made = dict(coefficients=coefficients.tolist(), vectors_per_class=per_class.tolist(),
                rho=(rng.choice([-1, 1], pairs) * positive(rng, pairs)).tolist(),
                support_vectors=positive(rng, vectors * features).tolist(),
                classlabels_ints=labels(rng, classes), **kernel(rng))
    if probabilities:
        made |= {"prob_a": (-positive(rng, pairs)).tolist(), "prob_b": (positive(rng, pairs) - 0.5).tolist()}
    many = probabilities or classes > 2
    made["post_transform"] = str(rng.choice(["NONE", "SOFTMAX", "LOGISTIC"] if many else ["NONE"]))
    if made["kernel_type"] == "POLY" and np.issubdtype(x.dtype, np.integer):
        made["kernel_params"][2] = 1.0
    return model("SVMClassifier", [x], [TensorProto.INT64, TensorProto.FLOAT], version=1, **made), [x]


def linear_svm_classifier(rng):
    features, classes = size(rng), int(rng.integers(3, 6))
    x = rows_of_numbers(rng, features, np.float32)
    return model("SVMClassifier", [x], [TensorProto.INT64, TensorProto.FLOAT], version=1, rho=[0.5],
                 coefficients=positive(rng, classes * features).tolist(),
                 classlabels_ints=labels(rng, classes), kernel_params=[1.0, 0.0, 3.0], kernel_type="RBF"), [x]


# ---- features and labels ----


def scaler(rng):
    x = grid(rng, (size(rng), size(rng))[: rng.integers(1, 3)], NUMBERS[rng.integers(4)])
    count = x.shape[-1] if rng.random() < 0.7 else 1
    return model("Scaler", [x], [TensorProto.FLOAT], version=1, offset=grid(rng, count).tolist(),
                 scale=positive(rng, count).tolist()), [x]


def normalizer(rng):
    x = grid(rng, (size(rng), size(rng)), NUMBERS[rng.integers(4)])
    x[0] = 0
    norm = str(rng.choice(["MAX", "L1", "L2"]))
    return model("Normalizer", [x], [TensorProto.FLOAT], version=1, norm=norm), [x]


def imputer(rng):
    whole = rng.random() < 0.5
    x = grid(rng, (size(rng), size(rng)), np.int64 if whole else np.float32, missing=not whole)
    count = x.shape[1] if rng.random() < 0.7 else 1
    if whole:
        return model("Imputer", [x], [TensorProto.INT64], version=1,
                     replaced_value_int64=int(rng.integers(-2, 3)),
                     imputed_value_int64s=rng.integers(-9, 9, count).tolist()), [x]
    return model("Imputer", [x], [TensorProto.FLOAT], version=1,
                 replaced_value_float=float(rng.choice([np.nan, 0.5, 0])),
                 imputed_value_floats=positive(rng, count).tolist()), [x]


def binarizer(rng):
    x = grid(rng, (size(rng), size(rng)), np.float32)
    threshold = float(rng.choice([0, 0.5, -1.25]))
    return model("Binarizer", [x], [TensorProto.FLOAT], version=1, threshold=threshold), [x]


def one_hot_encoder(rng):
    dtype = [np.float32, np.float64, np.int64][rng.integers(3)]
    x = grid(rng, (size(rng), size(rng))[: rng.integers(1, 3)], dtype)
    zeros = int(rng.random() < 0.7)
    known = rng.permutation(np.arange(-2, 3))[: 3 if zeros else 5].tolist()
    return model("OneHotEncoder", [x], [TensorProto.FLOAT], version=1, cats_int64s=known, zeros=zeros), [x]


def array_feature_extractor(rng):
    x = grid(rng, (size(rng), size(rng), size(rng))[: rng.integers(1, 4)], NUMBERS[rng.integers(4)])
    index = rng.integers(0, x.shape[-1], (1, size(rng)))
    output = helper.np_dtype_to_tensor_dtype(x.dtype)
    return model("ArrayFeatureExtractor", [x, index], [output], version=1), [x, index]


def feature_vectorizer(rng):
    rows, dtype = size(rng), NUMBERS[rng.integers(4)]
    parts = [grid(rng, (rows, size(rng)), dtype) for _ in range(rng.integers(1, 5))]
    return model("FeatureVectorizer", parts, [TensorProto.FLOAT], version=1,
                 inputdimensions=[x.shape[1] for x in parts]), parts


def label_encoder_2(rng):
    dtype = [np.float32, np.int64][rng.integers(2)]
    x, keys = grid(rng, (size(rng), size(rng)), dtype), np.unique(grid(rng, 9, dtype))
    keys = rng.permutation(keys).tolist()
    made = {"keys_floats" if dtype == np.float32 else "keys_int64s": keys}
    floats = rng.random() < 0.5
    made["values_floats" if floats else "values_int64s"] = (
        positive(rng, len(keys)) if floats else rng.integers(-9, 9, len(keys))).tolist()
    if rng.random() < 0.5:
        made["default_float" if floats else "default_int64"] = 7.5 if floats else 75
    output = TensorProto.FLOAT if floats else TensorProto.INT64
    return model("LabelEncoder", [x], [output], version=2, **made), [x]


def label_encoder_4(rng):
    """The pairs of types that ONNX Runtime has, here as tensors."""
    pairs = [(np.int64, np.int64), (np.int64, np.float32), (np.float32, np.int64), (np.float32, np.float32),
             (np.float64, np.float64)]
    dtype, to = pairs[rng.integers(len(pairs))]
    x, keys = grid(rng, (size(rng), size(rng)), dtype, missing=True), np.unique(grid(rng, 9, dtype))
    if dtype != np.int64 and rng.random() < 0.7:
        keys = np.append(keys, dtype(np.nan))
    keys = rng.permutation(keys)
    values = rng.integers(-9, 9, len(keys)).astype(to)
    made = {"keys_tensor": numpy_helper.from_array(keys), "values_tensor": numpy_helper.from_array(values),
            "default_tensor": numpy_helper.from_array(np.array([42], to))}
    return model("LabelEncoder", [x], [helper.np_dtype_to_tensor_dtype(np.dtype(to))], version=4, **made), [x]


CASES = [tree_regressor, tree_classifier, tree_classifier_binary, tree_ensemble, linear_regressor,
         probit_regressor, linear_classifier, svm_regressor, svm_classifier, linear_svm_classifier, scaler,
         normalizer, imputer, binarizer,
         one_hot_encoder, array_feature_extractor, feature_vectorizer, label_encoder_2, label_encoder_4]

# ---- the runner ----


def run_onnxruntime(made, inputs):
    """Of integers that ONNX Runtime has no kernel for, the same as floats: they are small."""
    try:
        session = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    except onnxruntime.capi.onnxruntime_pybind11_state.NotImplemented:
        made = onnx.ModelProto.FromString(made.SerializeToString())
        for port in made.graph.input:
            port.type.tensor_type.elem_type = TensorProto.FLOAT
        inputs = [x.astype(np.float32) for x in inputs]
        session = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {port.name: x for port, x in zip(session.get_inputs(), inputs)})


def check(lathe, folder, case, seed):
    """What `lathe check` says of one case; nothing if all is well."""
    made, inputs, *other = case(np.random.default_rng(seed))
    outputs = run_onnxruntime((other or [made])[0], inputs)
    onnx.save(made, folder / "model.onnx")
    for old in folder.glob("*.pb"):
        old.unlink()
    for kind, arrays in (("input", inputs), ("output", outputs)):
        for k, array in enumerate(arrays):
            tensor = numpy_helper.from_array(np.asarray(array))
            (folder / f"{kind}_{k}.pb").write_bytes(tensor.SerializeToString())
    run = subprocess.run([lathe, "check", folder / "model.onnx", "--data", folder, "--tolerance",
                          "1e-4" if case is probit_regressor else "1e-5"],
                         capture_output=True, text=True, check=False)
    return "" if run.returncode == 0 else run.stdout + run.stderr


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("lathe")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=3, help="models of each case")
    parser.add_argument("--only", default="", help="part of a case's name")
    parser.add_argument("--keep", help="a folder for the model that fails")
    options = parser.parse_args()
    onnxruntime.set_default_logger_severity(4)
    failures, total = 0, 0
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(options.keep or scratch)
        for case in CASES:
            for seed in range(options.seed, options.seed + options.count):
                if options.only not in case.__name__:
                    continue
                total += 1
                said = check(options.lathe, folder, case, seed)
                if said:
                    failures += 1
                    print(f"{case.__name__}, seed {seed}: {said.strip()}", flush=True)
                    if options.keep:
                        return 1
    print(f"{total} models, {failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
