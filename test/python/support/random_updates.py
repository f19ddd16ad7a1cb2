"""Random programs that update views of their arguments in place, each run in a
process of its own between pages that fault.

    random_updates.py --count 1000 --seed 7      that many programs
    random_updates.py --seconds 3600             as many as an hour allows
    random_updates.py --strides                  compares strides of results too

A program is source text. It takes views of its arguments (many with sizes of
one, steps and offsets), updates some of them in place, reads the others again,
and returns a few values. The arguments of the compiled call lie so that the
byte behind the last one, or before the first, cannot be touched; gaps between
the elements of an argument are compared as well.
"""

from __future__ import annotations

import argparse
import ctypes
import dataclasses
import mmap
import os
import random
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator

import torch

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
MOST_ELEMENTS = 20_000
# A child that takes longer than this hangs.
CHILD_SECONDS = 120
DIFFERS = 3


@dataclasses.dataclass(frozen=True)
class Argument:
    """An argument and how it lies in memory: `strides` in elements, `offset`
    elements behind the first of its storage."""

    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int

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
    at_end: bool  # the guard page is behind the arguments, not before them
    strides: bool = False  # those of results are compared, too

    @property
    def source(self) -> str:
        names = ", ".join(f"a{i}" for i in range(len(self.arguments)))
        body = "\n    ".join([*self.lines, f"return [{', '.join(self.results)}]"])
        return f"def function({names}):\n    {body}\n"

    def function(self) -> Callable[..., list[torch.Tensor]]:
        scope: dict = {"torch": torch}
        exec(compile(self.source, "<random updates>", "exec"), scope)  # noqa: S102
        return scope["function"]

    def describe(self) -> str:
        lines = [f"# a{i}: {argument}" for i, argument in enumerate(self.arguments)]
        return "\n".join([*lines, f"# dynamic={self.dynamic}", self.source])


# Arguments


def random_argument(rng: random.Random, dtype: str) -> Argument:
    shape: list[int] = []
    elements = 1
    for _ in range(rng.randint(1, 4)):
        size = rng.choice(SIZES)
        if elements * size > MOST_ELEMENTS:
            size = 1
        elements *= size
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


def values_of(argument: Argument, seed: int) -> torch.Tensor:
    """The elements of its storage: small integers, exact in every dtype."""
    generator = torch.Generator().manual_seed(seed)
    values = torch.randint(0, 7, (argument.extent,), generator=generator)
    dtype = getattr(torch, argument.dtype)
    if dtype not in (torch.bool, torch.uint8):
        values -= 3
    return (values > 0) if dtype == torch.bool else values.to(dtype)


def placed(argument: Argument, storage: torch.Tensor) -> torch.Tensor:
    return storage.as_strided(argument.shape, argument.strides, argument.offset)


class Guarded:
    """A copy of elements beside a page that may not be touched."""

    def __init__(self, values: torch.Tensor, at_end: bool) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        page = mmap.PAGESIZE
        size = max(values.numel() * values.element_size(), 1)
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
        for i, argument in enumerate(arguments):
            self.scope[f"a{i}"] = placed(argument, values_of(argument, i))
            self.names.append(f"a{i}")

    def tensor(self, name: str) -> torch.Tensor:
        return self.scope[name]

    def pick(self) -> str:
        return self.rng.choice(self.names)

    def define(self, expression: str) -> None:
        name = f"v{len(self.lines)}"
        try:
            value = eval(expression, self.scope)
        except (RuntimeError, IndexError, TypeError, ValueError, NotImplementedError):
            return
        if not isinstance(value, torch.Tensor) or value.numel() > MOST_ELEMENTS:
            return
        self.scope[name] = value
        self.lines.append(f"{name} = {expression}")
        self.names.append(name)

    def update(self, statement: str, name: str, other: str) -> None:
        """Adds the statement, which writes `name` and reads `other`."""
        before = self.values()
        try:
            exec(statement, self.scope)  # noqa: S102
        except (RuntimeError, IndexError, TypeError, ValueError, NotImplementedError):
            return
        after = self.values()
        if all(map(small, after.values())) and not (
            name != other and self._hangs_on_order(statement, other, before, after)
        ):
            self.lines.append(statement)
        else:
            self.restore(before)

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


