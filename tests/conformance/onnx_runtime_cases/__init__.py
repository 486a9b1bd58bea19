"""Ops by domain: each a list of functions of a Draw that return a Node."""

from . import (
    microsoft_arrays,
    microsoft_attention,
    microsoft_fused,
    microsoft_quantised,
    ml_features,
    ml_models,
    ml_trees,
    strings,
)

DOMAINS = {
    "com.microsoft": [
        *microsoft_quantised.CASES,
        *microsoft_fused.CASES,
        *microsoft_attention.CASES,
        *microsoft_arrays.CASES,
        *strings.MICROSOFT_CASES,
    ],
    "ai.onnx.ml": [*ml_trees.CASES, *ml_models.CASES, *ml_features.CASES, *strings.ML_CASES],
    "": [*microsoft_fused.ONNX_CASES, *strings.ONNX_CASES],
}
