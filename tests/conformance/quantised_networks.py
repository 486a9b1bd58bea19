#!/usr/bin/env python3
"""What quantisation costs real networks: their accuracy on handwritten digits, before and after `lathe quantise`.

The ONNX project's light_*.onnx get weights as in networks.py; their last layer is then fitted to digits, enlarged to the networks' inputs,
by ridge regression. `lathe quantise` sees a few digits that the fit saw. The accuracy is that of other digits, which ONNX Runtime runs through both
models: so each file that lathe writes is loaded by another runtime, too. A row also says how many answers the two models give alike.

    quantised_networks.py MODELS_FOLDER digits.csv.gz --lathe build/release/lathe [--only NAME] [--fit 200] [--test 100] [--samples 16]
                          [--options "--method percentile"] ...

Needs the Python packages onnx, onnxruntime and numpy; says so and exits with 77 where they are missing.
"""
import argparse
import pathlib
import subprocess
import sys
import tempfile

import networks  # exits where packages are missing
import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper

CLASSES = 10
NOISE = 0.02  # of the root mean square


def session_of(model):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    data = model if isinstance(model, str) else model.SerializeToString()
    return onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])


def run(session, images):
    name = session.get_inputs()[0].name
    return np.concatenate([session.run(None, {name: image[None]})[0].reshape(1, -1) for image in images])


def digits(path, count):
    """Pictures [count, 3, 224, 224] in -1 .. 1, and the digits that they show."""
    rows = np.loadtxt(path, delimiter=",")[:count]
    small = (rows[:, :64].reshape(-1, 1, 8, 8) / 8 - 1).astype(np.float32)
    return np.kron(small, np.ones((1, 3, 28, 28), np.float32)), rows[:, 64].astype(np.int64)


def last_layer(graph):
    makers = {output: node for node in graph.node for output in node.output}
    node = makers[graph.output[0].name]
    while node.op_type not in ("Gemm", "Conv", "MatMul"):
        node = makers[node.input[0]]
    return node


def features(model, layer, images):
    """What the layer reads, averaged over places."""
    probe = onnx.ModelProto()
    probe.CopyFrom(model)
    del probe.graph.output[:]
    probe.graph.output.append(onnx.helper.make_tensor_value_info(layer.input[0], onnx.TensorProto.FLOAT, None))
    session = session_of(probe)
    name = session.get_inputs()[0].name
    found = [session.run(None, {name: image[None]})[0] for image in images]
    return np.concatenate([f.mean(axis=tuple(range(2, f.ndim))) if f.ndim > 2 else f for f in found])


def fit(model, images, labels):
    """Sets the last layer's weights: the first ten classes answer, the others never do."""
    layer = last_layer(model.graph)
    read = features(model, layer, images).astype(np.float64)
    mean = read.mean(0)
    centred = read - mean
    targets = np.eye(CLASSES)[labels]
    # Trained networks bear noise; so does this one, as if each value that the layer reads were that far off.
    noise = len(images) * NOISE**2 * np.mean(read**2)
    dual = np.linalg.solve(centred @ centred.T + noise * np.eye(len(images)), targets - targets.mean(0))
    weights = (centred.T @ dual).T
    bias = targets.mean(0) - weights @ mean + 100  # above 0, where a rectifier changes nothing
    for tensor in model.graph.initializer:
        if tensor.name not in layer.input[1:]:
            continue
        old = numpy_helper.to_array(tensor)
        is_bias = tensor.name == layer.input[2]
        across = layer.op_type == "Gemm" and not any(a.name == "transB" and a.i for a in layer.attribute)
        new = np.full(old.shape, -10.0 if is_bias else 0.0, np.float32)
        if is_bias:
            new[:CLASSES] = bias
        elif across:
            new[:, :CLASSES] = weights.T
        else:
            new[:CLASSES] = weights.reshape((CLASSES,) + old.shape[1:])
        tensor.CopyFrom(numpy_helper.from_array(new, tensor.name))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("models", type=pathlib.Path)
    parser.add_argument("digits")
    parser.add_argument("--lathe", default="build/release/lathe")
    parser.add_argument("--only", default="")
    parser.add_argument("--fit", type=int, default=200)
    parser.add_argument("--test", type=int, default=100)
    parser.add_argument("--samples", type=int, default=16)
    parser.add_argument("--options", action="append", help="of lathe quantise; again for another row")
    arguments = parser.parse_args()
    images, labels = digits(arguments.digits, arguments.fit + arguments.test)
    seen, unseen, right = images[: arguments.fit], images[arguments.fit :], labels[arguments.fit :]
    failed = False
    for number, source in enumerate(sorted(arguments.models.glob("light_*.onnx"))):
        name = source.stem.removeprefix("light_")
        if arguments.only not in name:
            continue
        with tempfile.TemporaryDirectory() as temporary:
            folder = pathlib.Path(temporary)
            model = networks.reweighted(onnx.load(source), number)
            fit(model, seen, labels[: arguments.fit])
            onnx.save(model, folder / "model.onnx")
            np.save(folder / "samples.npy", seen[: arguments.samples])
            before = run(session_of(model), unseen).argmax(1)
            for options in arguments.options or [""]:
                command = [arguments.lathe, "quantise", folder / "model.onnx", "--data", folder / "samples.npy", "-o", folder / "out.onnx"]
                done = subprocess.run(command + options.split(), capture_output=True, text=True)
                if done.returncode:
                    print(f"{name}: {options}: {done.stderr.strip()}", flush=True)
                    failed = True
                    continue
                after = run(session_of(str(folder / "out.onnx")), unseen).argmax(1)
                told = [line for line in done.stdout.splitlines() if "layers quantised" in line or line.startswith("output")]
                size = (folder / "out.onnx").stat().st_size / (folder / "model.onnx").stat().st_size
                print(f"{name}: {options or 'default'}: {(before == right).mean():.1%} before, {(after == right).mean():.1%} after, "
                      f"{(before == after).mean():.1%} alike; file {size:.2f} of f32; {'; '.join(told)}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
