// A chart of points and lines with linear or logarithmic axes, and a tooltip for the nearest point.
class Chart extends Picture {
  /// axes: {x: {label, log, format}, y: {...}}; series: [{points: [[x, y, item]], colour, line, step, size}]; lines: [[x0, y0, x1, y1, label]]
  constructor(parent, title, axes, options = {}) {
    const place = element("div", { class: "chart " + (options.class || "") }, element("h3", {}, title));
    parent.append(place);
    super(place, (context, width, height) => this.paint(context, width, height), title);
    Object.assign(this, { axes, series: [], lines: [], onpick: () => {}, tip: () => null }, options);
    this.canvas.addEventListener("pointermove", (event) => {
      const found = this.nearest(event);
      this.canvas.style.cursor = found ? "pointer" : "default";
      if (found) { const [title, lines] = this.tip(found[2]); showTip(event.clientX, event.clientY, title, lines); } else showTip(0, 0, null);
    });
    this.canvas.addEventListener("pointerleave", () => showTip(0, 0, null));
    this.canvas.addEventListener("click", (event) => { const found = this.nearest(event); if (found) this.onpick(found[2]); });
  }
  set(series, lines = []) {
    this.series = series, this.lines = lines;
    const values = (k) => series.flatMap((s) => s.points.map((p) => p[k])).filter((v) => Number.isFinite(v) && (!this.axes[k ? "y" : "x"].log || v > 0));
    const range = (k) => {
      const axis = this.axes[k ? "y" : "x"];
      let least = Infinity, most = -Infinity;
      for (const v of values(k)) least = Math.min(least, v), most = Math.max(most, v);
      if (axis.range) [least, most] = axis.range(least, most);
      if (!(least <= most)) return [axis.log ? 0.1 : 0, 1];
      if (axis.log) return [least / 1.3, most * 1.3];
      return [axis.zero ? 0 : least, most > least ? most + 0.04 * (most - least) : least + 1];
    };
    this.x = range(0), this.y = range(1);
    this.soon();
  }
  scale(axis, value, from, to) {
    const [a, b] = this[axis], f = this.axes[axis].log ? Math.log : (v) => v;
    return from + (f(value) - f(a)) / (f(b) - f(a)) * (to - from);
  }
  at(p) { return [this.scale("x", p[0], 76, this.canvas.clientWidth - 18), this.scale("y", p[1], this.canvas.clientHeight - 40, 36)]; }
  ticks(axis) {
    const [a, b] = this[axis];
    if (this.axes[axis].log) {
      const out = [], decades = Math.log10(b / a), parts = decades > 3 ? [1] : decades > 1.2 ? [1, 2, 5] : [1, 1.5, 2, 3, 4, 5, 6, 7, 8, 9];
      for (let e = Math.floor(Math.log10(a)); e <= Math.ceil(Math.log10(b)); ++e) for (const m of parts) { const v = m * 10 ** e; if (v >= a && v <= b) out.push(v); }
      return out;
    }
    const raw = (b - a) / 5, unit = 10 ** Math.floor(Math.log10(raw)), nice = [1, 2, 5, 10].find((m) => m * unit >= raw) * unit, out = [];
    for (let v = Math.ceil(a / nice) * nice; v <= b; v += nice) out.push(Math.abs(v) < nice / 1e6 ? 0 : v);
    return out;
  }
  paint(context, width, height) {
    if (!this.x) return;
    const left = 76, right = width - 18, top = 36, bottom = height - 40;
    context.font = "11.5px system-ui, sans-serif";
    context.lineWidth = 1;
    let last = -Infinity;
    for (const v of this.ticks("x")) {
      const x = this.scale("x", v, left, right);
      context.strokeStyle = colour.soft;
      context.beginPath(), context.moveTo(x, top), context.lineTo(x, bottom), context.stroke();
      if (x - last < 58) continue;
      last = x;
      context.fillStyle = colour.muted, context.textAlign = "center";
      context.fillText(this.axes.x.format(v), x, bottom + 15);
    }
    last = Infinity;
    for (const v of this.ticks("y")) {
      const y = this.scale("y", v, bottom, top);
      context.strokeStyle = colour.soft;
      context.beginPath(), context.moveTo(left, y), context.lineTo(right, y), context.stroke();
      if (last - y < 16) continue;
      last = y;
      context.fillStyle = colour.muted, context.textAlign = "right";
      context.fillText(this.axes.y.format(v), left - 7, y + 4);
    }
    context.strokeStyle = colour.line;
    context.strokeRect(left, top, right - left, bottom - top);
    context.fillStyle = colour.muted, context.textAlign = "center";
    context.fillText(this.axes.x.label, (left + right) / 2, height - 7);
    context.textAlign = "right";
    context.fillText(this.axes.y.label, right, top - 9);
    context.save();
    context.beginPath(), context.rect(left, top - 4, right - left + 4, bottom - top + 8), context.clip();
    for (const [x0, y0, x1, y1, label] of this.lines) {
      const [a, b] = this.at([x0, y0]), [c, d] = this.at([x1, y1]);
      context.setLineDash([5, 4]);
      context.strokeStyle = colour.muted;
      context.beginPath(), context.moveTo(a, b), context.lineTo(c, d), context.stroke();
      context.setLineDash([]);
      if (label) context.fillStyle = colour.muted, context.textAlign = "right", context.fillText(label, right - 8, d + 16);
    }
    for (const s of this.series) {
      if (s.line) {
        context.beginPath();
        s.points.forEach((p, k) => {
          const [x, y] = this.at(p);
          if (!k) context.moveTo(x, y);
          else { if (s.step) context.lineTo(x, this.at(s.points[k - 1])[1]); context.lineTo(x, y); }
        });
        context.strokeStyle = s.colour, context.lineWidth = 2;
        context.stroke();
      }
      context.fillStyle = s.colour;
      context.globalAlpha = s.alpha || 1;
      for (const p of s.points) { const [x, y] = this.at(p); context.beginPath(), context.arc(x, y, s.size || 3, 0, 7), context.fill(); }
      context.globalAlpha = 1;
    }
    if (this.marked) { const [x, y] = this.at(this.marked); context.strokeStyle = colour.ink, context.lineWidth = 2, context.beginPath(), context.arc(x, y, 7, 0, 7), context.stroke(); }
    context.restore();
    if (!this.series.some((s) => s.points.length)) {
      context.fillStyle = colour.muted, context.textAlign = "center", context.font = "13px system-ui, sans-serif";
      context.fillText(this.empty || "nothing was measured", (left + right) / 2, (top + bottom) / 2);
    }
  }
  nearest(event) {
    const box = this.canvas.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top;
    let best = null, least = 14;
    for (const s of this.series) for (const p of s.points) {
      if (p[2] === undefined) continue;
      const [a, b] = this.at(p), d = Math.hypot(a - x, b - y);
      if (d < least) least = d, best = p;
    }
    return best;
  }
}
