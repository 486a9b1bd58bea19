"""ONNX Runtime: the program as an ONNX model, weights as initialisers, inputs and output bound to memory."""

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper


class Value:
    """What a node makes."""

    def __init__(self, operations, name):
        self.operations, self.name = operations, name

    def __add__(self, other):
        return self.operations.node("Add", self, other)

    def __mul__(self, other):
        if isinstance(other, float):
            other = self.operations.constant(np.float32(other))
        return self.operations.node("Mul", self, other)


class Operations:
    def __init__(self):
        self.nodes, self.initialisers = [], []

    def node(self, kind, *sources, **attributes):
        name = f"v{len(self.nodes)}"
        sources = [s.name for s in sources if s is not None]
        self.nodes.append(helper.make_node(kind, sources, [name], **attributes))
        return Value(self, name)

    def constant(self, array, name=None):
        name = name or f"k{len(self.initialisers)}"
        self.initialisers.append(numpy_helper.from_array(np.asarray(array), name))
        return Value(self, name)

    def axes(self, *numbers):
        return self.constant(np.array(numbers, dtype=np.int64))

    def relu(self, x):
        return self.node("Relu", x)

    def gelu(self, x, tanh):
        return self.node("Gelu", x, approximate="tanh" if tanh else "none")

    def sum(self, x, axis):
        if axis is None:
            return self.node("ReduceSum", x, keepdims=0)
        return self.node("ReduceSum", x, self.axes(axis), keepdims=0)

    def softmax(self, x):
        return self.node("Softmax", x, axis=-1)

    def layer_norm(self, x, weight, bias):
        return self.node("LayerNormalization", x, weight, bias, axis=-1, epsilon=1e-5)

    def transpose(self, x):
        return self.node("Transpose", x, perm=[1, 0])

    def argmax(self, x):
        return self.node("ArgMax", x, axis=-1, keepdims=0)

    def cumsum(self, x):
        return self.node("CumSum", x, self.constant(np.int64(1)))

    def matmul(self, a, b):
        return self.node("MatMul", a, b)

    def conv2d(self, x, w, bias, stride, padding, groups):
        around = [padding[0], padding[1], padding[0], padding[1]]
        return self.node("Conv", x, w, bias, strides=[stride, stride], pads=around, group=groups)

    def max_pool(self, x, kernel, stride, padding):
        return self.node(
            "MaxPool", x, kernel_shape=[kernel, kernel], strides=[stride, stride], pads=[padding] * 4
        )

    def mean_pixels(self, x):
        return self.node("Flatten", self.node("GlobalAveragePool", x))

    def reshape(self, x, shape):
        return self.node("Reshape", x, self.axes(*shape))

    def permute(self, x, axes):
        return self.node("Transpose", x, perm=list(axes))


class Adapter:
    def __init__(self, threads):
        self.version = "ONNX Runtime " + onnxruntime.__version__
        self.options = onnxruntime.SessionOptions()
        self.options.intra_op_num_threads = threads
        self.options.log_severity_level = 3
        # Threads that spin on when a run has ended would slow the next contender.
        self.options.add_session_config_entry("session.force_spinning_stop", "1")

    def compile(self, program, inputs, constants):
        f = Operations()
        values = {name: Value(f, name) for name in inputs}
        values.update((name, f.constant(array, name)) for name, array in constants.items())
        result = program(f, values)
        given = [helper.make_tensor_value_info(n, TensorProto.FLOAT, a.shape) for n, a in inputs.items()]
        kind = TensorProto.INT64 if f.nodes[-1].op_type == "ArgMax" else TensorProto.FLOAT
        made = helper.make_tensor_value_info(result.name, kind, None)
        graph = helper.make_graph(f.nodes, "program", given, [made], f.initialisers)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
        session = onnxruntime.InferenceSession(
            model.SerializeToString(), self.options, providers=["CPUExecutionProvider"]
        )
        binding = session.io_binding()
        held = {name: onnxruntime.OrtValue.ortvalue_from_numpy(array) for name, array in inputs.items()}
        for name, value in held.items():
            binding.bind_ortvalue_input(name, value)
        binding.bind_output(result.name, "cpu")
        session.run_with_iobinding(binding)
        kept = binding.get_outputs()[0]  # later runs write into the memory of the first
        binding.bind_ortvalue_output(result.name, kept)

        def call():
            session.run_with_iobinding(binding)
            return kept

        call.held = held
        return call

    def to_numpy(self, result):
        return result.numpy()
