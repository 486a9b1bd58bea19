// The page of the run: the timeline, the kernels on the machine's roofline, and the arena.
const runPage = (() => {
  let timeline, roofline, arena, side, spans, marked;
  const R = () => trace.run;

  function drawTimeline(context, width, height, view) {
    const x = (t) => view.x + view.k * t;
    context.font = "11.5px system-ui, sans-serif";
    const [a] = view.world(0, 0), [b] = view.world(width, 0), raw = (b - a) / 7, unit = 10 ** Math.floor(Math.log10(raw)), step = [1, 2, 5, 10].find((m) => m * unit >= raw) * unit;
    for (let t = Math.ceil(a / step) * step; t < b; t += step) {
      context.strokeStyle = colour.soft;
      context.beginPath(), context.moveTo(x(t), 34), context.lineTo(x(t), height), context.stroke();
      context.fillStyle = colour.muted, context.textAlign = "left";
      context.fillText(Math.abs(t) < step / 1e3 ? "0" : seconds(Math.abs(t)), x(t) + 4, height - 8);
    }
    for (const lane of spans.lanes) {
      context.fillStyle = colour.muted, context.textAlign = "left";
      for (const s of lane.spans) {
        const left = Math.max(-2, x(s.start)), right = Math.min(width + 2, x(s.end)), w = Math.max(right - left, 0.6);
        if (right < 0 || left > width) continue;
        context.fillStyle = s.kernel < 0 ? colour.soft : palette(s.kernel);
        context.globalAlpha = marked === null || marked === s.kernel || s.kernel < 0 ? 1 : 0.35;
        box(context, left, s.y, w, s.h, Math.min(3, w / 3));
        context.fill();
        context.globalAlpha = 1;
        if (w > 46) {
          context.fillStyle = s.kernel < 0 ? colour.ink : colour.panel, context.textAlign = "left";
          context.fillText(cut(s.name, w - 10, 6.2), left + 6, s.y + s.h / 2 + 4);
        }
      }
      context.fillStyle = colour.muted;
      context.fillText(lane.name, 10, lane.y - 5);
    }
  }

  /// Lanes: each thread's runs with their launches, and below them the pool's threads.
  function lanesOf() {
    const lanes = [];
    let y = 58;
    const launches = R().launches, zero = Math.min(...launches.map((l) => l[1]));
    const threads = [...new Set(launches.map((l) => l[3]))];
    for (const [j, thread] of threads.entries()) {
      const own = launches.filter((l) => l[3] === thread), lane = { name: `thread ${j}`, y, spans: [] };
      for (const l of own) {
        const isRun = l[0] < 0;
        lane.spans.push({ kernel: l[0], start: l[1] - zero, end: l[2] - zero, y: isRun ? y : y + 25, h: isRun ? 21 : 34, name: isRun ? `run, ${seconds(l[2] - l[1])}` : trace.kernels[l[0]].name, launch: l });
      }
      lanes.push(lane);
      y += 92;
    }
    // The pool's threads: what each did of a launch.
    for (const [j, thread] of [...new Set(R().parts.map((p) => p[3]))].entries()) {
      lanes.push({ name: `pool thread ${j}`, y, spans: R().parts.filter((p) => p[3] === thread).map((p) => ({ kernel: p[0], start: p[1] - zero, end: p[2] - zero, y, h: 24, name: trace.kernels[p[0]].name, part: true, launch: [p[0], p[1], p[2], thread, 0, 0, 0] })) });
      y += 50;
    }
    return { lanes, end: launches.length ? Math.max(...launches.map((l) => l[2])) - zero : 1, height: y };
  }

  function fitTimeline(from, to) {
    const width = timeline.canvas.clientWidth || 800;
    timeline.k = (width - 40) / (to - from || 1);
    timeline.x = 20 - timeline.k * from;
    timeline.soon();
  }

  function drawArena(context, width, height) {
    const left = 78, right = width - 18, top = 36, bottom = height - 40, inside = R().buffers.filter((b) => b[1] === "arena"), launches = Math.max(trace.kernels.length, 1);
    context.font = "11.5px system-ui, sans-serif";
    const y = (offset) => bottom - (bottom - top) * offset / Math.max(R().arena, 1), x = (launch) => left + (right - left) * launch / launches;
    context.fillStyle = colour.muted, context.textAlign = "right";
    for (let k = 0; k <= 4; ++k) {
      const at = R().arena * k / 4;
      context.fillText(bytes(at), left - 7, y(at) + 4);
      context.strokeStyle = colour.soft;
      context.beginPath(), context.moveTo(left, y(at)), context.lineTo(right, y(at)), context.stroke();
    }
    context.textAlign = "center";
    const every = Math.ceil(launches / Math.max(1, (right - left) / 60));
    for (let k = 0; k < launches; k += every) context.fillText(String(k), x(k + 0.5), bottom + 15);
    context.fillText("launch", (left + right) / 2, height - 7);
    context.strokeStyle = colour.line;
    context.strokeRect(left, top, right - left, bottom - top);
    inside.forEach((b, k) => {
      const w = x(b[5] + 1) - x(b[4]), h = Math.max(2, y(b[3]) - y(b[3] + b[2]));
      context.fillStyle = palette(k);
      context.globalAlpha = 0.75;
      box(context, x(b[4]) + 1, y(b[3] + b[2]), Math.max(1, w - 2), h, 3);
      context.fill();
      context.globalAlpha = 1;
      if (h > 13 && w > 30) context.fillStyle = colour.panel, context.fillText(cut(b[0], w - 6, 6.5), x(b[4]) + w / 2, y(b[3] + b[2] / 2) + 4);
    });
    if (!inside.length) context.fillStyle = colour.muted, context.fillText("no intermediate needs memory", (left + right) / 2, (top + bottom) / 2);
  }
  function arenaAt(event) {
    const box2 = arena.canvas.getBoundingClientRect(), left = 78, right = box2.width - 18, top = 36, bottom = box2.height - 40, launches = Math.max(trace.kernels.length, 1);
    const launch = (event.clientX - box2.left - left) / (right - left) * launches, offset = (bottom - (event.clientY - box2.top)) / (bottom - top) * R().arena;
    return R().buffers.find((b) => b[1] === "arena" && launch >= b[4] && launch < b[5] + 1 && offset >= b[3] && offset < b[3] + b[2]);
  }

  function openPage(main) {
    marked = null;
    const left = element("div", { class: "run" }), wide = element("div", { class: "chart wide" }, element("h3", {}, "Timeline"));
    side = element("aside", {});
    main.append(left, side);
    left.append(wide);
    spans = lanesOf();
    timeline = new Plane(wide, drawTimeline, "timeline", { horizontal: true, least: 1e-3, most: 1e12, onhover: (t, y, event) => {
      const found = spanAt(t, y);
      timeline.canvas.style.cursor = found ? "pointer" : "grab";
      if (!found) return showTip(0, 0, null);
      const l = found.launch, s = l[2] - l[1];
      showTip(event.clientX, event.clientY, found.part ? `a part of ${found.name}` : found.name, [["took", seconds(s)], ["starts at", seconds(found.start)], ["rate", l[0] < 0 || found.part ? "" : `${amount(l[5] / s, "op/s")}, ${amount(l[4] / s, "B/s")}`], ["of its limit", l[6] ? (100 * l[6] / s).toFixed(0) + " %" : ""]]);
    }, onclick: (t, y) => { const found = spanAt(t, y); if (found && found.kernel >= 0) choose(found.kernel); } });
    if (!R().launches.length) wide.append(element("p", { class: "sub", style: "position:absolute;left:14px;top:40px" }, "The trace has no run."));
    const peak = R().flops_per_second, rate = R().bytes_per_second;
    roofline = new Chart(left, "Roofline", { x: { label: "operations a byte", log: true, format: significant, range: (a, b) => [Math.min(a, peak / rate / 4 || a), Math.max(b, peak / rate * 4 || b)] },
      y: { label: "operations a second", log: true, format: (v) => amount(v, "op/s"), range: (a, b) => [Math.min(a, peak / 100 || a), Math.max(b, peak || b)] } },
      { onpick: choose, empty: "no kernel ran", tip: (k) => [trace.kernels[k].name, [["run in", seconds(medianOf(trace, k))], ["predicted", seconds(trace.kernels[k].predicted)], ["at least", seconds(workOf(trace, k).limit)]]] });
    const points = trace.kernels.map((k, j) => [workOf(trace, j), medianOf(trace, j) || k.predicted || Infinity, j]).filter(([work]) => work.flops > 0 && work.bytes > 0).map(([work, time, j]) => [work.flops / work.bytes, work.flops / time, j]);
    roofline.set(points.map((p) => ({ points: [p], colour: palette(p[2]), size: 5.5 })), peak && rate ? [[1e-6, 1e-6 * rate, peak / rate, peak, ""], [peak / rate, peak, 1e9, peak, `peak ${amount(peak, "op/s")}, memory ${amount(rate, "B/s")}`]] : []);
    const place = element("div", { class: "chart" }, element("h3", {}, `Arena: ${bytes(R().arena)}, ${bytes(R().naive)} without reuse`));
    left.append(place);
    arena = new Picture(place, drawArena, "arena");
    arena.canvas.addEventListener("pointermove", (event) => {
      const b = arenaAt(event);
      if (b) showTip(event.clientX, event.clientY, b[0], [["size", bytes(b[2])], ["at byte", String(b[3])], ["alive", `launches ${b[4]} to ${b[5]}`]]); else showTip(0, 0, null);
    });
    arena.canvas.addEventListener("pointerleave", () => showTip(0, 0, null));
    timeline.now();
    fitRun();
    overview();
    timeline.canvas.focus();
  }
  const spanAt = (t, y) => spans.lanes.flatMap((lane) => lane.spans).filter((s) => t >= s.start && t <= s.end && y >= s.y && y <= s.y + s.h).pop();

  /// The run of middle length: the first ones pay for cold memory, and any may have been interrupted.
  function fitRun() {
    const runs = spans.lanes.flatMap((lane) => lane.spans).filter((s) => s.kernel < 0).sort((a, b) => a.end - a.start - b.end + b.start), one = runs[runs.length >> 1];
    fitTimeline(one ? one.start - 0.02 * (one.end - one.start) : 0, one ? one.end + 0.02 * (one.end - one.start) : spans.end);
  }
  function overview() {
    const order = trace.kernels.map((_, k) => k).sort((a, b) => medianOf(trace, b) - medianOf(trace, a));
    side.replaceChildren(element("h2", {}, "Run"), element("p", { class: "sub" }, `${R().launches.filter((l) => l[0] < 0).length} runs recorded; times are medians of these`),
      element("table", {}, element("tr", {}, element("th", {}, "kernel"), element("th", { class: "n" }, "run"), element("th", { class: "n" }, "predicted"), element("th", { class: "n" }, "of limit")),
        order.map((k) => { const m = medianOf(trace, k), kernel = trace.kernels[k]; return element("tr", { class: "pick", onclick: () => choose(k) }, element("td", {}, element("span", { style: `color:${palette(k)}` }, "■ "), kernel.name), element("td", { class: "n" }, seconds(m)), element("td", { class: "n" }, seconds(kernel.predicted)), element("td", { class: "n" }, ofLimit(workOf(trace, k).limit, m))); })),
      R().savings.length ? element("h3", {}, "What would save most") : "", R().savings.length ? element("table", { class: "savings" }, R().savings.map(([s, what]) => element("tr", {}, element("td", { class: "n" }, seconds(s)), element("td", {}, what)))) : "",
      element("h3", {}, "Compilation"), element("table", {}, R().passes.map(([name, start, s]) => element("tr", {}, element("td", {}, name), element("td", { class: "n" }, "at " + (start > 0 ? seconds(start) : "0")), element("td", { class: "n" }, seconds(s))))));
  }
  function choose(k) {
    marked = k;
    roofline.marked = roofline.series.find((s) => s.points[0][2] === k)?.points[0] || null;
    timeline.soon(), roofline.soon();
    side.replaceChildren(...kernelText(trace.kernels[k]));
  }
  function keys(event) {
    const width = timeline.canvas.clientWidth;
    switch (event.key) {
      case "f": fitTimeline(0, spans.end); return true;
      case "l": fitRun(); return true;
      case "+": case "=": timeline.zoom(1.4, width / 2, 0); return true;
      case "-": timeline.zoom(1 / 1.4, width / 2, 0); return true;
      case "ArrowLeft": timeline.x += width / 8; timeline.soon(); return true;
      case "ArrowRight": timeline.x -= width / 8; timeline.soon(); return true;
      case "Escape": marked = null; roofline.marked = null; overview(); timeline.soon(); roofline.soon(); return true;
    }
    return false;
  }
  return { name: "Run", hash: "run", open: openPage, keys, redraw: () => { timeline.soon(); roofline.soon(); arena.soon(); }, choose, spans: () => spans };
})();
pages.push(runPage);
