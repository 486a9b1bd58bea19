"""Trees of ai.onnx.ml."""

import numpy as np
from onnx import numpy_helper

from .ml_values import FLOATS, NUMBERS, grid, ml_node

MODES = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"]


def random_trees(draw, features, modes, missing):
    """Attributes nodes_* of a few random trees, and the leaves as (tree, node)."""
    nodes, leaves = [], []
    for tree in range(int(draw.random.choice([1, 3, 8, 40]))):
        count = 0
        open_nodes = [(0, 0)]  # number, depth
        count = 1
        while open_nodes:
            number, depth = open_nodes.pop(int(draw.random.integers(len(open_nodes))))
            if depth == 6 or draw.random.random() < 0.25:
                leaves.append((tree, number))
                nodes.append((tree, number, "LEAF", 0, 0.0, 0, 0, 0))
                continue
            nodes.append(
                (
                    tree,
                    number,
                    draw.pick(modes),
                    int(draw.random.integers(features)),
                    float(draw.random.integers(-16, 17) / 8),
                    count,
                    count + 1,
                    int(missing and draw.flag()),
                )
            )
            open_nodes += [(count, depth + 1), (count + 1, depth + 1)]
            count += 2
    nodes.sort(key=lambda n: n[:2])
    columns = list(zip(*nodes))
    names = [
        "treeids",
        "nodeids",
        "modes",
        "featureids",
        "values",
        "truenodeids",
        "falsenodeids",
        "missing_value_tracks_true",
    ]
    attributes = {"nodes_" + name: list(column) for name, column in zip(names, columns)}
    if not missing:
        del attributes["nodes_missing_value_tracks_true"]
    return attributes, leaves


def votes(draw, prefix, leaves, targets, signed=True, dense=False):
    cast = []
    for tree, node in leaves:
        chosen = range(targets) if dense else [int(draw.random.integers(targets))]
        for target in chosen:
            weight = float(draw.random.integers(-64 if signed else 1, 65) / 64)
            cast.append((tree, node, target, weight if weight else 0.25))
    columns = list(zip(*cast))
    names = ["treeids", "nodeids", "ids", "weights"]
    return {f"{prefix}_{name}": list(column) for name, column in zip(names, columns)}


def as_doubles(attributes, *names):
    for name in names:
        values = np.array(attributes.pop(name), np.float64)
        attributes[name + "_as_tensor"] = numpy_helper.from_array(values, name)


def tree_modes(draw, missing):
    """One comparison of all nodes, or all kinds. ONNX Runtime lets NaN hold for BRANCH_NEQ."""
    known = MODES[:5] if missing else MODES
    return known if draw.flag() else [draw.pick(known)]


def tree_regressor(draw):
    """ONNX Runtime leaves out base_values of a target that no leaf of a row votes for."""
    features, targets = draw.size(), int(draw.random.integers(1, 5))
    dtype = draw.pick(NUMBERS)
    missing = draw.flag() and dtype in FLOATS
    attributes, leaves = random_trees(draw, features, tree_modes(draw, missing), missing)
    dense = draw.flag()
    attributes |= votes(draw, "target", leaves, targets, dense=dense)
    if dense or targets == 1:
        attributes["base_values"] = grid(draw, targets).tolist()
    transforms = ["NONE"] if targets == 1 else ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO"]
    attributes["post_transform"] = draw.pick(transforms)
    attributes["aggregate_function"] = draw.pick(["SUM", "AVERAGE", "MIN", "MAX"])
    if dtype == np.float64:
        doubles = ["nodes_values", "target_weights", "base_values"]
        as_doubles(attributes, *(name for name in doubles if name in attributes))
    x = grid(draw, (draw.size(), features), dtype, missing)
    return ml_node("TreeEnsembleRegressor", [x], version=3, n_targets=targets, **attributes)


def tree_classifier(draw):
    features, classes = draw.size(), int(draw.random.integers(3, 6))
    dtype = draw.pick(NUMBERS)
    missing = draw.flag() and dtype in FLOATS
    attributes, leaves = random_trees(draw, features, tree_modes(draw, missing), missing)
    attributes |= votes(draw, "class", leaves, classes, dense=draw.flag())
    if draw.flag():
        attributes["base_values"] = grid(draw, classes).tolist()
    attributes["post_transform"] = draw.pick(["NONE", "SOFTMAX", "LOGISTIC"])
    attributes["classlabels_int64s"] = draw.random.permutation(classes * 2)[:classes].tolist()
    x = grid(draw, (draw.size(), features), dtype, missing)
    return ml_node("TreeEnsembleClassifier", [x], outputs=2, version=3, **attributes)


def tree_classifier_binary(draw):
    features, voted_for = draw.size(), int(draw.random.random() < 0.3)
    attributes, leaves = random_trees(draw, features, tree_modes(draw, True), True)
    attributes |= votes(draw, "class", leaves, 1, signed=draw.flag())
    attributes["class_ids"] = [voted_for] * len(attributes["class_ids"])
    if voted_for == 0 and draw.flag():
        attributes["base_values"] = grid(draw, 1).tolist()
    attributes["post_transform"] = draw.pick(["NONE", "LOGISTIC"] + ["SOFTMAX"] * voted_for)
    attributes["classlabels_int64s"] = [int(v) for v in draw.random.permutation(9)[:2]]
    x = grid(draw, (draw.size(), features), np.float32, True)
    return ml_node("TreeEnsembleClassifier", [x], outputs=2, version=3, **attributes)


def tree_ensemble(draw):
    """Version 5. ONNX Runtime takes the numbers of SOFTMAX and LOGISTIC for one another, and looks for the
    whole part of a feature in a set: where there are sets, features are whole and not NaN."""
    features, targets, with_sets = draw.size(), int(draw.random.integers(1, 4)), draw.flag()
    dtype = draw.pick(FLOATS)
    flat, leaves = random_trees(draw, features, MODES[:5], True)
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
        if with_sets and draw.random.random() < 0.3:
            modes[k], splits[k] = 6, 0.0
            members += sorted({float(v) for v in draw.random.integers(1, 5, draw.random.integers(1, 5))}) + [
                np.nan
            ]
    transform = int(draw.random.integers(4)) if targets > 1 else 0
    attributes = {
        "tree_roots": roots,
        "nodes_featureids": feature_ids,
        "nodes_missing_value_tracks_true": tracks,
        "nodes_modes": numpy_helper.from_array(np.array(modes, np.uint8), "modes"),
        "nodes_splits": numpy_helper.from_array(np.array(splits, dtype), "splits"),
        "leaf_targetids": draw.random.integers(0, targets, len(leaf)).tolist(),
        "leaf_weights": numpy_helper.from_array((draw.random.integers(1, 65, len(leaf)) / 64).astype(dtype)),
        "n_targets": targets,
        "post_transform": transform,
        "aggregate_function": int(draw.random.integers(4)),
    }
    for side, below in sides.items():
        attributes[f"nodes_{side}nodeids"] = [at for _, at in below]
        attributes[f"nodes_{side}leafs"] = [int(is_leaf) for is_leaf, _ in below]
    if members:
        attributes["membership_values"] = numpy_helper.from_array(np.array(members, dtype), "members")
    x = grid(draw, (draw.size(), features), dtype, True)
    if with_sets:
        x = draw.random.integers(0, 5, x.shape).astype(dtype)
    return ml_node("TreeEnsemble", [x], version=5, **attributes).with_theirs(
        post_transform=[0, 2, 1, 3][transform]
    )


CASES = [
    tree_regressor,
    tree_classifier,
    tree_classifier_binary,
    tree_ensemble,
]
