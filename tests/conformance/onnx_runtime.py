#!/usr/bin/env python3
"""Compares what `lathe check` makes of models of one node with what ONNX Runtime makes of them.

    onnx_runtime.py LATHE [--domain com.microsoft] [--op Attention] [--count 3] [--seed 1] [--keep FOLDER]

Each op's cases are drawn at random: shapes, dtypes, attributes, inputs that may be left out. Ops for which
ONNX Runtime has no kernel on the CPU are compared with NumPy. Prints a table and exits with 1 if anything
differs. Exits with 77, which means skipped, where the Python packages onnx or onnxruntime are not installed.

To add an op, write a function of a Draw that returns a Node, and list it in a module of onnx_runtime_cases/.
"""

import argparse
import collections
import pathlib
import sys
import tempfile

try:
    import onnx  # noqa: F401
    import onnxruntime  # noqa: F401
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).parent))
from onnx_runtime_cases import DOMAINS  # noqa: E402
from onnx_runtime_cases.harness import Draw, compare  # noqa: E402


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("lathe")
    parser.add_argument("--domain", help="only this domain's ops")
    parser.add_argument("--op", help="only this op")
    parser.add_argument("--count", type=int, default=3, help="draws of each function")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", default="interp")
    parser.add_argument("--keep", help="a folder for the models that differ")
    options = parser.parse_args()
    failed, compared = [], collections.Counter()
    with tempfile.TemporaryDirectory() as scratch:
        for domain, functions in DOMAINS.items():
            if options.domain not in (None, domain):
                continue
            for function in functions:
                for k in range(options.count):
                    node = function(Draw((options.seed, k, *function.__name__.encode())))
                    if options.op not in (None, node.op):
                        break
                    name = f"{node.op}_{function.__name__}_{options.seed}_{k}"
                    folder = pathlib.Path(options.keep or scratch) / name
                    why = compare(options.lathe, domain, node, folder, options.device)
                    compared[(domain, node.op)] += 1
                    if why:
                        failed.append((domain, node.op, name, why))
    print("| domain | op | compared | differ |\n|---|---|---|---|")
    for (domain, op), count in sorted(compared.items()):
        print(f"| {domain} | {op} | {count} | {sum(f[:2] == (domain, op) for f in failed)} |")
    for domain, op, name, why in failed:
        print(f"{name}: {why}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
