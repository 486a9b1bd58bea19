"""What the cases of ai.onnx.ml share: nodes and numbers.

Where ONNX Runtime departs from ONNX's text (src/onnx/ops/ml/README.md), a case draws no such model, or says
in its docstring what it changes.
"""

import numpy as np

from .harness import Node

FLOATS = [np.float32, np.float64]
NUMBERS = [np.float32, np.float64, np.int64, np.int32]


def ml_node(op, inputs, outputs=1, version=1, tolerance=1e-5, **attributes):
    """Inputs are small numbers: where ONNX Runtime has no kernel for integers, it is given floats."""
    return Node(
        op, inputs, attributes, outputs=outputs, version=version, tolerance=tolerance, floats_will_do=True
    )


def grid(draw, shape, dtype=np.float32, missing=False):
    """Multiples of 1/8, so that inputs meet thresholds and sums are exact; NaN here and there."""
    values = draw.random.integers(-16, 17, shape)
    if np.issubdtype(dtype, np.integer):
        return (values // 8).astype(dtype)
    values = (values / 8).astype(dtype)
    if missing:
        values[draw.random.random(shape) < 0.15] = np.nan
    return values


def positive(draw, *shape):
    return draw.random.uniform(0.25, 1, shape).astype(np.float32)
