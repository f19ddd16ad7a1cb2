"""Times plans of a graph's products on this machine.

The compiler lists candidates for each kernel, ordered by its cost model: a plan and its
blocking, as text. One package
takes the second candidate of every kernel, one the third, and so on. The packages run
in turns, and a trace tells the time of each kernel in each package. The last package
takes the best candidate of each kernel and runs against the compiler's own choice; a
candidate that does not win again is dropped."""

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

# Candidates of each kernel, the compiler's own choice included.
MOST_CANDIDATES = 12
# The least gain of a candidate, as a ratio: equal kernels differ a little in each run.
LEAST_GAIN = 0.03
# Turns of all packages: with the candidates, and with the winners.
LEAST_TURNS, MOST_TURNS = 3, 100
# The least work of a package in one turn: calls and seconds.
LEAST_CALLS, MOST_CALLS, TURN_SECONDS = 3, 50, 0.005
# Parts of the time: after the first no package is made, after the second no candidate
# runs.
COMPILING, TRYING = 0.4, 0.7

# The plan and blocking of a kernel as text, its time and that of the compiler's choice in
# microseconds.
Result = dict[str, Any]
WHOLE = ""
Tell = Callable[[float], None]


@dataclasses.dataclass
class Variant:
    """A package with one candidate of each kernel.

    `blockings` are by the kernels' keys. `times` has, for each turn, the microseconds
    of each kernel in a call, by its name, and those of the whole call under WHOLE.
    """

    blockings: dict[str, str]
    executable: _C.Executable
    arguments: list[Any]
    times: dict[str, list[float]] = dataclasses.field(default_factory=dict)


class Clock:
    """The time that tuning may take. It calls a function with the part that has passed."""

    def __init__(self, seconds: float, tell: Tell) -> None:
        self._begin = time.monotonic()
        self._seconds = seconds
        self._tell = tell

    def spent(self) -> float:
        """The part of the time that has passed."""
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
    """The best blocking of each kernel of a product, by its key.

    The results are those of `known`, and those found until the part `until` of the time
    has passed. An empty text means that the compiler's own choice is best.
    """
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
    """Makes packages of one graph that differ only in blockings."""

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
        """The kernels that have candidates, and the package with the first candidates."""
        executable, report = self._compile({}, MOST_CANDIDATES)
        self._first = executable
        arguments = [self._argument(info) for info in executable.inputs]
        # Several programs may have the same kernel.
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
        """Random normal values; zeros for integers, since every table has the index 0."""
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
    """The second candidate of each kernel, then the third, and so on."""
    for number in range(1, MOST_CANDIDATES):
        blockings = {
            kernel["key"]: kernel["candidates"][number]["parameters"]
            for kernel in kernels
            if number < len(kernel["candidates"])
        }
        if blockings:
            yield blockings


def _run_in_turns(variants: Sequence[Variant], is_late: Callable[[], bool]) -> None:
    """Runs the packages in turns. Each turn begins with another package, so that a slow
    moment of the machine does not always hit the same one."""
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
        variant.executable(list(variant.arguments))  # this call loads the caches
        calls = int(TURN_SECONDS / (time.perf_counter() - start))
        with profile() as trace:
            for _ in range(min(max(calls, LEAST_CALLS), MOST_CALLS)):
                variant.executable(list(variant.arguments))
    for name, microseconds in _times_by_kernel(trace.events()).items():
        variant.times.setdefault(name, []).append(microseconds)


def _times_by_kernel(events: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """For each kernel, the shortest sum over the launches of one call. Launches inside
    a super kernel are measured at the workers, which run them."""
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
        return best  # the kernel ran in no call
    best |= {"us": min(default), "default_us": min(default)}
    for variant in variants[1:]:
        times = variant.times.get(name)
        if not times or key not in variant.blockings:
            continue
        if _gains(times, default) and min(times) < best["us"]:
            best |= {"parameters": variant.blockings[key], "us": min(times)}
    return best


def _gains(times: Sequence[float], default: Sequence[float]) -> bool:
    """Whether the candidate gains, both by its fastest turn and by the turn that ends its
    fastest quarter. Other processes slow turns down, and one fast turn may be chance."""
    quarter, other = sorted(times)[len(times) // 4], sorted(default)[len(default) // 4]
    return min(times) < min(default) * (1 - LEAST_GAIN) and quarter < other


def _default(result: Result) -> Result:
    if not result["parameters"]:
        return result
    return result | {"parameters": "", "us": result["default_us"]}
