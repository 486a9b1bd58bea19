// The page of the program's graph: kernels as boxes that unfold to their nodes, and the kernel's own text beside it.
const graphPage = (() => {
  const height = 46, rowGap = 44, nodeRow = 56, nodeHeight = 34, pad = 14, head = 26;
  let plane, side, layout, open, chosen, matches, at, places;

  const label = (b) => b.kernel >= 0 ? trace.kernels[b.kernel].name : text(trace.graph.nodes.op[b.node]);
  const nodeTitle = (n) => { const N = trace.graph.nodes, attr = text(N.attr[n]); return text(N.op[n]) + (attr && text(N.op[n]) !== "View" ? ` ${attr}` : ""); };
  const total = () => trace.kernels.reduce((sum, k) => sum + k.predicted, 0);

  /// Places of boxes: rows of layers, each as high as its highest box; a box that unfolds pushes others aside.
  function arrange() {
    const boxes = trace.graph.boxes, rows = [];
    layout = boxes.map((b, id) => {
      const isOpen = open.has(id) && b.kernel >= 0;
      const inner = isOpen ? 1 + Math.max(...b.inner_layer, 0) : 0;
      return { id, isOpen, w: isOpen ? Math.max(b.width, b.inner_width + 2 * pad) : b.width,
        h: isOpen ? head + inner * nodeRow + pad : b.kernel >= 0 ? height : 36, x: b.x };
    });
    layout.forEach((p) => (rows[boxes[p.id].layer] ||= []).push(p));
    let y = 0;
    for (const row of rows) {
      if (!row) continue;
      row.sort((a, b) => a.x - b.x);
      let right = -Infinity;
      const high = Math.max(...row.map((p) => p.h));
      for (const p of row) {
        p.left = Math.max(p.x - p.w / 2, right + 24);
        right = p.left + p.w;
        p.top = y + (high - p.h) / 2;
      }
      y += high + rowGap + Math.min(60, row.length * 2);
    }
    places = new Map();
    for (const p of layout) {
      const b = boxes[p.id];
      if (!p.isOpen) continue;
      const shift = p.left + (p.w - b.inner_width) / 2;
      b.nodes.forEach((n, k) => places.set(n, { x: shift + b.inner_x[k], y: p.top + head + b.inner_layer[k] * nodeRow, w: trace.graph.nodes.width[n], box: p.id }));
    }
  }

  function edge(context, x, y, u, v) {
    context.moveTo(x, y);
    const bend = Math.max(12, (v - y) / 2);
    context.bezierCurveTo(x, y + bend, u, v - bend, u, v);
  }

  function draw(context, width, high, view) {
    const [left, top] = view.world(0, 0), [right, bottom] = view.world(width, high), boxes = trace.graph.boxes, N = trace.graph.nodes;
    const seen = (p) => p.left < right && p.left + p.w > left && p.top < bottom && p.top + p.h > top;
    context.translate(view.x, view.y);
    context.scale(view.k, view.k);
    const simple = view.k < 0.25;
    for (const strong of [false, true]) {
      context.beginPath();
      for (const p of layout)
        for (const source of boxes[p.id].from) {
          const q = layout[source], near = p.id === chosen || source === chosen;
          if (near !== strong || (!seen(p) && !seen(q) && !(q.top < top && p.top > bottom))) continue;
          const x = q.left + q.w / 2, u = p.left + p.w / 2;
          if (simple) context.moveTo(x, q.top + q.h), context.lineTo(u, p.top);
          else edge(context, x, q.top + q.h, u, p.top);
        }
      context.lineWidth = (strong ? 2 : 1.2) / Math.min(1, Math.max(view.k, 0.4));
      context.strokeStyle = strong ? colour.accent : colour.edge;
      context.stroke();
    }
    const all = total() || 1;
    for (const p of layout) {
      if (!seen(p)) continue;
      const b = boxes[p.id], isKernel = b.kernel >= 0;
      box(context, p.left, p.top, p.w, p.h, isKernel ? 8 : 17);
      context.fillStyle = isKernel ? colour.kernel : colour.input;
      context.fill();
      if (isKernel && !p.isOpen) { // the share of the time, as a band
        context.save();
        context.clip();
        context.fillStyle = colour.hot;
        context.fillRect(p.left, p.top + p.h - 5, p.w * trace.kernels[b.kernel].predicted / all, 5);
        context.restore();
      }
      box(context, p.left, p.top, p.w, p.h, isKernel ? 8 : 17);
      context.lineWidth = p.id === chosen ? 2.5 : 1.2;
      context.strokeStyle = p.id === chosen ? colour.accent : matches.has(p.id) ? colour.warn : isKernel ? colour["kernel-line"] : colour.line;
      if (matches.has(p.id)) context.lineWidth = 3;
      context.stroke();
      if (view.k < 0.32) continue;
      context.textAlign = "center";
      context.fillStyle = colour.ink;
      if (isKernel) {
        const kernel = trace.kernels[b.kernel];
        context.font = "600 13px system-ui, sans-serif";
        context.fillText(cut((p.isOpen ? "▾ " : "▸ ") + kernel.name, p.w - 10, 7.4), p.left + p.w / 2, p.top + 17);
        if (!p.isOpen) {
          context.font = "12px system-ui, sans-serif";
          context.fillStyle = colour.muted;
          context.fillText(cut(`${seconds(kernel.predicted)} · ${b.nodes.length} node${b.nodes.length === 1 ? "" : "s"}`, p.w - 8, 6), p.left + p.w / 2, p.top + 34);
        }
      } else {
        context.font = "12px system-ui, sans-serif";
        context.fillText(cut(nodeTitle(b.node), p.w - 14), p.left + p.w / 2, p.top + 15);
        context.fillStyle = colour.muted;
        context.font = "11px system-ui, sans-serif";
        context.fillText(cut(text(N.type[b.node]), p.w - 10, 6), p.left + p.w / 2, p.top + 29);
      }
    }
    if (!places.size) return;
    context.beginPath();
    for (const [n, p] of places)
      for (const back of N.from[n]) {
        const source = n - back;
        const q = places.get(source);
        if (!q || q.box !== p.box || p.y < top || q.y > bottom || Math.max(p.x, q.x) < left || Math.min(p.x, q.x) > right) continue;
        if (simple) context.moveTo(q.x, q.y + nodeHeight), context.lineTo(p.x, p.y);
        else edge(context, q.x, q.y + nodeHeight, p.x, p.y);
      }
    context.lineWidth = 1.2;
    context.strokeStyle = colour.edge;
    context.stroke();
    for (const [n, p] of places) {
      if (p.x + p.w / 2 < left || p.x - p.w / 2 > right || p.y > bottom || p.y + nodeHeight < top) continue;
      drawNode(context, N, n, p.x, p.y, p.w, view.k, { line: matches.has("n" + n) ? colour.warn : N.flags[n] & 1 ? colour.accent : colour.line, fill: colour.panel });
    }
  }

  function hit(x, y) {
    for (const [n, p] of places) if (Math.abs(x - p.x) < p.w / 2 && y > p.y && y < p.y + nodeHeight) return { node: n, box: p.box };
    const p = layout.find((q) => x > q.left && x < q.left + q.w && y > q.top && y < q.top + q.h);
    return p && { box: p.id, node: trace.graph.boxes[p.id].node };
  }

  function hover(x, y, event) {
    const found = hit(x, y);
    plane.canvas.style.cursor = found ? "pointer" : "grab";
    if (!found) return showTip(0, 0, null);
    if (found.node >= 0) return nodeTip(event, trace.graph.nodes, found.node);
    const kernel = trace.kernels[trace.graph.boxes[found.box].kernel];
    const origins = [...new Set(trace.graph.boxes[found.box].nodes.map((n) => text(trace.graph.nodes.origin[n])).filter(Boolean))];
    showTip(event.clientX, event.clientY, kernel.name, [["predicted", seconds(kernel.predicted)], ["at least", kernel.limit ? seconds(kernel.limit) : ""],
      ["work", kernel.flops ? `${amount(kernel.flops, "op")}, ${bytes(kernel.bytes)}` : ""], ["from", origins.slice(0, 4).join(", ") + (origins.length > 4 ? ` and ${origins.length - 4} more` : "")]]);
  }

  function choose(id, centre) {
    chosen = id;
    if (centre) plane.show(layout[id].left + layout[id].w / 2, layout[id].top + layout[id].h / 2);
    plane.soon();
    const b = trace.graph.boxes[id];
    side.replaceChildren(...(b.kernel >= 0 ? kernelText(trace.kernels[b.kernel]) : nodeText(b.node)));
    location.replace("#graph/" + (b.kernel >= 0 ? trace.kernels[b.kernel].name : "node-" + b.node));
  }

  function nodeText(n) {
    const N = trace.graph.nodes;
    return [element("h2", {}, nodeTitle(n)), element("p", { class: "sub mono" }, text(N.type[n])),
      element("p", {}, text(N.origin[n]) || null), N.attr[n] ? element("p", { class: "mono" }, text(N.attr[n])) : null].filter(Boolean);
  }

  function toggle(id) {
    const before = layout[id], x = before.left + before.w / 2, y = before.top;
    if (open.has(id)) open.delete(id); else open.add(id);
    arrange();
    const now = layout[id];
    plane.x -= plane.k * (now.left + now.w / 2 - x); // the box stays where it was
    plane.y -= plane.k * (now.top - y);
    plane.soon();
  }

  function fit() {
    plane.fit(Math.min(...layout.map((p) => p.left)), Math.min(...layout.map((p) => p.top)),
      Math.max(...layout.map((p) => p.left + p.w)), Math.max(...layout.map((p) => p.top + p.h)), 1.15);
  }

  function find(words) {
    matches = new Set(), at = -1;
    const N = trace.graph.nodes, wanted = words.toLowerCase();
    if (wanted)
      trace.graph.boxes.forEach((b, id) => {
        const names = (n) => [N.op[n], N.type[n], N.attr[n], N.origin[n]].map(text).join(" ").toLowerCase();
        const own = b.kernel >= 0 ? b.nodes : [b.node];
        const found = own.filter((n) => names(n).includes(wanted));
        found.forEach((n) => matches.add("n" + n));
        if (found.length || label(b).toLowerCase().includes(wanted)) matches.add(id);
      });
    plane.soon();
    return [...matches].filter((m) => typeof m === "number");
  }

  function openPage(main, rest) {
    open = new Set(), chosen = -1, matches = new Set(), at = -1;
    const view = element("div", { class: "view" });
    side = element("aside", {});
    main.append(view, side);
    const count = element("span", { class: "count" });
    const input = element("input", { type: "search", placeholder: "find a name ( / )", "aria-label": "find a name",
      oninput: () => { const found = find(input.value); count.textContent = input.value ? `${found.length} found` : ""; },
      onkeydown: (event) => {
        const found = [...matches].filter((m) => typeof m === "number");
        if (event.key === "Enter" && found.length) choose(found[at = (at + 1) % found.length], true);
        if (event.key === "Escape") input.value = "", find(""), plane.canvas.focus();
        event.stopPropagation();
      } });
    view.append(element("div", { class: "bar" }, input, count, element("button", { class: "tool", onclick: unfoldAll }, "unfold all"), element("button", { class: "tool", onclick: () => { open.clear(); arrange(); fit(); } }, "fold"),
      element("button", { class: "tool", onclick: fit }, "fit")));
    view.append(element("div", { class: "legend" }, element("span", {}, element("i", { style: "background:var(--kernel)" }), "kernel"), element("span", {}, element("i", { style: "background:var(--hot)" }), "share of predicted time"),
      element("span", {}, element("i", { style: "background:var(--input)" }), "input or constant")));
    arrange();
    plane = new Plane(view, draw, "graph of kernels", { onhover: hover,
      onclick: (x, y) => { const found = hit(x, y); if (found) choose(found.box); },
      ondouble: (x, y) => { const found = hit(x, y); if (found && trace.graph.boxes[found.box].kernel >= 0) toggle(found.box); } });
    plane.now();
    fit();
    if (plane.k < 0.45) { // of a large graph, its beginning
      const first = layout.reduce((a, b) => (b.top < a.top ? b : a));
      plane.k = 0.75;
      plane.show(first.left + first.w / 2, first.top + plane.canvas.clientHeight / 2 / plane.k - 80);
    }
    const named = trace.graph.boxes.findIndex((b) => b.kernel >= 0 && trace.kernels[b.kernel].name === rest);
    if (named >= 0) choose(named, layout.length > 12); else overview();
    plane.canvas.focus();
    graphPage.input = input;
  }

  function unfoldAll() {
    trace.graph.boxes.forEach((b, id) => { if (b.kernel >= 0) open.add(id); });
    arrange();
    fit();
  }

  function overview() {
    const all = total(), order = trace.graph.boxes.map((b, id) => [b, id]).filter(([b]) => b.kernel >= 0).sort((a, b) => trace.kernels[b[0].kernel].predicted - trace.kernels[a[0].kernel].predicted);
    side.replaceChildren(element("h2", {}, `${trace.kernels.length} kernels of ${trace.graph.nodes.op.length} nodes`),
      element("p", { class: "sub" }, `predicted ${seconds(all)}${trace.measured ? `, measured ${seconds(trace.measured)}` : ""}; the plan came from ${({ model: "the cost model", tuning: "tuning", database: "the database", moves: "given moves" })[trace.how] || "nowhere"}`),
      element("table", {}, element("tr", {}, element("th", {}, "kernel"), element("th", { class: "n" }, "predicted"), element("th", { class: "n" }, "share"), element("th", { class: "n" }, "of limit")),
        order.map(([b, id]) => { const k = trace.kernels[b.kernel]; return element("tr", { class: "pick", onclick: () => choose(id, true) }, element("td", {}, k.name), element("td", { class: "n" }, seconds(k.predicted)),
          element("td", { class: "n" }, (100 * k.predicted / (all || 1)).toFixed(1) + " %"), element("td", { class: "n" }, ofLimit(k.limit, k.predicted))); })));
  }

  function keys(event) {
    const b = chosen >= 0 ? trace.graph.boxes[chosen] : null;
    const nearest = (ids) => ids.sort((p, q) => Math.abs(layout[p].left + layout[p].w / 2 - layout[chosen].left - layout[chosen].w / 2) - Math.abs(layout[q].left + layout[q].w / 2 - layout[chosen].left - layout[chosen].w / 2))[0];
    const go = (id) => { if (id !== undefined && id >= 0) choose(id, true); };
    const row = () => layout.filter((p) => trace.graph.boxes[p.id].layer === b.layer).sort((p, q) => p.left - q.left).map((p) => p.id);
    switch (event.key) {
      case "/": graphPage.input.focus(); graphPage.input.select(); return true;
      case "f": fit(); return true;
      case "u": unfoldAll(); return true;
      case "Escape": open.clear(); chosen = -1; arrange(); overview(); plane.soon(); return true;
      case "+": case "=": plane.zoom(1.25, plane.canvas.clientWidth / 2, plane.canvas.clientHeight / 2); return true;
      case "-": plane.zoom(0.8, plane.canvas.clientWidth / 2, plane.canvas.clientHeight / 2); return true;
      case "Enter": case " ": if (b && b.kernel >= 0) toggle(chosen); return true;
      case "ArrowUp": case "ArrowDown": case "ArrowLeft": case "ArrowRight": {
        if (!b) { go(0); return true; }
        if (event.key === "ArrowUp") go(nearest([...b.from]));
        if (event.key === "ArrowDown") go(nearest(trace.graph.boxes.map((_, id) => id).filter((id) => trace.graph.boxes[id].from.includes(chosen))));
        if (event.key === "ArrowLeft") go(row()[row().indexOf(chosen) - 1]);
        if (event.key === "ArrowRight") go(row()[row().indexOf(chosen) + 1]);
        return true;
      }
    }
    return false;
  }
  return { name: "Graph", hash: "graph", open: openPage, keys, redraw: () => plane.soon(), choose, find, toggle, unfoldAll, fit, plane: () => plane, layout: () => layout, opened: () => open };
})();
pages.push(graphPage);

