"""Counters, reports and messages: the compiled parts, PyTorch's parts, and the reasons."""

from __future__ import annotations

import dataclasses
import datetime
import json
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any

from .config import logs_json


@dataclasses.dataclass
class Counters:
    """Sums over everything compiled since the process began or `reset` was called."""

    graphs: int = 0  # graphs that Anabranch compiled
    compiles: int = 0  # of these, compiled and not taken from the cache
    cache_hits: int = 0  # of these, taken from the cache
    kernels: int = 0  # different kernels in these graphs
    launches: int = 0  # kernel launches in one call of each graph
    fallback_calls: int = 0  # calls to PyTorch's dispatcher in one call of each graph
    eager_graphs: int = 0  # whole graphs that PyTorch runs
    loaded: int = 0  # of these, from artefacts that PyTorch saved
    repacked: int = 0  # programs made again because frozen weights changed
    specialised: int = 0  # programs made in the background for sizes that came

    def reset(self) -> None:
        for field in dataclasses.fields(self):
            setattr(self, field.name, 0)


counters = Counters()
_lock = threading.Lock()
_last: dict[str, Any] | None = None
_rest = ""  # JSON that `last_report` still has to add to `_last`
_executable: Callable[[], Any] = lambda: None  # what runs the graph of `_last`


def last_report() -> dict[str, Any] | None:
    """The compiler's report on the graph that was compiled last; None before the first.

    "phases" and "kernels" have times in milliseconds, "fallbacks" the operators that
    PyTorch runs. "parts" is the number of programs that the graph became; if it was cut,
    "outside" has the operators between them. "eager" has the reason if PyTorch runs the whole graph. If "cache" is
    "hit", the package came from the cache, and the report is of the compilation that
    made it. "copied_arguments" counts the arguments that calls of the graph have copied
    until now, because their memory is not aligned to their dtype.

    After the first calls of the graph there are also "torch_share", the share of a
    call's time in PyTorch's operators, "guard_share", that of Dynamo's guards, and
    "graph_breaks", the user's lines that cut the model, with their reasons.
    """
    global _last, _rest
    with _lock:
        if _rest:
            _last, _rest = json.loads(_rest) | (_last or {}), ""
        if _last is not None and (executable := _executable()) is not None:
            _last["copied_arguments"] = executable.copied_arguments
            _last |= getattr(executable, "ran", {})
        return _last


def record(
    report: dict[str, Any], rest: str = "", executable: Any = None, **added: int
) -> None:
    """Makes `report` the last one and adds `added` to the counters.

    `rest` is more of the report, as JSON. `last_report` parses it, so that a start
    from the cache does not wait for the parser. `executable` runs the graph, and counts
    what the report says of its calls.
    """
    global _last, _rest, _executable
    with _lock:
        _last, _rest = report, rest
        _executable = (lambda: None) if executable is None else weakref.ref(executable)
    if added.get("graphs"):
        hit = report.get("cache") == "hit"
        report["parts"] = 1
        added |= {"cache_hits": 1} if hit else {"compiles": 1}
        fields = {n: v for n, v in added.items() if n in ("kernels", "fallback_calls")}
        from_cache = {"graph": report.get("name"), "cache": "hit" if hit else "miss"}
        log("info", "compiled", **from_cache, **fields, ms=_milliseconds(report))
    count(**added)


def _milliseconds(report: dict[str, Any]) -> float:
    return round(sum(phase["ms"] for phase in report.get("phases", [])), 3)


def log(level: str, event: str, **fields: Any) -> bool:
    """Writes the event as a line of JSON on stderr if ANABRANCH_LOG=json asks for it.
    Returns whether it did."""
    if not logs_json():
        return False
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
    line = {"time": now, "level": level, "event": event} | fields
    sys.stderr.write(json.dumps(line, default=str) + "\n")
    sys.stderr.flush()
    return True


def count(**added: int) -> None:
    with _lock:
        for name, amount in added.items():
            setattr(counters, name, getattr(counters, name) + amount)


def record_eager(name: str, reason: str, explain: bool) -> None:
    record({"name": name, "eager": reason, "torch_share": 1.0}, eager_graphs=1)
    logged = log("warning", "fallback", graph=name, reason=reason)
    if explain and not logged:
        say(f"{name}: the whole graph runs through PyTorch: {reason}")


def record_parts(
    name: str, reason: str, parts: int, outside: list[str], explain: bool
) -> dict[str, Any]:
    """Notes that a graph was cut: `parts` graphs are compiled, and PyTorch runs the
    operators `outside`. Returns the report."""
    report = {"name": name, "parts": parts, "outside": outside, "reason": reason}
    record(report, fallback_calls=len(outside))
    about = {"graph": name, "reason": reason, "operators": outside, "parts": parts}
    if not log("warning", "fallback", **about) and explain:
        say(
            f"{name}: {reason}; {', '.join(outside)} run through PyTorch, the rest"
            f" as {parts} graphs"
        )
    return report


def explain_report(report: dict[str, Any]) -> None:
    """Prints on stderr what one compilation remarked: fallbacks, super kernels, phases."""
    name = report.get("name", "graph")
    for entry in report.get("fallbacks", []):
        where = f" at {entry['location']}" if entry.get("location") else ""
        reason = f": {entry['reason']}" if entry.get("reason") else ""
        say(f"{name}: {entry['op']} runs through PyTorch{where}{reason}")
    for entry in report.get("super_kernels", []):
        where = f" at {entry['location']}" if entry.get("location") else ""
        sizes = " of sizes that calls bind" if entry.get("symbolic") else ""
        say(
            f"{name}: super kernel {entry['name']}: {entry['launches']} launches"
            f"{sizes}{where}"
        )
    for remark in report.get("explain", []):
        say(f"{name}: {remark}")
    for phase in [] if report.get("cache") == "hit" else report.get("phases", []):
        say(f"{name}: {phase['name']} took {phase['ms']:.1f} ms")


def say(text: str) -> None:
    if not log("info", "message", text=text):
        print(f"anabranch: {text}", file=sys.stderr)


class Bar:
    """A progress bar on stderr, which `close` wipes. Prints nothing unless `shown`."""

    WIDTH = 32

    def __init__(self, title: str, shown: bool) -> None:
        self._title = title
        self._shown = shown and not logs_json()

    def __call__(self, part: float) -> None:
        """Draws the bar for the part of the work that is done, from 0 to 1."""
        if self._shown:
            full = round(part * self.WIDTH)
            bar = "#" * full + "." * (self.WIDTH - full)
            sys.stderr.write(f"\ranabranch: {self._title} [{bar}] {part:4.0%}")
            sys.stderr.flush()

    def close(self) -> None:
        if self._shown:
            sys.stderr.write("\r" + " " * (self.WIDTH + len(self._title) + 22) + "\r")
            sys.stderr.flush()


class Progress:
    """The line on stderr that shows the compiler's progress. `close` wipes it."""

    def __init__(self) -> None:
        self._width = 0

    def __call__(self, phase: str, done: int, total: int) -> None:
        if logs_json():
            return
        text = f"anabranch: {phase} {done}/{total}"
        padding = " " * max(0, self._width - len(text))
        self._width = len(text)
        sys.stderr.write(f"\r{text}{padding}")
        sys.stderr.flush()

    def close(self) -> None:
        if self._width:
            sys.stderr.write("\r" + " " * self._width + "\r")
            sys.stderr.flush()
            self._width = 0
