#!/usr/bin/env python3
"""Compares src/onnx/op_versions.cpp with the history of ONNX's ops.

    python3 tests/conformance/onnx_versions.py          says what differs, exits with 1 if anything does
    python3 tests/conformance/onnx_versions.py --rows   prints the rows as the installed onnx has them

Needs the Python package onnx; exits with 77 if it is not there. A newer onnx shows what a new opset brings:
read what changed, mend the importers, then add the versions and raise kNewestOpset.
"""
import collections
import pathlib
import re
import sys

TABLE = pathlib.Path(__file__).parents[2] / "src/onnx/op_versions.cpp"
HEADER = TABLE.with_suffix(".hpp")
MANY = 2**31 - 1  # inputs of a variadic op
# ONNX Runtime's, in ONNX's domain; of these, ONNX withdrew all but the first.
NOT_ONNX = {
    "SimplifiedLayerNormalization",
    "Affine",
    "Crop",
    "ImageScaler",
    "ParametricSoftplus",
    "Scale",
    "ScaledTanh",
}


def history():
    """By op: its versions with the largest number of inputs of each."""
    from onnx import defs

    ops = collections.defaultdict(dict)
    for schema in defs.get_all_schemas_with_history():
        if schema.domain == "":
            ops[schema.name][schema.since_version] = schema.max_input
    return defs.onnx_opset_version(), {op: sorted(versions.items()) for op, versions in ops.items()}


def row(op, versions):
    cells = ", ".join("{%d, %s}" % (since, "kMany" if most >= MANY else most) for since, most in versions)
    return '{"%s", {%s}},' % (op, cells)


def table_rows():
    text = re.sub(r"//[^\n]*", "", TABLE.read_text())
    rows = {}
    for op, cells in re.findall(r'\{"(\w+)",\s*\{((?:\s*\{[^{}]*\},?)*)\s*\}\}', text):
        rows[op] = [
            (int(since), MANY if most == "kMany" else int(most))
            for since, most in re.findall(r"\{(\d+),\s*(\w+)\}", cells)
        ]
    return rows


def main():
    try:
        newest, ops = history()
    except ImportError:
        print("the Python package onnx is not there")
        return 77
    rows = {op: versions for op, versions in table_rows().items() if op not in NOT_ONNX}
    if "--rows" in sys.argv:
        print("\n".join(row(op, ops[op]) for op in sorted(rows) if op in ops))
        return 0
    known = int(re.search(r"kNewestOpset = (\d+)", HEADER.read_text()).group(1))
    if newest < known:
        print(f"the installed onnx has opset {newest}, the table {known}: newer versions are not compared")
    wrong = 0
    for op, versions in sorted(rows.items()):
        expected = [v for v in ops.get(op, []) if v[0] <= known]
        got = [v for v in versions if v[0] <= newest]
        same = len(expected) == len(got) and all(
            e == g for e, g in zip(expected, got)
        )
        if not same:
            wrong += 1
            print(f"{op}: the table has {got}, onnx {expected}")
    later = sorted(op for op in rows if op in ops and ops[op][-1][0] > known)
    if later:
        print(f"changed after opset {known}: {', '.join(later)}")
    print(f"{len(rows)} ops compared, {wrong} differ")
    return 1 if wrong else 0


sys.exit(main())