/// A node of a graph as a box with its op and its type.
function drawNode(context, N, n, x, y, w, k, { line, fill, dim }) {
  const h = 34;
  context.globalAlpha = dim ? 0.4 : 1;
  context.fillStyle = fill;
  if (k < 0.25) { // too small for round corners, an edge, and letters
    context.fillRect(x - w / 2, y, w, h);
    context.globalAlpha = 1;
    return;
  }
  box(context, x - w / 2, y, w, h, 6);
  context.fill();
  context.lineWidth = N.flags[n] & 2 ? 2.5 : 1.2;
  context.strokeStyle = line;
  context.stroke();
  if (k >= 0.32) {
    context.textAlign = "center";
    context.fillStyle = colour.ink;
    context.font = "600 12px system-ui, sans-serif";
    const attr = text(N.attr[n]), op = text(N.op[n]);
    context.fillText(cut(op === "View" || !attr ? op : `${op} ${attr}`, w - 10, 6.8), x, y + 14);
    context.font = "11px system-ui, sans-serif";
    context.fillStyle = colour.muted;
    context.fillText(cut(text(N.type[n]), w - 8, 6), x, y + 28);
  }
  context.globalAlpha = 1;
}
function nodeTip(event, N, n) {
  showTip(event.clientX, event.clientY, text(N.op[n]), [["type", text(N.type[n])], [text(N.op[n]) === "View" ? "view" : "attribute", text(N.attr[n])],
    ["from", text(N.origin[n])], ["", N.flags[n] & 2 ? "an output" : N.flags[n] & 1 ? "a stage: it has loops of its own" : ""]]);
}

