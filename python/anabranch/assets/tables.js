// The kernel table, the steps of the critical path, and the figures on top.
"use strict";

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined) made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}

const swatchOf = (colour) => element("i", { class: "swatch", style: `background:${colour}` });
const swatch = (about) => swatchOf(colourOf(about, timeline.look));

const callsOf = (scope) => (scope < 0 ? data.calls : [data.calls[scope]]);

// One row for each kernel of each program.
function kernelRows(scope) {
  const rows = new Map();
  for (let i = 0; i < slices.call.length; ++i) {
    if (scope >= 0 && slices.call[i] !== scope) continue;
    const about = aboutSlice(i);
    if (about.kind === "super") continue; // its launches are counted
    const key = `${about.program}/${about.name}`;
    let row = rows.get(key);
    if (!row) {
      row = {
        about, name: about.name, operators: nameOf(about), launches: 0, time: 0, busy: 0,
        flop: 0, bytes: 0, longest: i, sources: new Map(), shapes: new Set(),
      };
      rows.set(key, row);
    }
    row.launches += 1;
    row.time += slices.time[i];
    row.busy += slices.busy[i];
    // One launch that says nothing makes the sum unknown.
    row.flop = row.flop === null || about.flop === null ? null : row.flop + about.flop;
    row.bytes = row.bytes === null || about.bytes === null ? null : row.bytes + about.bytes;
    if (slices.time[i] > slices.time[row.longest]) row.longest = i;
    if (about.source) row.sources.set(about.source, about.code);
    row.shapes.add(about.shapes);
  }
  const list = [...rows.values()];
  const total = d3.sum(list, (row) => row.time) || 1;
  for (const row of list) {
    row.share = row.time / total;
    row.mean = row.time / row.launches;
    row.gflops = rateOf(row.flop, row.time);
    row.gbs = rateOf(row.bytes, row.time);
    row.workers = row.time ? row.busy / row.time : null;
    row.source = [...row.sources.keys()][0] || "";
    row.text = [row.name, row.operators, ...row.sources.keys()].join(" ").toLowerCase();
  }
  return list;
}

// A number and how much of the machine's limit it is.
function ofLimit(value, limit, unit) {
  if (value === null) return element("span", { class: "of" }, "–");
  const part = limit ? value / limit : 0;
  const bar = element("i", {
    style: `width:${Math.min(100, part * 100)}%`,
    class: part > 1 ? "beyond" : null,
  });
  const title = `${showShare(part)} of ${showRate(limit)} ${unit}`;
  return element("span", { class: "of", title },
    showRate(value), " ", element("small", {}, showShare(part)),
    element("span", { class: "bar" }, bar));
}

const kernelColumns = [
  { key: "operators", title: "Kernel", show: (row) => element("td", { class: "text" },
    // A kernel has no stream of its own.
    element("div", { class: "kernel" }, swatchOf(timeline.look.palette.work[row.about.work]), row.operators),
    element("div", { class: "second" }, row.name,
      row.shapes.size > 1 ? ` · ${row.shapes.size} shapes` : ` · ${[...row.shapes][0]}`)) },
  { key: "launches", title: "Launches", number: true, text: (row) => d3.format(",")(row.launches) },
  { key: "time", title: "Time", number: true, text: (row) => showTime(row.time) },
  { key: "share", title: "Share", number: true, text: (row) => showShare(row.share) },
  { key: "mean", title: "Mean", number: true, text: (row) => showTime(row.mean) },
  { key: "gflops", title: "GFLOP/s", number: true, show: (row) => element("td", { class: "number" },
    ofLimit(row.flop ? row.gflops : null, data.machine.gflops_all, "GFLOP/s")) },
  { key: "gbs", title: "GB/s", number: true, show: (row) => element("td", { class: "number" },
    ofLimit(row.gbs, data.machine.memory_gbs_all, "GB/s from memory")) },
  { key: "workers", title: "Workers", number: true,
    text: (row) => (row.workers === null ? "–" : d3.format(".2~f")(row.workers)) },
  { key: "source", title: "Source", show: (row) => element("td", { class: "source", title: row.source },
    row.source ? element("code", {}, showSource(row.source)) : "–",
    row.sources.size > 1 ? element("div", { class: "second" }, `and ${row.sources.size - 1} more lines`) : null) },
];

class KernelTable {
  constructor(place, onChoose) {
    this.place = place;
    this.onChoose = onChoose;
    this.order = { key: "time", down: true };
    this.filter = "";
    this.chosen = "";
  }

  show(scope) {
    this.rows = kernelRows(scope);
    this.draw();
  }

  sortBy(key, number) {
    const down = this.order.key === key ? !this.order.down : Boolean(number);
    this.order = { key, down };
    this.draw();
    this.place.querySelector(`[data-key="${key}"]`).focus();
  }

