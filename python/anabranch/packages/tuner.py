"""Times blockings of a graph's products on this machine: how each is cut up.

The compiler lists candidates for each kernel, by its cost model. One package takes
the second candidate of every kernel, one the third and so on; they run in turns,
and the trace says how long each kernel took in each. A last package takes the best of
each kernel, and runs against the compiler's own choice: what does not win there too
was luck.
"""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch

from .. import _C, scratch
from ..config import Config
from ..describe.description import Description
from ..describe.tensors import DTYPES
from ..shapes.gears import Binding
from ..trace.profiler import profile
from . import package

# Of each kernel, with what the compiler chooses.
MOST_CANDIDATES = 12
# A candidate must gain so much, since even equal ones differ a little.
LEAST_GAIN = 0.03
# Turns of all packages: of the candidates, and of the winners.
LEAST_TURNS, MOST_TURNS = 3, 100
# What a package computes in one turn: at least so many calls and seconds.
LEAST_CALLS, MOST_CALLS, TURN_SECONDS = 3, 50, 0.005
# The parts of the time after which no package is made, and no candidate runs.
COMPILING, TRYING = 0.4, 0.7

# The blocking of a kernel as text, with its time and the default's in microseconds.
Result = dict[str, Any]
WHOLE = ""
Tell = Callable[[float], None]


@dataclasses.dataclass
class Variant:
    """A package with one candidate of each kernel, by the kernels' keys. `times` are
    the microseconds of each kernel in a call, by their names, of each turn; those of
    the whole call have the name WHOLE."""

    blockings: dict[str, str]
    executable: _C.Executable
    arguments: list[Any]
    times: dict[str, list[float]] = dataclasses.field(default_factory=dict)


class Clock:
    """The time that tuning may take, and who is told how much of it went."""

    def __init__(self, seconds: float, tell: Tell) -> None:
        self._begin = time.monotonic()
        self._seconds = seconds
        self._tell = tell

    def spent(self) -> float:
        """The part of the time that went."""
        part = (time.monotonic() - self._begin) / self._seconds
        self._tell(min(part, 1.0))
        return part


def tune(
    described: Description,
    config: Config,
    binding: Binding,
    known: Mapping[str, Result],
    clock: Clock,
    until: float = 1.0,
) -> dict[str, Result]:
    """The best blocking of each kernel of a product, by its key: those of `known`
    and what was found until this part of the time had gone. A kernel for which the
    compiler's own choice is best has an empty text."""
    quiet = dataclasses.replace(
        config, dump=None, progress=False, explain=False, trace=None, stop=None
    )
    with scratch.folder() as folder:
        maker = _Maker(described, quiet, binding, folder)
        kernels, default = maker.default()
        results = {k["key"]: known[k["key"]] for k in kernels if k["key"] in known}
        open_kernels = [k for k in kernels if k["key"] not in known]
        if not open_kernels:
            return results
        begin = clock.spent()

        def until_part(part: float) -> Callable[[], bool]:
            return lambda: clock.spent() > begin + (until - begin) * part

        variants = [default]
        is_late = until_part(COMPILING)
        for blockings in _rounds(open_kernels):
            if is_late():
                break
            variants.append(maker.make(blockings))
        _run_in_turns(variants, until_part(TRYING))
        found = {k["key"]: _best(k, variants) for k in open_kernels}
        winners = {k: r["parameters"] for k, r in found.items() if r["parameters"]}
        if winners:
            final = [dataclasses.replace(default, times={}), maker.make(winners)]
            _run_in_turns(final, until_part(1.0))
            found = {k["key"]: _best(k, final) for k in open_kernels}
            if min(final[1].times[WHOLE]) > min(final[0].times[WHOLE]):
                found = {key: _default(result) for key, result in found.items()}
        return results | found


