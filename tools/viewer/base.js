// What all pages share: the data, the theme, texts of numbers, elements, tooltips, and a canvas that pans and zooms.
"use strict";
const traces = JSON.parse(document.getElementById("data").textContent);
let trace = traces[0];

/// Columns as src/compile/view/page_data.cpp writes them: a list, or the usual value and where there are others.
function unpacked(columns) {
  for (const [name, column] of Object.entries(columns)) {
    if (!column || Array.isArray(column)) continue;
    if (column.steps) { let last = -1; columns[name] = column.steps.map((step) => last += step); }
    else if (column.at) {
      columns[name] = new Array(column.n).fill(column.usual);
      for (const [k, value] of column.at) columns[name][k] = value;
    }
  }
}
/// As width_of in src/compile/view/page_data.cpp, which left room for so much.
const widthOf = (op, type) => Math.min(260, Math.max(64, 6.4 * Math.max(op.length + 2, type.length) + 18));
for (const one of traces) {
  for (const nodes of [one.graph.nodes, one.rewrites.nodes]) nodes.width = nodes.op.map((op, n) => widthOf(one.texts[op], one.texts[nodes.type[n]]));
  unpacked(one.graph.nodes), unpacked(one.rewrites.nodes), unpacked(one.search.states);
  one.search.states.moves = one.search.states.moves.map((list) => one.search.states.lists[list]);
}

const text = (k) => trace.texts[k];
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
let colour = {};
function readColours() {
  for (const name of ["bg", "panel", "ink", "muted", "line", "soft", "accent", "good", "bad", "warn", "kernel", "kernel-line", "hot", "input",
    "edge", "add", "del", "c1", "c2", "c3", "c4", "c5", "c6", "c7", "c8"]) colour[name] = css("--" + name);
}
const palette = (k) => colour["c" + (1 + k % 8)];

function significant(x) { return String(Number(x.toPrecision(3))); }
function seconds(s) {
  if (!(s > 0)) return "–";
  return s < 1e-6 ? significant(s * 1e9) + " ns" : s < 1e-3 ? significant(s * 1e6) + " µs" : s < 1 ? significant(s * 1e3) + " ms" : significant(s) + " s";
}
function bytes(b) { return b < 1024 ? b + " B" : b < 1048576 ? significant(b / 1024) + " KiB" : b < 2 ** 30 ? significant(b / 1048576) + " MiB" : significant(b / 2 ** 30) + " GiB"; }
function amount(x, unit) {
  return x >= 1e12 ? significant(x / 1e12) + " T" + unit : x >= 1e9 ? significant(x / 1e9) + " G" + unit : x >= 1e6 ? significant(x / 1e6) + " M" + unit : significant(x) + " " + unit;
}

/// element("td", {class: "n", onclick: f}, "text", child, ...)
function element(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {}))
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value !== false && value !== undefined) made.setAttribute(name, value === true ? "" : value);
  for (const child of children.flat()) if (child !== null && child !== undefined) made.append(child);
  return made;
}

const tip = document.getElementById("tip");
/// lines: [label, value] pairs under a title; null hides the tooltip.
function showTip(x, y, title, lines) {
  tip.hidden = !title;
  if (!title) return;
  tip.replaceChildren(element("b", {}, title), ...(lines || []).filter((l) => l[1]).map(([label, value]) =>
    element("div", {}, element("span", { class: "l" }, label + " "), value)));
  const box = tip.getBoundingClientRect();
  tip.style.left = Math.max(4, Math.min(x + 14, innerWidth - box.width - 8)) + "px";
  tip.style.top = Math.max(4, y + 16 + box.height > innerHeight ? y - box.height - 10 : y + 16) + "px";
}

/// A canvas that draws at most once a frame. draw(context, width, height) in pixels of the page.
class Picture {
  constructor(parent, draw, label) {
    this.canvas = element("canvas", { tabindex: 0, "aria-label": label });
    this.draw = draw;
    parent.append(this.canvas);
    this.waiting = false;
    this.size = new ResizeObserver(() => this.now());
    this.size.observe(this.canvas);
  }
  soon() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => this.now());
  }
  now() {
    this.waiting = false;
    const width = this.canvas.clientWidth, height = this.canvas.clientHeight, scale = devicePixelRatio || 1;
    if (!width || !height) return;
    if (this.canvas.width !== Math.round(width * scale) || this.canvas.height !== Math.round(height * scale)) {
      this.canvas.width = Math.round(width * scale);
      this.canvas.height = Math.round(height * scale);
    }
    const context = this.canvas.getContext("2d");
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.clearRect(0, 0, width, height);
    this.draw(context, width, height);
  }
}

