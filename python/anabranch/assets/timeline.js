// The tracks' view: zoom, pan, hover, choice, keys, and the overview above them.
"use strict";

class Timeline {
  constructor({ onChoose, onHover }) {
    this.canvas = document.getElementById("tracks");
    this.scroll = document.getElementById("tracks-scroll");
    this.space = document.getElementById("tracks-space");
    this.overview = document.getElementById("overview");
    this.context = this.canvas.getContext("2d");
    this.onChoose = onChoose;
    this.onHover = onHover;
    this.look = { selected: -1, hovered: -1, track: null, highlight: "", path: true, events: true, colour: "work", zero: 0 };
    this.base = d3.scaleLinear().domain([0, lastMoment]);
    this.x = this.base;
    this.zoom = d3.zoom()
      // Where tracks are higher than their window, the wheel scrolls them.
      .filter((event) => event.type !== "wheel" || event.ctrlKey || !this.overflows())
      .wheelDelta((event) => -event.deltaY * (event.deltaMode === 1 ? 0.05 : 0.002))
      .on("start", (event) => this.canvas.classList.toggle("dragging", event.sourceEvent?.type === "mousedown"))
      .on("zoom", (event) => {
        this.x = event.transform.rescaleX(this.base);
        this.draw();
      })
      .on("end", () => this.canvas.classList.remove("dragging"));
    this.selection = d3.select(this.canvas).call(this.zoom).on("dblclick.zoom", null);
    this.listen();
    this.setTracks([...streamTracks, ...workerTracks]);
    new ResizeObserver(() => this.resize()).observe(this.scroll);
  }

  overflows() {
    return this.layout.height > this.height + 1;
  }

  setTracks(tracks) {
    this.tracks = tracks;
    this.layout = layOut(tracks);
    this.resize();
  }

  resize() {
    const width = this.scroll.clientWidth;
    if (!width) return;
    const [from, to] = this.range();
    const limit = Math.max(260, Math.round(window.innerHeight * 0.62));
    this.width = width;
    this.height = Math.min(this.layout.height, limit);
    this.scroll.style.maxHeight = `${this.height}px`;
    this.space.style.height = `${Math.max(0, this.layout.height - this.height)}px`;
    // The space stands below the canvas, which sticks while it scrolls by.
    this.scroll.append(this.space);
    this.fit(this.canvas, width, this.height);
    this.fit(this.overview, width, 52);
    this.base.range([size.label, width - 12]);
    const shortest = 40; // nanoseconds, from edge to edge
    this.zoom
      .scaleExtent([1, Math.max(2, lastMoment / shortest)])
      .extent([[size.label, 0], [width - 12, this.height]])
      .translateExtent([[size.label, 0], [width - 12, this.height]]);
    this.show(from, to, false);
  }

  fit(canvas, width, height) {
    const ratio = window.devicePixelRatio || 1;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    canvas.style.height = `${height}px`;
  }

  // The range in view, in nanoseconds.
  range() {
    const [left, right] = this.base.range();
    return this.width ? [this.x.invert(left), this.x.invert(right)] : [0, lastMoment];
  }

  show(from, to, animate = true) {
    const [left, right] = this.base.range();
    const k = (right - left) / Math.max(1e-9, this.base(to) - this.base(from));
    const transform = d3.zoomIdentity.translate(left - k * this.base(from), 0).scale(k);
    const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
    if (animate && !calm) this.selection.transition().duration(220).call(this.zoom.transform, transform);
    else this.selection.call(this.zoom.transform, transform);
  }

  // A little room at both sides, so that the ends can be seen.
  showCall(call, animate = true) {
    const room = call.time * 0.02;
    this.show(Math.max(0, call.begin - room), Math.min(lastMoment, call.begin + call.time + room), animate);
  }

  showSlice(slice) {
    const begin = slices.begin[slice];
    const room = Math.max(slices.time[slice], 30);
    this.show(Math.max(0, begin - room), Math.min(lastMoment, begin + slices.time[slice] + room));
  }

  // Moves by a part of the view, or zooms about the choice or the middle.
  move(part) {
    const [from, to] = this.range();
    const step = Math.max(-from, Math.min(lastMoment - to, (to - from) * part));
    this.show(from + step, to + step);
  }

