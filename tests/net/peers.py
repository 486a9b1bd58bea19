#!/usr/bin/env python3
"""Computes programs of the net again with NumPy, and compares with the oracle.

    build/release/tests/net --programs 500 --seed 1 --dump programs.jsonl
    python3 tests/net/peers.py programs.jsonl [--torch]

Each line of the file is a program: its steps, and of each the oracle's values and bounds. A step is computed from the
oracle's values of its operands, so that one difference is one finding. Functions that NumPy lacks, and steps on
bfloat16 but movements, are skipped; the counts say so. With --torch, convolutions, pooling and attention are
compared with PyTorch where it is installed.
"""
import argparse
import json
import sys

try:
    import numpy as np
except ImportError:
    print("peers: skipped, no NumPy")
    sys.exit(77)

DTYPES = {"bool": np.bool_, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64, "u8": np.uint8,
          "u16": np.uint16, "u32": np.uint32, "u64": np.uint64, "f16": np.float16, "bf16": np.float32,
          "f32": np.float32, "f64": np.float64}

FLOATS = (np.float16, np.float32, np.float64)


def numbers(values):
    return [float(v) if isinstance(v, str) else v for v in values]


def array(step):
    """The oracle's values in the step's dtype; those that are not decided are NaN or 0 there."""
    dtype = DTYPES[step["dtype"]]
    with np.errstate(all="ignore"):
        values = [dtype(v) if dtype in FLOATS else dtype(int(v)) for v in numbers(step["values"])]
        return np.array(values, dtype=dtype).reshape(step["shape"])


def axes(step):
    return tuple(step["ints"]) if step["ints"] else None


def beside(step, x):
    """The two operands of an operator, one of which may be a number."""
    if not step["ints"]:
        return x[0], x[1]
    n = numbers(step["reals"])[0]
    n = int(n) if step["ints"][1] else float(n)
    if isinstance(n, float) and x[0].dtype.kind != "f":
        n = np.float64(n)
    return (x[0], n) if step["ints"][0] == 1 else (n, x[0])


def pairs(values):
    return list(zip(values[0::2], values[1::2]))


def indexed(step, x):
    items = []
    for k in range(0, len(step["ints"]), 4):
        kind, a, b, c = step["ints"][k:k + 4]
        given = step["more"][k // 4]
        items.append({0: a, 1: slice(a if given & 1 else None, b if given & 2 else None, c), 2: None, 3: Ellipsis}[kind])
    return x[tuple(items)]


def reduced(f):
    return lambda s, x: f(x[0], axis=axes(s), keepdims=bool(s["more"][0]))


def softmax(s, x):
    e = np.exp(x[0] - x[0].max(axis=s["ints"][0], keepdims=True))
    return e / e.sum(axis=s["ints"][0], keepdims=True)


def log_softmax(s, x):
    shifted = x[0].astype(np.longdouble) - x[0].max(axis=s["ints"][0], keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=s["ints"][0], keepdims=True))


def order(s, x):
    return np.argsort(x[0], axis=s["ints"][0], kind="stable")


UNARY = {"sqrt()": np.sqrt, "exp()": np.exp, "exp2()": np.exp2, "log()": np.log, "log2()": np.log2, "log10()": np.log10,
         "log1p()": np.log1p, "expm1()": np.expm1, "sin()": np.sin, "cos()": np.cos, "tan()": np.tan, "sinh()": np.sinh,
         "cosh()": np.cosh, "tanh()": np.tanh, "floor()": np.floor, "ceil()": np.ceil, "trunc()": np.trunc,
         "round()": np.rint, "neg()": np.negative, "abs()": np.abs, "sign()": np.sign, "square()": np.square,
         "reciprocal()": lambda v: 1 / v, "rsqrt()": lambda v: 1 / np.sqrt(v), "sigmoid()": lambda v: 1 / (1 + np.exp(-v)),
         "relu()": lambda v: np.maximum(v, 0), "isnan()": np.isnan, "isinf()": np.isinf, "isfinite()": np.isfinite,
         "logical_not()": np.logical_not, "bitwise_not()": np.bitwise_not, "contiguous()": lambda v: v}
