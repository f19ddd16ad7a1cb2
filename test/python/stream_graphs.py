"""Random functions with streams, waits and events, and the order they ask for.
With `supers` also with super kernels, inside of which streams become lanes: there
launches are in order where waits and events say so, and tiles where data does.

Every step is one line of source, so that a trace's commands are known by their
lines. Steps are operators that fuse with no other: products, sorts, random
numbers and writes of a product into an argument.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

SIZE = 16
# Of the arguments: two that are read, one that is written, too.
ARGUMENTS = ("x", "y", "cache")


@dataclasses.dataclass
class Step:
    """A line that computes something."""

    line: int
    kind: str  # "mm", "sort", "rand", "write"
    tag: str | None
    needs: set[int]  # lines that end before this one begins
    # Lines that end before the argument is overwritten.
    readers: set[int] = dataclasses.field(default_factory=set)
    # Lines that end before this one draws its numbers, memory being there already.
    draws: set[int] = dataclasses.field(default_factory=set)


@dataclasses.dataclass
class Value:
    name: str
    lines: set[int]  # that end before it is there
    waits: set[int] = dataclasses.field(default_factory=set)  # asked for, of these


class Graph:
    """One random function; `steps` says what must hold whenever it runs."""

    def __init__(self, seed: int, supers: bool = False) -> None:
        self.random = random.Random(seed)
        self.supers = supers
        self.super: str | None = None  # the scope of the lines to come
        self.source = [f"def function({', '.join(ARGUMENTS)}):"]
        self.steps: list[Step] = []
        self.values = [Value(name, set()) for name in ARGUMENTS]
        self.results: list[Value] = []
        self.events: list[Value] = []
        # Of each stream: what comes before its next line, and before its next event.
        self.last: dict[str | None, set[int]] = {}
        self.given: dict[str | None, set[int]] = {}
        self.cache_readers: set[int] = set()
        self.written = False
        self.known: set[tuple[Any, ...]] = set()
        self.tags = [None, None, *"abcd"[: self.random.randint(1, 4)]]
        self.priority = {tag: self.random.randint(-3, 3) for tag in self.tags if tag}
        self.draws: set[int] = set()
        for _ in range(self.random.randint(4, 14)):
            self._line()
        names = ", ".join(value.name for value in self.results)
        self.source.append(f"    return ({names},)")

    def function(self, folder: Path) -> Callable[..., Any]:
        file = folder / "graph.py"
        file.write_text("\n".join(self.source) + "\n")
        import torch

        import anabranch

        scope: dict[str, Any] = {"anabranch": anabranch, "torch": torch}
        exec(compile(file.read_text(), str(file), "exec"), scope)  # noqa: S102
        return scope["function"]

    def is_safe(self) -> bool:
        """Whether a reader of what is overwritten certainly ends before."""
        done: dict[int, set[int]] = {}
        for step in self.steps:
            before = step.needs | step.draws
            done[step.line] = before.union(*(done[line] for line in before))
        return all(step.readers <= done[step.line] for step in self.steps)

    def _line(self) -> None:
        tag = self.random.choice(self.tags)
        indent = "    "
        if self.supers and self.random.random() < 0.3:
            self.super = self.random.choice([None, "a", "a", "b"])
        if self.super is not None:
            scope = f"anabranch.super_kernel({self.super!r}, 'stream-fusion=1')"
            self.source.append(f"{indent}with {scope}:")
            indent += "    "
        if tag is not None:
            scope = f"anabranch.stream({tag!r}, {self.priority[tag]})"
            self.source.append(f"{indent}with {scope}:")
            indent += "    "
        if self.random.random() < 0.2:
            self.source.append(f"{indent}with anabranch.limit_cores(1):")
            indent += "    "
        after = self.last.setdefault(tag, set())
        given = self.given.setdefault(tag, set())
        luck = self.random.random()
        if luck < 0.2 and self.results:
            self._wait(indent, after)
        elif luck < 0.3:
            name = f"event{len(self.source)}"
            self.source.append(f"{indent}{name} = anabranch.record()")
            self.events.append(Value(name, after | given))
        elif luck < 0.4 and self.events:
            event = self.random.choice(self.events)
            self.source.append(f"{indent}anabranch.wait_event({event.name})")
            after |= event.lines
        else:
            self._step(indent, tag, after)

    def _wait(self, indent: str, after: set[int]) -> None:
        value = self.random.choice(self.values)
        dependency = self.random.choice(self.results)
        name = value.name
        after |= dependency.lines
        # The written argument keeps its name: later writes would miss another.
        if self.random.random() < 0.5 and value.name != "cache":
            name = f"passed{len(self.source)}"
            lines = value.lines | after
            self.values.append(Value(name, lines, set(after)))
            self.source.append(f"{indent}{name} = {self._wait_text(value, dependency)}")
        else:
            self.source.append(indent + self._wait_text(value, dependency))

    @staticmethod
    def _wait_text(value: Value, dependency: Value) -> str:
        return f"anabranch.wait({value.name}, {dependency.name})"

    def _step(self, indent: str, tag: str | None, after: set[int]) -> None:
        line = len(self.source) + 1
        kinds = ["mm"] * 5 + ["sort", "rand"] + ["write"] * (not self.written)
        kind = self.random.choice(kinds)
        a, b = self.random.choice(self.values), self.random.choice(self.values)
        name = f"v{line}"
        text, read = {
            "mm": (f"{name} = {a.name} @ {b.name}", [a, b]),
            "sort": (f"{name} = torch.sort({a.name}).values", [a]),
            "rand": (f"{name} = torch.empty_like({a.name}).uniform_(-0.4, 0.4)", []),
            "write": (f"cache.copy_({a.name} @ {b.name})", [a, b]),
        }[kind]
        same = (kind, tag, *(value.name for value in read), self.written)
        if kind != "rand" and same in self.known:
            self.source.append(indent + "pass")
            return
        self.known.add(same)
        step = Step(line, kind, tag, set(after))
        for value in read:
            step.needs |= value.waits if self.supers else value.lines
            if value.name == "cache" and not self.written:
                self.cache_readers.add(line)
        if kind == "rand":
            step.draws = self.draws
            self.draws = {line}
        self.steps.append(step)
        self.source.append(indent + text)
        self.given[tag].add(line)
        if not self.supers:
            after.add(line)
        if kind == "write":
            self.written = True
            step.readers = self.cache_readers - {line}
            made = next(value for value in self.values if value.name == "cache")
            made.lines = {line}
            self.results.append(made)
        else:
            self.values.append(Value(name, {line}))
            self.results.append(self.values[-1])
