// The trace as tracks of slices, each sorted by time, and what words say of it.
"use strict";

const data = JSON.parse(document.getElementById("data").textContent);

const slices = {
  call: Int32Array.from(data.slices.call),
  about: Int32Array.from(data.slices.about),
  begin: Float64Array.from(data.slices.begin),
  time: Float64Array.from(data.slices.time),
  onPath: new Uint8Array(data.slices.call.length),
  busy: new Float64Array(data.slices.call.length),
};
data.pieces.slice.forEach((slice, i) => {
  slices.busy[slice] += data.pieces.time[i];
});
for (const call of data.calls)
  for (const [slice] of call.path) slices.onPath[slice] = 1;

const aboutSlice = (slice) => data.about[slices.about[slice]];
const lastMoment = Math.max(1, d3.max(data.calls, (c) => c.begin + c.time) || 1);

// A track's columns: begin, end and which slice it shows, in order of time.
function makeTrack(track, items) {
  items.sort((a, b) => a[0] - b[0]);
  return {
    ...track,
    begin: Float64Array.from(items, (item) => item[0]),
    end: Float64Array.from(items, (item) => item[1]),
    slice: Int32Array.from(items, (item) => item[2]),
  };
}

function makeStreamTracks() {
  const found = new Map();
  for (let i = 0; i < slices.call.length; ++i) {
    // A super kernel's launches overlap; its own slice stands for them.
    if (aboutSlice(i).super) continue;
    const call = data.calls[slices.call[i]];
    const stream = aboutSlice(i).stream;
    const key = `${call.program}/${call.track}/${stream}`;
    if (!found.has(key))
      found.set(key, { program: call.program, beside: call.track, stream, items: [] });
    found.get(key).items.push([slices.begin[i], slices.begin[i] + slices.time[i], i]);
  }
  return [...found.values()]
    .sort((a, b) => a.program - b.program || a.beside - b.beside || a.stream - b.stream)
    .map(({ items, ...track }) => {
      const { name, priority } = data.programs[track.program].streams[track.stream];
      const title = track.beside ? `${name} · beside` : name;
      return makeTrack({ kind: "stream", title, priority, ...track }, items);
    });
}

function makeWorkerTracks() {
  const items = data.threads.map(() => []);
  data.pieces.slice.forEach((slice, i) => {
    const begin = data.pieces.begin[i];
    items[data.pieces.track[i]].push([begin, begin + data.pieces.time[i], slice]);
  });
  const callers = new Set(data.calls.map((call) => call.thread));
  let workers = 0;
  return data.threads
    .map((thread, t) => {
      const title = callers.has(t) ? `caller ${thread.number}` : `worker ${++workers}`;
      return makeTrack({ kind: "worker", title, thread: t, caller: callers.has(t) }, items[t]);
    })
    .filter((track) => track.slice.length)
    .sort((a, b) => b.caller - a.caller);
}

const streamTracks = makeStreamTracks();
const workerTracks = makeWorkerTracks();

// The first place whose end is beyond a moment.
function firstAfter(track, moment) {
  return d3.bisectRight(track.end, moment);
}

// Words ---------------------------------------------------------------------

// Nanoseconds with three figures: "1.23 ms".
function showTime(ns) {
  const size = Math.abs(ns);
  if (size >= 1e9) return `${d3.format(".3~g")(ns / 1e9)} s`;
  if (size >= 999.5e3) return `${d3.format(".3g")(ns / 1e6)} ms`;
  if (size >= 999.5) return `${d3.format(".3g")(ns / 1e3)} µs`;
  return `${Math.round(ns)} ns`;
}

function showCount(value, unit) {
  if (value === null) return "–";
  const [, digits, prefix] = d3.format(".3~s")(value).match(/^([\d.]+)(.*)$/);
  return `${digits} ${prefix}${unit}`;
}

function showRate(value) {
  if (value === null) return "–";
  return value >= 99.95 ? d3.format(",.0f")(value) : d3.format(".3~g")(value);
}

const showShare = (part) => (part < 0.0995 ? d3.format(".1%") : d3.format(".0%"))(part);

// The last two parts of a path tell enough beside the whole in the tooltip.
function showSource(source) {
  return source.split("/").slice(-2).join("/");
}

const nameOf = (about) => (about.kind === "super" ? about.name : about.operators || about.name);

// Per nanosecond is per second in units of 1e9.
const rateOf = (amount, ns) => (amount === null || !ns ? null : amount / ns);
