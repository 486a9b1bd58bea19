"""What the other scripts know of a page: its fenced blocks, and the repository that it belongs to."""

import dataclasses
import pathlib
import re

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
FENCE = re.compile(r"^(```+)\s*(.*)$")


@dataclasses.dataclass
class Block:
    line: int  # of the first line inside, counted from 1
    language: str  # "" if the fence names none
    options: list  # further words of the fence: "continues", "needs=lathe"
    text: str

    def option(self, name):
        """The value of `name=value`, or None."""
        return next((o[len(name) + 1 :] for o in self.options if o.startswith(name + "=")), None)


def blocks(text):
    """The fenced blocks of a page in order; also those in HTML comments, which run but are not seen."""
    found, opened = [], None
    for number, line in enumerate(text.splitlines(), 1):
        fence = FENCE.match(line)
        if opened is None and fence:
            words = fence[2].split()
            opened = (fence[1], number + 1, words, [])
        elif opened and fence and fence[1] == opened[0] and not fence[2]:
            _, first, words, lines = opened
            found.append(Block(first, words[0] if words else "", words[1:], "".join(l + "\n" for l in lines)))
            opened = None
        elif opened:
            opened[3].append(line)
    if opened:
        raise SystemExit(f"a fence opened before line {opened[1]} is not closed")
    return found


def outside_blocks(text, change):
    """The page with `change(line, number)` for each line outside. Fences keep nothing but their language."""
    out, opened = [], None
    for number, line in enumerate(text.splitlines(), 1):
        fence = FENCE.match(line)
        if opened is None and fence:
            opened = fence[1]
            words = fence[2].split()
            line = opened + (words[0] if words else "text")
        elif opened and fence and fence[1] == opened and not fence[2]:
            opened = None
        elif opened is None:
            line = change(line, number)
        out.append(line)
    return "\n".join(out) + "\n"


def source_pages():
    """Paths of all pages, from the root of the repository."""
    named = [REPOSITORY / name for name in ("README.md", "HACKING.md", "SECURITY.md")]
    return [p.relative_to(REPOSITORY) for p in named + sorted((REPOSITORY / "docs").rglob("*.md"))]
