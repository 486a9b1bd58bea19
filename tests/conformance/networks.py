#!/usr/bin/env python3
"""Real networks with weights that mean something, against ONNX Runtime.

The ONNX project's light_*.onnx have constant weights, so that their outputs say little about arithmetic. This gives each network
deterministic weights of its own (seeded, scaled by the variance of what flows in; the last layer so that no class wins outright), computes
its outputs with ONNX Runtime, and has `lathe check` compare lathe's with them: every element within 1e-7 + 1e-3 of its magnitude.

Both are timed in turns, as often as --rounds says; the figures are medians of the rounds' medians.

    networks.py MODELS_FOLDER --lathe build/release/lathe [--work FOLDER] [--only NAME] [--device cpu] [--threads 1] [--runs 5] [--rounds 3]

Needs the Python packages onnx, onnxruntime and numpy; says so and exits with 77 where they are missing.
"""
import argparse
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

try:
    import numpy as np
    import onnx
    import onnxruntime
    from onnx import numpy_helper
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)


def readers(graph):
    """For each value, the (op, position) pairs of the nodes that read it."""
    found = {}
    for node in graph.node:
        for position, name in enumerate(node.input):
            found.setdefault(name, []).append((node.op_type, position))
    return found


def weights(shape, read_by, random):
    """Values of a parameter, by what reads it."""
    op, position = read_by[0] if read_by else ("", 0)
    if op == "BatchNormalization":
        low, high = {1: (0.8, 1.2), 2: (-0.1, 0.1), 3: (-0.1, 0.1), 4: (0.8, 1.2)}[position]
        return random.uniform(low, high, shape).astype(np.float32)
    if op in ("Mul", "Add", "Sum") or len(shape) < 2:
        centre = 1.0 if op == "Mul" else 0.0
        return (centre + random.uniform(-0.1, 0.1, shape)).astype(np.float32)
    fan_in = int(np.prod(shape[1:])) if op == "Conv" else shape[-1]
    return (random.standard_normal(shape) * np.sqrt(2.0 / fan_in)).astype(np.float32)


def reweighted(model, seed):
    """The model with its ConstantOfShape weights replaced by initialisers; tensors that decide shapes stay."""
    random = np.random.default_rng(seed)
    graph = model.graph
    read_by = readers(graph)
    shapes = {t.name: numpy_helper.to_array(t) for t in graph.initializer}
    kept = []
    for node in graph.node:
        if node.op_type == "ConstantOfShape" and node.input[0] in shapes:
            shape = tuple(int(size) for size in shapes[node.input[0]])
            values = weights(shape, read_by.get(node.output[0], []), random)
            graph.initializer.append(numpy_helper.from_array(values, node.output[0]))
        else:
            kept.append(node)
    del graph.node[:]
    graph.node.extend(kept)
    # What only told the replaced nodes their shapes goes too.
    still_read = {name for node in graph.node for name in node.input}
    initialisers = [t for t in graph.initializer if t.name in still_read]
    gone = {t.name for t in graph.initializer} - still_read
    del graph.initializer[:]
    graph.initializer.extend(initialisers)
    inputs = [i for i in graph.input if i.name not in gone]
    del graph.input[:]
    graph.input.extend(inputs)
    return model


def temper(model, data):
    """Scales the last layer with weights so that what goes into a final softmax has a standard deviation of 2."""
    makers = {output: node for node in model.graph.node for output in node.output}
    last = makers.get(model.graph.output[0].name)
    if last is None or last.op_type != "Softmax":
        return
    logits = last.input[0]
    layer = makers[logits]
    while layer.op_type not in ("Gemm", "Conv", "MatMul"):
        layer = makers[layer.input[0]]
    probe = onnx.ModelProto()
    probe.CopyFrom(model)
    del probe.graph.output[:]
    probe.graph.output.extend([onnx.helper.make_tensor_value_info(logits, onnx.TensorProto.FLOAT, None)])
    session = onnxruntime.InferenceSession(probe.SerializeToString(), providers=["CPUExecutionProvider"])
    spread = float(np.std(session.run(None, {session.get_inputs()[0].name: data})[0]))
    for tensor in model.graph.initializer:
        if tensor.name in layer.input[1:]:
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor) * np.float32(2 / spread), tensor.name))