/// A picture in world coordinates that the mouse moves and the wheel scales. `horizontal`: along x alone.
class Plane extends Picture {
  constructor(parent, draw, label, options = {}) {
    super(parent, (context, width, height) => draw(context, width, height, this), label);
    Object.assign(this, { k: 1, x: 0, y: 0, horizontal: false, least: 0.02, most: 4, onhover: () => {}, onclick: () => {}, ondouble: () => {} }, options);
    const at = (event) => { const box = this.canvas.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top]; };
    this.canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      this.zoom(Math.exp(-event.deltaY * 0.0015), ...at(event));
    }, { passive: false });
    let from = null, moved = false;
    this.canvas.addEventListener("pointerdown", (event) => {
      from = at(event), moved = false;
      this.canvas.setPointerCapture(event.pointerId);
    });
    this.canvas.addEventListener("pointermove", (event) => {
      const now = at(event);
      if (from) {
        if (Math.hypot(now[0] - from[0], now[1] - from[1]) > 3) moved = true;
        if (!moved) return;
        this.x += now[0] - from[0];
        if (!this.horizontal) this.y += now[1] - from[1];
        from = now;
        this.soon();
        showTip(0, 0, null);
      } else this.onhover(...this.world(...now), event);
    });
    this.canvas.addEventListener("pointerup", (event) => {
      if (from && !moved) this.onclick(...this.world(...at(event)), event);
      from = null;
    });
    this.canvas.addEventListener("dblclick", (event) => this.ondouble(...this.world(...at(event)), event));
    this.canvas.addEventListener("pointerleave", () => showTip(0, 0, null));
  }
  world(x, y) { return [(x - this.x) / this.k, this.horizontal ? y : (y - this.y) / this.k]; }
  zoom(factor, x, y) {
    const k = Math.min(this.most, Math.max(this.least, this.k * factor)), ratio = k / this.k;
    this.x = x - (x - this.x) * ratio;
    this.y = y - (y - this.y) * ratio;
    this.k = k;
    this.soon();
  }
  fit(left, top, right, bottom, largest = 1) {
    const width = this.canvas.clientWidth, height = this.canvas.clientHeight, margin = 50;
    this.k = Math.max(this.least, Math.min(largest, (width - margin) / (right - left || 1), (height - margin) / (bottom - top || 1)));
    this.x = width / 2 - this.k * (left + right) / 2;
    this.y = Math.max(margin, height / 2 - this.k * (top + bottom) / 2 + 10) - (height / 2 - this.k * (top + bottom) / 2 > 0 ? 0 : 0);
    if (this.k * (bottom - top) > height - margin) this.y = margin - this.k * top;
    this.soon();
  }
  show(x, y) {
    this.x = this.canvas.clientWidth / 2 - this.k * x;
    this.y = this.canvas.clientHeight / 2 - this.k * y;
    this.soon();
  }
}

function box(context, x, y, width, height, radius) {
  context.beginPath();
  context.roundRect(x, y, width, height, radius);
}
/// The text cut to the width, by the average width of a letter.
function cut(string, width, letter = 6.4) {
  const most = Math.max(1, Math.floor(width / letter));
  return string.length > most ? string.slice(0, most - 1) + "…" : string;
}