def small(value: torch.Tensor) -> bool:
    """Exact in every dtype, also after another step."""
    if value.dtype == torch.bool or value.numel() == 0:
        return True
    return bool(value.double().abs().max() <= 40)


def slice_text(rng: random.Random, size: int) -> str:
    begin = rng.randint(0, size)
    end = rng.randint(begin, size)
    step = rng.choice((1, 1, 1, 1, 2, 3))
    return f"{begin}:{end}" + (f":{step}" if step > 1 else "")


def index_text(rng: random.Random, shape: torch.Size) -> str:
    """Slices, mostly of one dimension."""
    chosen = rng.randrange(len(shape)) if shape else 0
    parts = []
    for dim, size in enumerate(shape):
        if dim == chosen or rng.random() < 0.15:
            parts.append(slice_text(rng, size))
        elif rng.random() < 0.1 and size:
            parts.append(str(rng.randrange(-size, size)))
        else:
            parts.append(":")
    return ", ".join(parts) or "..."


def view_text(rng: random.Random, name: str, value: torch.Tensor) -> str:
    rank = value.dim()
    if rank == 0:
        return f"{name}.unsqueeze(0)"
    dim, other = rng.randrange(rank), rng.randrange(rank)
    size = value.shape[dim]
    choices = [
        f"{name}[{index_text(rng, value.shape)}]",
        f"{name}[{index_text(rng, value.shape)}]",
        f"{name}.transpose({dim}, {other})",
        f"{name}.unsqueeze({rng.randint(0, rank)})",
        f"{name}.squeeze()",
        f"{name}.flatten()",
        f"{name}.chunk(2, {dim})[-1]",
        f"{name}.select({dim}, {rng.randrange(size) if size else 0})",
        f"{name}.diagonal(0, {dim}, {other})",
        f"{name}.view({list(reversed(value.shape))})",
        f"{name}.narrow({dim}, {size // 3}, {size - size // 3 - size // 4})",
    ]
    return rng.choice(choices)


def compute_text(rng: random.Random, name: str, other: str) -> str:
    return rng.choice(
        [
            f"{name} + 1",
            f"{name} * {other}",
            f"{name} + {other}",
            f"{name}.clone()",
            f"{name}.clamp(min=0)",
            f"torch.maximum({name}, {other})",
            f"torch.where({name} > 0, {name}, {other})",
            f"torch.cat([{name}, {other}], -1)",
            f"{name}.flip(0)",
            f"{name}.contiguous()",
            f"{name}.sum(-1, keepdim=True, dtype={name}.dtype)",
        ]
    )


def update_text(rng: random.Random, name: str, value: torch.Tensor, other: str) -> str:
    at = index_text(rng, value.shape)
    dim = rng.randrange(value.dim()) if value.dim() else 0
    size = value.shape[dim] if value.dim() else 1
    rows = sorted(rng.sample(range(size), min(size, 2))) if size else []
    chosen = f"torch.tensor({rows}, dtype=torch.int64)"
    return rng.choice(
        [
            f"{name}[{at}] = {name}[{at}] + 1",
            f"{name}[{at}] += 1",
            f"{name}[{at}].mul_(2)",
            f"{name}[{at}].relu_()",
            f"{name}[{at}].copy_({other}[{at}])",
            f"{name}[{at}] = 2",
            f"{name}.add_({other})",
            f"{name}.copy_({other})",
            f"{name}.clamp_(min=0)",
            f"{name}.neg_()",
            f"{name}.fill_(1)",
            f"{name}.masked_fill_({other} > 0, 3)",
            f"{name}.index_fill_({dim}, {chosen}, 1)",
            f"{name}.index_add_({dim}, {chosen}, {name}.index_select({dim}, {chosen}))",
            f"{name}[{at}].zero_()",
        ]
    )