BINARY = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.true_divide, "mod": np.remainder,
          "floor_divide": np.floor_divide, "maximum": np.maximum, "minimum": np.minimum, "less": np.less,
          "less_equal": np.less_equal, "greater": np.greater, "greater_equal": np.greater_equal, "equal": np.equal,
          "unequal": np.not_equal, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}
OTHERS = {
    "where": lambda s, x: np.where(x[0].astype(bool), x[1], x[2]),
    "logical_and": lambda s, x: np.logical_and(x[0], x[1]), "logical_or": lambda s, x: np.logical_or(x[0], x[1]),
    "sum": reduced(np.sum), "prod": reduced(np.prod), "max": reduced(np.max), "min": reduced(np.min),
    "mean": reduced(np.mean), "any": reduced(np.any), "all": reduced(np.all),
    "var": lambda s, x: np.var(x[0], axis=axes(s), ddof=s["more"][1], keepdims=bool(s["more"][0])),
    "std": lambda s, x: np.std(x[0], axis=axes(s), ddof=s["more"][1], keepdims=bool(s["more"][0])),
    "argmax": lambda s, x: np.argmax(x[0], axis=s["ints"][0] if s["ints"] else None, keepdims=bool(s["more"][0])),
    "argmin": lambda s, x: np.argmin(x[0], axis=s["ints"][0] if s["ints"] else None, keepdims=bool(s["more"][0])),
    "cumsum": lambda s, x: np.cumsum(x[0], axis=s["ints"][0]), "softmax": softmax,
    "log_softmax": log_softmax,
    "sort": lambda s, x: None if s["more"][0] else np.sort(x[0], axis=s["ints"][0]),
    "argsort": lambda s, x: None if s["more"][0] else order(s, x),
    "reshape": lambda s, x: x[0].reshape(s["ints"]), "permute": lambda s, x: x[0].transpose(s["ints"]),
    "transpose": lambda s, x: np.swapaxes(x[0], s["ints"][0], s["ints"][1]),
    "flip": lambda s, x: np.flip(x[0], axes(s)), "roll": lambda s, x: np.roll(x[0], s["ints"][0], s["ints"][1]),
    "squeeze": lambda s, x: np.squeeze(x[0], axes(s)), "unsqueeze": lambda s, x: np.expand_dims(x[0], s["ints"][0]),
    "flatten": lambda s, x: x[0].reshape(s["shape"]), "realise": lambda s, x: x[0],
    "expand": lambda s, x: np.broadcast_to(x[0], s["shape"]), "repeat": lambda s, x: np.tile(x[0], s["ints"]),
    "pad": lambda s, x: np.pad(x[0], pairs(s["ints"]), constant_values=x[0].dtype.type(numbers(s["reals"])[0])) if x[0].ndim else x[0],
    "shrink": lambda s, x: x[0][tuple(slice(a, b) for a, b in pairs(s["ints"]))], "index": lambda s, x: indexed(s, x[0]),
    "concat": lambda s, x: np.concatenate(x, axis=s["ints"][0]), "stack": lambda s, x: np.stack(x, axis=s["ints"][0]),
    "matmul": lambda s, x: np.matmul(x[0], x[1]), "einsum": lambda s, x: np.einsum(s["text"], *x),
    "cast": lambda s, x: x[0].astype(DTYPES[s["asked"]]) if x[0].dtype.kind != "f" or s["asked"][0] in "fb" else None,
    "bitcast": lambda s, x: x[0].view(DTYPES[s["asked"]]) if x[0].ndim else None,
    "clamp": lambda s, x: np.clip(x[0], numbers(s["reals"])[0] if s["ints"][0] else None, numbers(s["reals"])[1] if s["ints"][1] else None)
             if x[0].dtype.kind == "f" else None,
    "eye": lambda s, x: np.eye(*s["ints"], dtype=DTYPES[s["dtype"]]),
    "tri": lambda s, x: np.tri(*s["ints"], dtype=DTYPES[s["dtype"]]),
}


