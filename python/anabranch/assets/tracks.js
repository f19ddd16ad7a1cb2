// Draws one frame of the tracks: only what can be seen, however long the trace.
"use strict";

const size = { axis: 28, head: 24, row: 28, bar: 22, label: 148 };

const palettes = {
  light: {
    work: {
      product: "#2b6cb0", attention: "#7048b6", reduction: "#0f7f74", pointwise: "#946200",
      lookup: "#b83280", movement: "#64748b", PyTorch: "#c53030",
      "super kernel": "#4d7c0f",
    },
    streams: ["#2b6cb0", "#0f7f74", "#7048b6", "#946200", "#b83280", "#4d7c0f", "#0e7490", "#64748b"],
  },
  dark: {
    work: {
      product: "#6aaef0", attention: "#b79af2", reduction: "#4fc4b4", pointwise: "#e6b455",
      lookup: "#ec8bc0", movement: "#94a6b8", PyTorch: "#f5807c",
      "super kernel": "#a3c95c",
    },
    streams: ["#6aaef0", "#4fc4b4", "#b79af2", "#e6b455", "#ec8bc0", "#a3c95c", "#67d0e6", "#94a6b8"],
  },
};

// Streams are numbered among those that have tracks.
const colours = { streams: data.programs.map(() => 0), number: new Map() };
for (const { program, stream } of streamTracks) {
  const key = `${program}/${stream}`;
  if (!colours.number.has(key)) colours.number.set(key, colours.streams[program]++);
}

function streamColour(program, stream, look) {
  const { streams } = look.palette;
  return streams[colours.number.get(`${program}/${stream}`) % streams.length];
}

function colourOf(about, look) {
  if (look.colour === "stream") return streamColour(about.program, about.stream, look);
  return look.palette.work[about.work];
}

// The rows to draw, from top to bottom: heads of groups and tracks with their place.
function layOut(tracks) {
  const rows = [];
  let y = size.axis;
  let group = "";
  for (const track of tracks) {
    const name = track.kind === "stream" ? `Streams of ${data.programs[track.program].name}` : "Workers";
    if (name !== group) {
      rows.push({ head: name, y });
      y += size.head;
      group = name;
    }
    rows.push({ track, y });
    y += size.row;
  }
  return { rows, height: y + 8 };
}

function clipText(context, text, width) {
  if (width < 18) return "";
  if (context.measureText(text).width <= width) return text;
  let low = 0;
  let high = text.length;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (context.measureText(`${text.slice(0, middle)}…`).width <= width) low = middle;
    else high = middle - 1;
  }
  return low > 2 ? `${text.slice(0, low)}…` : "";
}

// Calls `visit(place, x0, x1)` for the slices of a track in view. Those that share
// a pixel are leapt over, so that the work is bounded by the width.
function eachVisible(track, x, right, visit) {
  const from = x.invert(size.label);
  const to = x.invert(right);
  let i = firstAfter(track, from);
  while (i < track.slice.length && track.begin[i] < to) {
    const x0 = Math.max(x(track.begin[i]), size.label);
    const x1 = Math.min(x(track.end[i]), right);
    visit(i, x0, Math.max(x1, x0 + 1));
    const next = i + 1;
    i = x1 - x0 < 1 ? Math.max(next, firstAfter(track, x.invert(x0 + 1))) : next;
  }
}

function drawTrack(context, row, x, right, look) {
  const { track } = row;
  const top = row.y + (size.row - size.bar) / 2;
  eachVisible(track, x, right, (i, x0, x1) => {
    const slice = track.slice[i];
    const about = aboutSlice(slice);
    const faded = look.highlight && look.highlight !== about.name;
    const gap = x1 - x0 > 3 ? 1 : 0;
    const colour = colourOf(about, look);
    context.globalAlpha = faded ? 0.22 : 1;
    context.fillStyle = colour;
    context.beginPath();
    context.roundRect(x0, top, x1 - x0 - gap, size.bar, x1 - x0 > 6 ? 3 : 0);
    context.fill();
    if (x1 - x0 > 24) {
      context.fillStyle = look.onSlice;
      const text = clipText(context, nameOf(about), x1 - x0 - 11);
      context.fillText(text, x0 + 5, top + size.bar / 2 + 0.5);
    }
    if (look.path && slices.onPath[slice] && track.kind === "stream") {
      context.fillStyle = look.pathColour;
      context.fillRect(x0, top + size.bar, x1 - x0 - gap, 3);
    }
    context.globalAlpha = 1;
    if (slice === look.selected || slice === look.hovered) {
      context.lineWidth = slice === look.selected ? 2 : 1;
      context.strokeStyle = look.text;
      context.strokeRect(x0 + 0.5, top - 0.5, Math.max(x1 - x0 - gap - 1, 1), size.bar + 1);
    }
  });
}

// Arrows and path lines go between stream tracks: where a slice's row is.
function placesOfStreams(rows) {
  const places = new Map();
  for (const row of rows)
    if (row.track && row.track.kind === "stream")
      places.set(`${row.track.program}/${row.track.beside}/${row.track.stream}`, row.y + size.row / 2);
  return (slice) => {
    const call = data.calls[slices.call[slice]];
    return places.get(`${call.program}/${call.track}/${aboutSlice(slice).stream}`);
  };
}

