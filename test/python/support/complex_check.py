"""Compares complex functions with complex128, and lists what PyTorch computed."""

from __future__ import annotations

import torch
from checking import compiled

import anabranch


def rand(*shape: int, dtype: torch.dtype = torch.complex64) -> torch.Tensor:
    return torch.randn(*shape, dtype=dtype)


def wide(value):
    if isinstance(value, torch.Tensor) and value.is_complex():
        return value.to(torch.complex128)
    if isinstance(value, torch.Tensor) and value.is_floating_point():
        return value.double()
    return value


def listed(results):
    return list(results) if isinstance(results, list | tuple) else [results]


def strides(value: torch.Tensor) -> list[int]:
    """Of the dimensions in which they matter."""
    return [step for size, step in zip(value.shape, value.stride()) if size != 1]


def check(function, *arguments, **how) -> None:
    """Compares dtypes, shapes, strides and values: an error is at most twice that of
    eager, or a few roundings of the largest element."""
    check_program(compiled(function, **how), function, *arguments)


def check_program(program, function, *arguments) -> None:
    found, eager = listed(program(*arguments)), listed(function(*arguments))
    exact = listed(function(*map(wide, arguments)))
    assert len(found) == len(eager)
    for mine, theirs, right in zip(found, eager, exact):
        assert (mine.dtype, mine.shape) == (theirs.dtype, theirs.shape)
        assert strides(mine) == strides(theirs) or mine.numel() <= 1
        if not (theirs.is_floating_point() or theirs.is_complex()):
            assert torch.equal(mine, theirs)
            continue
        part = torch.finfo(theirs.dtype).eps
        size = float(right.abs().max()) if right.numel() else 0.0
        limit = 2 * (theirs - right).abs() + 8 * part * size
        assert bool(((mine - right).abs() <= limit).all())


def calls_of_pytorch() -> dict[str, int]:
    return {row["op"]: row["calls"] for row in anabranch.last_report()["fallbacks"]}
