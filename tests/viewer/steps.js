// Run inside a viewer's page, after its own script: opens every page, does what a reader would do, and leaves what is shown in
// the element "result", as JSON. tests/viewer/viewer_test.py compares that with the trace.
(async () => {
  const seen = { errors: window.faults }, frame = () => new Promise((done) => setTimeout(done, 60));
  const press = (key) => document.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
  const words = (selector) => [...document.querySelectorAll(selector)].map((e) => e.textContent);
  const page = (name) => latheViewer.pages.find((p) => p.name === name);
  const painted = () => [...document.querySelectorAll("main canvas")].map((canvas) => {
    const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data, colours = new Set();
    for (let k = 0; k < data.length; k += 4 * 97) colours.add(data[k] << 24 | data[k + 1] << 16 | data[k + 2] << 8 | data[k + 3]);
    return colours.size;
  });
  try {
    seen.tabs = words("nav button");
    press("1");
    await frame();
    const graph = page("Graph");
    seen.graph = { painted: painted(), kernels: words("aside tr.pick td:first-child"), boxes: graph.layout().length };
    const wanted = seen.graph.kernels[0], place = latheViewer.traces[0].graph.boxes.findIndex((b) => b.kernel >= 0 && latheViewer.traces[0].kernels[b.kernel].name === wanted);
    graph.choose(place, true);
    press("Enter");
    await frame();
    seen.kernel = { name: words("aside h2")[0], moves: words("aside ol.moves li"), tabs: words("aside .tabs button"), unfolded: graph.opened().size, loops: words("aside pre")[0], why: words("aside .why")[0] || "" };
    seen.found = graph.find("input").length;
    graph.unfoldAll();
    await frame();
    press("2");
    await frame();
    seen.rewrites = { painted: painted(), steps: words(".steps li").length, live: [page("Rewrites").live()] };
    press("End");
    seen.rewrites.live.push(page("Rewrites").live());
    press("3");
    await frame();
    const search = page("Search");
    seen.search = { painted: painted(), facts: words(".facts span"), best: search.chosen(), title: words("aside h2")[0], moves: words("aside ol.moves li"), terms: words("aside .term").length, diff: document.querySelectorAll("aside pre.diff").length, changed: document.querySelectorAll("aside pre.diff .add, aside pre.diff .del").length };
    search.expandAll();
    seen.search.rows = search.rows();
    search.tree().scrollTop = 1e9;
    await frame();
    seen.search.reasons = [...new Set(words(".row .w"))].length;
    const before = search.chosen();
    press("ArrowDown");
    press("ArrowUp");
    seen.search.stays = search.chosen() === before || search.chosen() !== null;
    press("4");
    await frame();
    const run = page("Run");
    seen.run = { painted: painted(), launches: run.spans().lanes.flatMap((l) => l.spans).filter((s) => s.kernel >= 0 && !s.part).length, parts: run.spans().lanes.flatMap((l) => l.spans).filter((s) => s.part).length, savings: words("aside table.savings td:last-child"), runs: run.spans().lanes.flatMap((l) => l.spans).filter((s) => s.kernel < 0).length, arena: words(".chart h3").pop(), kernels: words("aside tr.pick td:first-child").length };
    if (latheViewer.pages.length > 4) {
      press("5");
      await frame();
      seen.compare = { rows: document.querySelectorAll(".compare tr.pick").length, diff: document.querySelectorAll(".compare pre.diff").length };
    }
    press("t");
    await frame();
    seen.theme = document.documentElement.dataset.theme;
    seen.requests = performance.getEntriesByType("resource").length;
    seen.hash = location.hash;
  } catch (error) {
    seen.errors.push(String(error.stack || error));
  }
  document.body.append(Object.assign(document.createElement("script"), { type: "application/json", id: "result", textContent: JSON.stringify(seen).replace(/</g, "\\u003c") }));
})();
