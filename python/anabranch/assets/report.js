// Ties the page together: which call is shown, theme, legend, tooltip, keys.
"use strict";

const at = (id) => document.getElementById(id);
const timeline = new Timeline({ onChoose: showSelected, onHover: showTooltip });
const kernels = new KernelTable(at("kernels"), chooseKernel);
let scope = data.calls.length ? typicalCall() : -1;

// The first call warms up; the one of median time stands for the rest.
function typicalCall() {
  const busiest = d3.greatest(d3.rollups(data.calls, (calls) => d3.sum(calls, (c) => c.time),
    (c) => c.program), (entry) => entry[1])[0];
  const calls = d3.range(data.calls.length).filter((i) => data.calls[i].program === busiest);
  const settled = calls.length > 2 ? calls.slice(1) : calls;
  const sorted = d3.sort(settled, (i) => data.calls[i].time);
  return sorted[(sorted.length - 1) >> 1];
}

function showScope(next, animate = true) {
  scope = next;
  at("call").value = String(scope);
  at("previous-call").disabled = scope < 0 ? !data.calls.length : scope === 0;
  at("next-call").disabled = scope >= data.calls.length - 1;
  const program = scope < 0 ? -1 : data.calls[scope].program;
  const track = scope < 0 ? -1 : data.calls[scope].track;
  timeline.look.zero = scope < 0 ? 0 : data.calls[scope].begin;
  timeline.setTracks([
    ...streamTracks.filter((l) => program < 0 || (l.program === program && (l.beside === track || !track))),
    ...workerTracks,
  ]);
  timeline.choose(-1);
  if (scope < 0) timeline.show(0, lastMoment, animate);
  else timeline.showCall(data.calls[scope], animate);
  showTiles(at("tiles"), scope);
  kernels.show(scope);
  showPath(at("path"), scope, (slice) => timeline.choose(slice));
  showLegend();
}

function nextCall(step) {
  const next = scope + step;
  if (next >= 0 && next < data.calls.length) showScope(next);
}

function chooseKernel(row) {
  const same = timeline.look.highlight === row.name;
  timeline.look.highlight = kernels.chosen = same ? "" : row.name;
  kernels.draw();
  timeline.choose(same ? -1 : row.longest);
}

// The chosen slice and the tooltip ------------------------------------------

function sourceLine(about) {
  if (!about.source) return null;
  return element("div", { class: "line" }, element("code", {}, about.source),
    about.code ? element("div", { class: "code" }, about.code) : null);
}

function fact(title, value) {
  return value ? element("div", {}, element("dt", {}, title), element("dd", {}, value)) : null;
}

function ratesOf(slice) {
  const about = aboutSlice(slice);
  const gflops = rateOf(about.flop, slices.time[slice]);
  const gbs = rateOf(about.bytes, slices.time[slice]);
  const part = (rate, limit) => (limit ? ` (${showShare(rate / limit)})` : "");
  return {
    gflops: gflops ? `${showRate(gflops)} GFLOP/s${part(gflops, data.machine.gflops_all)}` : "",
    gbs: gbs ? `${showRate(gbs)} GB/s${part(gbs, data.machine.memory_gbs_all)}` : "",
  };
}

function showSelected(slice) {
  const panel = at("selected");
  if (slice < 0) {
    panel.replaceChildren(element("p", { class: "nothing" },
      "Choose a slice: click it, or put the focus on the tracks and press the arrow keys."));
    return;
  }
  const about = aboutSlice(slice);
  const call = data.calls[slices.call[slice]];
  const rates = ratesOf(slice);
  const step = call.path.find((p) => p[0] === slice);
  const workers = new Set();
  for (const track of workerTracks)
    for (let i = firstAfter(track, slices.begin[slice] - 1); i < track.slice.length && track.begin[i] <= slices.begin[slice] + slices.time[slice]; ++i)
      if (track.slice[i] === slice) workers.add(track.title);
  panel.replaceChildren(
    element("h2", {}, swatch(about), nameOf(about)),
    sourceLine(about) || "",
    element("dl", { class: "facts" },
      ...[
        fact("Time", showTime(slices.time[slice])),
        fact("Began", `${showTime(slices.begin[slice] - call.begin)} into the call`),
        fact("Stream", data.programs[call.program].streams[about.stream].name),
        fact("Super kernel", about.super),
        fact("On", [...workers].join(", ")),
        fact("Arithmetic", about.flop ? `${showCount(about.flop, "FLOP")}, ${rates.gflops}` : ""),
        fact("Traffic", about.bytes ? `${showCount(about.bytes, "B")}, ${rates.gbs}` : ""),
        fact("Tiles", about.tiles ? d3.format(",")(about.tiles) : ""),
        fact("Critical path", step ? `waited ${showTime(slices.begin[slice] - step[3])} for ${reasons[step[2]]}` : ""),
        fact("Shapes", about.shapes),
        about.kind === "super" ? null : fact(about.kind === "call" ? "Operator, by PyTorch" : "Kernel", about.name),
      ].filter(Boolean)),
  );
}