class _Maker:
    """Makes packages of one graph that differ in blockings alone."""

    def __init__(
        self, described: Description, config: Config, binding: Binding, folder: str
    ) -> None:
        self._described, self._config = described, config
        self._bindings = [binding] if binding else []
        self._values = dict(binding)
        self._folder = folder
        self._count = 0
        self._first: _C.Executable | None = None

    def default(self) -> tuple[list[dict[str, Any]], Variant]:
        """The kernels that have candidates, and the package that takes the first."""
        executable, report = self._compile({}, MOST_CANDIDATES)
        self._first = executable
        arguments = [self._argument(info) for info in executable.inputs]
        # The same kernel may be in several programs.
        kernels = {k["key"]: k for k in report.get("blockings", [])}
        return list(kernels.values()), Variant({}, executable, arguments)

    def make(self, blockings: dict[str, str]) -> Variant:
        executable, _ = self._compile(blockings, 0)
        arguments = [self._argument(info) for info in executable.inputs]
        return Variant(blockings, executable, arguments)

    def _compile(
        self, blockings: dict[str, str], listed: int
    ) -> tuple[_C.Executable, dict[str, Any]]:
        self._count += 1
        path = os.path.join(self._folder, str(self._count))
        described = dataclasses.replace(self._described, blockings=blockings)
        report = package.write(
            described, self._config, path, self._bindings, list_blockings=listed
        )
        executable = _C.Executable(
            path,
            threads=self._config.threads,
            check_hashes=False,
            like=self._first,
            trust=self._config.trust or "",
        )
        return executable, report

    def _argument(self, info: Mapping[str, Any]) -> Any:
        """Normal values; zeros for integers, which are indices that every table has."""
        if info["scalar"]:
            return self._scalar(info["name"])
        kind = next(theirs for theirs, ours in DTYPES.items() if ours == info["dtype"])
        values = torch.empty_strided(
            info["shape"], info["strides"], dtype=torch.float32
        )
        if kind.is_floating_point or kind.is_complex:
            return values.normal_().to(kind)
        return values.zero_().to(kind)

    def _scalar(self, name: str) -> int:
        for entry in self._described.graph["inputs"]:
            if name in (entry["name"], entry.get("label")):
                expression = entry.get("expr")
                return int(self._values.get(str(expression), 1))
        return 1


def _rounds(kernels: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, str]]:
    """The second candidate of each kernel, then the third and so on."""
    for number in range(1, MOST_CANDIDATES):
        blockings = {
            kernel["key"]: kernel["candidates"][number]["parameters"]
            for kernel in kernels
            if number < len(kernel["candidates"])
        }
        if blockings:
            yield blockings


def _run_in_turns(variants: Sequence[Variant], is_late: Callable[[], bool]) -> None:
    """Whoever runs first changes, so that a slow moment of the machine hits all."""
    order = list(variants)
    for turn in range(MOST_TURNS):
        for variant in order:
            _run(variant)
        order.append(order.pop(0))
        if is_late() and turn + 1 >= LEAST_TURNS:
            return


def _run(variant: Variant) -> None:
    with torch.no_grad():
        start = time.perf_counter()
        variant.executable(list(variant.arguments))  # brings the caches back
        calls = int(TURN_SECONDS / (time.perf_counter() - start))
        with profile() as trace:
            for _ in range(min(max(calls, LEAST_CALLS), MOST_CALLS)):
                variant.executable(list(variant.arguments))
    for name, microseconds in _times_by_kernel(trace.events()).items():
        variant.times.setdefault(name, []).append(microseconds)


def _times_by_kernel(events: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """The shortest sum over one call's launches. Launches in a super kernel are seen
    at their workers alone."""
    kinds = ("worker", "stream", "call")
    sums: dict[str, dict[str, dict[int, float]]] = {kind: {} for kind in kinds}
    for event in events:
        if (kind := event.get("cat")) in sums and "call" in event.get("args", {}):
            name = WHOLE if kind == "call" else event["name"]
            calls = sums[kind].setdefault(name, {})
            call = event["args"]["call"]
            calls[call] = calls.get(call, 0.0) + event["dur"]
    both = sums["worker"] | sums["stream"] | sums["call"]
    return {name: min(calls.values()) for name, calls in both.items()}


def _best(kernel: Mapping[str, Any], variants: Sequence[Variant]) -> Result:
    name, key = kernel["kernel"], kernel["key"]
    default = variants[0].times.get(name)
    best: Result = {"parameters": ""}
    if not default:
        return best  # it ran in no call
    best |= {"us": min(default), "default_us": min(default)}
    for variant in variants[1:]:
        times = variant.times.get(name)
        if not times or key not in variant.blockings:
            continue
        if _gains(times, default) and min(times) < best["us"]:
            best |= {"parameters": variant.blockings[key], "us": min(times)}
    return best


def _gains(times: Sequence[float], default: Sequence[float]) -> bool:
    """By the fastest turn, and by the fastest quarter of them: other processes slow
    turns down, and one turn alone may be luck."""
    quarter, other = sorted(times)[len(times) // 4], sorted(default)[len(default) // 4]
    return min(times) < min(default) * (1 - LEAST_GAIN) and quarter < other


def _default(result: Result) -> Result:
    if not result["parameters"]:
        return result
    return result | {"parameters": "", "us": result["default_us"]}
