"""Times the first calls of a program, and says in one line what made them slow.

The program drops its listener after CALLS calls, so later calls cost nothing."""

from __future__ import annotations

import math
import threading
import time
from typing import Any

from .. import _C
from ..report import log, say
from . import dynamo

# The first call touches cold memory, so it does not count.
CALLS = 5
TORCH_SHARE = 0.05
GUARD_SHARE = 0.2

_lock = threading.Lock()
_said: set[object] = set()  # what lines of this process have said


class Times(threading.local):
    """Seconds that programs and PyTorch's operators of one thread took."""

    own = 0.0  # in programs, without PyTorch's operators in them


times = Times()


class FirstCalls:
    """Listens to the first calls of one program."""

    def __init__(self, name: str, tells: bool) -> None:
        self.name = name
        self.tells = tells
        self.ran: dict[str, Any] = {}  # for `last_report`
        self.calls = 0
        self.seconds = 0.0
        self.ended = math.inf  # when the last call ended
        self.period = math.inf  # the shortest time from the end of one call to the next
        self.operators: dict[tuple[str, str], float] = {}

    def __call__(self, seconds: float, operators: dict[tuple[str, str], float]) -> bool:
        """Whether more calls shall be timed."""
        times.own += seconds - sum(operators.values())
        now = time.perf_counter()
        self.calls += 1
        if self.calls > 1:
            self.period = min(self.period, now - self.ended)
            self.seconds += seconds
            for about, took in operators.items():
                self.operators[about] = self.operators.get(about, 0.0) + took
        self.ended = now
        if self.calls < CALLS:
            return True
        self._finish()
        return False

    def _finish(self) -> None:
        self.ran["torch_share"] = sum(self.operators.values()) / self.seconds
        self.ran["guard_share"] = 0.0
        self.ran["graph_breaks"] = []
        if (frame := dynamo.compiled_frame()) is not None:
            guards = dynamo.guard_seconds(frame)
            self.ran["guard_share"] = min(1.0, guards / self.period)
            self.ran["graph_breaks"] = dynamo.graph_breaks(frame)
        if self.tells:
            self._tell()

    def _tell(self) -> None:
        if self.ran["torch_share"] > TORCH_SHARE:
            tell_operators(self.name, self.ran["torch_share"], self.operators)
        if self.ran["graph_breaks"]:
            _tell_breaks(self.ran["graph_breaks"])
        if self.ran["guard_share"] > GUARD_SHARE:
            _tell_guards(self.name, self.ran["guard_share"])


def watch(executable: _C.Executable, name: str, tells: bool) -> None:
    """Times the first calls of an executable. `last_report` shows what they were spent
    on; with `tells`, a line on stderr does where it is worth one."""
    listener = FirstCalls(name, tells)
    executable.ran = listener.ran
    executable.time_calls(listener)


def tell_operators(
    name: str, share: float, operators: dict[tuple[str, str], float]
) -> None:
    """Says which share of a graph's calls PyTorch's operators take."""
    most = sorted(operators, key=lambda about: -operators[about])[:3]
    if not _is_news(("operators", *most)):
        return
    about = {"graph": name, "torch_share": share, "operators": most}
    if log("warning", "torch_operators", **about):
        return
    listed = ", ".join(_named(*about) for about in most)
    say(
        f"{name}: PyTorch's operators take {share:.0%} of a call: {listed}."
        " ANABRANCH_EXPLAIN=1 gives the reasons (docs/limits.md, L17); notices=False"
        " silences this"
    )


def _named(operator: str, line: str) -> str:
    return f"{operator} at {line}" if line else operator


def _tell_breaks(breaks: list[dict[str, str]]) -> None:
    breaks = [entry for entry in breaks if _is_news(("break", entry["line"]))]
    if not breaks:
        return
    if log("warning", "graph_breaks", breaks=breaks):
        return
    first = breaks[0]
    count = f"{len(breaks)} graph breaks cut" if breaks[1:] else "a graph break cuts"
    more = ", ".join(entry["line"] for entry in breaks[1:4])
    say(
        f"{count} the model: {first['line']} ({first['reason']})"
        f"{f', {more}' if more else ''}{', ...' if breaks[4:] else ''}."
        " Python runs between the graphs; fullgraph=True makes a break an error"
        f"{_way_out(breaks)}"
    )


def _way_out(breaks: list[dict[str, str]]) -> str:
    """Further advice about breaks where data decides a size or a number."""
    decided = ("Dynamic shape operator", "Unsupported Tensor.item() call")
    if not any(entry["reason"].startswith(decided) for entry in breaks):
        return ""
    return "; anabranch.compile(model) takes what data decide into the graph"


def _tell_guards(name: str, share: float) -> None:
    if not _is_news(("guards", name)) or log(
        "warning", "guards", graph=name, guard_share=share
    ):
        return
    say(
        f"{name}: Dynamo's guards take {share:.0%} of the time from call to call: they"
        " check that the model is what was traced. A guard_filter_fn of torch.compiler"
        " and anabranch.cache_compile check less, and a package (anabranch.export)"
        " nothing (docs/limits.md, L15)"
    )


def _is_news(what: object) -> bool:
    with _lock:
        known = what in _said
        _said.add(what)
        return not known
