#!/usr/bin/env python3
"""Opens the viewer in a headless Chromium, and compares what it shows with the trace.

viewer_test.py LATHE TRACE [TRACE] [--screenshots FOLDER]     LATHE: the program `lathe`; exit status 77 without a Chromium

The trace is read here line by line, by nothing but the description in docs/trace.md.
"""
import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
PAGES = ["graph", "rewrites", "search", "run"]
MOST_BYTES = 3_000_000
MOST_MS = 2000  # to the first picture


def find_chromium():
    for name in [os.environ.get("LATHE_CHROMIUM"), "chromium", "chromium-browser", "google-chrome"]:
        if name and shutil.which(name):
            return shutil.which(name)
    return None


def chromium(program, *arguments):
    with tempfile.TemporaryDirectory() as home:
        command = [program, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars",
                   "--enable-logging=stderr", "--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={home}",
                   "--window-size=1280,800", *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=300)


class Trace:
    """The last compilation of a trace, as a plain loop over the lines sees it."""

    def __init__(self, path):
        records = [json.loads(line) for line in Path(path).read_text().splitlines()]
        last = [r["c"] for r in records if r["k"] == "trace"][-1]
        self.records = [r for r in records if r["c"] == last]
        self.kernels = self.of("kernel")
        self.states = {}  # by id: moves and parent
        for r in self.records:
            if r["k"] in ("plan", "root"):
                self.states[r["id"]] = (r.get("moves", []), -1)
            elif r["k"] in ("plans", "kernels"):
                for made in r["made"]:
                    self.states[made[0]] = (made[1], r["from"])
        self.measured = {r["id"]: r for r in self.of("measured") if r["seconds"] > 0 and r["id"] >= 0}

    def of(self, kind):
        return [r for r in self.records if r["k"] == kind]

    def moves_of(self, state):
        moves = []
        while state in self.states:
            own, state = self.states[state]
            moves = own + moves
        return moves


def run_in(program, page, folder, script, *arguments):
    """What a script left in the page, and what the console said."""
    text = page.read_text()
    early = '<script>window.faults=[];addEventListener("error",(e)=>faults.push(e.message));addEventListener("securitypolicyviolation",(e)=>faults.push("request "+e.blockedURI));</script>'
    copy = folder / "steps.html"
    assert text.count("<head>") >= 1 and text.rstrip().endswith("</html>")
    at = text.rindex("</body>")
    copy.write_text(text.replace("<head>", "<head>" + early, 1)[:at + len(early)] +
                    f"<script>{(HERE / script).read_text()}</script></body></html>")
    done = chromium(program, *arguments, "--dump-dom", copy.as_uri())
    found = re.search(r'<script type="application/json" id="result">(.*?)</script>', done.stdout, re.S)
    assert found, "the script left no result: " + done.stderr[-2000:]
    console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    return json.loads(found.group(1)), console


