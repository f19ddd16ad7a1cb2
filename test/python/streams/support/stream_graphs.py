"""Random functions with streams, waits and events, and the order they ask for.
With `supers` also with super kernels, inside of which streams stay apart: there
launches are in order where waits and events say so, and tiles where data does.

Every step is one line of source, so that a trace's commands are known by their
lines. What is computed comes from one seed and where it runs from another: the
graphs of one seed differ in nothing but their annotations. Steps are operators
that fuse with no other: products, nextafter, random numbers, writes of a
product into an argument, and an operator of a user's library that takes its
time, so that the other streams get ahead of it.
"""

from __future__ import annotations

import dataclasses
import random
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.fx

import anabranch
from anabranch.location import location
from anabranch.marks import scope

SIZES = (9, 16, 16, 40, 72)
MOST_FACTORS = 40
_WRITES = torch.ops.aten.copy_.default
_SCOPES = (scope.STREAM, scope.PRIORITY, scope.CORES)
# Three arguments: two are read, one is also written.
ARGUMENTS = ("x", "y", "cache")


@torch.library.custom_op("stream_graphs::slow", mutates_args=())
def slow(x: torch.Tensor) -> torch.Tensor:
    time.sleep(_pauses.random() * 2e-4)
    return x.neg()


slow.register_fake(torch.empty_like)
_pauses = random.Random(0)


@dataclasses.dataclass
class Step:
    """A line of the function that computes something."""

    line: int
    kind: str  # "mm", "next", "rand", "slow", "write"
    tag: str | None
    needs: set[int]  # lines that must end before this one begins
    # Lines that must end before the argument is overwritten.
    readers: set[int] = dataclasses.field(default_factory=set)
    # Lines that must end before this one draws its numbers or calls the user's library.
    # Its memory may be allocated earlier.
    draws: set[int] = dataclasses.field(default_factory=set)


@dataclasses.dataclass
class Value:
    name: str
    lines: set[int]  # lines that must end before the value exists
    waits: set[int] = dataclasses.field(default_factory=set)  # asked for, of these
    degree: int = 1  # its number of factors: high powers overflow


