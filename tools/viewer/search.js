// The page of the search: its progress, the model against the measurements, the tree of states, and a state beside its parent.
const searchPage = (() => {
  const rowHeight = 24;
  let tree, side, rows, open, chosen, index, children, refused, filter, progress, scatter, host;
  const S = () => trace.search.states;

  /// Once per trace: positions by id, children and refusals by parent.
  function prepare() {
    const s = S();
    index = new Map(s.id.map((id, k) => [id, k]));
    children = s.id.map(() => []);
    refused = s.id.map(() => []);
    s.parent.forEach((p, k) => { const at = index.get(p); if (at !== undefined) children[at].push(k); });
    trace.search.refused.forEach((r, k) => { const at = index.get(r[0]); if (at !== undefined) refused[at].push(k); });
    const rank = (k) => s.measured[k] > 0 ? s.measured[k] : s.kept[k] || children[k].length ? 1e3 + s.seconds[k] : 1e6 + s.seconds[k];
    children.forEach((list) => list.sort((a, b) => rank(a) - rank(b)));
  }
  const best = () => {
    let found = -1;
    S().measured.forEach((m, k) => { if (m > 0 && (found < 0 || S().measured_at[k] >= 0 && isBest(k))) found = found < 0 || heavier(k, found) ? k : found; });
    return found;
  };
  const bests = () => new Set(S().best);
  const isBest = (k) => bests().has(S().id[k]);
  const heavier = (a, b) => S().measured_at[a] > S().measured_at[b];
  const rootOf = (k) => { while (index.has(S().parent[k])) k = index.get(S().parent[k]); return k; };

  function title(k) {
    const s = S(), moves = s.moves[k].map(text).join("; ");
    if (moves) return moves;
    const stages = s.stages[s.id[k]];
    return s.kind[k] === 0 ? "the plan as it starts" : stages ? `kernel of stage${stages.length > 1 ? "s" : ""} ${stages.join(", ")}` : "start";
  }

  function visible() {
    rows = [];
    const s = S(), roots = s.id.map((_, k) => k).filter((k) => !index.has(s.parent[k]) && filter(k, true));
    roots.sort((a, b) => s.search[a] - s.search[b] || s.id[a] - s.id[b]);
    const stack = roots.reverse().map((k) => [k, 0, null]);
    while (stack.length) {
      const [k, depth, refusal] = stack.pop();
      rows.push([k, depth, refusal]);
      if (refusal !== null || !open.has(k)) continue;
      const below = children[k].map((c) => [c, depth + 1, null]).concat(refused[k].map((r) => [k, depth + 1, r]));
      for (let j = below.length - 1; j >= 0; --j) stack.push(below[j]);
    }
    host.style.height = rows.length * rowHeight + "px";
    paint();
  }

  function kindOf(k) {
    const s = S();
    return s.measured[k] > 0 ? "measured" : s.kept[k] ? "kept" : /^(ranked|better|slower)/.test(text(s.fate[k])) ? "behind" : s.kind[k] === 1 || !s.moves[k].length ? "" : "rejected";
  }

  function paint() {
    const first = Math.max(0, Math.floor(tree.scrollTop / rowHeight) - 4), last = Math.min(rows.length, first + Math.ceil(tree.clientHeight / rowHeight) + 10);
    const made = [], s = S(), good = bests();
    for (let r = first; r < last; ++r) {
      const [k, depth, refusal] = rows[r], top = `top:${r * rowHeight}px;padding-left:${8 + 18 * depth}px`;
      if (refusal !== null) {
        const [, moves, reason] = trace.search.refused[refusal];
        made.push(element("div", { class: "row refused", style: top, title: text(reason) }, element("span", { class: "t" }, "✕"), element("span", { class: "mv mono" }, text(moves)),
          element("span", { class: "n" }), element("span", { class: "n" }), element("span", { class: "w" }, text(reason))));
        continue;
      }
      const hasMore = children[k].length + refused[k].length > 0;
      made.push(element("div", { class: `row ${kindOf(k)}${k === chosen ? " on" : ""}${good.has(s.id[k]) ? " best" : ""}`, style: top, "data-state": s.id[k],
        onclick: () => { choose(k); }, ondblclick: () => toggle(k) },
        element("span", { class: "t", onclick: (event) => { event.stopPropagation(); toggle(k); } }, hasMore ? open.has(k) ? "▾" : "▸" : ""),
        element("span", { class: "mv mono", title: title(k) }, (children[k].length ? `${title(k)}  (${children[k].length})` : title(k))),
        element("span", { class: "n", title: "predicted" }, seconds(s.seconds[k])), element("span", { class: "n", title: "measured" }, s.measured[k] > 0 ? seconds(s.measured[k]) : ""), element("span", { class: "w", title: text(s.fate[k]) }, text(s.fate[k]))));
    }
    host.replaceChildren(...made);
  }

  function toggle(k) {
    if (open.has(k)) open.delete(k); else open.add(k);
    visible();
  }

  function reveal(k) {
    for (let at = k; index.has(S().parent[at]);) at = index.get(S().parent[at]), open.add(at);
    visible();
    const r = rows.findIndex((row) => row[0] === k && row[2] === null);
    if (r >= 0 && (r * rowHeight < tree.scrollTop || (r + 1) * rowHeight > tree.scrollTop + tree.clientHeight))
      tree.scrollTop = Math.max(0, r * rowHeight - tree.clientHeight / 2);
    paint();
  }

  function chain(k) {
    const out = [];
    for (let at = k; at !== undefined; at = index.get(S().parent[at])) out.unshift(at);
    return out;
  }

  function choose(k) {
    chosen = k;
    const s = S(), id = s.id[k], parent = index.get(s.parent[k]), own = trace.search.texts[id], before = parent === undefined ? null : trace.search.texts[s.parent[k]];
    paint();
    progress.marked = s.measured[k] > 0 ? [s.measured_at[k], s.measured[k]] : null;
    scatter.marked = s.measured[k] > 0 ? [s.measured[k], s.seconds[k]] : null;
    progress.soon(), scatter.soon();
    const moves = chain(k).flatMap((at) => s.moves[at].map((m) => [text(m), at === k]));
    const choices = [];
    if (own && own.loops) {
      if (before && before.loops) choices.push(["loops, beside the parent's", () => differenceBox(before.loops, own.loops)]);
      choices.push(["loops", () => sourceBox(own.loops)]);
      if (own.c && before && before.c) choices.push(["C, beside the parent's", () => differenceBox(before.c, own.c)]);
      if (own.c) choices.push(["C", () => sourceBox(own.c)]);
    }
    const kernel = trace.kernels.find((one) => one.hash === s.hash[id]);
    if (kernel) for (const [language, source] of (kernel.like === undefined ? kernel : trace.kernels[kernel.like]).sources) if (!(language === "c" && own && own.c)) choices.push([({ c: "C", llvm: "LLVM IR", asm: "assembly" })[language] || language, () => sourceBox(source)]);
    side.replaceChildren(element("h2", {}, `State ${id}`), element("p", { class: "sub" }, text(s.fate[k])),
      element("table", {}, [["predicted", seconds(s.seconds[k])], ["measured", s.measured[k] > 0 ? `${seconds(s.measured[k])}, ${(s.measured[k] / s.seconds[k]).toFixed(2)} times the prediction` : "–"], ["structural hash", s.hash[id] || ""],
        ["made", s.made[id] ? seconds(s.made[id]) + " after the start" : ""], ["in the program", kernel ? "yes: " + kernel.name : "no"]].filter((row) => row[1]).map(([a, b]) => element("tr", {}, element("td", {}, a), element("td", {}, b)))),
      element("h3", {}, "Cost by term" + (parent !== undefined && s.terms[s.parent[k]] ? ", and the parent's" : "")),
      ...(s.terms[id] ? termBars(s.terms[id], parent === undefined ? null : s.terms[s.parent[k]]) : [element("p", { class: "sub" }, "recorded of states that were kept or measured")]),
      element("h3", {}, "Code"), choices.length ? tabbed(choices) : element("p", { class: "sub" }, own && own.fault ? own.fault : "this page has the loops of the states that were best"),
      element("h3", {}, "Moves"), moves.length ? element("ol", { class: "moves mono" }, moves.map(([m, isNew]) => element("li", { class: isNew ? "new" : "" }, m))) : element("p", { class: "sub" }, "none yet"));
    location.replace("#search/" + id);
  }

  function openPage(main, rest) {
    prepare();
    open = new Set(), chosen = -1, filter = () => true;
    const left = element("div", { class: "search" });
    side = element("aside", {});
    main.append(left, side);
    const s = S(), all = s.id.map((_, k) => k), measured = all.filter((k) => s.measured[k] > 0);
    const time = { label: "seconds of the search", format: significant, zero: true };
    progress = new Chart(left, "Best so far", { x: time, y: { label: "measured time of a kernel", log: true, format: seconds } }, { onpick: pick, tip });
    scatter = new Chart(left, "Predicted and measured", { x: { label: "measured", log: true, format: seconds }, y: { label: "predicted", log: true, format: seconds } }, { onpick: pick, tip });
    const byRoot = new Map();
    for (const k of measured) { const key = JSON.stringify(s.stages[s.id[rootOf(k)]] || []); if (!byRoot.has(key)) byRoot.set(key, []); byRoot.get(key).push(k); }
    const lines = [], dots = [], points = [];
    [...byRoot.values()].forEach((list, j) => {
      list.sort((a, b) => s.measured_at[a] - s.measured_at[b]);
      let least = Infinity;
      const steps = [];
      for (const k of list) if (s.measured[k] < least) least = s.measured[k], steps.push([s.measured_at[k], least, k]);
      if (steps.length) steps.push([Math.max(...measured.map((k) => s.measured_at[k])), least]);
      dots.push({ points: list.map((k) => [s.measured_at[k], s.measured[k], k]), colour: palette(j), alpha: 0.35, size: 2.2 });
      lines.push({ points: steps, colour: palette(j), line: true, step: true, size: 3 });
      points.push({ points: list.map((k) => [s.measured[k], s.seconds[k], k]), colour: palette(j), alpha: 0.6, size: 2.8 });
    });
    progress.set(dots.concat(lines));
    const values = measured.flatMap((k) => [s.measured[k], s.seconds[k]]);
    scatter.set(points, values.length ? [[Math.min(...values), Math.min(...values), Math.max(...values), Math.max(...values), ""]] : []);
    const count = (f) => all.filter(f).length;
    const fact = (value, words) => element("span", {}, element("b", {}, value.toLocaleString("en")), " " + words);
    left.append(element("div", { class: "facts" }, fact(all.length, "states"), fact(measured.length, "measured"), fact(count((k) => kindOf(k) === "rejected"), "rejected"), fact(trace.search.refused_in_all, "not legal"), fact(trace.search.repeated, "seen before"),
      trace.search.unlisted ? fact(trace.search.unlisted, "only counted") : null, element("span", { style: "flex:1" }), element("button", { class: "tool", onclick: toBest }, "best (b)")));
    tree = element("div", { class: "tree", tabindex: 0, "aria-label": "states", onscroll: paint });
    host = element("div", {});
    tree.append(host);
    left.append(tree);
    visible();
    const wanted = index.get(Number(rest));
    if (rest && wanted !== undefined) pick(wanted); else if (measured.length) toBest(); else if (all.length) pick(all.find((k) => s.kept[k]) ?? 0);
    tree.focus();
    new ResizeObserver(paint).observe(tree);
  }
  const tip = (k) => [`state ${S().id[k]}`, [["measured", seconds(S().measured[k])], ["predicted", seconds(S().seconds[k])], ["", title(k)]]];
  function pick(k) { choose(k); reveal(k); }
  function toBest() { const k = best(); if (k >= 0) pick(k); }
  function keys(event) {
    const r = rows.findIndex((row) => row[0] === chosen && row[2] === null);
    const go = (d) => { for (let j = r + d; j >= 0 && j < rows.length; j += d) if (rows[j][2] === null) { pick(rows[j][0]); return; } };
    switch (event.key) {
      case "ArrowDown": go(1); return true;
      case "ArrowUp": go(-1); return true;
      case "ArrowRight": if (chosen >= 0 && !open.has(chosen)) toggle(chosen); else go(1); return true;
      case "ArrowLeft": if (open.has(chosen)) toggle(chosen); else if (chosen >= 0 && index.has(S().parent[chosen])) pick(index.get(S().parent[chosen])); return true;
      case "Enter": case " ": if (chosen >= 0) toggle(chosen); return true;
      case "b": toBest(); return true;
    }
    return false;
  }
  return { name: "Search", hash: "search", open: openPage, keys, redraw: () => { progress.soon(); scatter.soon(); }, rows: () => rows.length, chosen: () => chosen < 0 ? null : S().id[chosen], pick: (id) => pick(index.get(id)), expandAll: () => { children.forEach((c, k) => { if (c.length || refused[k].length) open.add(k); }); visible(); }, tree: () => tree };
})();
pages.push(searchPage);
