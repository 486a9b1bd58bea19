#!/usr/bin/env python3
"""Writes a made-up trace of a given size, to measure the viewer with: large_trace.py FILE [NODES [STATES]]

Its states don't replay: their hashes are numbers.
"""
import json
import random
import sys

path = sys.argv[1]
nodes = int(sys.argv[2]) if len(sys.argv) > 2 else 5000
states = int(sys.argv[3]) if len(sys.argv) > 3 else 20000
draw = random.Random(1)
now = 0.0
out = open(path, "w")


def record(kind, **parts):
    global now
    now += 1e-4
    out.write(json.dumps({"k": kind, "c": "1.1", "t": round(now, 6), **parts}, separators=(",", ":")) + "\n")


record("trace", version=1, lathe="0.1.0", date=1700000000, machine="made up", device="cpu", cpu="native", threads=2)
kernel_count = max(1, nodes // 10)
defined, lines = [], ["%0 = Input(x) : f32[64, 64]"]
defined.append({"id": 0, "op": "Input", "dtype": "f32", "shape": ["64", "64"], "from": [], "attr": "x"})
for n in range(1, nodes):
    sources = sorted({n - 1, max(0, n - 1 - int(draw.expovariate(0.08)))})
    op = "Neg" if len(sources) == 1 else draw.choice(["Add", "Mul", "Max"])
    defined.append({"id": n, "op": op, "dtype": "f32", "shape": ["64", "64"], "from": sources, "attr": ""})
    lines.append(f"%{n} = {op}({', '.join(f'%{s}' for s in sources)}) : f32[64, 64]")
lines.append(f"return %{nodes - 1}")
record("graph", step="given", nodes=defined, added=list(range(nodes)), removed=[], outputs=[nodes - 1])
record("graph", step="simplified", nodes=[], added=[], removed=[], outputs=[nodes - 1])
target = {"device": "cpu", "vector_bytes": 64, "vector_registers": 32, "instructions": [], "threads": 2, "groups": False,
          "gpu": False, "local_bytes": 32768, "constant_bytes": 0, "constants": 1}
record("program", id=0, hash="0" * 16, graph="\n".join(lines) + "\n", outputs=["y"], data=[],
       stages=[{"name": f"t{n}", "node": n, "kind": "map", "reads": [], "output": n == nodes - 1} for n in range(1, nodes)],
       target=target)
record("search", program=0, id=0, **{"in": -1}, start=[], measures=True)
record("plan", search=0, id=0, moves=[], seconds=1e-3, hash=f"{1:016x}")
record("root", search=0, id=1, plan=f"{1:016x}", stages=[0], seconds=1e-4, hash=f"{2:016x}")
made, frontier = 2, [1]
while made < states:
    parent = draw.choice(frontier[-40:])
    batch = [[made + k, [f"split(t1.i0, {draw.choice([4, 8, 16])})", f"vectorise(t1.i0.{made + k})"],
              1e-5 * (0.2 + draw.random()), f"{made + k + 10:016x}"] for k in range(min(20, states - made))]
    record("kernels", **{"from": parent}, made=batch, refused=[[["unroll(t1.i0)"], "the loop is too long"]], same=3)
    made += len(batch)
    kept = [batch[0][0]]
    frontier += kept
    record("kept", search=0, ids=kept, terms=[{"arithmetic": 5e-6, "from L2": 2e-6}])
    record("measured", search=0, id=kept[0], stages=[0], predicted=batch[0][2], seconds=batch[0][2] * (0.7 + draw.random()),
           terms={"arithmetic": 5e-6, "from L2": 2e-6})
record("found", search=0, moves=[], predicted=1e-3, measured=1e-3, hash="0" * 16)
record("chosen", program=0, how="tuning", graph_moves=[], moves=[], hash="0" * 16, predicted=1e-3, measured=1e-3, kernels=[])
for k in range(kernel_count):
    stages = list(range(k * 10, min(k * 10 + 10, nodes - 1)))
    record("kernel", name=f"k_{k}", stages=stages, inlined=[], hash=f"{1000000 + k:016x}", moves=["vectorise(t1.i0)"],
           predicted=1e-6 * (1 + draw.random() * 9), flops=40960, bytes=32768, limit=5e-7,
           params=[{"name": "x", "dtype": "f32", "shape": ["64", "64"], "written": False}], ast="kernel\n",
           sources={"c": "void k(void) {}\n"})
record("memory", arena=1 << 20, naive=16 << 20,
       buffers=[{"name": f"t{k}", "home": "arena", "bytes": 16384, "offset": 16384 * (k % 3), "first": k, "last": k + 1}
                for k in range(kernel_count - 1)])
record("machine", flops_per_second=1e11, bytes_per_second=2e10, threads=2)
start = now
for k in range(kernel_count):
    end = start + 2e-6 + 1e-5 * draw.random()
    record("launch", kernel=k, start=start, end=end, thread=1, bytes=32768, flops=40960, limit=5e-7)
    start = end
record("run", start=now, end=max(start, now) + 1e-3, thread=1)