def check(trace, seen, console, replays):
    wrong = []

    def expect(what, got, wanted):
        if got != wanted:
            wrong.append(f"{what}: {got!r}, expected {wanted!r}")

    expect("errors", seen["errors"], [])
    expect("console", console, [])
    if wrong:
        return wrong
    expect("requests", seen["requests"], 0)
    by_time = sorted((k["name"] for k in trace.kernels))
    expect("kernels listed", sorted(seen["graph"]["kernels"]), by_time)
    kernel = next(k for k in trace.kernels if k["name"] == seen["kernel"]["name"])
    expect("moves of a kernel", seen["kernel"]["moves"], kernel["moves"])
    expect("loops of a kernel", seen["kernel"]["loops"].strip(), kernel["ast"].strip())
    expect("a kernel unfolded", seen["kernel"]["unfolded"], 1)
    for language in kernel["sources"]:
        name = {"body": "loops of a step", "c": "C", "llvm": "LLVM IR", "asm": "assembly"}.get(language, language)
        expect(f"a tab for {language}", name in seen["kernel"]["tabs"], True)
    for explanation in trace.of("explanation"):
        why = next(k for k in explanation["kernels"] if k["kernel"] == kernel["name"])
        for part in [why["computes"], why["best_moves"], *(b.get("reason", b["moves"]) for b in why["borders"])]:
            expect(f"the explanation has '{part}'", part in seen["kernel"]["why"], True)
        names = tuple(k["name"] + ":" for k in trace.kernels)
        savings = seen["run"]["savings"]
        expect("savings of the run", len(savings) <= 5 and all(s.startswith(names) for s in savings), True)
        if explanation["savings"] and not trace.of("launch"):
            expect("savings of a program that never ran", savings, [s["what"] for s in explanation["savings"]])
    expect("parts on the pool's threads", seen["run"]["parts"], len(trace.of("part")))
    steps = len(trace.of("rewrite")) + len(trace.of("graph"))
    expect("steps of rewriting", seen["rewrites"]["steps"], steps)
    live = set()
    sizes = []
    for record in trace.of("graph"):
        live = live - set(record["removed"]) | set(record["added"])
        sizes.append(len(live))
    expect("live nodes at first and last", seen["rewrites"]["live"], [sizes[0], sizes[-1]])
    facts = dict(reversed(fact.split(" ", 1)) for fact in seen["search"]["facts"] if re.match(r"[\d,]+ ", fact))
    expect("states", facts["states"], f"{len(trace.states):,}")
    expect("measured states", facts["measured"], f"{len(trace.measured):,}")
    best = seen["search"]["best"]
    if trace.measured:
        expect("a best state that was measured", best in trace.measured, True)
        expect("moves of the best state", seen["search"]["moves"], trace.moves_of(best))
        expect("terms of the best state", seen["search"]["terms"] >= len(trace.measured[best]["terms"]), True)
        expect("a state beside its parent", seen["search"]["diff"] == 1 or trace.states[best][1] < 0 or not replays, True)
    refused = sum(len(r.get("refused", [])) for r in trace.records)
    expect("rows of the whole tree", seen["search"]["rows"] >= min(len(trace.states) + refused, 1) and
           seen["search"]["rows"] <= len(trace.states) + refused, True)
    expect("launches", seen["run"]["launches"], len(trace.of("launch")))
    expect("runs", seen["run"]["runs"], len(trace.of("run")))
    expect("kernels of the run", seen["run"]["kernels"], len(trace.kernels))
    for page in ["graph", "rewrites", "search", "run"]:
        for colours in seen[page]["painted"]:
            expect(f"something painted on {page}", colours > 2, True)
    return wrong


def screenshots(program, page, folder, kernel):
    """Each page, the graph with this kernel chosen, the rewrites after the first rule, and a dark one."""
    opened = {"graph": f"graph/{kernel}", "rewrites": "rewrites/1"}
    for name, theme in [(name, "") for name in PAGES] + [("search", "-dark")]:
        shot = folder / f"viewer-{name}{theme}.png"
        arguments = ["--blink-settings=preferredColorScheme=0"] if theme else []
        chromium(program, *arguments, "--virtual-time-budget=4000", f"--screenshot={shot}", page.as_uri() + "#" + opened.get(name, name))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("lathe")
    parser.add_argument("traces", nargs="+")
    parser.add_argument("--screenshots", help="folder for a picture of each page, and a dark one")
    parser.add_argument("--made-up", action="store_true", help="the first trace is large_trace.py's: no state replays")
    options = parser.parse_args()
    program = find_chromium()
    if not program:
        print("no Chromium here: skipped")
        return 77
    with tempfile.TemporaryDirectory() as place:
        page = Path(place) / "page.html"
        subprocess.run([options.lathe, "view", *options.traces, "-o", str(page)], check=True)
        size = page.stat().st_size
        seen, console = run_in(program, page, Path(place), "steps.js", "--virtual-time-budget=120000")
        timing, _ = run_in(program, page, Path(place), "timing.js")
        wrong = check(Trace(options.traces[0]), seen, console, not options.made_up)
        if size > MOST_BYTES * len(options.traces):
            wrong.append(f"the page has {size} bytes, expected at most {MOST_BYTES} for each trace")
        if timing["first_picture_ms"] > MOST_MS:
            wrong.append(f"first picture after {timing['first_picture_ms']:.0f} ms, expected {MOST_MS}")
        print(f"{options.traces[0]}: {size / 1e6:.2f} MB; first picture after {timing['first_picture_ms']:.0f} ms; a frame "
              f"of panning takes {timing['folded_ms']:.1f} ms, {timing['unfolded_ms']:.1f} ms with all kernels unfolded; "
              f"the search's page opens in {timing['search_ms']:.0f} ms")
        if options.screenshots:
            folder = Path(options.screenshots)
            folder.mkdir(parents=True, exist_ok=True)
            screenshots(program, page, folder.resolve(), seen["kernel"]["name"])
    for line in wrong:
        print("wrong:", line)
    return 1 if wrong else 0


sys.exit(main())
