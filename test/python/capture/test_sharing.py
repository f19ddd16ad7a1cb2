"""In-place updates of arguments that share memory in another way at each call."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pytest
import torch
from checking import compiled

import anabranch
from anabranch import _C
from anabranch.errors import CompileError
from anabranch.report import counters

PROGRAMS = int(os.environ.get("ANABRANCH_SHARING", "16"))
CALLS = 5
STORAGE = 64

# An update reads a copy. If its operand shared memory with its result, eager's order
# of reads and writes would not be defined.
UPDATES = (
    "{a}.add_({b}.clone())",
    "{a}.add_(1)",
    "{a}.mul_(2)",
    "{a}.copy_({b}.clone())",
    "{a}[1:].sub_({b}[:-1].clone())",
    "{a}[0] = {b}[-1].clone()",
)
RESULTS = ("{a} + {b}", "{a} * 2", "{a}.sum(0)", "torch.cat([{a}, {b}])")

Lies = tuple[int, tuple[int, ...], int]  # storage, strides, offset


def function_of(rng: random.Random, count: int, breaks: bool) -> Any:
    """A function of `count` tensors that reads and writes in turns. With `breaks` it has
    an operator in the middle whose result size depends on data."""
    names = [f"a{i}" for i in range(count)]
    lines, results = [], []
    for number in range(rng.randint(2, 4)):
        a, b = rng.choice(names), rng.choice(names)
        lines.append(rng.choice(UPDATES).format(a=a, b=b))
        lines.append(f"r{number} = {rng.choice(RESULTS).format(a=b, b=a)}")
        results.append(f"r{number}")
        if breaks and number == 0:
            lines.append(f"n = torch.nonzero({a}) * 2")
            results.append("n")
    body = "\n    ".join([*lines, f"return ({', '.join(results)},)"])
    text = f"def function({', '.join(names)}):\n    {body}\n"
    scope: dict[str, Any] = {"torch": torch}
    exec(text, scope)  # noqa: S102
    scope["function"].text = text
    return scope["function"]


def random_layout(rng: random.Random, shape: tuple[int, ...], number: int) -> Lies:
    """Storage, strides and offset of an argument. Half of all arguments get storage 0."""
    dense = [1] * len(shape)
    for d in reversed(range(len(shape) - 1)):
        dense[d] = dense[d + 1] * shape[d + 1]
    kind = rng.random()
    if kind < 0.1:  # several elements at one address
        strides = [rng.choice((0, 1)) for _ in shape]
    elif kind < 0.3:
        strides = [2 * stride for stride in dense]
    else:
        strides = dense
    storage = 0 if rng.random() < 0.5 else number + 1
    return storage, tuple(strides), rng.choice((0, 0, 1, 2, 4, 8))


def arguments_of(
    layouts: list[Lies], shape: tuple[int, ...], dtype: torch.dtype
) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    storages = [torch.arange(STORAGE) % 7 + i for i in range(len(layouts) + 1)]
    storages = [values.to(dtype) for values in storages]
    found = [
        storages[storage].as_strided(shape, strides, offset)
        for storage, strides, offset in layouts
    ]
    return found, storages


def outcome(function: Any, layouts: list[Lies], shape: Any, dtype: Any) -> Any:
    """Results and memory after a call, or the type of the error."""
    arguments, storages = arguments_of(layouts, shape, dtype)
    try:
        return [*function(*arguments), *storages]
    except RuntimeError:
        return None


def check_program(seed: int, breaks: bool) -> None:
    rng = random.Random(seed)
    count, dynamic = rng.randint(2, 3), rng.random() < 0.4
    shape = rng.choice(((4,), (6,), (3, 3), (2, 4)))
    dtype = rng.choice((torch.float32, torch.int64, torch.float64))
    function = function_of(rng, count, breaks)
    torch._dynamo.reset()
    ours = compiled(function, dynamic=dynamic)
    before = [random_layout(rng, shape, i) for i in range(count)]
    for call in range(CALLS):
        layouts = before
        if call:  # moves an argument or two within their storage
            layouts = [
                random_layout(rng, shape, i)
                if rng.random() < 0.3
                else (*row[:2], rng.choice((0, row[2], row[2] + 1)))
                for i, row in enumerate(before)
            ]
            if rng.random() < 0.3:
                layouts = before
        with torch.no_grad():
            want = outcome(function, layouts, shape, dtype)
            got = outcome(ours, layouts, shape, dtype)
        about = f"seed {seed}, call {call}, dynamic {dynamic}: {shape}, {layouts}\n"
        about += function.text
        if want is None:  # its elements overlap: eager refuses the write
            continue
        assert got is not None, about
        for one, other in zip(got, want):
            assert torch.equal(one, other), f"{about}{one}\n{other}"


@pytest.mark.parametrize("breaks", [False, True])
def test_random_sharing(breaks: bool) -> None:
    first = int(os.environ.get("ANABRANCH_SHARING_SEED", "0"))
    for seed in range(first, first + PROGRAMS // 2):
        check_program(2 * seed + breaks, breaks)


def update(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    a.add_(1)
    return b * 2


def pair(begin: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Two tensors, the second of which begins `begin` elements into the first."""
    storage = torch.arange(32.0)
    return storage[:8], storage[begin : begin + 8]


