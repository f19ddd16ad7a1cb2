"""Says how a call of Dynamo's graph becomes a call of the program, and how the
program's results become the graph's.

AOTAutograd wraps what a backend returns. A replay runs without this wrapper, so a
Calling records what the wrapper would do."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from .. import _C
from ..describe.views import Alias, restore

Call = Callable[..., Any]


class Mismatch(AssertionError):
    """The graph was not compiled for this argument."""


@dataclasses.dataclass(frozen=True)
class Calling:
    """What a call does besides running the program. Positions count the arguments of
    Dynamo's graph."""

    arguments: int  # the number of arguments
    passed: list[int]  # the position behind each input of the program
    copied: list[int]  # inputs of the program that a call makes contiguous
    views: list[tuple[int, str, list[int]]]  # output, "expand" or "permute", argument
    aliases: list[Alias]  # outputs that the program does not compute
    # Per output: ["result"], ["input", position] or ["view", position, distance].
    outputs: list[list[Any]]
    inputs: list[dict[str, Any]]  # position, name, dtype, shape, strides, source
    # Conditions on several sizes: an expression, its names, and their positions.
    guards: list[tuple[str, list[str], list[int]]]
    guards_by_source: list[str]  # conditions on sizes that the graph does not use
    constants: list[tuple[int, str]]  # position and hash of each frozen argument

    def as_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, saved: Mapping[str, Any]) -> Calling:
        rows = {
            "views": [tuple(row) for row in saved["views"]],
            "aliases": [
                Alias(**{**row, "geometry": tuple(row["geometry"])})
                for row in saved["aliases"]
            ],
        }
        return cls(**{**saved, **rows})


def load_executable(
    path: str, calling: Calling, threads: int, trust: str = "", like: Any = None
) -> Any:
    """Loads the package. With `like`, another executable, equal weights are shared."""
    return _C.Executable(
        path,
        threads=threads,
        check_hashes=False,
        passed=calling.passed,
        copied=calling.copied,
        arguments=calling.arguments,
        views=calling.views,
        like=like,
        trust=trust,
    )


def graph_call(executable: Call, calling: Calling) -> Call:
    """Dynamo's graph as a function of its arguments: it runs the executable and does
    what AOTAutograd's wrapper would do."""
    boxed: Call = executable
    if calling.aliases:
        boxed = restore(executable, calling.aliases)
    guards = [compile_guard(*row) for row in calling.guards]
    plan = list(enumerate(calling.outputs))
    views = [(i, *row[1:]) for i, row in plan if row[0] == "view"]
    inputs = [(i, row[1]) for i, row in plan if row[0] == "input"]
    if not (calling.aliases or guards or views or inputs):
        return executable

    def call(*arguments: Any) -> Any:
        for holds, places, text in guards:
            if not holds(*(arguments[place] for place in places)):
                raise Mismatch(f"the graph was traced for sizes with {text}")
        results = list(boxed(list(arguments)))
        for output, base, distance in views:
            results[output] = view_like(arguments[base], results[output], distance)
        for output, base in inputs:
            results[output] = arguments[base]
        return results

    return call


def compile_guard(text: str, names: list[str], places: list[int]) -> Any:
    source = f"lambda {', '.join(names)}: {text}"
    known = {"__builtins__": {}, "math": importlib.import_module("math")}
    known |= {"min": min, "max": max, "abs": abs}
    return eval(source, known), places, text


def view_like(base: torch.Tensor, result: torch.Tensor, distance: int) -> torch.Tensor:
    """A view of `base` with the sizes and strides of `result`, `distance` elements in."""
    if result.dtype != base.dtype:
        if result.is_complex() and not base.is_complex():
            base = torch.view_as_complex(base.view(*base.shape[:-1], -1, 2))
        elif base.is_complex() and not result.is_complex():
            base = torch.view_as_real(base)
        else:
            base = base.view(result.dtype)
    start = base.storage_offset() + distance
    return base.as_strided(result.shape, result.stride(), start)


def evaluate(expr: Any, symbols: Mapping[str, int]) -> int:
    """The value of an EXPR of the graph description."""
    if isinstance(expr, int):
        return expr
    if isinstance(expr, str):
        return symbols[expr]
    kind, left, right = expr[0], *(evaluate(part, symbols) for part in expr[1:])
    return {
        "add": lambda: left + right,
        "mul": lambda: left * right,
        "sub": lambda: left - right,
        "floordiv": lambda: left // right,
        "ceildiv": lambda: -(-left // right),
        "mod": lambda: left % right,
        "min": lambda: min(left, right),
        "max": lambda: max(left, right),
        "pow": lambda: left**right,
    }[kind]()


def check_sizes(inputs: Sequence[Mapping[str, Any]], arguments: Sequence[Any]) -> None:
    """Mismatch: a tensor does not have the sizes and strides of the trace, with the
    symbols' values put in. Empty tensors are not checked."""
    symbols = {
        entry["expr"]: arguments[entry["argument"]]
        for entry in inputs
        if isinstance(entry.get("expr"), str)
    }
    for entry in inputs:
        value = arguments[entry["argument"]]
        if "shape" not in entry or not isinstance(value, torch.Tensor):
            continue
        for size in entry["shape"]:
            if isinstance(size, str):
                at = entry["shape"].index(size)
                symbols.setdefault(size, value.shape[at] if at < value.dim() else -1)
        if value.numel():
            check_tensor(entry, value, symbols)


def other_size(inputs: Sequence[Mapping[str, Any]], arguments: Sequence[Any]) -> str:
    """The first tensor whose size is not that of the trace, as a text; empty if all fit.
    Symbolic sizes are not compared."""
    for entry in inputs:
        value = arguments[entry["argument"]]
        if "shape" not in entry or not isinstance(value, torch.Tensor):
            continue
        wanted = [s if isinstance(s, int) else None for s in entry["shape"]]
        if len(wanted) != value.dim() or any(
            size is not None and size != found
            for size, found in zip(wanted, value.shape)
        ):
            return f"{entry['name']} has the shape {[*value.shape]}"
    return ""


def check_tensor(
    entry: Mapping[str, Any], value: torch.Tensor, symbols: Mapping[str, int]
) -> None:
    name = entry["name"]
    if len(entry["shape"]) != value.dim():
        raise Mismatch(
            f"{name}: wrong number of dimensions {len(entry['shape'])}"
            f" for expected {value.dim()}"
        )
    rows = zip(entry["shape"], entry["strides"], value.shape, value.stride())
    for dim, (size, stride, has_size, has_stride) in enumerate(rows):
        wants_size = evaluate(size, symbols)
        wants_stride = evaluate(stride, symbols)
        # The stride of a dimension of one element means nothing.
        if has_size != wants_size or (has_size > 1 and has_stride != wants_stride):
            raise Mismatch(
                f"{name}: expected size {has_size}=={wants_size}, "
                f"stride {has_stride}=={wants_stride} at dim={dim}"
            )
