#!/usr/bin/env python3
"""Fails if a built site has a link to a page, a picture or an anchor that is not in it, or loads
anything from a network.

    links.py FOLDER
"""

import html.parser
import pathlib
import sys
import urllib.parse

LOADED = {("script", "src"), ("link", "href"), ("img", "src"), ("iframe", "src"), ("source", "src")}


class Page(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.anchors, self.links, self.loads = set(), [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.anchors |= {given[name] for name in ("id", "name") if given.get(name)}
        for name in ("href", "src"):
            if given.get(name):
                loaded = (tag, name) in LOADED and given.get("rel") not in ("canonical", "prev", "next")
                (self.loads if loaded else self.links).append(given[name])


def main():
    root = pathlib.Path(sys.argv[1])
    pages = {p: Page(p.read_text()) for p in root.rglob("*.html")}
    faults, outside, inside = [], set(), 0
    for path, page in pages.items():
        if path.name == "404.html":
            continue  # its links are for a site at the root of a server
        for link in page.loads + page.links:
            parts = urllib.parse.urlsplit(link)
            if parts.scheme or parts.netloc:
                outside.add(link)
                if link in page.loads:
                    faults.append(f"{path}: loads {link}")
                continue
            inside += 1
            there = (
                (path.parent / urllib.parse.unquote(parts.path)).resolve() if parts.path else path.resolve()
            )
            there = there / "index.html" if there.is_dir() else there
            if not there.exists():
                faults.append(f"{path}: no page {link}")
            elif parts.fragment and there.suffix == ".html":
                target = pages[root / there.relative_to(root.resolve())]
                if urllib.parse.unquote(parts.fragment) not in target.anchors:
                    faults.append(f"{path}: no anchor {link}")
    if faults:
        raise SystemExit("\n".join(sorted(set(faults))))
    print(
        f"{len(pages)} pages, {inside} links inside, all there; {len(outside)} to other sites, not followed"
    )


main()
