"""One framework beside lathe-bench: takes a line of JSON, answers with one.

    peer.py FRAMEWORK THREADS      FRAMEWORK is tinygrad, jax, onnxruntime or torch
It begins with {"version": ...}, or {"absent": why}. Then:
    {"do": "prepare", "workload", "shape", "tensors": {name: {"file", "shape", "constant"}}}
                                   -> {"ready": true}, or false if it has no such program
    {"do": "run", "repeats": n}    -> {"seconds": of one of n calls}
    {"do": "result", "file": path} -> {"done": true}, the result written there as f32
A failure of any of these is {"error": why}.
"""

import importlib
import json
import os
import sys
import time

import numpy as np

from programs import PROGRAMS


def read(tensor):
    return np.fromfile(tensor["file"], dtype=np.float32).reshape(tensor["shape"])


class Peer:
    def __init__(self, framework, threads):
        self.adapter = importlib.import_module(framework + "_adapter").Adapter(threads)
        self.call = None

    def prepare(self, request):
        self.call = None  # frees what the last program held
        program = PROGRAMS.get(request["workload"])
        if not program:
            return {"ready": False}
        inputs, constants = {}, {}
        for name, tensor in request["tensors"].items():
            (constants if tensor["constant"] else inputs)[name] = read(tensor)
        self.call = self.adapter.compile(lambda f, t: program(f, t, request["shape"]), inputs, constants)
        self.call()
        return {"ready": True}

    def run(self, request):
        call, repeats = self.call, request["repeats"]
        begin = time.perf_counter()
        for _ in range(repeats):
            call()
        return {"seconds": (time.perf_counter() - begin) / repeats}

    def result(self, request):
        np.ascontiguousarray(self.adapter.to_numpy(self.call()), dtype=np.float32).tofile(request["file"])
        return {"done": True}


def main():
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a framework prints is not an answer

    def answer(message):
        answers.write(json.dumps(message) + "\n")
        answers.flush()

    framework, threads = sys.argv[1], int(sys.argv[2])
    try:
        peer = Peer(framework, threads)
    except Exception as e:
        answer({"absent": f"{type(e).__name__}: {e}"})
        return
    answer({"version": peer.adapter.version})
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer(getattr(peer, request["do"])(request))
        except Exception as e:
            answer({"error": f"{type(e).__name__}: {e}"})


if __name__ == "__main__":
    main()
