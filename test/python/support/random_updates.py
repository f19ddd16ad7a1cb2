"""Random programs that update views of their arguments in place, run in forked
processes between pages that fault.

    random_updates.py --count 1000 --seed 7      that many programs
    random_updates.py --seconds 3600             as many as an hour allows
    random_updates.py --strides                  compares strides of results too
    random_updates.py --operators                calls operators that write
    random_updates.py --cpu avx2                 compiles for fewer instructions

A program is source text, whose lines `random_update_lines.py` makes. It takes
views of its arguments (many with sizes of one or zero, steps and offsets, some
in the memory of another argument), updates some of them in place, reads the
others again, and returns a few values. The arguments of the compiled call lie
so that the byte after the last one, or before the first, cannot be touched;
gaps between the elements of an argument are compared as well, and which
arguments the results share memory with. Some programs are trained: their
gradients are compared, too. A program that PyTorch's own trace gets wrong
does not count.

A process runs one program after another. Of one that goes wrong it runs PyTorch's
own trace. If this is right, the process ends, and the program is judged, and
shrunk, in processes of its own.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import dataclasses
import itertools
import json
import logging
import mmap
import os
import random
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TextIO

import many_compilations
import other_cpu
import torch
from forked import ENDED, in_child
from random_update_lines import (
    call_text,
    compute_text,
    reshape_text,
    results_text,
    update_text,
    view_text,
)

from anabranch import anabranch

DTYPES = (
    "float32",
    "float64",
    "float16",
    "bfloat16",
    "int64",
    "int32",
    "int8",
    "uint8",
    "bool",
)
SIZES = (1, 1, 1, 2, 3, 5, 8, 16, 17, 31, 33, 40, 64, 65, 100)
FLOATS = ("float32", "float64", "float16", "bfloat16")
# What eager raises for a line that it refuses.
REFUSALS = (RuntimeError, IndexError, TypeError, ValueError, NotImplementedError)
MOST_ELEMENTS = 20_000
# A child that says nothing for so long hangs.
CHILD_SECONDS = 400
# A process takes that many programs before it is replaced: it keeps their arguments.
PROGRAMS_OF_A_CHILD = 50
RIGHT, LEFT_OUT, WRONG = "right", "left out", "wrong"
TRACE = "aot_eager"  # the backend that runs PyTorch's own trace


@dataclasses.dataclass(frozen=True)
class Argument:
    """How an argument lies in memory: `strides` in elements, `offset` elements after
    the first of its storage."""

    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    of: int | None = None  # the argument in whose memory this one lies

    @property
    def extent(self) -> int:
        """The elements of its storage."""
        if 0 in self.shape:
            return self.offset
        extent = sum((n - 1) * s for n, s in zip(self.shape, self.strides))
        return self.offset + extent + 1


@dataclasses.dataclass(frozen=True)
class Program:
    arguments: tuple[Argument, ...]
    lines: tuple[str, ...]
    results: tuple[str, ...]
    dynamic: bool
    at_end: bool  # the guard page is after the arguments, not before them
    strides: bool = False  # those of results are compared, too
    trained: bool = False  # gradients are compared, too

    @property
    def source(self) -> str:
        names = ", ".join(f"a{i}" for i in range(len(self.arguments)))
        body = "\n    ".join([*self.lines, results_text(self.results)])
        return f"def function({names}):\n    {body}\n"

    def function(self) -> Callable[..., list[torch.Tensor]]:
        scope: dict = {"torch": torch}
        exec(compile(self.source, "<random updates>", "exec"), scope)  # noqa: S102
        return scope["function"]

    def describe(self) -> str:
        lines = [f"# a{i}: {argument}" for i, argument in enumerate(self.arguments)]
        ways = f"# dynamic={self.dynamic}, trained={self.trained}"
        return "\n".join([*lines, ways, self.source])


# Arguments


def random_argument(rng: random.Random, dtype: str) -> Argument:
    shape: list[int] = []
    elements = 1
    for _ in range(rng.randint(1, 4)):
        size = 0 if rng.random() < 0.02 else rng.choice(SIZES)
        if elements * size > MOST_ELEMENTS:
            size = 1
        elements *= max(size, 1)
        shape.append(size)
    order = list(range(len(shape)))
    if rng.random() < 0.25:
        rng.shuffle(order)
    gap = rng.choice((1, 1, 1, 1, 2, 3))
    strides = [0] * len(shape)
    step = gap
    for dim in reversed(order):
        strides[dim] = step
        step *= shape[dim] + (rng.choice((0, 0, 0, 3)) if gap == 1 else 0)
    return Argument(dtype, tuple(shape), tuple(strides), rng.choice((0, 0, 1, 5)))


def argument_within(rng: random.Random, number: int, owner: Argument) -> Argument:
    """An argument in the memory of the argument `number`."""
    values = placed(owner, values_of(owner, 0))
    for _ in range(rng.randint(0, 2)):
        with contextlib.suppress(*REFUSALS):
            scope = {"torch": torch, "values": values}
            values = eval(view_text(rng, "values", values), scope)
    inside = (
        values.untyped_storage().data_ptr()
        + values.element_size() * values.storage_offset()
    )
    if values.data_ptr() != inside or values.dtype != getattr(torch, owner.dtype):
        return owner
    shape, strides = tuple(values.shape), tuple(values.stride())
    return Argument(owner.dtype, shape, strides, values.storage_offset(), number)


def values_of(argument: Argument, seed: int) -> torch.Tensor:
    """The elements of its storage: small integers, exact in every dtype."""
    generator = torch.Generator().manual_seed(seed)
    values = torch.randint(0, 7, (argument.extent,), generator=generator)
    dtype = getattr(torch, argument.dtype)
    if dtype not in (torch.bool, torch.uint8):
        values -= 3
    return (values > 0) if dtype == torch.bool else values.to(dtype)


def storages_of(arguments: Sequence[Argument]) -> list[torch.Tensor]:
    """The elements of each argument's storage; of an argument in the memory of another
    one, that one's."""
    made: list[torch.Tensor] = []
    for i, argument in enumerate(arguments):
        made.append(
            values_of(argument, i) if argument.of is None else made[argument.of]
        )
    return made


