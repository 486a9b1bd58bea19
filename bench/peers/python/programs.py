"""The workloads of lathe-bench, written once over the few operations that each framework's adapter gives.

An adapter `f` has: relu, gelu(x, tanh), sum(x, axis or None), softmax, layer_norm(x, weight, bias), transpose
(of the last two axes, into memory of its own), argmax, cumsum, matmul, conv2d(x, w, bias or None, stride, padding,
groups), max_pool(x, kernel, stride, padding), mean_pixels, reshape, permute, and values that add and multiply.
"""


def elementwise(f, t, shape):
    return f.relu((t["a"] + t["b"]) * t["c"]) + t["d"]


def product(f, t, shape):
    return f.matmul(t["a"], t["b"])


def convolution(f, t, shape):
    depthwise = len(shape) == 6
    kernel, stride = shape[3:5] if depthwise else shape[4:6], shape[-1]
    padding = (kernel[0] // 2, kernel[1] // 2)
    return f.conv2d(t["x"], t["w"], None, stride, padding, shape[0] if depthwise else 1)


def attend(f, q, k, v, features):
    scores = f.matmul(q, f.permute(k, (0, 2, 1))) * features**-0.5
    return f.matmul(f.softmax(scores), v)


def attention(f, t, shape):
    return attend(f, t["q"], t["k"], t["v"], shape[2])


def linear(f, t, x, name):
    return f.matmul(x, t["w_" + name]) + t["b_" + name]


def mlp(f, t, shape):
    h = f.relu(linear(f, t, t["x"], "1"))
    h = f.relu(linear(f, t, h, "2"))
    return linear(f, t, h, "3")


def encoder_block(f, t, shape):
    tokens, d, heads, _ = shape
    each = d // heads

    def norm(x, name):
        return f.layer_norm(x, t["weight_" + name], t["bias_" + name])

    def split(name):
        return f.permute(f.reshape(linear(f, t, n, name), (tokens, heads, each)), (1, 0, 2))

    x = t["x"]
    n = norm(x, "attention")
    mixed = attend(f, split("q"), split("k"), split("v"), each)
    h = x + linear(f, t, f.reshape(f.permute(mixed, (1, 0, 2)), (tokens, d)), "out")
    return h + linear(f, t, f.gelu(linear(f, t, norm(h, "network"), "up"), False), "down")


def resnet18(f, t, shape):
    def conv(x, name, kernel, stride):
        return f.conv2d(x, t["w_" + name], t["b_" + name], stride, (kernel // 2, kernel // 2), 1)

    x = f.max_pool(f.relu(conv(t["x"], "stem", 7, 2)), 3, 2, 1)
    for stage in range(1, 5):
        for k in (1, 2):
            name, stride = f"{stage}_{k}", 2 if stage > 1 and k == 1 else 1
            h = conv(f.relu(conv(x, name + "a", 3, stride)), name + "b", 3, 1)
            x = f.relu(h + (conv(x, name + "s", 1, 2) if stride == 2 else x))
    return linear(f, t, f.mean_pixels(x), "fc")


PROGRAMS = {
    "elementwise": elementwise,
    "gelu": lambda f, t, s: f.gelu(t["x"], True),
    "reduce": lambda f, t, s: f.sum(t["x"], None),
    "softmax": lambda f, t, s: f.softmax(t["x"]),
    "layernorm": lambda f, t, s: f.layer_norm(t["x"], t["weight"], t["bias"]),
    "transpose": lambda f, t, s: f.transpose(t["x"]),
    "column-sums": lambda f, t, s: f.sum(t["x"], 0),
    "argmax": lambda f, t, s: f.argmax(t["x"]),
    "cumsum": lambda f, t, s: f.cumsum(t["x"]),
    "matmul": product,
    "batched-matmul": product,
    "linear": product,
    "batched-linear": product,
    "conv2d": convolution,
    "depthwise-conv2d": convolution,
    "attention": attention,
    "mlp": mlp,
    "encoder-block": encoder_block,
    "resnet18": resnet18,
}