class Graph:
    """One random function; `steps` says what must hold whenever it runs."""

    def __init__(self, seed: int, marking: int = 0, supers: bool = False) -> None:
        self.seed = seed
        self.supers = supers
        self.super: str | None = None  # the scope of the next lines
        self.random = random.Random(seed)
        self.marks = random.Random(f"{seed} {marking}")
        self.size = self.random.choice(SIZES)
        self.source = [f"def function({', '.join(ARGUMENTS)}):"]
        self.steps: list[Step] = []
        self.values = [Value(name, set()) for name in ARGUMENTS]
        self.results: list[Value] = []
        self.events: list[Value] = []
        # For each stream: the lines before its next line, and before its next event.
        self.last: dict[str | None, set[int]] = {}
        self.given: dict[str | None, set[int]] = {}
        self.cache_readers: set[int] = set()
        self.written = False
        self.known: dict[tuple[Any, ...], list[str | None]] = {}
        self.tags = [None, None, *"abcd"[: self.marks.randint(1, 4)]]
        self.priority = {tag: self.marks.randint(-3, 3) for tag in self.tags if tag}
        self.annotations: dict[int, dict[str, Any]] = {}  # of each line
        self.draws: set[int] = set()
        for _ in range(self.random.randint(4, 14)):
            self._line()
        while not self.results:
            self._line()
        names = ", ".join(value.name for value in self.results)
        self.source.append(f"    return ({names},)")

    def function(self, folder: Path) -> Callable[..., Any]:
        file = folder / "graph.py"
        file.write_text("\n".join(self.source) + "\n")
        names: dict[str, Any] = {"anabranch": anabranch, "torch": torch, "slow": slow}
        exec(compile(file.read_text(), str(file), "exec"), names)  # noqa: S102
        return names["function"]

    def is_safe(self) -> bool:
        """Whether each reader of an overwritten value certainly ends before the write."""
        done: dict[int, set[int]] = {}
        for step in self.steps:
            before = step.needs | step.draws
            done[step.line] = before.union(*(done[line] for line in before))
        return all(step.readers <= done[step.line] for step in self.steps)

    # Annotations

    def is_marked(self, module: torch.fx.GraphModule) -> bool:
        """Whether the nodes have the annotations of this source."""
        found = list(self._annotated(module))
        return bool(found) and all(
            {key: value for key, value in have.items() if key in _SCOPES} == wanted
            for _, have, wanted in found
        )

    def mark(self, module: torch.fx.GraphModule) -> None:
        """Gives a captured graph of another marking the marks of this one."""
        for node, have, wanted in self._annotated(module):
            others = {k: v for k, v in have.items() if k not in _SCOPES}
            node.meta["custom"] = others | wanted

    def _annotated(self, module: torch.fx.GraphModule) -> Iterator[Any]:
        for node in module.graph.nodes:
            # AOTAutograd's own writes to inputs have no scope.
            if node.op != "call_function" or node.target is _WRITES:
                continue
            line = location(node)["line"]
            if line in self.annotations:
                yield node, node.meta.get("custom") or {}, self.annotations[line]

    # Lines

    def _line(self) -> None:
        if self.supers and self.random.random() < 0.3:
            self.super = self.random.choice([None, "a", "a", "b"])
        luck = self.random.random()
        if luck < 0.2 and self.results:
            self._wait()
        elif luck < 0.3:
            self._record()
        elif luck < 0.4 and self.events:
            event = self.random.choice(self.events)
            tag = self._write(f"anabranch.wait_event({event.name})")
            self._after(tag).update(event.lines)
        else:
            self._step()

    def _after(self, tag: str | None) -> set[int]:
        return self.last.setdefault(tag, set())

    def _write(self, text: str, avoid: Sequence[str | None] = ()) -> str | None:
        """Writes a line in scopes of its own. Returns the stream that it is on."""
        tag = self.marks.choice([tag for tag in self.tags if tag not in avoid])
        annotation: dict[str, Any] = {}
        scopes = []
        if tag is not None:
            if self.marks.random() < 0.15:
                scopes.append(self._scope(self.marks.choice(self.tags[2:])))
            scopes.append(self._scope(tag))
            annotation = {scope.STREAM: tag, scope.PRIORITY: self.priority[tag]}
        if self.marks.random() < 0.2:
            cores = self.marks.randint(1, 3)
            place = self.marks.randint(0, len(scopes))
            scopes.insert(place, f"anabranch.limit_cores({cores})")
            annotation[scope.CORES] = cores
        if self.super is not None:
            options = "'stream-fusion=1'"
            scopes.insert(0, f"anabranch.super_kernel({self.super!r}, {options})")
        # One more line, which does not depend on the marking.
        head = f"with {', '.join(scopes)}" if scopes else "if True"
        self.source += [f"    {head}:", f"        {text}"]
        self.annotations[len(self.source)] = annotation
        return tag

    def _scope(self, tag: str) -> str:
        return f"anabranch.stream({tag!r}, {self.priority[tag]})"

    def _record(self) -> None:
        name = f"event{len(self.source)}"
        if self.random.random() < 0.3:
            label = repr(f"{name} of {self.seed}")
            tag = self._write(f"anabranch.record({label})")
            name = label
        else:
            tag = self._write(f"{name} = anabranch.record()")
        before = self._after(tag) | self.given.get(tag, set())
        self.events.append(Value(name, before))

    def _wait(self) -> None:
        value = self.random.choice(self.values)
        dependency = self.random.choice(self.results)
        text = f"anabranch.wait({value.name}, {dependency.name})"
        # The written argument keeps its name, since later writes must reach it.
        passes = self.random.random() < 0.5 and value.name != "cache"
        name = f"passed{len(self.source)}"
        tag = self._write(f"{name} = {text}" if passes else text)
        after = self._after(tag)
        after |= dependency.lines
        if passes:
            lines = value.lines | after
            self.values.append(Value(name, lines, set(after), value.degree))

    def _step(self) -> None:
        kinds = ["mm"] * 6 + ["next", "rand", "slow"] + ["write"] * (not self.written)
        kind = self.random.choice(kinds)
        a, b = self.random.choice(self.values), self.random.choice(self.values)
        if a.degree + b.degree > MOST_FACTORS:
            a, b = b, self.values[0]
        name = f"v{len(self.source)}"
        # The factor is as wide as the other values, so that products keep their shape.
        limits = f"-{1.7 / self.size**0.5:.2f}, {1.7 / self.size**0.5:.2f}"
        text, read = {
            "mm": (f"{name} = {a.name} @ {b.name}", [a, b]),
            "next": (f"{name} = torch.nextafter({a.name}, {a.name} + 1)", [a]),
            "rand": (f"{name} = torch.empty_like({a.name}).uniform_({limits})", []),
            "slow": (f"{name} = slow({a.name})", [a]),
            "write": (f"cache.copy_({a.name} @ {b.name})", [a, b]),
        }[kind]
        # Equal operators of one stream are computed once, those of two streams twice.
        work = "mm" if kind == "write" else kind
        # The name of a written value has two values in the source.
        names = [value.name for value in read]
        same = (work, *names, self.written and "cache" in names)
        places = self.known.setdefault(same, []) if kind != "rand" else []
        if len(places) > 1:
            return
        tag = self._write(text, avoid=places)
        places.append(tag)
        self._note(Step(len(self.source), kind, tag, set(self._after(tag))), name, read)

    def _note(self, step: Step, name: str, read: list[Value]) -> None:
        line = step.line
        for value in read:
            step.needs |= value.waits if self.supers else value.lines
            if value.name == "cache" and not self.written:
                self.cache_readers.add(line)
        if step.kind in ("rand", "slow"):
            step.draws = self.draws
            self.draws = {line}
        self.steps.append(step)
        self.given.setdefault(step.tag, set()).add(line)
        if not self.supers:
            self._after(step.tag).add(line)
        degree = sum(value.degree for value in read) or 1
        if step.kind == "write":
            self.written = True
            step.readers = self.cache_readers - {line}
            made = next(value for value in self.values if value.name == "cache")
            made.lines, made.degree = {line}, degree
            self.results.append(made)
        else:
            self.values.append(Value(name, {line}, set(), degree))
            self.results.append(self.values[-1])