def placed(argument: Argument, storage: torch.Tensor) -> torch.Tensor:
    return storage.as_strided(argument.shape, argument.strides, argument.offset)


class Guarded:
    """A copy of elements beside a page that may not be touched."""

    def __init__(self, values: torch.Tensor, at_end: bool) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        page = mmap.PAGESIZE
        # `frombuffer` takes no empty buffer.
        size = max(values.numel(), 1) * values.element_size()
        inner = -(-size // page) * page
        self.memory = mmap.mmap(-1, inner + 2 * page)
        base = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        for first in (base, base + page + inner):
            if libc.mprotect(ctypes.c_void_p(first), ctypes.c_size_t(page), 0):
                raise OSError(ctypes.get_errno(), "mprotect")
        # A storage of its own: operators may touch all bytes of a storage.
        start = base + page + (inner - size if at_end else 0)
        bytes_alone = (ctypes.c_char * size).from_address(start)
        self.values = torch.frombuffer(bytes_alone, dtype=values.dtype)[
            : values.numel()
        ]
        self.values.copy_(values)


# Programs


class Writer:
    """Adds lines that eager accepts, running each as it is written."""

    def __init__(self, rng: random.Random, arguments: list[Argument]) -> None:
        self.rng = rng
        self.scope: dict = {"torch": torch}
        self.lines: list[str] = []
        self.names: list[str] = []
        for i, value in enumerate(map(placed, arguments, storages_of(arguments))):
            self.scope[f"a{i}"] = value
            self.names.append(f"a{i}")

    def tensor(self, name: str) -> torch.Tensor:
        return self.scope[name]

    def pick(self) -> str:
        return self.rng.choice(self.names)

    def define(self, expression: str) -> None:
        name = f"v{len(self.lines)}"
        try:
            value = eval(expression, self.scope)
        except REFUSALS:
            return
        if not isinstance(value, torch.Tensor) or value.numel() > MOST_ELEMENTS:
            return
        if str(value.dtype).removeprefix("torch.") not in DTYPES or not small(
            value, 256
        ):
            return
        self.scope[name] = value
        self.lines.append(f"{name} = {expression}")
        self.names.append(name)

    def update(self, statement: str, name: str, other: str) -> None:
        """Adds the statement, which writes `name` and reads `other`."""
        before = self.values()
        try:
            exec(statement, self.scope)  # noqa: S102
        except REFUSALS:
            return
        after = self.values()
        if all(map(small, after.values())) and not (
            name != other and self._hangs_on_order(statement, other, before, after)
        ):
            self.lines.append(statement)
        else:
            self.restore(before)

    def reshape(self, statement: str) -> None:
        with contextlib.suppress(*REFUSALS):
            exec(statement, self.scope)  # noqa: S102
            self.lines.append(statement)

    def values(self) -> dict[str, torch.Tensor]:
        return {name: self.tensor(name).clone() for name in self.names}

    def restore(self, values: dict[str, torch.Tensor]) -> None:
        for name, value in values.items():
            if not torch.equal(self.tensor(name), value):
                self.tensor(name).copy_(value)

    def _hangs_on_order(
        self,
        statement: str,
        other: str,
        before: dict[str, torch.Tensor],
        after: dict[str, torch.Tensor],
    ) -> bool:
        """Whether an element is read after it was written. PyTorch refuses operands that
        overlap in part where it can tell, and leaves the order undefined elsewhere."""
        self.restore(before)
        exec(statement, {**self.scope, other: before[other]})  # noqa: S102
        same = all(torch.equal(self.tensor(name), after[name]) for name in after)
        self.restore(after)
        return not same


def small(value: torch.Tensor, most: int = 40) -> bool:
    """Whether the elements are exact in every dtype; up to 40, also after a step."""
    if value.dtype == torch.bool or value.numel() == 0:
        return True
    return bool(value.double().abs().max() <= most)


def write_program(seed: int, operators: bool = False) -> Program:
    """`operators`: most updates are calls of operators that write."""
    rng = random.Random(seed)
    dtype = rng.choice(DTYPES)
    arguments = [
        random_argument(rng, dtype if rng.random() < 0.8 else rng.choice(DTYPES))
        for _ in range(rng.randint(1, 3))
    ]
    if len(arguments) > 1 and rng.random() < 0.5:
        arguments[1] = dataclasses.replace(arguments[0], dtype=arguments[1].dtype)
    if rng.random() < 0.1:
        arguments.append(argument_within(rng, 0, arguments[0]))
    writer = Writer(rng, arguments)
    for _ in range(rng.randint(2, 8)):
        name, other = writer.pick(), writer.pick()
        kind = rng.random()
        if kind < 0.3:
            writer.define(view_text(rng, name, writer.tensor(name)))
        elif kind < 0.5:
            writer.define(compute_text(rng, name, writer.tensor(name), other))
        elif kind < 0.52:
            writer.reshape(reshape_text(rng, name, writer.tensor(name)))
        else:
            calls = operators and rng.random() < 0.7
            line = call_text if calls else update_text
            text = line(rng, name, writer.tensor(name), other)
            writer.update(text, name, other)
    chosen = rng.sample(writer.names, min(len(writer.names), rng.randint(1, 3)))
    return Program(
        tuple(arguments),
        tuple(writer.lines),
        tuple(chosen),
        dynamic=rng.random() < 0.3,
        at_end=rng.random() < 0.7,
        # The operators have no gradient.
        trained=rng.random() < 0.15
        and not operators
        and any(a.dtype in FLOATS for a in arguments),
    )


# Runs


def difference(
    what: str, got: torch.Tensor, want: torch.Tensor, strides: bool = False
) -> str | None:
    if got.dtype != want.dtype or got.shape != want.shape:
        return f"{what}: {got.dtype} {got.shape}, not {want.dtype} {want.shape}"
    if want.numel() == 0:
        return None
    wrong = (got.double() - want.double()).abs() > 1e-6
    if wrong.any():
        at = tuple(wrong.nonzero()[0].tolist())
        return f"{what} at {list(at)}: {got[at].item()}, not {want[at].item()}"
    pairs = zip(got.stride(), want.stride(), want.shape)
    if strides and any(g != w for g, w, size in pairs if size > 1):
        return f"{what}: strides {got.stride()}, not {want.stride()}"
    return None


def shared_with(
    results: Sequence[torch.Tensor], arguments: Sequence[torch.Tensor]
) -> list[int]:
    """Of each result the first argument in whose memory it lies; -1: none."""
    where = [t.untyped_storage().data_ptr() for t in arguments if t.numel()]
    found = []
    for tensor in results:
        at = tensor.untyped_storage().data_ptr()
        found.append(where.index(at) if tensor.numel() and at in where else -1)
    return found


def run(program: Program, backend: Any = anabranch) -> list[str]:
    """What differs between eager and the compiled function, after two calls."""
    torch._dynamo.reset()
    eager, ours = (
        program.function(),
        torch.compile(program.function(), backend=backend, dynamic=program.dynamic),
    )
    if program.trained:
        return train(program, eager, ours)
    plain = storages_of(program.arguments)
    kept = {id(values): Guarded(values, program.at_end) for values in plain}
    guarded = [kept[id(values)] for values in plain]
    found: list[str | None] = []
    for call in range(2):
        with torch.no_grad():
            given = [
                list(map(placed, program.arguments, storages))
                for storages in (plain, [memory.values for memory in guarded])
            ]
            theirs, results = eager(*given[0]), ours(*given[1])
        for i, (got, want) in enumerate(zip(results, theirs)):
            what = f"call {call}, result {i}"
            found.append(difference(what, got, want, program.strides))
        for i, (memory, want) in enumerate(zip(guarded, plain)):
            found.append(difference(f"call {call}, memory {i}", memory.values, want))
        for i, (got, want) in enumerate(zip(*given[::-1])):
            found.append(difference(f"call {call}, argument {i}", got, want))
        shared = shared_with(results, given[1]), shared_with(theirs, given[0])
        if shared[0] != shared[1]:
            found.append(
                f"call {call}: results share memory with {shared[0]}, not {shared[1]}"
            )
    return [text for text in found if text]


def train(program: Program, eager: Any, ours: Any) -> list[str]:
    """What differs in the results, the arguments and their gradients."""
    found: list[str | None] = []
    for call in range(2):
        ends = [trained_tensors(program, run) for run in (eager, ours)]
        for i, (want, got) in enumerate(zip(*ends, strict=True)):
            if (want is None) != (got is None):
                found.append(f"call {call}, tensor {i}: {got}, not {want}")
            elif want is not None:
                found.append(difference(f"call {call}, tensor {i}", got, want))
    return [text for text in found if text]


def trained_tensors(program: Program, run: Any) -> list[torch.Tensor | None]:
    """The results, the arguments after a call, and the gradients of the arguments'
    storages."""
    storages = storages_of(program.arguments)
    leaves = {
        id(s): s.clone().requires_grad_(s.dtype.is_floating_point) for s in storages
    }
    # Autograd refuses updates of leaves.
    bases = {key: leaf.clone() for key, leaf in leaves.items()}
    given = [placed(a, bases[id(s)]) for a, s in zip(program.arguments, storages)]
    results = run(*given)
    ends = [t for t in [*results, *given] if t.requires_grad]
    if ends:
        sum((t * t).sum().to(torch.float32) for t in ends).backward()
    gradients = [leaf.grad for leaf in leaves.values()]
    return [t if t is None else t.detach() for t in [*results, *given, *gradients]]


def run_in_child(program: Program, backend: Any = anabranch) -> str:
    """What went wrong; empty when nothing did."""

    def tell(pipe: TextIO) -> None:
        print(text_of_run(program, backend), file=pipe)

    said, ended = in_child(tell, CHILD_SECONDS)
    return ended or said.strip()[-4000:]


def shrunk(program: Program, wrong: Callable[[Program], bool]) -> Program:
    """The program with as few lines as still go wrong."""
    lines = list(program.lines)
    for at in reversed(range(len(lines))):
        fewer = dataclasses.replace(program, lines=tuple(lines[:at] + lines[at + 1 :]))
        if accepted(fewer) and wrong(fewer):
            lines = list(fewer.lines)
            program = fewer
    return program


def accepted(program: Program) -> bool:
    """Whether eager runs it."""
    try:
        if program.trained:
            trained_tensors(program, program.function())
        else:
            given = map(placed, program.arguments, storages_of(program.arguments))
            program.function()(*given)
    except Exception:  # noqa: BLE001
        return False
    return True


def is_wrong(program: Program) -> bool:
    """Whether the program goes wrong, and PyTorch's own trace of it does not. If the
    trace does, too, the program may still not end the process."""
    ours, traced = run_in_child(program), run_in_child(program, TRACE)
    if ours and traced:
        return ours.startswith(ENDED) and not traced.startswith(ENDED)
    return bool(ours)


def text_of_run(program: Program, backend: Any = anabranch) -> str:
    """What differs, or the error; empty when nothing went wrong."""
    try:
        return "\n".join(run(program, backend))
    except Exception:  # noqa: BLE001
        return traceback.format_exc()


def outcomes(seeds: Iterator[int], kind: Kind) -> Iterator[tuple[int, tuple[str, str]]]:
    """The outcome of the program of each seed, and what went wrong."""
    for first in seeds:
        batch = [first, *itertools.islice(seeds, PROGRAMS_OF_A_CHILD - 1)]
        while batch:
            told = outcomes_in_child(batch, kind)
            yield from zip(batch, told)
            batch = batch[len(told) :]


def outcomes_in_child(seeds: Sequence[int], kind: Kind) -> list[tuple[str, str]]:
    """The outcomes of the first programs, up to one that only we get wrong."""

    def tell(pipe: TextIO) -> None:
        for seed in seeds:
            program = program_of(seed, kind)
            outcome, text = LEFT_OUT, ""
            if program.lines and accepted(program):
                text = text_of_run(program)
                outcome = WRONG if text else RIGHT
                if text and text_of_run(program, TRACE):
                    outcome = TRACE
            print(json.dumps([outcome, text[-4000:]]), file=pipe, flush=True)
            if outcome == WRONG:
                break

    said, ended = in_child(tell, CHILD_SECONDS)
    told = [tuple(json.loads(line)) for line in said.splitlines()]
    return [*told, (WRONG, ended)] if ended else told


@dataclasses.dataclass(frozen=True)
class Kind:
    """What programs are like: the options of the command line."""

    strides: bool = False
    operators: bool = False


def program_of(seed: int, kind: Kind) -> Program:
    program = write_program(seed, kind.operators)
    return dataclasses.replace(program, strides=kind.strides)


def failures(
    seeds: Iterator[int], counts: Counter[str], shrink: bool, kind: Kind
) -> Iterator[tuple[int, str]]:
    """Of programs with these seeds the ones that go wrong, and how."""
    for seed, (outcome, text) in outcomes(seeds, kind):
        program = program_of(seed, kind)
        alone = run_in_child(program) if outcome == WRONG else ""
        if alone and not is_wrong(program):
            outcome = TRACE
        counts[outcome] += 1
        if outcome != WRONG:
            continue
        if not alone:
            text += f"\nonly after up to {PROGRAMS_OF_A_CHILD} seeds before it"
        elif shrink:
            program = shrunk(program, is_wrong)
            text = run_in_child(program) or text
        yield seed, f"{program.describe()}{text}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seconds", type=float, help="instead of a count")
    parser.add_argument("--seed", type=int, default=0, help="of the first program")
    parser.add_argument("--no-shrink", action="store_true")
    parser.add_argument("--strides", action="store_true")
    parser.add_argument("--operators", action="store_true")
    parser.add_argument(
        "--cpu", default="host", help="a processor that this one can be"
    )
    options = parser.parse_args()
    other_cpu.compile_for(options.cpu)
    os.environ.setdefault("ANABRANCH_CACHE", "0")
    logging.disable(logging.ERROR)  # what PyTorch's trace refuses is no finding
    # Threads of OpenMP do not survive a fork; eager runs on one thread, and the
    # compiled function on two.
    torch.set_num_threads(1)
    os.environ.setdefault("ANABRANCH_NUM_THREADS", "2")
    # Children start with PyTorch's tracers imported.
    text_of_run(program_of(0, Kind()), TRACE)
    many_compilations.spare()
    start, ran = time.monotonic(), 0

    def seeds() -> Iterator[int]:
        nonlocal ran
        while (
            time.monotonic() - start < options.seconds
            if options.seconds
            else ran < options.count
        ):
            ran += 1
            yield options.seed + ran - 1

    counts: Counter[str] = Counter()
    kind = Kind(options.strides, options.operators)
    found = failures(seeds(), counts, not options.no_shrink, kind)
    for seed, text in found:
        print(f"==== seed {seed}\n{text}\n", flush=True)
    print(
        f"{ran} programs: {counts[RIGHT]} right, {counts[WRONG]} wrong, "
        f"{counts[TRACE]} that PyTorch's trace gets wrong too, "
        f"{counts[LEFT_OUT]} without a line; {time.monotonic() - start:.0f} s"
    )
    return 1 if counts[WRONG] else 0


if __name__ == "__main__":
    sys.exit(main())