def prepare(source, folder, seed, threads):
    """Writes model.onnx, input_0.pb and output_*.pb; gives a function that runs the network by ONNX Runtime."""
    folder.mkdir(parents=True, exist_ok=True)
    model = reweighted(onnx.load(source), seed)
    given = {t.name for t in model.graph.initializer}
    fed = next(i for i in model.graph.input if i.name not in given)
    sizes = [d.dim_value for d in fed.type.tensor_type.shape.dim]
    data = np.random.default_rng(seed + 1).uniform(0, 1, sizes).astype(np.float32)
    temper(model, data)
    onnx.save(model, folder / "model.onnx")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    session = onnxruntime.InferenceSession(folder / "model.onnx", options, providers=["CPUExecutionProvider"])
    declared = session.get_inputs()[0]
    outputs = session.run(None, {declared.name: data})
    (folder / "input_0.pb").write_bytes(numpy_helper.from_array(data).SerializeToString())
    for k, output in enumerate(outputs):
        (folder / f"output_{k}.pb").write_bytes(numpy_helper.from_array(output).SerializeToString())
    return lambda: session.run(None, {declared.name: data})


def median_ms(run, count):
    """Of `count` runs, after one that is not timed."""
    run()
    times = []
    for _ in range(count):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e3


def told_ms(output):
    """The median that `lathe run` printed, in milliseconds."""
    value, unit = re.search(r"median of \d+ runs: ([\d.]+) (\w+)", output).groups()
    return float(value) * {"s": 1e3, "ms": 1, "us": 1e-3}[unit]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("models", type=pathlib.Path)
    parser.add_argument("--lathe", default="build/release/lathe")
    parser.add_argument("--work", type=pathlib.Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", default="1")
    parser.add_argument("--runs", default="5")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    failed = []
    with tempfile.TemporaryDirectory() as temporary:
        work = arguments.work or pathlib.Path(temporary)
        for number, source in enumerate(sorted(arguments.models.glob("light_*.onnx"))):
            name = source.stem.removeprefix("light_")
            if arguments.only not in name:
                continue
            folder = work / name
            reference = prepare(source, folder, number, int(arguments.threads))
            command = [arguments.lathe, "{}", str(folder / "model.onnx"), "--device", arguments.device, "--threads", arguments.threads]
            for action, extra in (("check", ["--data", str(folder)]), ("run", ["--input", str(folder / "input_0.pb"), "--best-first", "--runs", arguments.runs])):
                done = subprocess.run([part.format(action) for part in command] + extra, capture_output=True, text=True)
                told = [line for line in done.stdout.splitlines() if line.startswith(("load", "output", "first", "median", "kernels:"))]
                print(f"{name}: {action}: " + "; ".join(told) + done.stderr.strip())
                if done.returncode:
                    failed.append(f"{name} {action}")
            if not done.returncode:
                ours, theirs = [told_ms(done.stdout)], [median_ms(reference, int(arguments.runs))]
                for _ in range(arguments.rounds - 1):
                    again = subprocess.run([part.format("run") for part in command] + extra, capture_output=True, text=True)
                    ours.append(told_ms(again.stdout))
                    theirs.append(median_ms(reference, int(arguments.runs)))
                a, b = statistics.median(ours), statistics.median(theirs)
                print(f"{name}: in turns: lathe {a:.2f} ms, ONNX Runtime {onnxruntime.__version__} {b:.2f} ms, {b / a:.2f} times as fast", flush=True)
            if not arguments.work:
                for file in folder.iterdir():
                    file.unlink()
    print("failed: " + ", ".join(failed) if failed else "all outputs match")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