def torch_of(step, x):
    """Convolutions and pooling by PyTorch, of f32 and f64."""
    import torch
    import torch.nn.functional as F
    name, ints = step["function"], step["ints"]
    if x[0].dtype not in (np.float32, np.float64) or any(v.dtype != x[0].dtype for v in x):
        return None
    t = [torch.from_numpy(v.copy()) for v in x]
    if name.startswith("conv"):
        n = ints[0]
        o = [list(ints[2 + k::4][:n]) for k in range(4)]
        bias = t[2] if len(t) > 2 else None
        if name == "conv_transpose2d":
            return F.conv_transpose2d(t[0], t[1], bias, o[0], o[1], o[3], ints[1], o[2]).numpy()
        return {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}[n](t[0], t[1], bias, o[0], o[1], o[2], ints[1]).numpy()
    if name == "max_pool2d":
        return F.max_pool2d(t[0], ints[0:2], ints[2:4] if ints[2] else None, ints[4:6], ints[6:8], bool(ints[8])).numpy()
    if name == "avg_pool2d" and ints[6:8] == [1, 1]:
        return F.avg_pool2d(t[0], ints[0:2], ints[2:4] if ints[2] else None, ints[4:6], bool(ints[8]), bool(ints[9])).numpy()
    return None


def computed(step, x, use_torch):
    name = step["function"]
    if use_torch and (name.startswith("conv") or name.endswith("pool2d")):
        return torch_of(step, x)
    if name in UNARY:
        return UNARY[name](x[0]) if x[0].dtype.kind == "f" or name in ("neg()", "abs()", "sign()", "square()", "bitwise_not()") else None
    if name in BINARY:
        return BINARY[name](*beside(step, x))
    return OTHERS[name](step, x) if name in OTHERS else None


def differs(step, got):
    want, bounds = array(step), np.array(numbers(step["bounds"])).reshape(step["shape"])
    if list(got.shape) != step["shape"]:
        return f"shape {list(got.shape)}, expected {step['shape']}"
    # NumPy's own rounding: a few units in the last place more than the oracle's bound.
    with np.errstate(all="ignore"):
        if want.dtype.kind != "f":
            wrong = (got != want) & (bounds == 0)
        else:
            g, w = got.astype(np.longdouble), want.astype(np.longdouble)
            slack = bounds * 3 + np.abs(w) * 16 * np.finfo(want.dtype).eps + np.finfo(want.dtype).smallest_subnormal
            wrong = ~((np.isnan(g) & np.isnan(w)) | (g == w) | (np.abs(g - w) <= slack)) & np.isfinite(bounds)
    if not wrong.any():
        return None
    k = int(np.argmax(wrong.ravel()))
    return f"element {k}: {got.ravel()[k]}, the oracle says {want.ravel()[k]} within {bounds.ravel()[k]}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("file")
    parser.add_argument("--torch", action="store_true")
    options = parser.parse_args()
    if options.torch:
        try:
            import torch  # noqa: F401
        except ImportError:
            print("peers: no PyTorch, what needs it is skipped")
            options.torch = False
    done, skipped, wrong = {}, {}, 0
    with open(options.file) as file:
        for line_number, program in enumerate(programs(file)):
            for k, step in enumerate(program["steps"]):
                name = step["function"]
                operands = [program["steps"][i] for i in step["in"]]
                if name in ("input", "data"):
                    continue
                half = any(s["dtype"] == "bf16" for s in operands + [step])
                hidden = any(b != 0 for s in operands for b in s["bounds"])  # a step of exact operands alone
                with np.errstate(all="ignore"):
                    got = None if half or hidden else computed(step, [array(s) for s in operands], options.torch)
                if got is None:
                    skipped[name] = skipped.get(name, 0) + 1
                    continue
                done[name] = done.get(name, 0) + 1
                text = differs(step, np.asarray(got))
                if text:
                    wrong += 1
                    print(f"program {line_number}, x{k} = {name} {step['ints']} {step['more']} {step['reals']} {step['text']} of "
                          f"{[(s['dtype'], s['shape']) for s in operands]}: {text}")
    print(f"peers: {sum(done.values())} steps of {len(done)} functions compared, {sum(skipped.values())} skipped, {wrong} differ")
    return 1 if wrong else 0


def programs(file):
    """Programs span several lines; each ends with its outputs."""
    text = ""
    for line in file:
        text += line
        if '"outputs"' in line:
            yield json.loads(text)
            text = ""


if __name__ == "__main__":
    sys.exit(main())