function showTooltip(slice, event) {
  const box = at("tooltip");
  box.hidden = slice < 0;
  if (slice < 0) return;
  const about = aboutSlice(slice);
  const rates = ratesOf(slice);
  box.replaceChildren(
    element("b", {}, swatch(about), nameOf(about)),
    element("div", {}, [showTime(slices.time[slice]), rates.gflops, rates.gbs].filter(Boolean).join(" · ")),
    element("div", { class: "muted" }, about.shapes),
    about.source ? element("div", { class: "code" }, showSource(about.source)) : "",
    about.code ? element("div", { class: "code muted" }, about.code) : "",
  );
  const { width, height } = box.getBoundingClientRect();
  const left = Math.min(event.clientX + 14, window.innerWidth - width - 8);
  const below = event.clientY + 18 + height < window.innerHeight;
  box.style.left = `${Math.max(8, left)}px`;
  box.style.top = `${Math.max(8, below ? event.clientY + 18 : event.clientY - height - 12)}px`;
}

// Looks ---------------------------------------------------------------------

function showLegend() {
  const { look } = timeline;
  const keys = [];
  if (look.colour === "work") {
    const used = new Set(data.about.map((about) => about.work));
    for (const [work, colour] of Object.entries(look.palette.work))
      if (used.has(work)) keys.push([work, `background:${colour}`, ""]);
  }
  if (look.path) keys.push(["critical path", "", "path"]);
  if (look.events && data.calls.some((call) => call.events.length)) keys.push(["event", "", "event"]);
  at("legend").replaceChildren(...keys.map(([name, style, kind]) => element("span", { class: "key" },
    element("i", { class: `swatch ${kind}`, style }), name)));
  at("hint").textContent = timeline.overflows()
    ? "Ctrl and wheel zoom, drag to move, double click a slice to zoom to it"
    : "Wheel zooms, drag to move, double click a slice to zoom to it";
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  const style = getComputedStyle(document.documentElement);
  const { look } = timeline;
  for (const name of ["panel", "raised", "text", "muted", "line", "accent", "bar"])
    look[name] = style.getPropertyValue(`--${name}`).trim();
  look.pathColour = style.getPropertyValue("--path").trim();
  look.palette = palettes[theme];
  look.onSlice = theme === "dark" ? "#0b1117" : "#ffffff";
  const family = getComputedStyle(document.body).fontFamily;
  look.font = `12px ${family}`;
  look.headFont = `600 12px ${family}`;
  at("theme-button").textContent = theme === "dark" ? "☀" : "☾";
}

// Where a page may not store anything, the theme is the system's each time.
function storedTheme(value) {
  try {
    if (value) localStorage.setItem("anabranch-theme", value);
    return localStorage.getItem("anabranch-theme");
  } catch {
    return null;
  }
}

function otherTheme() {
  const next = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  storedTheme(next);
  setTheme(next);
  showScopeLooks();
}

function showScopeLooks() {
  timeline.draw();
  kernels.draw();
  showPath(at("path"), scope, (slice) => timeline.choose(slice));
  showSelected(timeline.look.selected);
  showLegend();
}

