"""Compares compiled functions with eager: values, dtypes, shapes, strides, written
inputs."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree

from anabranch import counters, export, last_report, load
from anabranch.backend import anabranch


def clone(value: Any) -> Any:
    """A deep copy that keeps strides and overlaps of elements."""
    return copy.deepcopy(value)


def compiled(function: Any, **settings: Any) -> Any:
    return torch.compile(function, backend=anabranch, **settings)


def exported_for(
    target: str,
    module: Any,
    inputs: tuple[Any, ...],
    path: Path,
    targets: Sequence[str] = (),
    **options: Any,
) -> Any:
    """The module's package for one target. Skips the test if this CPU lacks the
    target. A package for several `targets` that is at `path` is that of the same module,
    which a test of another target has exported."""
    if not targets or not path.exists():
        chosen = [*targets] or [target]
        export(module, path, inputs, targets=chosen, overwrite=True, **options)
    try:
        return load(path, target=target)
    except (RuntimeError, ValueError) as error:
        pytest.skip(f"this CPU lacks {target}: {error}")


def assert_equal(actual: Any, expected: Any, strides: bool = True, **tolerance) -> None:
    actual_leaves, actual_tree = pytree.tree_flatten(actual)
    leaves, tree = pytree.tree_flatten(expected)
    assert actual_tree == tree
    for got, want in zip(actual_leaves, leaves):
        assert type(got) is type(want)
        if not isinstance(want, torch.Tensor):
            assert got == want
            continue
        assert got.dtype == want.dtype and got.shape == want.shape
        if strides:
            assert meaningful_strides(got) == meaningful_strides(want)
        torch.testing.assert_close(got, want, equal_nan=True, **tolerance)


def meaningful_strides(tensor: torch.Tensor) -> list[int]:
    if tensor.numel() == 0:
        return []
    return [s for s, size in zip(tensor.stride(), tensor.shape) if size != 1]


def check(
    function: Any,
    *arguments: Any,
    calls: int = 2,
    strides: bool = True,
    grad: bool = False,
    tolerance: dict[str, float] | None = None,
    **settings: Any,
) -> Any:
    """Calls the compiled and the eager function `calls` times. Each has its own copy of
    the arguments, so that states (buffers, caches) are compared as well. Returns the
    compiled function."""
    ours, theirs = clone((function, arguments)), (function, arguments)
    run = compiled(ours[0], **settings)
    with torch.set_grad_enabled(grad):
        for _ in range(calls):
            result, expected = run(*ours[1]), theirs[0](*theirs[1])
            assert_equal(result, expected, strides, **(tolerance or {}))
            assert_equal(ours[1], theirs[1], strides, **(tolerance or {}))
    return run


def rand(*shape: int) -> torch.Tensor:
    return torch.randn(shape)


def ints(limit: int, *shape: int) -> torch.Tensor:
    return torch.randint(0, limit, shape)


def assert_near(got: Any, eager: Any, exact: Any) -> None:
    """At most twice as far from the exact results as eager PyTorch."""
    for ours, theirs, truth in zip(
        *map(pytree.tree_leaves, (got, eager, exact)), strict=True
    ):
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
        if not theirs.is_floating_point():
            assert torch.equal(ours, theirs)
            continue
        wrong = (ours.double() - truth).abs().max()
        allowed = 2 * (theirs.double() - truth).abs().max()
        assert wrong <= allowed + torch.finfo(theirs.dtype).eps, (wrong, allowed)


def assert_one_program() -> None:
    report = last_report()
    assert report is not None and report["parts"] == 1, report
    assert counters.fallback_calls == counters.eager_graphs == 0
