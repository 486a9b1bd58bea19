#!/usr/bin/env python3
"""Writes the site's sources: the pages, the reference, and every file that a page links to.

    stage.py FOLDER

In the repository a page links to files: ../include/lathe/tensor.hpp, ../HACKING.md, decisions/. In the site
these are pages, too. A link to nothing is an error. FOLDER gets `pages/` and `mkdocs.yml` for MkDocs.
"""

import os
import pathlib
import re
import shutil
import sys

import pages
import reference

LINK = re.compile(r"(!?\[[^\]]*\]\()([^)\s]+)(\))")
COMMENT = re.compile(r"^<!--.*?^-->\n", re.S | re.M)
LANGUAGES = {".cpp": "cpp", ".hpp": "cpp", ".def": "cpp", ".py": "python", ".cmake": "cmake", ".sh": "sh"}
RENAMED = {"README.md": "index.md", "HACKING.md": "hacking.md", "SECURITY.md": "security.md"}
PICTURES = {".svg", ".png"}


class Stage:
    def __init__(self, folder):
        self.folder = folder
        # path in the repository: path in the site
        self.places = {str(p): self.place_of(p) for p in pages.source_pages()}
        self.places |= {h: reference.place(h) for h in reference.headers()}
        self.waiting = list(self.places)
        self.faults = []

    @staticmethod
    def place_of(path):
        return RENAMED.get(str(path)) or str(path.relative_to("docs"))

    def place(self, path):
        """Where the site has this file of the repository. A file that is no page yet becomes one."""
        if path not in self.places:
            suffix = pathlib.Path(path).suffix
            if (pages.REPOSITORY / path).is_dir():
                inside = path.removeprefix("docs/") if path.startswith("docs/") else "source/" + path
                self.places[path] = inside + "/index.md"
            elif path.startswith("docs/") and suffix in PICTURES:
                self.places[path] = path.removeprefix("docs/")
            else:
                self.places[path] = "source/" + path + ("" if suffix == ".md" else ".md")
            self.waiting.append(path)
        return self.places[path]

    def rewritten(self, text, path, folder):
        """`text`, the page of `path`, with links for the site. They start at `folder` of the repository."""

        def change(line, number):
            return LINK.sub(lambda m: m[1] + self.target(m[2], path, folder, number) + m[3], line)

        text = COMMENT.sub(lambda m: "\n" * m[0].count("\n"), text)  # line numbers stay
        return pages.outside_blocks(text, change)

    def target(self, link, path, folder, number):
        if link.startswith(("http://", "https://", "#", "mailto:")):
            return link
        name, _, anchor = link.partition("#")
        there = os.path.normpath(os.path.join(folder, name))
        if there.startswith(("..", "/")) or not (pages.REPOSITORY / there).exists():
            self.faults.append(f"{path}:{number}: there is no {there}")
            return link
        relative = os.path.relpath(self.place(there), os.path.dirname(self.places[path]) or ".")
        return relative + ("#" + anchor if anchor else "")

    def write_all(self):
        while self.waiting:
            path = self.waiting.pop(0)
            source = pages.REPOSITORY / path
            target = self.folder / self.places[path]
            target.parent.mkdir(parents=True, exist_ok=True)
            if source.suffix in PICTURES:
                shutil.copyfile(source, target)
            else:
                target.write_text(self.text_of(path, source))
        (self.folder / "reference" / "index.md").write_text(reference.index())

    def text_of(self, path, source):
        if source.is_dir():
            return self.rewritten(listing(path, source), path, path)
        if path in reference.headers():
            return self.rewritten(reference.page(path), path, os.path.dirname(path))
        if source.suffix == ".md":
            return self.rewritten(source.read_text(), path, os.path.dirname(path))
        language = LANGUAGES.get(source.suffix, "text")
        head = f"---\nsearch: {{exclude: true}}\n---\n# {path}\n\n"
        return f"{head}````{language}\n{source.read_text()}\n````\n"


def title_of(page):
    """The first heading."""
    return next(line[2:] for line in page.read_text().splitlines() if line.startswith("# "))


def listing(path, folder):
    """A folder, as links to its pages and sources."""
    shown = [e for e in sorted(folder.iterdir()) if e.suffix == ".md" or e.suffix in LANGUAGES]
    names = [title_of(e) if e.suffix == ".md" else e.name for e in shown]
    links = "".join(f"- [{name}]({entry.name})\n" for name, entry in zip(names, shown))
    return f"# {path.removeprefix('docs/').capitalize()}\n\n{links}"


def with_wildcards(config, folder):
    """The configuration with pages in place of each `- pattern*.md`: those that no other line names."""
    named = set(re.findall(r"[\w/.-]+\.md", config))
    lines = []
    for line in config.splitlines():
        wild = re.match(r'^(\s*- )"?([\w/.*-]*\*[\w.-]*\.md)"?$', line)
        if not wild:
            lines.append(line)
            continue
        found = sorted(str(p.relative_to(folder)) for p in folder.glob(wild[2]))
        lines += [wild[1] + p for p in found if p not in named]
        named.update(found)
    return "\n".join(lines) + "\n"


def main():
    out = pathlib.Path(sys.argv[1])
    folder = out / "pages"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    stage = Stage(folder)
    stage.write_all()
    if stage.faults:
        raise SystemExit("\n".join(stage.faults))
    for name in ("site.css", "iframe-worker.js"):
        shutil.copyfile(pathlib.Path(__file__).parent / name, folder / name)
    config = (pages.REPOSITORY / "docs" / "mkdocs.yml").read_text()
    (out / "mkdocs.yml").write_text(with_wildcards(config, folder))
    print(f"{len(stage.places)} pages and pictures in {folder}")


main()
