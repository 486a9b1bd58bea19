"""JAX: the program jitted by XLA for the CPU, arguments on the device already."""

import os
import sys

threads = int(sys.argv[2])
os.environ["JAX_PLATFORMS"] = "cpu"
# XLA has a thread for each core it may run on, and no option to have fewer.
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])

import jax
import jax.numpy as jnp
import numpy as np


class Adapter:
    def __init__(self, threads):
        self.version = "JAX " + jax.__version__

    def compile(self, program, inputs, constants):
        names = list(inputs) + list(constants)
        values = [jax.device_put(a) for a in list(inputs.values()) + list(constants.values())]
        compiled = jax.jit(lambda *given: program(Operations, dict(zip(names, given)))).lower(*values).compile()
        return lambda: compiled(*values).block_until_ready()

    def to_numpy(self, result):
        return np.asarray(result)


class Operations:
    relu = staticmethod(jax.nn.relu)
    matmul = staticmethod(jnp.matmul)
    sum = staticmethod(jnp.sum)
    reshape = staticmethod(jnp.reshape)
    permute = staticmethod(jnp.transpose)

    def gelu(x, tanh):
        return jax.nn.gelu(x, approximate=tanh)

    def softmax(x):
        return jax.nn.softmax(x, axis=-1)

    def layer_norm(x, weight, bias):
        centred = x - x.mean(-1, keepdims=True)
        return centred * jax.lax.rsqrt((centred * centred).mean(-1, keepdims=True) + 1e-5) * weight + bias

    def transpose(x):
        return x.T

    def argmax(x):
        return jnp.argmax(x, axis=-1)

    def cumsum(x):
        return jnp.cumsum(x, axis=-1)

    def conv2d(x, w, bias, stride, padding, groups):
        y = jax.lax.conv_general_dilated(
            x, w, (stride, stride), [(p, p) for p in padding], feature_group_count=groups
        )
        return y if bias is None else y + bias.reshape(1, -1, 1, 1)

    def max_pool(x, kernel, stride, padding):
        around = [(0, 0), (0, 0), (padding, padding), (padding, padding)]
        return jax.lax.reduce_window(
            x, -jnp.inf, jax.lax.max, (1, 1, kernel, kernel), (1, 1, stride, stride), around
        )

    def mean_pixels(x):
        return x.mean((2, 3))