const keywords = /\b(for|if|else|return|const|void|float|double|int|int64_t|static|restrict|parallel|vector|serial|unroll|reduce|define|load|store|fma|call|br|ret|phi|getelementptr|alloc|kernel|block)\b/g;
/// Source as lines of HTML: comments, keywords and numbers.
function highlighted(line) {
  const safe = line.replace(/&/g, "&amp;").replace(/</g, "&lt;");
  const comment = safe.search(/\/\/|^\s*[#;]|\/\*/);
  const code = comment < 0 ? safe : safe.slice(0, comment);
  const made = code.replace(/\b\d[\w.]*\b/g, (m) => "\u0001" + m + "\u0002").replace(keywords, '<span class="k">$1</span>')
    .replace(/\u0001/g, '<span class="m">').replace(/\u0002/g, "</span>");
  return made + (comment < 0 ? "" : '<span class="c">' + safe.slice(comment) + "</span>");
}
function sourceBox(source) {
  const made = element("pre", { tabindex: 0 });
  made.innerHTML = source.split("\n").map(highlighted).join("\n");
  return made;
}

/// Lines of both texts: [" ", line], ["-", line of a], ["+", line of b].
function difference(a, b) {
  a = a.split("\n"), b = b.split("\n");
  let first = 0, last = 0;
  while (first < a.length && first < b.length && a[first] === b[first]) ++first;
  while (last < a.length - first && last < b.length - first && a[a.length - 1 - last] === b[b.length - 1 - last]) ++last;
  const x = a.slice(first, a.length - last), y = b.slice(first, b.length - last), out = a.slice(0, first).map((l) => [" ", l]);
  if (x.length * y.length > 4e6) {
    out.push(...x.map((l) => ["-", l]), ...y.map((l) => ["+", l]));
  } else {
    const width = y.length + 1, best = new Uint16Array((x.length + 1) * width);
    for (let i = x.length - 1; i >= 0; --i)
      for (let j = y.length - 1; j >= 0; --j)
        best[i * width + j] = x[i] === y[j] ? best[(i + 1) * width + j + 1] + 1 : Math.max(best[(i + 1) * width + j], best[i * width + j + 1]);
    for (let i = 0, j = 0; i < x.length || j < y.length;)
      if (i < x.length && j < y.length && x[i] === y[j]) out.push([" ", x[i++]]), ++j;
      else if (i < x.length && (j === y.length || best[(i + 1) * width + j] >= best[i * width + j + 1])) out.push(["-", x[i++]]);
      else out.push(["+", y[j++]]);
  }
  return out.concat(a.slice(a.length - last).map((l) => [" ", l]));
}
function differenceBox(a, b) {
  const lines = difference(a, b), near = lines.map(() => false);
  lines.forEach((line, k) => { if (line[0] !== " ") for (let d = -3; d <= 3; ++d) near[k + d] = true; });
  const made = element("pre", { tabindex: 0, class: "diff" });
  let html = "", skipped = 0;
  const hole = () => { if (skipped) html += `<span class="hole">… ${skipped} equal lines</span>`; skipped = 0; };
  lines.forEach(([sign, line], k) => {
    if (!near[k]) return void ++skipped;
    hole();
    html += sign === " " ? highlighted(line) + "\n" : `<span class="${sign === "+" ? "add" : "del"}">${sign} ${highlighted(line)}</span>`;
  });
  hole();
  made.innerHTML = html;
  return made;
}

/// Buttons that choose one of several contents: [[name, () => element], ...].
function tabbed(choices, chosen = 0) {
  const place = element("div"), buttons = element("div", { class: "tabs", role: "tablist" });
  const choose = (k) => {
    [...buttons.children].forEach((b, j) => b.setAttribute("aria-selected", j === k));
    place.replaceChildren(choices[k][1]());
  };
  choices.forEach(([name], k) => buttons.append(element("button", { role: "tab", onclick: () => choose(k) }, name)));
  if (choices.length) choose(Math.min(chosen, choices.length - 1));
  return element("div", {}, buttons, place);
}

/// The cost by term; `before` are a parent's terms.
function termBars(terms, before) {
  const was = new Map((before || []).map(([k, s]) => [k, s])), now = new Map(terms.map(([k, s]) => [k, s]));
  const names = [...new Set([...now.keys(), ...was.keys()])], most = Math.max(...names.map((k) => Math.max(now.get(k) || 0, was.get(k) || 0)), 1e-30);
  names.sort((a, b) => (now.get(b) || 0) - (now.get(a) || 0));
  return names.map((k) => element("div", { class: "term" }, element("b", {}, text(k)),
    element("div", { class: "bar2", style: `width:${100 * (now.get(k) || 0) / most}%` }),
    element("span", {}, seconds(now.get(k) || 0)), element("span", { class: "was", title: "of the parent" }, before ? seconds(was.get(k) || 0) : "")));
}

const pages = []; // {name, key, open(main), keys(event) -> handled, ...}
