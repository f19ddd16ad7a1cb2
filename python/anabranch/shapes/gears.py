"""Compiles a program for each combination of sizes that a user named (gears)."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any

import sympy
import torch
import torch.fx

from ..errors import OptionError
from ..marks.gear_sizes import gears_of

MOST_COMBINATIONS = 100


# The values of symbols, by their names.
Binding = dict[str, int]


@dataclasses.dataclass(frozen=True)
class GearDim:
    """A dimension of an input of a graph, and its gears."""

    input: str  # the name of the placeholder
    dim: int
    sizes: tuple[int, ...]
    size: Any  # the size in the trace: a SymInt, or an int if the trace fixed it


def find(module: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> list[GearDim]:
    """The gears of a graph's inputs."""
    found = []
    for name, value, example in _tensors(module, example_inputs):
        found += [
            GearDim(name, dim, sizes, value.shape[dim])
            for dim, sizes in gears_of(example).items()
        ]
    return sorted(found, key=lambda gear: (gear.input, gear.dim))


def _tensors(
    module: torch.fx.GraphModule, example_inputs: Sequence[Any]
) -> list[tuple[str, torch.Tensor, Any]]:
    placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
    return [
        (node.name, node.meta["example_value"], example)
        for node, example in zip(placeholders, example_inputs)
        if isinstance(node.meta.get("example_value"), torch.Tensor)
    ]


def guard(
    module: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    gears: Sequence[GearDim],
    pad: bool = False,
) -> None:
    """Makes Dynamo compile again for sizes that these gears do not cover: other sizes
    of dimensions without gears, and sizes that are no gear or, with `pad`, above the
    largest."""
    own = {(gear.input, gear.dim) for gear in gears}
    for name, value, _ in _tensors(module, example_inputs):
        for dim, size in enumerate(value.shape):
            if (name, dim) not in own:
                int(size)
    for gear in gears:
        sizes = sorted(set(gear.sizes))
        _assume(gear.size <= sizes[-1])
        if pad:
            continue
        _assume(gear.size >= sizes[0])
        for low, high in itertools.pairwise(sizes):
            if high > low + 1:
                _assume((gear.size <= low) | (gear.size >= high))


def _assume(condition: Any) -> None:
    """Evaluates a symbolic condition, which adds a guard for it."""
    assert bool(condition)


def check(gears: Sequence[GearDim], pad: bool = False) -> None:
    """OptionError: a size of the traced call is none of its gears."""
    for gear in gears:
        size = hint(gear.size)
        if size not in gear.sizes and not (pad and size <= max(gear.sizes)):
            raise OptionError(
                f"dimension {gear.dim} of the input {gear.input} is {size}, which is"
                f" none of its gears {list(gear.sizes)}: add this size to them"
            )


def hint(size: Any) -> int:
    return int(size.node.hint) if isinstance(size, torch.SymInt) else int(size)


def combine(gears: Sequence[GearDim], merge: str) -> list[tuple[int, ...]]:
    """The combinations of sizes, each once. OptionError: "zip" with lists of different
    lengths, or too many combinations."""
    if not gears:
        return []
    lists = [gear.sizes for gear in gears]
    if merge == "zip":
        if len({len(sizes) for sizes in lists}) > 1:
            counts = ", ".join(str(len(sizes)) for sizes in lists)
            raise OptionError(
                "with gears_merge='zip' all dimensions need equally many gears, got"
                f" {counts}; gears_merge='product' combines each with each"
            )
        combinations = list(dict.fromkeys(zip(*lists)))
    else:
        combinations = list(dict.fromkeys(itertools.product(*map(set, lists))))
        combinations.sort()
    if len(combinations) > MOST_COMBINATIONS:
        raise OptionError(
            f"there are {len(combinations)} combinations of gears, of at most"
            f" {MOST_COMBINATIONS}: name fewer sizes"
        )
    return combinations


def bindings(
    gears: Sequence[GearDim], combinations: Sequence[tuple[int, ...]]
) -> list[Binding]:
    """The values that each combination gives the symbols that remain after the trace.
    Dynamo's guards exclude combinations that give one symbol two values."""
    found: list[Binding] = []
    for combination in combinations:
        binding: Binding | None = {}
        for gear, size in zip(gears, combination):
            binding = _bind(binding, gear.size, size)
        if binding and binding not in found:
            found.append(binding)
    return found


def _bind(binding: Binding | None, size: Any, value: int) -> Binding | None:
    """The binding, extended so that `size` has this value; None if it cannot have it."""
    if binding is None:
        return None
    if not isinstance(size, torch.SymInt):
        return binding if size == value else None
    symbol, solution = _solve(size.node.expr, value)
    if symbol is None:
        return binding if solution == value else None
    bounds = size.node.shape_env.var_to_range.get(symbol)
    if solution is None or (bounds is not None and solution not in bounds):
        return None
    name = symbol.name
    if binding.setdefault(name, solution) != solution:
        return None
    return binding


def _solve(expr: sympy.Expr, value: int) -> tuple[sympy.Symbol | None, int | None]:
    """The symbol in a size, and its value when the size has this one."""
    free = sorted(expr.free_symbols, key=str)
    if not free:
        return None, int(expr)
    if len(free) > 1:
        raise OptionError(f"a dimension with gears has the size {expr}")
    symbol = free[0]
    if expr == symbol:
        return symbol, value
    found = [s for s in sympy.solve(sympy.Eq(expr, value), symbol) if s.is_Integer]
    return symbol, int(found[0]) if len(found) == 1 else None
