#!/usr/bin/env python3
"""What quantisation costs real networks: their accuracy on handwritten digits, before and after `lathe quantise`.

The ONNX project's light_*.onnx get weights as in networks.py; their last layer is then fitted to digits, enlarged to the networks' inputs,
by ridge regression. `lathe quantise` sees a few digits that the fit saw. The accuracy is that of other digits, which ONNX Runtime runs through both
models: so each file that lathe writes is loaded by another runtime, too. A row also says how many answers the two models give alike.
A small perceptron, trained on 1,000 digits and tested on the others, comes first.

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
    [bias_length] = [tensor.dims[0] for tensor in model.graph.initializer if tensor.name == layer.input[2]]
    all_weights = np.zeros((bias_length, weights.shape[1]), np.float32)
    all_biases = np.full(bias_length, -10, np.float32)
    all_weights[:CLASSES], all_biases[:CLASSES] = weights, bias
    if layer.op_type == "Conv":
        all_weights = all_weights[:, :, None, None]
    elif not any(a.name == "transB" and a.i for a in layer.attribute):
        all_weights = all_weights.T
    model.ir_version = 8  # in which initialisers are no inputs
    for place, values in ((1, all_weights), (2, all_biases)):
        layer.input[place] = f"fitted_{place}"
        model.graph.initializer.append(numpy_helper.from_array(np.ascontiguousarray(values), layer.input[place]))
    read = {name for node in model.graph.node for name in node.input}
    for entries in (model.graph.initializer, model.graph.input):
        kept = [entry for entry in entries if entry.name in read]
        del entries[:]
        entries.extend(kept)


def perceptron(pixels, labels):
    """A network 64-64-10 trained by stochastic gradient descent."""
    random = np.random.default_rng(0)
    w, v = random.normal(0, 0.18, (64, 64)), random.normal(0, 0.18, (64, CLASSES))
    b, c = np.zeros(64), np.zeros(CLASSES)
    for epoch in range(400):
        order, rate = random.permutation(len(labels)), 0.3 * (1 - epoch / 400)
        for picked in np.split(order, len(order) // 50):
            x = pixels[picked]
            hidden = np.maximum(x @ w + b, 0)
            scores = hidden @ v + c
            error = np.exp(scores - scores.max(1, keepdims=True))
            error = (error / error.sum(1, keepdims=True) - np.eye(CLASSES)[labels[picked]]) / len(picked)
            back = error @ v.T * (hidden > 0)
            v, c = v - rate * hidden.T @ error, c - rate * error.sum(0)
            w, b = w - rate * x.T @ back, b - rate * back.sum(0)
    made = [numpy_helper.from_array(value.astype(np.float32), name) for name, value in (("w", w), ("b", b), ("v", v), ("c", c))]
    nodes = [
        onnx.helper.make_node("Gemm", ["x", "w", "b"], ["h"]),
        onnx.helper.make_node("Relu", ["h"], ["r"]),
        onnx.helper.make_node("Gemm", ["r", "v", "c"], ["y"]),
    ]
    ports = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["n", size]) for name, size in (("x", 64), ("y", CLASSES))]
    graph = onnx.helper.make_graph(nodes, "perceptron", ports[:1], ports[1:], made)
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)], ir_version=8)


def compare(name, model, samples, unseen, right, arguments):
    """Prints a row for each of the options; whether all of them worked."""
    worked = True
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        onnx.save(model, folder / "model.onnx")
        np.save(folder / "samples.npy", samples)
        before = run(session_of(model), unseen).argmax(1)
        for options in arguments.options or [""]:
            command = [arguments.lathe, "quantise", folder / "model.onnx", "--data", folder / "samples.npy", "-o", folder / "out.onnx"]
            done = subprocess.run(command + options.split(), capture_output=True, text=True)
            if done.returncode:
                print(f"{name}: {options}: {done.stderr.strip()}", flush=True)
                worked = False
                continue
            after = run(session_of(str(folder / "out.onnx")), unseen).argmax(1)
            told = [line for line in done.stdout.splitlines() if "layers quantised" in line or line.startswith("output")]
            size = (folder / "out.onnx").stat().st_size / (folder / "model.onnx").stat().st_size
            print(f"{name}: {options or 'default'}: {(before == right).mean():.1%} before, {(after == right).mean():.1%} after, "
                  f"{(before == after).mean():.1%} alike; file {size:.2f} of f32; {'; '.join(told)}", flush=True)
    return worked


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
    worked = True
    if arguments.only in "perceptron":
        rows = np.loadtxt(arguments.digits, delimiter=",")
        pixels, answers = (rows[:, :64] / 16).astype(np.float32), rows[:, 64].astype(np.int64)
        model = perceptron(pixels[:1000], answers[:1000])
        worked = compare("perceptron", model, pixels[:100], pixels[1000:], answers[1000:], arguments)
    for number, source in enumerate(sorted(arguments.models.glob("light_*.onnx"))):
        name = source.stem.removeprefix("light_")
        if arguments.only not in name:
            continue
        model = networks.reweighted(onnx.load(source), number)
        fit(model, seen, labels[: arguments.fit])
        worked &= compare(name, model, seen[: arguments.samples], unseen, right, arguments)
    return 0 if worked else 1


if __name__ == "__main__":
    sys.exit(main())
