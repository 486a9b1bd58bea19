// The page of rewrites: the graph after each rule and pass, with what it added and removed.
const rewritesPage = (() => {
  const row = 60;
  let plane, side, step, lives, list, isLarge = false;
  const R = () => trace.rewrites;

  /// The live nodes after a step, with what each reads, from those after the nearest step that is known.
  function after(k) {
    if (!lives) lives = [new Map(R().live.map((n) => [n, sources(n)]))];
    for (let at = lives.length; at <= k; ++at) {
      const next = new Map(lives[at - 1]), s = R().steps[at - 1];
      s.removed.forEach((n) => next.delete(n));
      s.added.forEach((n) => next.set(n, sources(n)));
      s.rewired.forEach(([n, from]) => next.set(n, from));
      lives.push(next);
    }
    return lives[k];
  }
  const sources = (n) => R().nodes.from[n].map((back) => n - back);

  function draw(context, width, high, view) {
    const N = R().nodes, live = after(step), s = step ? R().steps[step - 1] : null;
    const added = new Set(s ? s.added : []), removed = new Set(s ? s.removed : []), rewired = new Set(s ? s.rewired.map(([n]) => n) : []), before = step ? after(step - 1) : live;
    const [left, top] = view.world(0, 0), [right, bottom] = view.world(width, high);
    context.translate(view.x, view.y);
    context.scale(view.k, view.k);
    const shown = [...live.keys(), ...removed], y = (n) => N.layer[n] * row;
    context.beginPath();
    for (const n of shown)
      for (const source of live.get(n) || before.get(n)) {
        if (!live.has(source) && !removed.has(source)) continue;
        const a = y(source) + 34, b = y(n), bend = Math.max(10, (b - a) / 2);
        if (b < top || a > bottom) continue;
        context.moveTo(N.x[source], a);
        if (view.k < 0.25) context.lineTo(N.x[n], b);
        else context.bezierCurveTo(N.x[source], a + bend, N.x[n], b - bend, N.x[n], b);
      }
    context.lineWidth = 1.2;
    context.strokeStyle = colour.edge;
    context.stroke();
    for (const n of shown) {
      if (N.x[n] + N.width[n] / 2 < left || N.x[n] - N.width[n] / 2 > right || y(n) > bottom || y(n) + 34 < top) continue;
      drawNode(context, N, n, N.x[n], y(n), N.width[n], view.k, { fill: added.has(n) ? colour.add : removed.has(n) ? colour.del : colour.panel,
        line: added.has(n) ? colour.good : removed.has(n) ? colour.bad : rewired.has(n) ? colour.warn : text(N.op[n]) === "Input" ? colour.accent : colour.line, dim: removed.has(n) });
    }
  }

  function fit() {
    fitNodes([...after(0).keys(), ...after(R().steps.length).keys()]);
  }
  /// `least`: the sides of the smallest area shown.
  function fitNodes(live, least = 0) {
    const N = R().nodes;
    if (!live.length) return;
    let left = Infinity, right = -Infinity, top = Infinity, bottom = -Infinity;
    for (const n of live) left = Math.min(left, N.x[n] - N.width[n] / 2), right = Math.max(right, N.x[n] + N.width[n] / 2), top = Math.min(top, N.layer[n] * row), bottom = Math.max(bottom, N.layer[n] * row + 34);
    const x = Math.max(0, least - (right - left)) / 2, y = Math.max(0, least / 2 - (bottom - top)) / 2;
    plane.fit(left - x, top - y, right + x, bottom + y);
  }

  function go(k) {
    step = Math.max(0, Math.min(R().steps.length, k));
    [...list.children].forEach((item, j) => item.classList.toggle("on", j === step));
    list.children[step]?.scrollIntoView({ block: "nearest" });
    // Of a large graph, what the rule made, with what is around it.
    if (isLarge && step) { const s = R().steps[step - 1]; fitNodes([s.after, ...s.rewired.map(([n]) => n), ...s.removed].filter((n) => n >= 0).slice(0, 1), 1100); }
    plane.soon();
    location.replace("#rewrites/" + step);
  }

  function openPage(main, rest) {
    lives = null, step = 0;
    const view = element("div", { class: "view" });
    side = element("aside", {});
    main.append(view, side);
    view.append(element("div", { class: "bar" }, element("button", { class: "tool", onclick: () => go(step - 1) }, "← back"), element("button", { class: "tool", onclick: () => go(step + 1) }, "next →"), element("button", { class: "tool", onclick: fit }, "fit")),
      element("div", { class: "legend" }, element("span", {}, element("i", { style: "background:var(--add)" }), "added"), element("span", {}, element("i", { style: "background:var(--del)" }), "removed"), element("span", {}, element("i", { style: "border:1px solid var(--warn)" }), "reads others now")));
    list = element("ol", { class: "steps" });
    const size = (k) => `${after(k).size} nodes`;
    list.append(element("li", { class: "pass", onclick: () => go(0) }, R().first || "given", element("span", { class: "d" }, size(0))));
    R().steps.forEach((s, k) => list.append(element("li", { class: s.before < 0 ? "pass" : "", onclick: () => go(k + 1) }, text(s.name),
      element("span", { class: "d" }, s.added.length || s.removed.length || s.rewired.length ? `+${s.added.length} −${s.removed.length}` : "unchanged"))));
    side.append(element("h2", {}, "Rewrites"), element("p", { class: "sub" }, `${R().steps.filter((s) => s.before >= 0).length} rules applied; ${size(0)} became ${size(R().steps.length)}. ← and → step.`), list);
    plane = new Plane(view, draw, "graph after each rewrite", { onhover: (x, y, event) => {
      const N = R().nodes, layer = Math.floor(y / row), found = [...after(step).keys()].find((n) => N.layer[n] === layer && y - layer * row < 34 && Math.abs(x - N.x[n]) < N.width[n] / 2);
      if (found === undefined) showTip(0, 0, null); else nodeTip(event, N, found);
    } });
    plane.now();
    fit();
    isLarge = plane.k < 0.4;
    if (isLarge) { // its beginning: all of it would be boxes without words
      const N = R().nodes, first = [...after(0).keys()].reduce((a, b) => (N.layer[b] < N.layer[a] ? b : a));
      plane.k = 0.75;
      plane.show(N.x[first], N.layer[first] * row + plane.canvas.clientHeight / 2 / plane.k - 80);
    }
    go(Number(rest) || 0);
    plane.canvas.focus();
  }
  function keys(event) {
    if (event.key === "ArrowRight" || event.key === "j") return go(step + 1), true;
    if (event.key === "ArrowLeft" || event.key === "k") return go(step - 1), true;
    if (event.key === "Home") return go(0), true;
    if (event.key === "End") return go(R().steps.length), true;
    if (event.key === "f") return fit(), true;
    return false;
  }
  return { name: "Rewrites", hash: "rewrites", open: openPage, keys, redraw: () => plane.soon(), go, live: () => after(step).size };
})();
pages.push(rewritesPage);
