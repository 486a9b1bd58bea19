"""Linear models and support vector machines: numbers of one sign, so that no sum cancels."""

import numpy as np

from .ml_values import NUMBERS, ml_node, positive


def labels(draw, classes):
    return draw.random.permutation(classes * 2)[:classes].tolist()


def rows_of_numbers(draw, features, dtype):
    if np.issubdtype(dtype, np.integer):
        return draw.random.integers(1, 9, (draw.size(), features)).astype(dtype)
    return draw.random.uniform(0.25, 1, (draw.size(), features)).astype(dtype)


def linear_regressor(draw):
    features, targets = draw.size(), int(draw.random.integers(1, 5))
    x = rows_of_numbers(draw, features, np.float32)
    transforms = ["NONE"] if targets == 1 else ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO"]
    return ml_node(
        "LinearRegressor",
        [x],
        targets=targets,
        coefficients=positive(draw, targets * features).tolist(),
        intercepts=positive(draw, targets).tolist() if draw.random.random() < 0.7 else None,
        post_transform=draw.pick(transforms),
    )


def probit_regressor(draw):
    """Scores between 0.1 and 0.4: ONNX Runtime rounds a difference that cancels, most of all around 0.5."""
    features, targets = draw.size(), int(draw.random.integers(1, 5))
    x = rows_of_numbers(draw, features, np.float32)
    return ml_node(
        "LinearRegressor",
        [x],
        tolerance=1e-4,
        targets=targets,
        coefficients=(positive(draw, targets * features) * 0.3 / features).tolist(),
        intercepts=[0.1] * targets,
        post_transform="PROBIT",
    )


def linear_classifier(draw):
    features, classes = draw.size(), int(draw.random.integers(2, 6))
    x = rows_of_numbers(draw, features, draw.pick(NUMBERS))
    outputs = 1 if classes == 2 and draw.flag() else classes
    transforms = ["NONE", "LOGISTIC"] if outputs == 1 else ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO"]
    sign = -1 if outputs == 1 and draw.flag() else 1
    return ml_node(
        "LinearClassifier",
        [x],
        outputs=2,
        coefficients=(sign * positive(draw, outputs * features) / 8).tolist(),
        intercepts=(sign * positive(draw, outputs)).tolist(),
        classlabels_ints=labels(draw, classes),
        post_transform=draw.pick(transforms),
        multi_class=int(draw.flag()),
    )


KERNELS = ["LINEAR", "POLY", "RBF", "SIGMOID"]


def kernel(draw):
    return {
        "kernel_type": draw.pick(KERNELS),
        "kernel_params": [0.25, 0.5, float(draw.random.integers(1, 5))],
    }


def svm_regressor(draw):
    features, vectors, one_class = (
        draw.size(),
        draw.size() * int(draw.random.random() < 0.8),
        int(draw.random.random() < 0.3),
    )
    x = rows_of_numbers(draw, features, np.float32)
    return ml_node(
        "SVMRegressor",
        [x],
        n_supports=vectors,
        one_class=one_class,
        coefficients=positive(draw, vectors or features).tolist(),
        support_vectors=positive(draw, vectors * features).tolist() if vectors else None,
        rho=[0.25 - one_class],
        **kernel(draw)
    )


def svm_classifier(draw):
    features, classes = draw.size(), int(draw.random.integers(2, 6))
    x = rows_of_numbers(draw, features, draw.pick(NUMBERS))
    per_class = draw.random.integers(1, 6, classes)
    vectors, pairs = int(per_class.sum()), classes * (classes - 1) // 2
    probabilities = draw.flag()
    signs = draw.random.choice([-1, 1], (classes - 1, 1))
    coefficients = (signs * positive(draw, classes - 1, vectors) / 4).ravel()
    made = dict(
        coefficients=coefficients.tolist(),
        vectors_per_class=per_class.tolist(),
        rho=(draw.random.choice([-1, 1], pairs) * positive(draw, pairs)).tolist(),
        support_vectors=positive(draw, vectors * features).tolist(),
        classlabels_ints=labels(draw, classes),
        **kernel(draw)
    )
    if probabilities:
        made |= {
            "prob_a": (-positive(draw, pairs)).tolist(),
            "prob_b": (positive(draw, pairs) - 0.5).tolist(),
        }
    many = probabilities or classes > 2
    made["post_transform"] = draw.pick(["NONE", "SOFTMAX", "LOGISTIC"] if many else ["NONE"])
    if made["kernel_type"] == "POLY" and np.issubdtype(x.dtype, np.integer):
        made["kernel_params"][2] = 1.0
    return ml_node("SVMClassifier", [x], outputs=2, **made)


def linear_svm_classifier(draw):
    features, classes = draw.size(), int(draw.random.integers(3, 6))
    x = rows_of_numbers(draw, features, np.float32)
    return ml_node(
        "SVMClassifier",
        [x],
        outputs=2,
        rho=[0.5],
        coefficients=positive(draw, classes * features).tolist(),
        classlabels_ints=labels(draw, classes),
        kernel_params=[1.0, 0.0, 3.0],
        kernel_type="RBF",
    )


CASES = [
    linear_regressor,
    probit_regressor,
    linear_classifier,
    svm_regressor,
    svm_classifier,
    linear_svm_classifier,
]
