"""Random functions as Python source, each line run by eager as it is written.

A step is the name of an operator and a few small numbers. The numbers choose
operands, dimensions and constants modulo what there is, so any list of steps is
a program, and any sublist of it is a smaller one: failures shrink well.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.nn import functional as F

DTYPES = {
    "f32": torch.float32,
    "i64": torch.int64,
    "bool": torch.bool,
    "f64": torch.float64,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "i8": torch.int8,
    "u8": torch.uint8,
    "i16": torch.int16,
    "i32": torch.int32,
}
NAMES = {dtype: name for name, dtype in DTYPES.items()}
# Simple operators come first, since failures shrink towards them.
SIZES = (2, 3, 1, 5, 0, 4, 7, 8, 9, 16, 17, 31, 33, 64, 65, 130, 257)
LAYOUTS = ("plain", "permuted", "stepped", "offset", "expanded", "overlapping")
MOST_ELEMENTS = 100_000
MOST_LINES = 40


@dataclasses.dataclass(frozen=True)
class Input:
    """dims are positions in the table of sizes; -1 stands for the size 1."""

    dtype: str
    dims: tuple[int, ...]
    layout: str = "plain"
    state: bool = False  # whether it is a parameter or buffer of the module
    same_as: int | None = None  # whether it is a view of that input


@dataclasses.dataclass
class Value:
    name: str
    tensor: torch.Tensor
    exact: bool  # whether it has no rounding errors, so that decisions may depend on it
    precision: float  # the worst machine epsilon on the way to it
    slack: float  # about the largest rounding error on the way to it


@dataclasses.dataclass
class Program:
    inputs: list[Input]
    sizes: tuple[int, ...]
    source: str
    # precision and slack of the outputs and the inputs
    bounds: list[tuple[float, float]]

    def function(self, reference: bool = False) -> Callable[..., Any]:
        """The function. As a reference it computes all floats in f64."""
        scope = namespace(reference)
        exec(compile(self.source, "<random graph>", "exec"), scope)  # noqa: S102
        return scope["function"]

    def arguments(
        self, seed: int, reference: bool = False, sizes: Sequence[int] | None = None
    ) -> list[torch.Tensor]:
        generator = torch.Generator().manual_seed(seed)
        made: list[torch.Tensor] = []
        for spec in self.inputs:
            if spec.same_as is not None:
                made.append(view_of(made[spec.same_as], spec.layout))
            else:
                made.append(make_input(spec, sizes or self.sizes, generator, reference))
        return made


def namespace(reference: bool = False) -> dict[str, Any]:
    scope: dict[str, Any] = {"torch": torch, "F": F}
    for name, dtype in DTYPES.items():
        wide = reference and dtype.is_floating_point
        scope[name] = torch.float64 if wide else dtype
    return scope


def make_input(
    spec: Input, sizes: Sequence[int], generator: torch.Generator, reference: bool
) -> torch.Tensor:
    """Multiples of 1/4 between -3 and 3: exact in every float, and so are sums of few."""
    shape = [1 if dim < 0 else sizes[dim] for dim in spec.dims]
    dtype = namespace(reference)[spec.dtype]
    base, view = stored(shape, spec.layout)
    values = torch.randint(-12, 13, base, generator=generator)
    if spec.dtype == "bool":
        return view(values > 0)
    if spec.dtype == "u8":
        return view(values.abs().to(dtype))
    return view((values / 4).to(dtype) if dtype.is_floating_point else values.to(dtype))


def stored(
    shape: list[int], layout: str
) -> tuple[list[int], Callable[[torch.Tensor], torch.Tensor]]:
    """The shape in memory, and how the function sees the input there."""
    rank = len(shape)
    if layout == "permuted" and rank > 1:
        return shape[::-1], lambda base: base.permute(*reversed(range(rank)))
    if layout == "stepped" and rank:
        return [*shape[:-1], 2 * shape[-1]], lambda base: base[..., ::2]
    if layout == "offset" and rank:
        return [shape[0] + 1, *shape[1:]], lambda base: base[1:]
    if layout == "expanded" and rank:
        return [1, *shape[1:]], lambda base: base.expand(shape)
    if layout == "overlapping" and rank == 2 and min(shape) > 0:
        return [sum(shape)], lambda base: base.as_strided(shape, (1, 1))
    return shape, lambda base: base


def view_of(tensor: torch.Tensor, layout: str) -> torch.Tensor:
    if layout == "permuted" and tensor.dim() > 1:
        return tensor.transpose(0, 1)
    if layout == "offset" and tensor.dim():
        return tensor[1:]
    return tensor


def fitting(spec: Input, sizes: Sequence[int]) -> Input:
    """The input with as many of its dimensions as are not too large."""
    elements, dims = 1, 0
    for dim in spec.dims:
        elements *= 1 if dim < 0 else max(sizes[dim], 1)
        dims += elements <= MOST_ELEMENTS
    return dataclasses.replace(spec, dims=spec.dims[:dims])


class Picks:
    """The numbers of a step, one after the other; zeros when they are used up."""

    def __init__(self, numbers: Sequence[int]) -> None:
        self.numbers = list(numbers)

    def __call__(self, count: int) -> int:
        number = self.numbers.pop(0) if self.numbers else 0
        return number % count if count > 0 else 0

    def of(self, choices: Sequence[Any]) -> Any:
        return choices[self(len(choices))]


class Writer:
    """Writes the body of the function, and keeps the value of every line."""

    def __init__(self, inputs: list[torch.Tensor]) -> None:
        self.scope = namespace()
        self.lines: list[str] = []
        self.values: list[Value] = []
        self.inputs = len(inputs)
        for number, tensor in enumerate(inputs):
            self._keep(f"a{number}", tensor, True)

    def pick(
        self, picks: Picks, wanted: Callable[[Value], bool] = lambda value: True
    ) -> Value | None:
        """A value, counted from the last."""
        found = [value for value in reversed(self.values) if wanted(value)]
        return picks.of(found) if found else None

    def add(self, expression: str, *read: Value | None, exact: bool = False) -> None:
        """Adds a value. Returns nothing if eager refuses it, or its values are
        unsuitable."""
        if len(self.lines) >= MOST_LINES:
            return
        try:
            result = eval(expression, self.scope)
        except (RuntimeError, IndexError, TypeError, ValueError, NotImplementedError):
            return
        if not isinstance(result, torch.Tensor) or not tame(result):
            return
        operands = [value for value in read if value is not None]
        name = f"v{len(self.lines)}"
        self.lines.append(f"{name} = {expression}")
        exact = not result.is_floating_point() or (
            exact and all(value.exact for value in operands)
        )
        self._keep(name, result, exact, operands)

    def write(self, statement: str, target: Value, *read: Value) -> None:
        """Adds a write in place, which changes every value that shares the target's
        memory."""
        before = {value.name: value.tensor.clone() for value in self.values}
        try:
            exec(statement, self.scope)  # noqa: S102
            bad = not all(tame(value.tensor) for value in self.values)
        except (RuntimeError, IndexError, TypeError, ValueError):
            return
        if bad:
            for value in self.values:
                if not torch.equal(value.tensor, before[value.name]):
                    value.tensor.copy_(before[value.name])
            return
        self.lines.append(statement)
        storage = target.tensor.untyped_storage().data_ptr()
        for value in self.values:
            if value.tensor.untyped_storage().data_ptr() == storage:
                value.exact = value.exact and all(other.exact for other in read)
                value.precision = max(value.precision, *(v.precision for v in read))
                value.slack = max(value.slack, *(v.slack for v in read))

    def _keep(
        self, name: str, tensor: torch.Tensor, exact: bool, read: Sequence[Value] = ()
    ) -> None:
        self.scope[name] = tensor
        own = torch.finfo(tensor.dtype).eps if tensor.is_floating_point() else 0.0
        precision = max([own, *(value.precision for value in read)])
        slack = max([own * scale(tensor), *(value.slack for value in read)])
        self.values.append(Value(name, tensor, exact, precision, slack))


def tame(tensor: torch.Tensor) -> bool:
    """Whether the values are small, finite and far from overflow."""
    if tensor.numel() > MOST_ELEMENTS or tensor.dim() > 6 or tensor.dtype not in NAMES:
        return False
    if not tensor.is_floating_point() or tensor.numel() == 0:
        return True
    return bool(tensor.isfinite().all()) and float(tensor.abs().max()) < 2000


def write_program(
    inputs: list[Input],
    sizes: tuple[int, ...],
    steps: Sequence[tuple[str, Sequence[int]]],
    outputs: Sequence[int],
) -> Program:
    from random_operators import OPERATORS

    inputs = [fitting(spec, sizes) for spec in inputs]
    program = Program(inputs, sizes, "", [])
    writer = Writer(program.arguments(0))
    for name, numbers in steps:
        OPERATORS[name](writer, Picks(numbers))
    chosen = [writer.values[-1]]
    for number in outputs:
        chosen.append(writer.values[-1 - number % len(writer.values)])
    names = ", ".join(f"a{i}" for i in range(len(inputs)))
    body = [*writer.lines, f"return [{', '.join(value.name for value in chosen)}]"]
    text = "\n    ".join(body)
    program.source = f"def function({names}):\n    {text}\n"
    chosen += writer.values[: writer.inputs]
    program.bounds = [(value.precision, value.slack) for value in chosen]
    return program


def scale(tensor: torch.Tensor) -> float:
    finite = tensor.double().nan_to_num(0, 0, 0).abs()
    return float(finite.max()) if finite.numel() else 0.0


def difference(
    actual: torch.Tensor,
    expected: torch.Tensor,
    reference: torch.Tensor,
    bounds: tuple[float, float],
) -> str | None:
    """What is wrong with a result; None if nothing is.

    Integers must be equal. Floats must be as near to the reference as eager is, up to a
    few roundings; up to many in f64, where the reference has no more digits than eager.
    """
    if actual.dtype != expected.dtype or actual.shape != expected.shape:
        return f"{actual.dtype} {actual.shape}, not {expected.dtype} {expected.shape}"
    if not expected.is_floating_point():
        wrong = actual != expected
    else:
        wide = reference.double()
        allowed = 8 * scale(expected.double() - wide)
        precision, slack = bounds
        roundings = 1000 if actual.dtype == torch.float64 else 32
        allowed += roundings * (precision * max(scale(wide), 0.01) + slack)
        wrong = (actual.double() - wide).abs() > allowed
        wrong |= actual.isnan() != expected.isnan()
        wrong &= expected.isfinite() | actual.isnan()
    if not wrong.any():
        return None
    where = wrong.nonzero()[0].tolist()
    position = tuple(where)
    return (
        f"{int(wrong.sum())} of {wrong.numel()} elements, first at {where}: "
        f"{actual[position].item()}, not {expected[position].item()}"
    )


def shared_with(
    results: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor]
) -> list[int]:
    """For each result, the first input that shares its memory; -1 for none."""
    pointers = [tensor.untyped_storage().data_ptr() for tensor in inputs]
    found = []
    for tensor in results:
        pointer = tensor.untyped_storage().data_ptr()
        known = pointer in pointers and tensor.numel() > 0
        found.append(pointers.index(pointer) if known else -1)
    return found
