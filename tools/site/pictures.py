#!/usr/bin/env python3
"""Draws the pictures of the tour from what lathe-bench prints.

    pictures.py LATHE-BENCH [LOG]

Writes docs/pictures/*.svg. The graph needs Graphviz's dot. LOG is what `lathe-bench tune matmul --shape
512x512x512 --log LOG` wrote; without it the picture of the search stays as it is.
"""

import html
import json
import math
import pathlib
import re
import subprocess
import sys

import pages

FOLDER = pages.REPOSITORY / "docs" / "pictures"
WIDTH = 640
FONT = 'font-family="system-ui, sans-serif"'
CODE = 'font-family="ui-monospace, monospace"'
INK, QUIET = "#263238", "#78909c"
KINDS = {
    "serial": "#eceff1",
    "vector": "#c8e6c9",
    "unroll": "#fff3c4",
    "parallel": "#bbdefb",
    "alloc": "#f8e1f4",
}
TERMS = {
    "arithmetic": "#4e79a7",
    "latency": "#a0cbe8",
    "spills": "#e15759",
    "loops": "#b6992d",
    "not overlapped": "#f28e2b",
    "from L2": "#8cd17d",
    "from L3": "#59a14f",
    "from memory": "#2f6b2f",
    "pages": "#b07aa1",
    "fork": "#9c755f",
    "launch": "#bab0ac",
    "barriers": "#79706e",
}


class Drawing:
    def __init__(self):
        self.parts = []

    def box(self, x, y, width, height, fill, line=QUIET):
        self.parts.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(0, width):.1f}" height="{height:.1f}" rx="3" '
            f'fill="{fill}" '
            f'stroke="{line}" stroke-width="0.7"/>'
        )

    def line(self, x1, y1, x2, y2, colour=QUIET, width=1):
        self.parts.append(
            f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" '
            f'stroke-width="{width}"/>'
        )

    def dot(self, x, y, colour, radius=2.2):
        self.parts.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius}" fill="{colour}" fill-opacity="0.55"/>'
        )

    def text(self, x, y, text, size=14, colour=INK, font=FONT, anchor="start"):
        self.parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{colour}" {font} text-anchor="{anchor}">'
            f"{html.escape(text)}</text>"
        )

    def save(self, name, height, width=WIDTH):
        (FOLDER / name).write_text(
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" viewBox="0 0 {width} {height:.0f}">\n'
            f'<rect width="100%" height="100%" fill="#fff"/>\n' + "\n".join(self.parts) + "\n</svg>\n"
        )


def printed(bench, *arguments):
    return subprocess.run([bench, *arguments], check=True, capture_output=True, text=True).stdout


def draw_graph(bench):
    text = printed(bench, "emit", "softmax", "--shape", "64x256", "--target", "dot")
    text = (
        text.replace("view(", "").replace(", offset 0)", "").replace("monospace", 'monospace", fontsize="10')
    )
    svg = subprocess.run(["dot", "-Tsvg"], input=text, check=True, capture_output=True, text=True).stdout
    svg = svg[svg.index("<svg") :]  # no comment with the version of dot
    (FOLDER / "graph.svg").write_text("\n".join(line.rstrip() for line in svg.splitlines()) + "\n")


def nest_of(text):
    """The printed loops as (line, children)."""
    root = ("", [])
    stack = [root]
    for line in text.splitlines():
        bare = line.strip()
        if bare == "}":
            stack.pop()
        elif bare.endswith("{"):
            node = (bare.removesuffix("{").strip(), [])
            stack[-1][1].append(node)
            stack.append(node)
        elif bare:
            stack[-1][1].append((bare, []))
    return root[1][0]


def kind_of(line):
    if line.startswith("alloc"):
        return "alloc"
    found = re.search(r"\b(vector|unroll|parallel)\b", line)
    return found[1] if found else "serial"


def draw_nest(drawing, node, x, y, width):
    """Draws a loop with all that is in it; returns its height."""
    line, children = node
    if not children:
        drawing.text(x + 4, y + 14, line, 11, font=CODE)
        return 20
    at = len(drawing.parts)
    height = 22
    for child in children:
        height += draw_nest(drawing, child, x + 8, y + height, width - 16)
    height += 6
    box = Drawing()
    box.box(x, y, width, height - 3, KINDS[kind_of(line)])
    box.text(x + 6, y + 15, line, 12, font=CODE)
    drawing.parts[at:at] = box.parts
    return height


