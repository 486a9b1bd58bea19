#!/usr/bin/env python3
"""A network exported to C and built by a compiler gives the numbers that lathe itself gives.

    export_network.py MODEL --lathe build/release/lathe [--compiler "cc -O3 -march=native -std=c11"] [--runner "qemu-arm -L ..."]
                      [--arena static] [--target c] [--tolerance 1e-5] [--runs 20] [--work FOLDER]

Variables of the environment in MODEL are replaced. Inputs are random; the tolerance is relative to the largest magnitude of an output.
With --runs, the exported program and lathe are timed in turns. Exit status 77 where the model, the compiler or the runner is not there.
"""
import argparse
import array
import os
import pathlib
import random
import re
import shlex
import shutil
import struct
import subprocess
import sys
import tempfile

FLAGS = "-ffp-contract=off -Wall -Wextra -Werror"


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--lathe", required=True)
    parser.add_argument("--compiler", default="cc -O3 -march=native -std=c11")
    parser.add_argument("--runner", default="")
    parser.add_argument("--arena", default="static")
    parser.add_argument("--target", default="c")
    parser.add_argument("--threads", default="1")
    parser.add_argument("--tolerance", type=float, default=1e-5)
    parser.add_argument("--runs", type=int, default=0)
    parser.add_argument("--work")
    return parser.parse_args()


def run(command, **options):
    return subprocess.run(command, check=True, capture_output=True, text=True, **options)


def export(options, folder):
    run([options.lathe, "export", options.model, "--name", "network", "-o", str(folder), "--arena", options.arena,
         "--target", options.target, "--threads", options.threads])
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def npy(shape, values):
    sizes = "".join(f"{size}," for size in shape)
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({sizes}), }}\n".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + values.tobytes()


def read_npy(path):
    data = path.read_bytes()
    return array.array("f", data[10 + struct.unpack("<H", data[8:10])[0]:])


def median(text):
    value, unit = re.search(r"median of \d+ runs: ([\d.]+) ?(\S+)", text).groups()
    return float(value) * {"s": 1e3, "ms": 1, "us": 1e-3}[unit]


def main():
    options = arguments()
    compiler, runner = shlex.split(options.compiler), shlex.split(options.runner)
    for needed in [compiler[0]] + runner[:1]:
        if not shutil.which(needed):
            print(f"skipped: {needed} is not there")
            return 77
    options.model = os.path.expandvars(options.model)
    if not os.path.exists(options.model):
        print(f"skipped: {options.model} is not there")
        return 77
    with tempfile.TemporaryDirectory() as temporary:
        work = pathlib.Path(options.work or temporary)
        for name in ("once", "again", "jit"):
            (work / name).mkdir(parents=True, exist_ok=True)
        files = export(options, work / "once")
        if export(options, work / "again") != files:
            print("FAIL: two exports differ")
            return 1
        folder = work / "once"
        sources = ["network.c", "main.c"]
        libraries = ["-lOpenCL"] if options.target == "opencl" else ["-lm", "-lpthread"]
        run(compiler + FLAGS.split() + sources + ["-o", "network"] + libraries, cwd=folder)

        numbers = random.Random(1)
        given, own = [], []
        ports = re.findall(r"/\* input (\w+): f32\[([\d, ]*)\] \*/", (folder / "network.h").read_text())
        for name, sizes in ports:
            shape = [int(size) for size in sizes.split(",")]
            count = 1
            for size in shape:
                count *= size
            values = array.array("f", (numbers.random() for _ in range(count)))
            (folder / f"{name}.raw").write_bytes(values.tobytes())
            (work / "jit" / f"{name}.npy").write_bytes(npy(shape, values))
            own.append(f"{name}.raw")
            given += ["--input", str(work / "jit" / f"{name}.npy")]
        jit = [options.lathe, "run", options.model, "--best-first", "--threads", options.threads, *given]
        run(jit + ["--output-dir", str(work / "jit" / "out")])
        expected = [value for path in sorted((work / "jit" / "out").glob("*.npy")) for value in read_npy(path)]
        exported = runner + ["./network", "network.weights", *own]
        got = [float(line) for line in run(exported, cwd=folder).stdout.split()]

        largest = max(abs(value) for value in expected)
        worst = max(abs(a - b) for a, b in zip(got, expected)) / largest
        good = len(got) == len(expected) and worst <= options.tolerance
        sizes = ", ".join(f"{name} {len(data)}" for name, data in sorted(files.items()) if "." in name and name != "network")
        print(f"{'ok' if good else 'FAIL'}: {options.model}: {len(got)} numbers, at most {worst:.2g} off; {sizes}")
        times = {"exported": [], "lathe": []}
        for _ in range(3 if options.runs else 0):
            times["lathe"].append(median(run(jit + ["--runs", str(options.runs)]).stdout))
            environment = {"RUNS": str(options.runs), "PATH": "/usr/bin:/bin"}
            times["exported"].append(median(run(exported, cwd=folder, env=environment).stderr))
        if options.runs:
            ours, theirs = min(times["exported"]), min(times["lathe"])
            print(f"  exported {ours:.3f} ms, lathe {theirs:.3f} ms: {theirs / ours:.2f} of its speed")
        return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