def write_program(seed: int) -> Program:
    rng = random.Random(seed)
    dtype = rng.choice(DTYPES)
    arguments = [
        random_argument(rng, dtype if rng.random() < 0.8 else rng.choice(DTYPES))
        for _ in range(rng.randint(1, 3))
    ]
    if len(arguments) > 1 and rng.random() < 0.5:
        arguments[1] = dataclasses.replace(arguments[0], dtype=arguments[1].dtype)
    writer = Writer(rng, arguments)
    for _ in range(rng.randint(2, 8)):
        name, other = writer.pick(), writer.pick()
        kind = rng.random()
        if kind < 0.3:
            writer.define(view_text(rng, name, writer.tensor(name)))
        elif kind < 0.5:
            writer.define(compute_text(rng, name, other))
        else:
            text = update_text(rng, name, writer.tensor(name), other)
            writer.update(text, name, other)
    chosen = rng.sample(writer.names, min(len(writer.names), rng.randint(1, 3)))
    return Program(
        tuple(arguments),
        tuple(writer.lines),
        tuple(chosen),
        dynamic=rng.random() < 0.3,
        at_end=rng.random() < 0.7,
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


def run(program: Program) -> list[str]:
    """What differs between eager and the compiled function, after two calls."""
    torch._dynamo.reset()
    plain = [values_of(argument, i) for i, argument in enumerate(program.arguments)]
    guarded = [Guarded(values, program.at_end) for values in plain]
    eager, ours = (
        program.function(),
        torch.compile(program.function(), backend=anabranch, dynamic=program.dynamic),
    )
    found: list[str | None] = []
    for call in range(2):
        with torch.no_grad():
            theirs = eager(*map(placed, program.arguments, plain))
            storages = [memory.values for memory in guarded]
            results = ours(*map(placed, program.arguments, storages))
        for i, (got, want) in enumerate(zip(results, theirs)):
            what = f"call {call}, result {i}"
            found.append(difference(what, got, want, program.strides))
        for i, (memory, want) in enumerate(zip(guarded, plain)):
            found.append(difference(f"call {call}, memory {i}", memory.values, want))
    return [text for text in found if text]


def run_in_child(program: Program) -> str | None:
    """What went wrong; None when nothing did."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        signal.alarm(CHILD_SECONDS)
        status = DIFFERS
        try:
            text = "\n".join(run(program))
            status = DIFFERS if text else 0
        except Exception:  # noqa: BLE001
            text = traceback.format_exc()
        with os.fdopen(writer, "w") as out:
            out.write(text[-4000:])
        os._exit(status)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        text = pipe.read()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return f"ended by {signal.Signals(os.WTERMSIG(status)).name}"
    return text or None if status else None


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
        storages = [values_of(a, i) for i, a in enumerate(program.arguments)]
        program.function()(*map(placed, program.arguments, storages))
    except Exception:  # noqa: BLE001
        return False
    return True


def failures(
    seeds: Iterator[int], shrink: bool = False, strides: bool = False
) -> Iterator[tuple[int, str]]:
    """Of programs with these seeds the ones that go wrong, and how."""
    for seed in seeds:
        program = dataclasses.replace(write_program(seed), strides=strides)
        if not program.lines or not accepted(program):
            continue
        wrong = run_in_child(program)
        if wrong:
            if shrink:
                program = shrunk(program, lambda p: run_in_child(p) is not None)
                wrong = run_in_child(program) or wrong
            yield seed, f"{program.describe()}{wrong}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seconds", type=float, help="instead of a count")
    parser.add_argument("--seed", type=int, default=0, help="of the first program")
    parser.add_argument("--no-shrink", action="store_true")
    parser.add_argument("--strides", action="store_true")
    options = parser.parse_args()
    os.environ.setdefault("ANABRANCH_CACHE", "0")
    # Threads of OpenMP do not survive a fork; eager runs on one thread, and the
    # compiled function on two.
    torch.set_num_threads(1)
    os.environ.setdefault("ANABRANCH_NUM_THREADS", "2")
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

    bad = 0
    found = failures(seeds(), not options.no_shrink, options.strides)
    for seed, text in found:
        bad += 1
        print(f"==== seed {seed}\n{text}\n", flush=True)
    print(f"{ran} programs, {bad} wrong, {time.monotonic() - start:.0f} s")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
