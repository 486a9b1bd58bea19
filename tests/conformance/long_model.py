#!/usr/bin/env python3
"""Writes a model of many nodes: layers of MatMul, Add, Relu and, every fourth, a residual Add. long_model.py NODES FILE"""
import sys

import numpy as np
import onnx
from onnx import helper, numpy_helper


def main():
    count, path = int(sys.argv[1]), sys.argv[2]
    random = np.random.default_rng(7)
    width = 32
    weights = [numpy_helper.from_array((random.standard_normal((width, width)) / np.sqrt(width)).astype(np.float32), f"w{k}") for k in range(8)]
    bias = numpy_helper.from_array(random.standard_normal(width).astype(np.float32) * 0.1, "b")
    nodes, value, layer = [], "x", 0
    residual = value
    while len(nodes) < count:
        nodes.append(helper.make_node("MatMul", [value, f"w{layer % 8}"], [f"m{layer}"]))
        nodes.append(helper.make_node("Add", [f"m{layer}", "b"], [f"a{layer}"]))
        nodes.append(helper.make_node("Relu", [f"a{layer}"], [f"r{layer}"]))
        value = f"r{layer}"
        if layer % 4 == 3:
            nodes.append(helper.make_node("Add", [value, residual], [f"s{layer}"]))
            nodes.append(helper.make_node("Tanh", [f"s{layer}"], [f"t{layer}"]))
            value = residual = f"t{layer}"
        layer += 1
    graph = helper.make_graph(nodes, "long", [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [8, width])],
                              [helper.make_tensor_value_info(value, onnx.TensorProto.FLOAT, [8, width])], weights + [bias])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)]), path)


if __name__ == "__main__":
    main()