def same_as_eager(function: Any, begin: int, eager: Any = update) -> None:
    ours, theirs = pair(begin), pair(begin)
    with torch.no_grad():
        assert torch.equal(function(*ours), eager(*theirs))
    assert torch.equal(ours[0], theirs[0]) and torch.equal(ours[1], theirs[1])


def test_calls_that_share_no_memory_stay_compiled() -> None:
    function = compiled(update)
    same_as_eager(function, 8)
    same_as_eager(function, 4)
    before = counters.eager_graphs
    for begin in (8, 2, 16, 4):
        same_as_eager(function, begin)
    assert counters.eager_graphs == before  # the warning comes once


def test_state_of_the_module_as_an_argument() -> None:
    class Cell(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("state", torch.zeros(8))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.state += 1
            return x * 2

    ours, theirs = Cell(), Cell()
    function = compiled(ours)
    with torch.no_grad():
        for _ in range(2):
            assert torch.equal(function(torch.ones(8)), theirs(torch.ones(8)))
            assert torch.equal(function(ours.state), theirs(theirs.state))
            assert torch.equal(ours.state, theirs.state)


def test_writes_to_a_tensor_that_overlaps_itself_are_eagers_error() -> None:
    function = compiled(update)
    with torch.no_grad():
        function(torch.ones(8), torch.ones(8))
        with pytest.raises(RuntimeError, match="single memory location"):
            function(torch.ones(1).expand(8), torch.ones(8))


def test_reads_of_a_tensor_that_overlaps_itself_are_compiled() -> None:
    before = counters.eager_graphs
    function = compiled(update)
    with torch.no_grad():
        a, b = torch.ones(8), torch.ones(1).expand(8)
        assert torch.equal(function(a, b), b * 2)
    assert counters.eager_graphs == before


def test_different_dtypes_in_one_storage() -> None:
    def function(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        a.add_(1)
        return b + 1

    ours, theirs = torch.ones(8), torch.ones(8)
    with torch.no_grad():
        got = compiled(function)(ours, ours.view(torch.int32))
        assert torch.equal(got, function(theirs, theirs.view(torch.int32)))
    assert torch.equal(ours, theirs)


def test_gradients_with_shared_memory() -> None:
    def function(a: torch.Tensor, b: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        a.add_(1)
        return (b * w).sum()

    def gradient(call: Any, begin: int) -> torch.Tensor:
        w = torch.ones(8, requires_grad=True)
        call(*pair(begin), w).backward()
        assert w.grad is not None
        return w.grad

    ours = compiled(function)
    for begin in (8, 4, 2, 8):
        assert torch.equal(gradient(ours, begin), gradient(function, begin))


class Method(torch.nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return update(a, b)


def test_a_method_from_the_cache_follows(tmp_path: Path) -> None:
    for _ in range(2):
        torch._dynamo.reset()
        function = anabranch.cache_compile(Method().forward, cache_dir=tmp_path)
        for begin in (8, 4, 2, 16):
            same_as_eager(function, begin)


def test_an_executable_alone_refuses(tmp_path: Path) -> None:
    folder = str(tmp_path / "package")
    anabranch.export(Method().eval(), folder, (torch.ones(8), torch.ones(8)))
    executable = _C.Executable(folder)
    a, b = pair(4)
    with pytest.raises(_C.SharedMemoryError, match="shares memory with argument 0"):
        executable([a, b])
    assert torch.equal(a, torch.arange(8.0))


def test_export_refuses_a_write_to_a_tensor_that_overlaps_itself(
    tmp_path: Path,
) -> None:
    windows = torch.arange(8.0).as_strided((4, 4), (1, 1))
    with pytest.raises(CompileError, match="a write to a, which overlaps itself"):
        anabranch.export(
            Method().eval(), str(tmp_path / "p"), (windows, torch.ones(4, 4))
        )


def test_share_memory_refuses_wrong_arguments() -> None:
    with pytest.raises(ValueError, match="no argument of this number"):
        _C.share_memory([torch.ones(2)], [1])
    with pytest.raises(TypeError, match="a list or a tuple"):
        _C.share_memory(iter(()), [])  # type: ignore[arg-type]
    assert not _C.share_memory((3, torch.ones(2)), [0])
