#!/usr/bin/env python3
"""Compiles and runs the code blocks of pages, and compares what they print with the page.

    blocks.py cpp FILE.cpp PAGE...                one translation unit with the C++ blocks of these pages
    blocks.py run PAGE PROGRAM FOLDER [DIR...]    runs a page's blocks in order, in an empty FOLDER

A `cpp` block is a whole program if it has a main(); else it is the inside of one, and sees <lathe/lathe.hpp>,
<iostream> and `using lathe::Tensor`. `cpp continues` goes on in the scope of the block before it. A `sh`
block runs in bash, with the DIRs in front of PATH. A `text` block right after one of these is what that block
prints; `...` in it stands for anything. `needs=NAME`, a file or a program, skips the rest of the page where
it is absent. A block in an HTML comment runs as well.
"""

import dataclasses
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pages

SEPARATOR = "\x1e\n"  # between the outputs of blocks that share a scope
INCLUDE = re.compile(r"^\s*#include\b.*$", re.M)
MAIN = re.compile(r"\bint main\(")
ONNX = "lathe/onnx"


@dataclasses.dataclass
class Step:
    """Blocks that run as one: a shell block, or C++ blocks of one scope."""

    language: str
    blocks: list
    expected: list  # text or None, for each block


def steps(text):
    found = []
    previous = None
    for block in pages.blocks(text):
        if block.language == "text" and previous:
            previous.expected[-1] = block.text
            previous = None
            continue
        previous = None
        if block.language not in ("cpp", "sh"):
            continue
        if "continues" in block.options:
            if not found or found[-1].language != "cpp":
                raise SystemExit(f"line {block.line}: there is no C++ block for this one to continue")
            found[-1].blocks.append(block)
            found[-1].expected.append(None)
        else:
            found.append(Step(block.language, [block], [None]))
        previous = found[-1]
    return found


def function_of(page, number, step):
    """The step as a function in a namespace of its own, and its #include lines."""
    includes, out = [], [f"namespace block_{number} {{"]
    whole = bool(MAIN.search(step.blocks[0].text))
    if whole and len(step.blocks) > 1:
        raise SystemExit(f"{page}:{step.blocks[1].line}: this block continues a program that has ended")
    if not whole:
        out.append("using lathe::Tensor;\nint program() {")
    for index, block in enumerate(step.blocks):
        includes += INCLUDE.findall(block.text)
        text = INCLUDE.sub("", block.text).rstrip() + "\n"
        if whole:
            text = renamed_main(text, f"{page}:{block.line}")
        if index:
            out.append('std::cout << "\\x1e\\n";')
        out.append(f'#line {block.line} "{page}"\n{text}')
    if not whole:
        out.append("return 0;\n}")
    out.append(f'const docs::Block registered("{page}", {number}, &program);\n}}')
    if any(ONNX in line for line in includes):
        out = guarded(out)
    return includes, out


def renamed_main(text, where):
    """main() under another name, so that it has to say what it returns."""
    if not text.endswith("\n}\n"):
        raise SystemExit(f"{where}: main() is expected at the end of a program")
    return MAIN.sub("int program(", text).removesuffix("}\n") + "return 0; }\n"


def guarded(lines):
    """Left out of a build without the importer."""
    return ["#ifdef LATHE_DOCS_ONNX", *lines, "#endif"]


def write_cpp(target, names):
    includes, out = ['#include "docs/block.hpp"', "#include <iostream>", "#include <lathe/lathe.hpp>"], []
    for page in names:
        name = pathlib.Path(page).stem.replace("-", "_")
        out.append(f"namespace page_{name} {{")
        for number, step in enumerate(steps((pages.REPOSITORY / page).read_text())):
            if step.language == "cpp":
                more, lines = function_of(page, number, step)
                includes += more
                out += lines
        out.append("}")
    head = []
    for line in dict.fromkeys(includes):
        head += guarded([line]) if ONNX in line else [line]
    text = "\n".join(head + out) + "\n"
    target = pathlib.Path(target)
    if not target.exists() or target.read_text() != text:
        target.write_text(text)


def matches(expected, printed):
    def tidy(text):
        return "\n".join(line.rstrip() for line in text.strip("\n").splitlines())

    pattern = ".*".join(re.escape(part) for part in tidy(expected).split("..."))
    return re.fullmatch(pattern, tidy(printed), re.S)


def shortened(text):
    return text if len(text) < 4000 else text[:2000] + "\n[...]\n" + text[-2000:]


def is_absent(need, path):
    return not pathlib.Path(need).exists() if "/" in need else shutil.which(need, path=path) is None


def run_step(step, number, page, program, folder, environment):
    if step.language == "cpp":
        command = [os.path.abspath(program), page, str(number)]
    else:
        command = ["bash", "-euo", "pipefail", "-c", step.blocks[0].text]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=540)
    where = f"{page}:{step.blocks[0].line}"
    if done.returncode == 77 and step.language == "cpp":
        print(f"skipped: {where} is not in this build")
        sys.exit(77)
    if done.returncode != 0:
        raise SystemExit(f"{where}: ended with {done.returncode}\n{shortened(done.stdout + done.stderr)}")
    printed = done.stdout.split(SEPARATOR) if step.language == "cpp" else [done.stdout]
    if len(printed) != len(step.blocks):
        raise SystemExit(f"{where}: ended before the last block that continues it")
    for block, expected, text in zip(step.blocks, step.expected, printed):
        if expected is not None and not matches(expected, text):
            raise SystemExit(
                f"{page}:{block.line}: the page says\n{expected}\nand the block printed\n{shortened(text)}"
            )


def run(page, program, folder, directories):
    folder = pathlib.Path(folder)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    environment = dict(
        os.environ, PATH=os.pathsep.join([*map(os.path.abspath, directories), os.environ.get("PATH", "")])
    )
    found = steps((pages.REPOSITORY / page).read_text())
    if not found:
        raise SystemExit(f"{page} has no block that runs")
    for number, step in enumerate(found):
        need = step.blocks[0].option("needs")
        if need and is_absent(need, environment["PATH"]):
            print(f"skipped: {page}:{step.blocks[0].line} needs {need}")
            sys.exit(77)
        run_step(step, number, page, program, folder, environment)
    print(
        f"{page}: {sum(len(s.blocks) for s in found)} blocks ran, "
        f"{sum(e is not None for s in found for e in s.expected)} outputs compared"
    )


def main():
    what, *arguments = sys.argv[1:]
    if what == "cpp":
        write_cpp(arguments[0], arguments[1:])
    else:
        run(arguments[0], arguments[1], arguments[2], arguments[3:])


main()