  draw() {
    const { key, down } = this.order;
    const compare = down ? d3.descending : d3.ascending;
    const missing = down ? -Infinity : Infinity;
    const rows = this.rows
      .filter((row) => row.text.includes(this.filter))
      .sort((a, b) => compare(a[key] ?? missing, b[key] ?? missing));
    const head = kernelColumns.map((column) => element("th", {
      scope: "col",
      class: column.number ? "number" : null,
      "aria-sort": column.key !== key ? null : down ? "descending" : "ascending",
    }, element("button", {
      type: "button", "data-key": column.key,
      onclick: () => this.sortBy(column.key, column.number),
    }, column.title, column.key !== key ? "" : down ? " ↓" : " ↑")));
    const body = rows.map((row) => this.makeRow(row));
    this.place.replaceChildren(rows.length
      ? element("table", {}, element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...body))
      : element("p", { class: "empty" }, this.rows.length ? "No kernel has this in its name." : "No commands ran."));
  }

  makeRow(row) {
    const choose = () => this.onChoose(row);
    const cells = kernelColumns.map((column) => (column.show ? column.show(row)
      : element("td", { class: column.number ? "number" : null }, column.text(row))));
    return element("tr", {
      tabindex: 0,
      class: this.chosen === row.name ? "chosen" : null,
      onclick: choose,
      onkeydown: (event) => {
        if (event.key === "Enter") choose();
      },
    }, ...cells);
  }
}

const reasons = {
  stream: "the one before it on its stream",
  event: "an event",
  worker: "a busy worker",
  "": "the call's begin",
};

function showPath(place, scope, onChoose) {
  if (scope < 0) {
    place.replaceChildren(element("p", { class: "empty" }, "Choose one call to see its critical path."));
    return;
  }
  const call = data.calls[scope];
  const { streams } = data.programs[call.program];
  const titles = ["", "Kernel", "Stream", "Began", "Time", "Waited", "for", "Source"];
  const numbers = new Set([3, 4, 5]);
  const head = titles.map((title, i) => element("th", { scope: "col", class: numbers.has(i) ? "number" : null },
    element("span", {}, title)));
  const rows = call.path.map(([slice, , reason, free], i) => {
    const about = aboutSlice(slice);
    const choose = () => onChoose(slice);
    return element("tr", {
      tabindex: 0, onclick: choose, onkeydown: (event) => event.key === "Enter" && choose(),
    },
    element("td", { class: "number" }, String(i + 1)),
    element("td", { class: "text" }, element("div", { class: "kernel" }, swatch(about), nameOf(about))),
    element("td", {}, streams[about.stream].name),
    element("td", { class: "number" }, showTime(slices.begin[slice] - call.begin)),
    element("td", { class: "number" }, showTime(slices.time[slice])),
    element("td", { class: "number" }, showTime(slices.begin[slice] - free)),
    element("td", {}, reasons[reason]),
    element("td", { class: "source", title: about.source },
      about.source ? element("code", {}, showSource(about.source)) : "–"));
  });
  place.replaceChildren(element("table", {}, element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...rows)));
}

function tile(title, figure, unit, note, part = null) {
  return element("div", { class: "tile" },
    element("h2", {}, title),
    element("div", { class: "figure" }, figure, unit ? element("small", {}, ` ${unit}`) : null),
    part === null ? null : element("div", { class: "meter" },
      element("i", { style: `width:${Math.min(100, Math.max(0, part * 100))}%` })),
    element("div", { class: "note" }, note));
}

function split(text) {
  const [figure, ...unit] = text.split(" ");
  return [figure, unit.join(" ")];
}

function showTiles(place, scope) {
  const calls = callsOf(scope);
  const rows = kernelRows(scope);
  const sum = (of) => d3.sum(calls, of);
  const time = sum((c) => c.time) || 1;
  const active = sum((c) => c.active) || 1;
  const onPath = sum((c) => c.onPath);
  const flop = d3.sum(rows, (row) => row.flop ?? 0);
  const bytes = d3.sum(rows, (row) => row.bytes ?? 0);
  const { machine } = data;
  const overlap = sum((c) => c.overlapped) / active;
  const several = calls.some((c) => colours.streams[c.program] > 1);
  place.replaceChildren(
    tile(calls.length > 1 ? `${d3.format(",")(calls.length)} calls, median` : "Call",
      ...split(showTime(d3.median(calls, (c) => c.time) ?? 0)),
      `${d3.format(",")(d3.sum(rows, (row) => row.launches))} commands`),
    tile("Overlap", ...split(showShare(overlap).replace("%", " %")),
      several ? "of the work beside another stream's" : "there is one stream only", overlap),
    tile("Critical path", ...split(showTime(onPath / calls.length)),
      `${showShare(onPath / time)} of the call; ${showShare(1 - onPath / time)} waiting`, onPath / time),
    tile("Workers busy", d3.format(".2~f")(sum((c) => c.busy) / time), `of ${workerTracks.length}`,
      "on average during a call", sum((c) => c.busy) / time / Math.max(1, workerTracks.length)),
    tile("Arithmetic", ...split(`${showRate(flop / time)} GFLOP/s`),
      `${showShare(flop / time / machine.gflops_all)} of the ${showRate(machine.gflops_all)} measured`,
      flop / time / machine.gflops_all),
    tile("Traffic", ...split(`${showRate(bytes / time)} GB/s`),
      bytes / time > machine.memory_gbs_all
        ? `beyond memory's ${showRate(machine.memory_gbs_all)}: out of caches`
        : `${showShare(bytes / time / machine.memory_gbs_all)} of memory's ${showRate(machine.memory_gbs_all)}`,
      bytes / time / machine.memory_gbs_all),
    tile("Dependencies alone", ...split(showTime(sum((c) => c.bound) / calls.length)),
      "with any number of workers"),
  );
}