  scale(factor) {
    const [from, to] = this.range();
    const { selected } = this.look;
    const begin = selected < 0 ? -1 : slices.begin[selected] + slices.time[selected] / 2;
    const middle = begin >= from && begin <= to ? begin : (from + to) / 2;
    this.show(
      Math.max(0, middle - (middle - from) / factor),
      Math.min(lastMoment, middle + (to - middle) / factor),
    );
  }

  // Into view, keeping the zoom.
  reveal(slice) {
    const [from, to] = this.range();
    const begin = slices.begin[slice];
    const end = begin + slices.time[slice];
    if (begin < from || end > to) {
      const half = Math.max((to - from) / 2, slices.time[slice]);
      const middle = (begin + end) / 2;
      const start = Math.max(0, Math.min(lastMoment - 2 * half, middle - half));
      this.show(start, Math.min(lastMoment, start + 2 * half));
    }
    const row = this.layout.rows.find((r) => r.track && r.track === this.look.track);
    if (!row || !this.overflows()) return;
    const top = row.y - size.axis;
    const bottom = row.y + size.row;
    if (top < this.scroll.scrollTop) this.scroll.scrollTop = top;
    else if (bottom > this.scroll.scrollTop + this.height) this.scroll.scrollTop = bottom - this.height;
  }

  choose(slice, track = null) {
    this.look.selected = slice;
    this.look.track = track || (slice < 0 ? null : this.trackOf(slice));
    if (slice >= 0) this.reveal(slice);
    this.draw();
    this.onChoose(slice);
  }

  trackOf(slice) {
    const call = data.calls[slices.call[slice]];
    return this.tracks.find((track) => track.kind === "stream" && track.program === call.program &&
      track.beside === call.track && track.stream === aboutSlice(slice).stream) || null;
  }

  // The slice under a point, or the nearest within a few pixels.
  at(px, py) {
    const y = py + this.scroll.scrollTop;
    const row = this.layout.rows.find((r) => r.track && y >= r.y && y < r.y + size.row);
    if (!row || px < size.label || py < size.axis) return null;
    const { track } = row;
    const moment = this.x.invert(px);
    const place = firstAfter(track, moment);
    let best = null;
    for (const i of [place - 1, place]) {
      if (i < 0 || i >= track.slice.length) continue;
      const away = Math.max(this.x(track.begin[i]) - px, px - this.x(track.end[i]), 0);
      if (away <= 3 && (!best || away < best.away)) best = { track, slice: track.slice[i], away };
    }
    return best;
  }

  listen() {
    const point = (event) => d3.pointer(event, this.canvas);
    this.canvas.addEventListener("pointermove", (event) => {
      const found = event.buttons ? null : this.at(...point(event));
      const slice = found ? found.slice : -1;
      this.canvas.classList.toggle("over", slice >= 0);
      if (slice !== this.look.hovered) {
        this.look.hovered = slice;
        this.draw();
      }
      this.onHover(slice, event);
    });
    this.canvas.addEventListener("pointerleave", (event) => {
      this.look.hovered = -1;
      this.draw();
      this.onHover(-1, event);
    });
    this.selection.on("click", (event) => {
      const found = this.at(...point(event));
      this.choose(found ? found.slice : -1, found?.track);
    });
    this.selection.on("dblclick", (event) => {
      const found = this.at(...point(event));
      if (found) this.showSlice(found.slice);
    });
    this.scroll.addEventListener("scroll", () => this.draw());
    const jump = (event) => {
      if (!(event.buttons & 1)) return;
      const moment = this.base.invert(d3.pointer(event, this.overview)[0]);
      const [from, to] = this.range();
      const start = Math.max(0, Math.min(lastMoment - (to - from), moment - (to - from) / 2));
      this.show(start, start + to - from, false);
    };
    this.overview.addEventListener("pointerdown", (event) => {
      this.overview.setPointerCapture(event.pointerId);
      jump(event);
    });
    this.overview.addEventListener("pointermove", jump);
  }

