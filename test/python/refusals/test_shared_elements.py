"""Updates of tensors whose elements share memory: PyTorch runs what a program would
compute with one place for each element."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from checking import check, compiled

from anabranch import counters

X = torch.arange(24.0)
SIZES, STRIDES = (4, 3), (2, 1)


def part(x: torch.Tensor, *shape: int) -> torch.Tensor:
    return -x[: torch.Size(shape).numel()].view(shape) - 1


def view_of(x: torch.Tensor) -> torch.Tensor:
    """Rows that share an element with the next row."""
    return x.as_strided(SIZES, STRIDES)


# Copies of a tensor in which a part is another one.
COPIES: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "slice_scatter": lambda v, x: v.slice_scatter(part(x, 2, 3), 0, 1, 3),
    "slice_scatter, steps": lambda v, x: v.slice_scatter(part(x, 4, 2), 1, 0, 3, 2),
    "select_scatter": lambda v, x: v.select_scatter(part(x, 3), 0, 1),
    "diagonal_scatter": lambda v, x: v.diagonal_scatter(part(x, 3)),
    "as_strided_scatter": lambda v, x: v.as_strided_scatter(part(x, 2), (2,), (3,)),
    # Eager PyTorch makes these of a copy without shared memory.
    "index_put": lambda v, x: v.index_put((torch.tensor([1]),), part(x, 3)),
    "index_add": lambda v, x: v.index_add(0, torch.tensor([1]), part(x, 1, 3)),
    "index_copy": lambda v, x: v.index_copy(0, torch.tensor([1]), part(x, 1, 3)),
    "index_fill": lambda v, x: v.index_fill(0, torch.tensor([1]), 5.0),
    "masked_fill": lambda v, x: v.masked_fill(v > 3, 5.0),
    "scatter": lambda v, x: v.scatter(0, torch.tensor([[0, 1, 2]]), part(x, 1, 3)),
    "fill": lambda v, x: torch.fill(v, 5.0),
    "clone": lambda v, x: v.clone(memory_format=torch.preserve_format),
}
# The tensor that is copied: a view of the argument, of a value, and one that repeats rows.
SOURCES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "argument": view_of,
    "value": lambda x: view_of(x + 1),
    "windows": lambda x: (x + 1).unfold(0, 3, 2)[:4],
    "expanded": lambda x: x[:3].expand(4, 3),
    "apart": lambda x: x.as_strided(SIZES, (3, 1)),
}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("copy", COPIES)
def test_copies_with_another_part(copy: str, source: str, dynamic: bool) -> None:
    check(lambda x: COPIES[copy](SOURCES[source](x), x) * 1, X, dynamic=dynamic)


# Writes into views of a value, after which the value and another view are read.
WRITES: dict[str, Callable[[torch.Tensor], Any]] = {
    "row": lambda y: view_of(y)[1].fill_(7),
    "column": lambda y: view_of(y)[:, 2].mul_(2),
    "element": lambda y: view_of(y)[1, 0].sub_(9),
    "window": lambda y: y.unfold(0, 3, 1)[2].fill_(7),
    "windows with gaps": lambda y: y.unfold(0, 2, 3).mul_(2),
    "windows side by side": lambda y: y.unfold(0, 4, 4).add_(1),
}


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("write", WRITES)
def test_writes_into_views(write: str, grad: bool) -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = x * 2
        WRITES[write](y)
        return y + 0, view_of(y) * 1

    ours, theirs = (X.clone().requires_grad_(grad) for _ in range(2))
    got, wanted = compiled(function)(ours), function(theirs)
    torch.testing.assert_close(got, wanted)
    if grad:
        sum(y.square().sum() for y in got).backward()
        sum(y.square().sum() for y in wanted).backward()
        torch.testing.assert_close(ours.grad, theirs.grad)


def test_windows_that_are_read_stay_in_programs() -> None:
    def loss(x: torch.Tensor) -> torch.Tensor:
        return (x * 2).unfold(0, 3, 2).square().sum()

    counters.reset()
    ours, theirs = (X.clone().requires_grad_() for _ in range(2))
    compiled(loss)(ours).backward()
    loss(theirs).backward()
    torch.testing.assert_close(ours.grad, theirs.grad)
    assert counters.eager_graphs == 0


def shifted(x: torch.Tensor) -> torch.Tensor:
    x[1:] = x[:-1]
    return x


def added(x: torch.Tensor) -> torch.Tensor:
    x[1:] += x[:-1]
    return x


# Pairs of writes: eager PyTorch takes the first one and refuses the second.
REFUSED: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "copy_": (lambda x: x[12:].copy_(x[:12]), lambda x: x[1:].copy_(x[:-1])),
    "setitem": (lambda x: shifted(x.clone()[::23]), shifted),
    "iadd": (lambda x: added(x.clone()[::23]), added),
    "expanded": (
        lambda x: x[:1].expand(4).clone().add_(1),
        lambda x: x[:1].expand(4).add_(1),
    ),
    "out, pointwise": (
        lambda x: torch.exp(x, out=x),
        lambda x: torch.exp(x[1:], out=x[:-1]),
    ),
    "out, moved": (
        lambda x: torch.cat([x[:3], x[3:6]], out=x.new_empty(6)),
        lambda x: torch.cat([x[:3], x[3:6]], out=x[:6]),
    ),
    "of data": (lambda x: x[x > 3].add_(1), lambda x: x[:1].expand(4).mul_(x[x > 19])),
}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", REFUSED)
def test_writes_that_eager_pytorch_refuses(name: str, dynamic: bool) -> None:
    good, bad = REFUSED[name]
    check(good, X.clone(), dynamic=dynamic, calls=1)
    for call in (bad, compiled(bad, dynamic=dynamic)):
        with pytest.raises(RuntimeError):
            call(X.clone())


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("writes", [False, True])
def test_windows_that_istft_sums(writes: bool, grad: bool, dynamic: bool) -> None:
    """They stay in a program, unless windows were also written: that sum is another."""

    def denoise(x: torch.Tensor) -> torch.Tensor:
        x = x * 2
        if writes:
            x.unfold(0, 3, 8).mul_(3)
        window = torch.hann_window(16)
        frames = torch.stft(x, 16, 4, window=window, return_complex=True)
        if writes:
            frames.unfold(1, 1, 3).mul_(2)
        return torch.istft(frames * 2, 16, 4, window=window, length=x.shape[0])

    counters.reset()
    program = compiled(denoise, dynamic=dynamic)
    for size in (100, 121):
        x = torch.randn(size)
        ours, theirs = (x.clone().requires_grad_(grad) for _ in range(2))
        got, wanted = program(ours), denoise(theirs)
        torch.testing.assert_close(got, wanted)
        if grad:
            got.square().sum().backward()
            wanted.square().sum().backward()
            torch.testing.assert_close(ours.grad, theirs.grad)
    assert bool(counters.eager_graphs) == writes