/// A kernel's text: parameters, cost, why it is as it is, moves, loops, sources.
function kernelText(kernel) {
  const like = kernel.like === undefined ? null : trace.kernels[kernel.like], sources = like ? like.sources : kernel.sources;
  const median = medianOf(trace, trace.kernels.indexOf(kernel)), work = workOf(trace, trace.kernels.indexOf(kernel));
  return [element("h2", {}, kernel.name),
    element("p", { class: "sub" }, `predicted ${seconds(kernel.predicted)}${median ? `, run in ${seconds(median)}` : ""}${work.limit ? `; this machine needs at least ${seconds(work.limit)} for ${amount(work.flops, "op")} and ${bytes(work.bytes)}` : ""}`),
    element("table", {}, kernel.params.map(([name, type, written]) => element("tr", {}, element("td", {}, written ? "writes" : "reads"), element("td", { class: "mono" }, name), element("td", { class: "mono" }, type)))),
    element("h3", {}, "Cost by term"), ...termBars(kernel.terms),
    kernel.why ? element("h3", {}, "Why it is as it is") : null, kernel.why ? element("div", { class: "why mono" }, kernel.why) : null,
    element("h3", {}, "Moves"), kernel.moves.length ? element("ol", { class: "moves mono" }, kernel.moves.map((m) => element("li", {}, m))) : element("p", { class: "sub" }, "none: the loops are as lowered"),
    element("h3", {}, "Code"), like ? element("p", { class: "sub" }, `the same as ${like.name}`) : null,
    tabbed([["loops", () => sourceBox(kernel.loops)], ...sources.map(([language, source]) => [({ body: "loops of a step", c: "C", llvm: "LLVM IR", asm: "assembly", opencl: "OpenCL C" })[language] || language, () => sourceBox(source)])])].filter(Boolean);
}
/// What a kernel computes, moves and needs at least: of its launches, for sizes may be known only then.
function workOf(of, kernel) {
  const launch = of.run.launches.find((l) => l[0] === kernel), { bytes, flops, limit } = of.kernels[kernel];
  return launch ? { bytes: launch[4], flops: launch[5], limit: launch[6] } : { bytes, flops, limit };
}
function ofLimit(limit, time) { return limit > 0 && time > 0 ? (100 * limit / time).toFixed(0) + " %" : "–"; }
function medianOf(of, kernel) {
  const times = of.run.launches.filter((l) => l[0] === kernel).map((l) => l[2] - l[1]).sort((a, b) => a - b);
  return times.length ? times[times.length >> 1] : 0;
}
