// Pages, keys, theme, and which trace is shown.
const main = document.getElementById("page"), tabs = document.getElementById("tabs"), help = document.getElementById("help");
let shown = null;

function show(page, rest) {
  shown = page;
  showTip(0, 0, null);
  main.replaceChildren();
  [...tabs.children].forEach((b, k) => b.setAttribute("aria-selected", pages[k] === page));
  if (!location.hash.startsWith("#" + page.hash)) location.replace("#" + page.hash);
  page.open(main, rest);
}

function setTheme(dark) {
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  readColours();
  if (shown) show(shown, location.hash.split("/").slice(1).join("/"));
}

function about() {
  const day = new Date(trace.date * 1000).toISOString().slice(0, 16).replace("T", " ");
  document.getElementById("about").textContent = `${trace.name} · ${trace.device}${trace.threads ? `, ${trace.threads} thread${trace.threads > 1 ? "s" : ""}` : ""} · ${trace.machine.replace(/ features.*?caches/, ", caches")} · ${day} UTC`;
  document.getElementById("about").title = trace.machine;
  document.getElementById("traces").replaceChildren(...(traces.length > 1 ? traces.map((t, k) => element("button", { "aria-pressed": t === trace, onclick: () => { trace = traces[k]; about(); show(shown); } }, `${k ? "B" : "A"}: ${t.name}`)) : []));
}

pages.forEach((page, k) => tabs.append(element("button", { role: "tab", title: `(${k + 1})`, onclick: () => show(page) }, page.name)));
document.getElementById("theme").onclick = () => setTheme(document.documentElement.dataset.theme !== "dark");
document.getElementById("help-button").onclick = () => help.showModal();
const keyTable = [["1 – " + pages.length, "the pages"], ["arrows", "between kernels, states and steps; along the timeline"], ["Enter", "fold or unfold"], ["/", "find a name in the graph"], ["u", "unfold all kernels"], ["f", "fit to the window"], ["+  −", "larger, smaller; or the wheel"], ["b", "the best state"], ["l", "a run of middle length"], ["Esc", "back to the overview"], ["t", "light or dark"]];
help.append(element("h2", {}, "Keys"), element("table", {}, keyTable.map(([key, what]) => element("tr", {}, element("td", {}, element("kbd", {}, key)), element("td", {}, what)))), element("form", { method: "dialog" }, element("button", { class: "tool" }, "close")));

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || help.open || /INPUT|SELECT/.test(event.target.tagName)) return;
  if (event.key >= "1" && event.key <= String(pages.length)) return void show(pages[event.key - 1]);
  if (event.key === "t") return void document.getElementById("theme").click();
  if (event.key === "?") return void help.showModal();
  if (event.target.tagName === "BUTTON" && (event.key === "Enter" || event.key === " ")) return;
  if (shown.keys(event)) event.preventDefault();
});

const began = performance.now();
readColours();
about();
const [hash, ...rest] = location.hash.slice(1).split("/");
const wantsDark = matchMedia("(prefers-color-scheme: dark)").matches;
document.documentElement.dataset.theme = wantsDark ? "dark" : "light";
readColours();
show(pages.find((p) => p.hash === hash) || pages[0], rest.join("/"));
window.latheViewer = { traces, pages, show, setTheme, firstPicture: performance.now(), build: performance.now() - began };