function showTab(name) {
  for (const tab of ["kernels", "path"]) {
    const shown = tab === name;
    at(`tab-${tab}`).setAttribute("aria-selected", String(shown));
    at(`tab-${tab}`).tabIndex = shown ? 0 : -1;
    at(tab).hidden = !shown;
  }
  at("filter").hidden = name !== "kernels";
}

// Keys ----------------------------------------------------------------------

function nextOfPath() {
  if (scope < 0) return;
  const steps = data.calls[scope].path.map((step) => step[0]);
  const next = steps[(steps.indexOf(timeline.look.selected) + 1) % steps.length];
  if (next !== undefined) timeline.choose(next);
}

const anywhere = {
  "?": () => at("keys").showModal(),
  "/": () => {
    showTab("kernels");
    at("filter").focus();
  },
  t: otherTheme,
  n: () => nextCall(1),
  p: () => nextCall(-1),
  c: nextOfPath,
  "+": () => timeline.scale(1.6),
  "=": () => timeline.scale(1.6),
  "-": () => timeline.scale(1 / 1.6),
  a: () => timeline.move(-0.25),
  d: () => timeline.move(0.25),
  f: () => timeline.show(0, lastMoment),
  0: () => (scope < 0 ? timeline.show(0, lastMoment) : timeline.showCall(data.calls[scope])),
  Escape: () => {
    timeline.look.highlight = kernels.chosen = "";
    kernels.draw();
    timeline.choose(-1);
  },
};

const onTracks = {
  ArrowLeft: () => timeline.step(-1, 0),
  ArrowRight: () => timeline.step(1, 0),
  ArrowUp: () => timeline.step(0, -1),
  ArrowDown: () => timeline.step(0, 1),
  Enter: () => timeline.look.selected >= 0 && timeline.showSlice(timeline.look.selected),
};

function onKey(event) {
  const typing = event.target.matches("input[type=search], select") || at("keys").open;
  if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  const act = (event.target === at("tracks") && onTracks[key]) || anywhere[key];
  if (!act) return;
  event.preventDefault();
  act();
}

function listen() {
  document.addEventListener("keydown", onKey);
  at("keys-button").addEventListener("click", anywhere["?"]);
  at("theme-button").addEventListener("click", otherTheme);
  at("previous-call").addEventListener("click", () => nextCall(-1));
  at("next-call").addEventListener("click", () => nextCall(1));
  at("call").addEventListener("change", (event) => showScope(Number(event.target.value)));
  at("colour").addEventListener("change", (event) => {
    timeline.look.colour = event.target.value;
    showScopeLooks();
  });
  for (const [id, name] of [["show-path", "path"], ["show-events", "events"]])
    at(id).addEventListener("change", (event) => {
      timeline.look[name] = event.target.checked;
      showScopeLooks();
    });
  at("filter").addEventListener("input", (event) => {
    kernels.filter = event.target.value.trim().toLowerCase();
    kernels.draw();
  });
  for (const tab of ["kernels", "path"]) {
    at(`tab-${tab}`).addEventListener("click", () => showTab(tab));
    at(`tab-${tab}`).addEventListener("keydown", (event) => {
      if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
      const other = tab === "kernels" ? "path" : "kernels";
      showTab(other);
      at(`tab-${other}`).focus();
    });
  }
}

function fillIn() {
  const { machine, calls, programs } = data;
  at("title").textContent = data.name;
  const names = programs.length === 1 ? programs[0].name : `${programs.length} programs`;
  at("machine").textContent = `${names} · ${machine.cpu} · ${showRate(machine.gflops_all)} GFLOP/s, ${showRate(machine.memory_gbs_all)} GB/s from memory`;
  at("call").append(element("option", { value: -1 }, `All ${d3.format(",")(calls.length)} calls`),
    ...calls.map((call, i) => element("option", { value: i },
      `Call ${i + 1} of ${calls.length} · ${programs[call.program].name} · ${showTime(call.time)}`)));
  const warning = at("warning");
  warning.hidden = !data.dropped && calls.length > 0;
  warning.textContent = data.dropped
    ? `${d3.format(",")(data.dropped)} slices beyond the recorder's limit are missing.`
    : "No call ran while this was recorded.";
}

fillIn();
setTheme(storedTheme() || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light"));
listen();
showScope(scope, false);
