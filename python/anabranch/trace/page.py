"""Makes one HTML page of a trace, which needs no other file: `anabranch report`."""

from __future__ import annotations

import html
import json
import os
from importlib import resources
from pathlib import Path
from typing import Any

from .. import __version__
from .critical_path import measure
from .trace_file import Execution, TraceData, kind_of_work, read_trace, source_text

_SCRIPTS = ("model.js", "tracks.js", "timeline.js", "tables.js", "report.js")


def write_report(
    trace: str | os.PathLike[str],
    page: str | os.PathLike[str] | None = None,
    name: str | None = None,
) -> Path:
    """Writes the page and returns its path. Default for `page`: the trace's path with
    .html; for `name`, the title: the trace's name."""
    target = Path(page) if page is not None else Path(trace).with_suffix(".html")
    if target.exists() and os.path.samefile(trace, target):
        raise ValueError(f"{target} is the trace itself")
    text = make_page(read_trace(trace), name or Path(trace).name)
    target.write_text(text, encoding="utf-8")
    return target


def make_page(data: TraceData, name: str) -> str:
    # `<` could end the script element that has the data.
    facts = json.dumps(page_data(data, name), separators=(",", ":"))
    library = _vendored("d3.min.js")
    scripts = [library, *(_asset(script) for script in _SCRIPTS)]
    parts = {
        "title": html.escape(name),
        "version": __version__,
        "style": _asset("report.css"),
        "licence": html.escape(_vendored("d3.LICENSE").strip()),
        "data": facts.replace("<", "\\u003c"),
        "scripts": "\n".join(f"<script>\n{script}</script>" for script in scripts),
    }
    text = _asset("report.html")
    before, *rest = text.split("{{")
    for piece in rest:
        key, _, after = piece.partition("}}")
        before += parts[key] + after
    return before


def page_data(data: TraceData, name: str) -> dict[str, Any]:
    """The data for the page's scripts: columns of integers, and each description once."""
    numbers = {number: place for place, number in enumerate(data.calls)}
    threads = sorted({p.thread for c in data.calls.values() for p in _pieces(c)})
    threads = sorted({*threads, *(c.thread for c in data.calls.values())})
    kinds = _Kinds()
    slices: dict[str, list[int]] = {k: [] for k in ("call", "about", "begin", "time")}
    pieces: dict[str, list[int]] = {k: [] for k in ("slice", "track", "begin", "time")}
    calls = []
    for number, call in data.calls.items():
        place: dict[int, int] = {}
        for command, execution in sorted(call.executions.items()):
            place[command] = len(slices["call"])
            slices["call"].append(numbers[number])
            slices["about"].append(kinds.number(call.program, execution))
            slices["begin"].append(execution.begin)
            slices["time"].append(execution.end - execution.begin)
            for piece in execution.pieces:
                pieces["slice"].append(place[command])
                pieces["track"].append(threads.index(piece.thread))
                pieces["begin"].append(piece.begin)
                pieces["time"].append(piece.end - piece.begin)
        program = data.programs[call.program]
        measured = measure(call, program)
        calls.append(
            {
                "program": call.program,
                "thread": threads.index(call.thread),
                "track": call.track,
                "begin": call.begin,
                "time": call.end - call.begin,
                "busy": measured.busy,
                "onPath": measured.on_path,
                "active": measured.active,
                "overlapped": measured.overlapped,
                "bound": measured.bound,
                "path": [
                    [
                        place[step.command],
                        -1 if step.after is None else place[step.after],
                        step.reason,
                        step.free,
                    ]
                    for step in measured.path
                ],
                "events": [
                    [place[a], place[b]]
                    for a, b in program["events"]
                    if a in place and b in place
                ],
            }
        )
    return {
        "name": name,
        "machine": data.machine,
        "dropped": data.dropped,
        "programs": [
            {"name": str(p["name"]), "streams": p["streams"]} for p in data.programs
        ],
        "threads": [
            {"name": data.threads.get(thread, ""), "number": thread}
            for thread in threads
        ],
        "about": kinds.rows,
        "calls": calls,
        "slices": slices,
        "pieces": pieces,
    }


def _pieces(call: Any) -> list[Any]:
    return [piece for e in call.executions.values() for piece in e.pieces]


class _Kinds:
    """Descriptions of slices, each different one once."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self._known: dict[tuple[Any, ...], int] = {}

    def number(self, program: int, execution: Execution) -> int:
        about = execution.about
        key = (program, execution.stream, *about.values())
        if key not in self._known:
            self._known[key] = len(self.rows)
            self.rows.append(
                {
                    "program": program,
                    "stream": execution.stream,
                    "work": kind_of_work(about),
                    "code": source_text(about["source"]),
                    **about,
                }
            )
        return self._known[key]


def _asset(name: str) -> str:
    return (resources.files("anabranch") / "assets" / name).read_text("utf-8")


def _vendored(name: str) -> str:
    place = resources.files("anabranch") / "assets" / "vendor" / name
    try:
        return place.read_text("utf-8")
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"the drawing library is not installed: {place} is missing. "
            "scripts/vendor.sh fetches it; `make build` and the wheel do that"
        ) from error