  // The slice beside the chosen one in its track, or in the track above or below.
  step(across, down) {
    const { track, selected } = this.look;
    if (!track) {
      const first = this.tracks.find((l) => this.inView(l) >= 0);
      if (first) this.choose(first.slice[this.inView(first)], first);
      return;
    }
    if (down) {
      const next = this.tracks[this.tracks.indexOf(track) + down];
      if (!next) return;
      const i = Math.min(firstAfter(next, slices.begin[selected]), next.slice.length - 1);
      this.choose(next.slice[i], next);
      return;
    }
    // Pieces of one command stand side by side in a worker's track.
    let i = track.slice.indexOf(selected);
    do i += across;
    while (track.slice[i] === selected);
    if (i >= 0 && i < track.slice.length) this.choose(track.slice[i], track);
  }

  inView(track) {
    const [from, to] = this.range();
    const i = firstAfter(track, from);
    return i < track.slice.length && track.begin[i] < to ? i : -1;
  }

  // At most once for each frame of the screen.
  draw() {
    if (this.pending || !this.width) return;
    this.pending = requestAnimationFrame(() => {
      this.pending = 0;
      this.drawNow();
    });
  }

  drawNow() {
    const { context, width, height, look, x } = this;
    const ratio = window.devicePixelRatio || 1;
    const right = width - 12;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.fillStyle = look.panel;
    context.fillRect(0, 0, width, height);
    context.font = look.font;
    context.textBaseline = "middle";
    context.textAlign = "left";
    drawGrid(context, x, width, height, look);
    context.save();
    context.translate(0, -this.scroll.scrollTop);
    const { rows } = this.layout;
    const tracks = rows.filter((row) => row.track);
    const placeOf = placesOfStreams(tracks);
    const calls = this.callsInView(24);
    // Beneath the slices, whose words stay readable; the chosen one's on top.
    for (const call of calls) {
      if (look.path) drawPath(context, call, x, placeOf, look);
      if (look.events) drawEvents(context, call.events, x, placeOf, look);
    }
    for (const row of tracks) drawTrack(context, row, x, right, look);
    const chosen = look.selected < 0 ? [] : data.calls[slices.call[look.selected]].events
      .filter((event) => event.includes(look.selected));
    if (look.events) drawEvents(context, chosen, x, placeOf, look);
    drawNames(context, rows, look, this.layout.height);
    drawHeads(context, rows, width, look);
    context.restore();
    drawAxis(context, x, width, look);
    this.drawOverview();
  }

  // The calls in view that are wide enough for lines between their slices; none when there are many.
  callsInView(limit) {
    const [from, to] = this.range();
    const found = data.calls.filter((c) => c.begin < to && c.begin + c.time > from);
    const lines = d3.sum(found, (c) => c.events.length + c.path.length);
    return found.length <= limit && lines < 4000 ? found : [];
  }

  drawOverview() {
    const context = this.overview.getContext("2d");
    const ratio = window.devicePixelRatio || 1;
    const height = 52;
    const { look, width, base } = this;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    context.font = look.font;
    context.textBaseline = "middle";
    context.fillStyle = look.muted;
    context.fillText("whole trace", 12, height / 2);
    context.fillStyle = look.bar;
    const workers = Math.max(1, workerTracks.length);
    let drawn = -Infinity;
    for (const call of data.calls) {
      const x0 = base(call.begin);
      const x1 = Math.max(base(call.begin + call.time), x0 + 1);
      if (x1 < drawn + 0.5) continue;
      const part = Math.min(1, call.busy / Math.max(1, call.time * workers));
      const high = 4 + part * (height - 16);
      context.fillRect(x0, height - 6 - high, Math.max(x1 - x0 - (x1 - x0 > 3 ? 1 : 0), 1), high);
      drawn = x1;
    }
    const [from, to] = this.range().map(base);
    context.fillStyle = look.accent;
    context.globalAlpha = 0.14;
    context.fillRect(from, 0, Math.max(to - from, 2), height);
    context.globalAlpha = 1;
    context.fillRect(from - 1, 0, 2, height);
    context.fillRect(Math.max(to, from + 3) - 1, 0, 2, height);
  }
}