def draw_loops(bench):
    text = printed(bench, "emit", "softmax", "--shape", "64x256", "--target", "ast")
    text = re.sub(r":f32\b", "", text)
    drawing = Drawing()
    width = 860
    height = draw_nest(drawing, nest_of(text), 10, 34, width - 20)
    x = 12
    for kind, colour in KINDS.items():
        if kind == "parallel":
            continue  # one thread
        drawing.box(x, 10, 14, 14, colour)
        drawing.text(
            x + 20, 22, {"serial": "loop", "alloc": "scratch", "unroll": "unrolled loop"}.get(kind, kind), 13
        )
        x += 130
    drawing.save("loops.svg", height + 40, width)


def draw_terms(bench):
    shown = [
        ("elementwise", "1048576"),
        ("softmax", "1024x1024"),
        ("transpose", "1024x1024"),
        ("matmul", "64x64x64"),
        ("matmul", "512x512x512"),
    ]
    drawing = Drawing()
    left, y, used = 176, 20, []
    for workload, shape in shown:
        kernel = json.loads(printed(bench, "explain", workload, "--shape", shape, "--json"))[0]
        total, x = kernel["predicted"], left
        for name, seconds in sorted(kernel["terms"].items(), key=lambda t: list(TERMS).index(t[0])):
            width = (WIDTH - left - 70) * seconds / total
            drawing.box(x, y, width, 24, TERMS[name], TERMS[name])
            x += width
            used += [name] if seconds > 0.01 * total else []
        drawing.text(left - 8, y + 17, f"{workload} {shape}", 13, anchor="end")
        drawing.text(
            WIDTH - 64, y + 17, f"{total * 1e6:,.3g} us" if total < 1e-3 else f"{total * 1e3:,.3g} ms", 13
        )
        y += 36
    x = left
    for name in [t for t in TERMS if t in used]:
        if x > WIDTH - 130:
            x, y = left, y + 22
        drawing.box(x, y, 12, 12, TERMS[name], TERMS[name])
        drawing.text(x + 17, y + 11, name, 12)
        x += 120
    drawing.save("terms.svg", y + 26)


def draw_search(log):
    candidates = [json.loads(line) for line in pathlib.Path(log).read_text().splitlines()]
    candidates = [c for c in candidates if c["kind"] == "candidate" and c.get("measured", 0) > 0]
    times = [c["measured"] * 1e3 for c in candidates]
    low, high = math.log(min(times) * 0.97), math.log(min(max(times), 4 * min(times)))
    left, right, top, bottom = 56, WIDTH - 12, 14, 270

    def x(index):
        return left + (right - left) * index / max(1, len(times) - 1)

    def y(milliseconds):
        return bottom - (bottom - top) * (min(math.log(milliseconds), high) - low) / (high - low)

    drawing = Drawing()
    for tick in (3, 3.5, 4, 5, 6, 8, 10, 12):
        if low <= math.log(tick) <= high:
            drawing.line(left, y(tick), right, y(tick), "#eceff1")
            drawing.text(left - 6, y(tick) + 5, f"{tick} ms", 12, QUIET, anchor="end")
    best, since = times[0], 0
    for index, time in enumerate(times + [0]):  # 0: the end
        if time < best:
            at = min(index, len(times) - 1)
            drawing.line(x(since), y(best), x(at), y(best), "#e15759", 2)
            if time:
                drawing.line(x(at), y(best), x(at), y(time), "#e15759", 2)
            best, since = time, at
        if time:
            drawing.dot(x(index), y(time), "#4e79a7")
    drawing.line(left, bottom, right, bottom)
    drawing.text(
        left,
        bottom + 20,
        f"{len(times)} candidates in the order of their measurements; the line is the best so far",
        13,
    )
    drawing.save("search.svg", bottom + 32)


def main():
    FOLDER.mkdir(exist_ok=True)
    bench = sys.argv[1]
    draw_graph(bench)
    draw_loops(bench)
    draw_terms(bench)
    if len(sys.argv) > 2:
        draw_search(sys.argv[2])
    print("\n".join(str(p) for p in sorted(FOLDER.iterdir())))


main()
