"""What was compiled, what fell back, and why: counted and explained."""

from __future__ import annotations

import dataclasses
import sys
import threading
from typing import Any


@dataclasses.dataclass
class Counters:
    """Sums over everything compiled since the process began or `reset`."""

    graphs: int = 0  # compiled by us
    kernels: int = 0  # different kernels in them
    launches: int = 0  # kernel launches per call of each
    fallback_calls: int = 0  # calls into PyTorch's dispatcher per call of each
    eager_graphs: int = 0  # graphs that run through PyTorch as a whole
    specialised: int = 0  # programs that were made for a shape behind the calls

    def reset(self) -> None:
        for field in dataclasses.fields(self):
            setattr(self, field.name, 0)


counters = Counters()
_lock = threading.Lock()
_last: dict[str, Any] | None = None


def last_report() -> dict[str, Any] | None:
    """The compiler's report on the graph compiled last: its phases and kernels
    with their times, the operators that fell back, and "eager" with the reason
    when the whole graph runs through PyTorch."""
    return _last


def record(report: dict[str, Any], **added: int) -> None:
    global _last
    with _lock:
        _last = report
    count(**added)


def count(**added: int) -> None:
    with _lock:
        for name, amount in added.items():
            setattr(counters, name, getattr(counters, name) + amount)


def record_eager(name: str, reason: str, explain: bool) -> None:
    record({"name": name, "eager": reason}, eager_graphs=1)
    if explain:
        say(f"{name}: the whole graph runs through PyTorch: {reason}")


def record_parts(
    name: str, reason: str, parts: int, outside: list[str], explain: bool
) -> None:
    """PyTorch runs the operators `outside` of the parts that were compiled."""
    record(
        {"name": name, "parts": parts, "outside": outside, "reason": reason},
        fallback_calls=len(outside),
    )
    if explain:
        say(
            f"{name}: {reason}; {', '.join(outside)} run through PyTorch, the rest"
            f" as {parts} graphs"
        )


def explain_report(report: dict[str, Any]) -> None:
    """Prints the remarks of one compilation on stderr."""
    name = report.get("name", "graph")
    for entry in report.get("fallbacks", []):
        where = f" at {entry['location']}" if entry.get("location") else ""
        reason = f": {entry['reason']}" if entry.get("reason") else ""
        say(f"{name}: {entry['op']} runs through PyTorch{where}{reason}")
    for entry in report.get("super_kernels", []):
        where = f" at {entry['location']}" if entry.get("location") else ""
        say(
            f"{name}: super kernel {entry['name']}: {entry['launches']} launches{where}"
        )
    for remark in report.get("explain", []):
        say(f"{name}: {remark}")
    for phase in report.get("phases", []):
        say(f"{name}: {phase['name']} took {phase['ms']:.1f} ms")


def say(text: str) -> None:
    print(f"anabranch: {text}", file=sys.stderr)


class Progress:
    """One line on stderr that is written over and over, then wiped."""

    def __init__(self) -> None:
        self._width = 0

    def __call__(self, phase: str, done: int, total: int) -> None:
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
