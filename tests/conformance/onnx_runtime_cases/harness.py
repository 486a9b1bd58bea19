"""Random models of one node: drawing, running and comparing them."""

import dataclasses
import os
import subprocess
import typing

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

SIZES = [1, 2, 3, 5, 7, 8, 13]


class Draw:
    """Random numbers, by a seed."""

    def __init__(self, seed):
        self.random = np.random.default_rng(seed)

    def pick(self, choices):
        return choices[int(self.random.integers(len(choices)))]

    def flag(self):
        return bool(self.random.integers(2))

    def size(self):
        return self.pick(SIZES)

    def shape(self, rank):
        return [self.size() for _ in range(rank)]

    def floats(self, shape, dtype=np.float32, low=-2.0, high=2.0):
        return self.random.uniform(low, high, shape).astype(dtype)

    def integers(self, shape, dtype, low=None, high=None):
        """In [low, high); all of an integer dtype's without them."""
        info = np.iinfo(dtype)
        low = info.min if low is None else low
        high = info.max + 1 if high is None else high
        return self.random.integers(low, high, shape).astype(dtype)

    def scale(self, shape=()):
        """A scale of quantised numbers: a power of two at times, so that ties are exact."""
        if self.flag():
            return np.full(shape, 2.0 ** -self.random.integers(3, 8), np.float32)
        return self.floats(shape, low=0.005, high=0.1)


def is_map(value):
    return isinstance(value, tuple) and isinstance(value[0], dict)


@dataclasses.dataclass
class Node:
    """Scalars may be NumPy's own; they are made arrays of no axes. A map is a pair of a dict and its values' dtype."""

    op: str
    inputs: list  # arrays; None where an input is left out
    attributes: dict = dataclasses.field(default_factory=dict)
    outputs: tuple = (0,)  # which are asked for, or how many
    constants: tuple = ()  # inputs that are part of the model
    tolerance: float = 1e-3
    expected: typing.Optional[list] = None  # instead of ONNX Runtime's results
    named: tuple = ()  # inputs whose first size has one name, as that of a batch
    version: int = 1  # of the domain
    opset: int = 17  # of ONNX's own domain
    theirs: dict = dataclasses.field(default_factory=dict)  # attributes that ONNX Runtime is given instead
    floats_will_do: bool = False  # ONNX Runtime is given floats where it has no kernel for the inputs

    def __post_init__(self):
        self.inputs = [v if v is None or is_map(v) else np.asarray(v) for v in self.inputs]
        self.outputs = tuple(range(self.outputs)) if isinstance(self.outputs, int) else self.outputs

    def with_theirs(self, **attributes):
        return dataclasses.replace(self, theirs=attributes)

    def as_floats(self):
        numbers = [v is not None and not is_map(v) and v.dtype != object for v in self.inputs]
        inputs = [v.astype(np.float32) if number else v for v, number in zip(self.inputs, numbers)]
        return dataclasses.replace(self, inputs=inputs)


def type_of(value, dims=None):
    """The type of an array, of a map, or of a list of maps."""
    if isinstance(value, list):
        return helper.make_sequence_type_proto(type_of((value[0], np.float32)))
    if is_map(value):
        entries, dtype = value
        key = TensorProto.STRING if isinstance(next(iter(entries)), str) else TensorProto.INT64
        to = helper.make_tensor_type_proto(helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), None)
        return helper.make_map_type_proto(key, to)
    element = helper.np_dtype_to_tensor_dtype(value.dtype)
    return helper.make_tensor_type_proto(element, value.shape if dims is None else dims)


def make_model(domain, node):
    names = [f"x{k}" if value is not None else "" for k, value in enumerate(node.inputs)]
    outputs = [f"y{k}" for k in node.outputs]
    slots = [f"y{k}" if k in node.outputs else "" for k in range(max(node.outputs) + 1)]
    made = helper.make_node(node.op, names, slots, domain=domain, **node.attributes)
    ports, constants = [], []
    for k, value in enumerate(node.inputs):
        if value is None:
            continue
        if k in node.constants:
            constants.append(numpy_helper.from_array(value, names[k]))
        else:
            dims = ["n", *value.shape[1:]] if k in node.named else None
            ports.append(helper.make_value_info(names[k], type_of(value, dims)))
    results = [onnx.ValueInfoProto(name=name) for name in outputs]
    graph = helper.make_graph([made], "one", ports, results, constants)
    opsets = [helper.make_opsetid("", node.opset)] + ([helper.make_opsetid(domain, node.version)] if domain else [])
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def fed(node):
    """What the node's model is fed, by name."""
    return {f"x{k}": v for k, v in enumerate(node.inputs) if v is not None and k not in node.constants}


def run_onnx_runtime(domain, node):
    """What ONNX Runtime makes of a node."""
    node = dataclasses.replace(node, attributes=node.attributes | node.theirs)
    try:
        return run_model(make_model(domain, node), fed(node))
    except onnxruntime.capi.onnxruntime_pybind11_state.NotImplemented:
        if not node.floats_will_do:
            raise
        return run_model(make_model(domain, node.as_floats()), fed(node.as_floats()))


def run_model(model, inputs):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1  # some kernels quantise what a thread computes by its own range
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return session.run(None, {name: value[0] if is_map(value) else value for name, value in inputs.items()})


def proto_of(value):
    """As ONNX stores an array, a map or a list of maps."""
    if isinstance(value, list):
        maps = [proto_of((entries, np.float32)) for entries in value]
        return onnx.SequenceProto(elem_type=onnx.SequenceProto.MAP, map_values=maps)
    if is_map(value):
        entries, dtype = value
        values = numpy_helper.from_array(np.array(list(entries.values()), dtype))
        made = onnx.MapProto(values=onnx.SequenceProto(elem_type=onnx.SequenceProto.TENSOR, tensor_values=[values]))
        for key in entries:
            made.string_keys.append(key.encode()) if isinstance(key, str) else made.keys.append(key)
        made.key_type = TensorProto.STRING if made.string_keys else TensorProto.INT64
        return made
    return numpy_helper.from_array(value)


def write(folder, name, values):
    for k, value in enumerate(values):
        (folder / f"{name}_{k}.pb").write_bytes(proto_of(value).SerializeToString())


def compare(lathe, domain, node, folder, device):
    """Why the results differ; nothing if they don't."""
    model = make_model(domain, node)
    inputs = fed(node)
    try:
        expected = node.expected or run_onnx_runtime(domain, node)
    except Exception as error:  # a case that ONNX Runtime refuses is a mistake of the case
        return f"ONNX Runtime: {error}"
    expected = [value if isinstance(value, list) else np.asarray(value) for value in expected]
    for port, value in zip(model.graph.output, expected):
        port.CopyFrom(helper.make_value_info(port.name, type_of(value)))
    data = folder / "test_data_set_0"
    data.mkdir(parents=True, exist_ok=True)
    onnx.save(model, folder / "model.onnx")
    write(data, "input", inputs.values())
    write(data, "output", expected)
    command = [
        lathe,
        "check",
        folder / "model.onnx",
        "--data",
        data,
        "--tolerance",
        str(node.tolerance),
        "--device",
        device,
    ]
    result = subprocess.run(command, capture_output=True, text=True, env=os.environ, timeout=600)
    if result.returncode != 0:
        return (result.stdout + result.stderr).strip().replace("\n", "; ")[-400:]
    for path in [folder / "model.onnx", *data.iterdir()]:
        path.unlink()
    data.rmdir(), folder.rmdir()
    return ""