function arrowHead(context, x, y, angle) {
  context.beginPath();
  context.moveTo(x, y);
  for (const side of [-0.45, 0.45])
    context.lineTo(x - 7 * Math.cos(angle + side), y - 7 * Math.sin(angle + side));
  context.closePath();
  context.fill();
}

function drawEvents(context, events, x, placeOf, look) {
  context.lineWidth = 1.4;
  const faint = events.length > 16 ? 0.35 : 0.7;
  for (const [from, to] of events) {
    const y0 = placeOf(from);
    const y1 = placeOf(to);
    if (y0 === undefined || y1 === undefined) continue;
    const chosen = from === look.selected || to === look.selected;
    context.strokeStyle = context.fillStyle = chosen ? look.accent : look.text;
    context.globalAlpha = chosen ? 1 : faint;
    const x0 = x(slices.begin[from] + slices.time[from]);
    const x1 = x(slices.begin[to]);
    const down = y1 > y0 ? 1 : -1;
    const start = y0 + down * (size.bar / 2);
    const end = y1 - down * (size.bar / 2 + 1);
    const bend = Math.max(14, Math.abs(end - start) * 0.5);
    context.beginPath();
    context.moveTo(x0, start);
    context.bezierCurveTo(x0, start + down * bend, x1, end - down * bend, x1, end - down * 4);
    context.stroke();
    arrowHead(context, x1, end, (down * Math.PI) / 2);
  }
  context.globalAlpha = 1;
}

// From the end of each step to the begin of the next, where time was lost.
function drawPath(context, call, x, placeOf, look) {
  context.strokeStyle = look.pathColour;
  context.lineWidth = 1.6;
  context.setLineDash([3, 3]);
  for (const [slice, after, , free] of call.path) {
    if (after < 0) continue;
    const y0 = placeOf(after);
    const y1 = placeOf(slice);
    if (y0 === undefined || y1 === undefined) continue;
    const x0 = x(free);
    const x1 = x(slices.begin[slice]);
    if (x1 - x0 < 3 && y0 === y1) continue;
    const below = size.bar / 2 + 1.5;
    context.beginPath();
    context.moveTo(x0, y0 + below);
    context.lineTo(x1, y0 + below);
    if (y1 !== y0) context.lineTo(x1, y1 + (y1 > y0 ? -size.bar / 2 : below));
    context.stroke();
  }
  context.setLineDash([]);
}

function drawAxis(context, x, width, look) {
  context.fillStyle = look.raised;
  context.fillRect(0, 0, width, size.axis);
  context.strokeStyle = look.line;
  context.lineWidth = 1;
  context.beginPath();
  context.moveTo(0, size.axis - 0.5);
  context.lineTo(width, size.axis - 0.5);
  context.stroke();
  context.fillStyle = look.muted;
  context.textAlign = "center";
  const zero = look.zero;
  const relative = x.copy().domain(x.domain().map((moment) => moment - zero));
  for (const tick of relative.ticks(Math.max(2, Math.floor((width - size.label) / 110)))) {
    const place = relative(tick);
    if (place < size.label + 12 || place > width - 34) continue;
    context.fillText(tick === 0 ? "0" : showTime(tick), place, size.axis / 2);
  }
  context.textAlign = "left";
  context.fillText(look.zero ? "since the call began" : "since the first call", 12, size.axis / 2);
}

function drawGrid(context, x, width, height, look) {
  context.strokeStyle = look.line;
  context.lineWidth = 1;
  context.beginPath();
  const relative = x.copy().domain(x.domain().map((moment) => moment - look.zero));
  for (const tick of relative.ticks(Math.max(2, Math.floor((width - size.label) / 110)))) {
    const place = Math.round(relative(tick)) + 0.5;
    if (place < size.label) continue;
    context.moveTo(place, size.axis);
    context.lineTo(place, height);
  }
  context.stroke();
}

// Names stand in a column of their own, which slices never reach.
function drawNames(context, rows, look, height) {
  context.fillStyle = look.panel;
  context.fillRect(0, 0, size.label, height);
  context.strokeStyle = look.line;
  context.lineWidth = 1;
  context.beginPath();
  context.moveTo(size.label - 0.5, 0);
  context.lineTo(size.label - 0.5, height);
  context.stroke();
  for (const row of rows) {
    if (row.head) continue;
    const { track } = row;
    const middle = row.y + size.row / 2 + 0.5;
    context.fillStyle = track === look.track ? look.accent : look.text;
    context.fillText(clipText(context, track.title, size.label - 40), 22, middle);
    if (track.kind === "stream" && look.colour === "stream") {
      context.fillStyle = streamColour(track.program, track.stream, look);
      context.fillRect(10, middle - 5, 5, 10);
    }
    if (track.priority) {
      context.fillStyle = look.muted;
      context.textAlign = "right";
      context.fillText(`p${track.priority}`, size.label - 8, middle);
      context.textAlign = "left";
    }
  }
}

function drawHeads(context, rows, width, look) {
  for (const row of rows) {
    if (!row.head) continue;
    context.fillStyle = look.raised;
    context.fillRect(0, row.y, width, size.head);
    context.fillStyle = look.muted;
    context.font = look.headFont;
    context.fillText(clipText(context, row.head, width - 24), 12, row.y + size.head / 2 + 1);
    context.font = look.font;
  }
}
