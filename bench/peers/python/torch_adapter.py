"""PyTorch: eager, or traced and frozen where that is faster. Works with a torch older than the NumPy beside it."""

import ctypes
import time

import numpy as np
import torch
import torch.nn.functional as functional


def from_numpy(array):
    return torch.frombuffer(bytearray(array.tobytes()), dtype=torch.float32).clone().reshape(array.shape)


class Adapter:
    def __init__(self, threads):
        torch.set_num_threads(threads)
        self.version = "PyTorch " + torch.__version__

    def compile(self, program, inputs, constants):
        names = list(inputs)
        values = [from_numpy(a) for a in inputs.values()]

        class Module(torch.nn.Module):
            def __init__(module):
                super().__init__()
                for name, array in constants.items():
                    module.register_buffer("c_" + name, from_numpy(array))

            def forward(module, *given):
                tensors = dict(zip(names, given))
                tensors.update((name, getattr(module, "c_" + name)) for name in constants)
                return program(Operations, tensors)

        module = Module().eval()
        with torch.inference_mode():
            traced = torch.jit.freeze(torch.jit.trace(module, values, check_trace=False))
            forms = [module, traced, torch.jit.optimize_for_inference(traced)]

        def caller(form):
            def call():
                with torch.inference_mode():
                    return form(*values)

            return call

        return min(map(caller, forms), key=seconds)

    def to_numpy(self, result):
        result = result.to(torch.float32).contiguous()
        memory = (ctypes.c_float * result.numel()).from_address(result.data_ptr())
        return np.ctypeslib.as_array(memory).copy()


def seconds(call):
    for _ in range(3):  # the tracing executor optimises in its first calls
        call()
    best = float("inf")
    for _ in range(3):
        begin = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - begin)
    return best


class Operations:
    relu = staticmethod(torch.relu)
    matmul = staticmethod(torch.matmul)

    def gelu(x, tanh):
        return functional.gelu(x, approximate="tanh" if tanh else "none")

    def sum(x, axis):
        return x.sum() if axis is None else x.sum(axis)

    def softmax(x):
        return torch.softmax(x, -1)

    def layer_norm(x, weight, bias):
        return functional.layer_norm(x, x.shape[-1:], weight, bias)

    def transpose(x):
        return x.t().contiguous()

    def argmax(x):
        return x.argmax(-1)

    def cumsum(x):
        return x.cumsum(-1)

    def conv2d(x, w, bias, stride, padding, groups):
        return functional.conv2d(x, w, bias, stride, padding, 1, groups)

    def max_pool(x, kernel, stride, padding):
        return functional.max_pool2d(x, kernel, stride, padding)

    def mean_pixels(x):
        return x.mean((2, 3))

    def reshape(x, shape):
        return x.reshape(shape)

    def permute(x, axes):
        return x.permute(axes)
