// The page of two traces side by side: their kernels' times, and the loops of those that differ.
const comparePage = (() => {
  function openPage(main) {
    const [a, b] = traces, sum = (t, of) => t.kernels.reduce((s, k, j) => s + of(t, k, j), 0);
    const run = (t, k, j) => medianOf(t, j) || k.predicted, place = element("div", { class: "compare" }), below = element("div", {});
    const names = [...new Set([...a.kernels, ...b.kernels].map((k) => k.name))];
    const ratio = (x, y) => x > 0 && y > 0 ? element("span", { class: x > y ? "up" : "down" }, (x / y).toFixed(2) + " ×") : "";
    const cell = (t, k, j) => [element("td", { class: "n" }, k ? seconds(k.predicted) : "–"), element("td", { class: "n" }, k ? seconds(medianOf(t, j)) : "–")];
    const one = (t, name) => { const j = t.kernels.findIndex((k) => k.name === name); return [t.kernels[j], j]; };
    main.append(place);
    place.append(element("div", { class: "two" }, [a, b].map((t) => element("div", {}, element("h2", {}, t.name), element("p", { class: "sub" }, `lathe ${t.lathe}, ${t.device}, ${t.threads || "all"} threads; plan from ${t.how || "nowhere"}; ${t.machine}`),
      element("p", {}, `${t.kernels.length} kernels, ${seconds(sum(t, run))} in all; arena ${bytes(t.run.arena)}`)))),
    element("table", {}, element("tr", {}, element("th", {}, "kernel"), element("th", { class: "n" }, `predicted, ${a.name}`), element("th", { class: "n" }, "run"), element("th", { class: "n" }, `predicted, ${b.name}`), element("th", { class: "n" }, "run"), element("th", { class: "n" }, "faster by"), element("th", {}, "loops")),
      names.map((name) => {
        const [k, i] = one(a, name), [l, j] = one(b, name);
        return element("tr", { class: "pick", onclick: () => show(k, l) }, element("td", {}, name), ...cell(a, k, i), ...cell(b, l, j), element("td", { class: "n" }, k && l ? ratio(run(a, k, i), run(b, l, j)) : ""),
          element("td", {}, !k ? "only in the second" : !l ? "only in the first" : k.loops === l.loops ? "the same" : "differ"));
      })), below);
    function show(k, l) {
      below.replaceChildren(element("h3", {}, `Loops of ${(k || l).name}`), differenceBox(k ? k.loops : "", l ? l.loops : ""));
      below.scrollIntoView({ block: "nearest" });
    }
    const changed = names.find((name) => { const [k] = one(a, name), [l] = one(b, name); return k && l && k.loops !== l.loops; });
    if (changed) show(one(a, changed)[0], one(b, changed)[0]);
  }
  return { name: "Compare", hash: "compare", open: openPage, keys: () => false, redraw: () => {} };
})();
if (traces.length > 1) pages.push(comparePage);
