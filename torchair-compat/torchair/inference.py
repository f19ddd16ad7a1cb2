"""torchair.inference: gears of an input, and methods that are compiled once."""

from __future__ import annotations

from collections.abc import Mapping as _Mapping
from collections.abc import Sequence as _Sequence

import torch as _torch

from anabranch.extension import attach_gears as _attach_gears

from ._impl.cache.cache_compile import cache_compile, readable_cache

__all__ = ["cache_compile", "readable_cache", "set_dim_gears"]

_FEWEST_GEARS, _MOST_GEARS = 2, 100


def set_dim_gears(t: _torch.Tensor, dim_gears: _Mapping[int, _Sequence[int]]) -> None:
    """Names the sizes that dimensions of an input take, before the first call.

    t          the input of the first call; tensors of later calls are not marked
    dim_gears  {dimension: sizes}: ints from 0, and lists or tuples of ints

    AssertionError: a wrong dimension or size, too few or too many sizes, or the tensor
    has other gears already.
    """
    known = getattr(t, "dim_gears", None)
    if known is not None and known != dim_gears:
        raise AssertionError(
            f"Tensor {t} already has set dim gears, and it is not supported to set it"
            " again."
        )
    checked: dict[int, _Sequence[int]] = {}
    for dim, gears in dim_gears.items():
        _check(t, dim, gears)
        checked[dim] = gears
        _attach_gears(t, checked)
    t.dim_gears = dim_gears  # type: ignore[attr-defined]


def _check(t: _torch.Tensor, dim: object, gears: object) -> None:
    _require(
        isinstance(dim, int),
        f"Dim index in dim_gears must be an integer, but got {type(dim)}.",
    )
    _require(
        dim in range(t.dim()),
        f"Dim index in dim_gears must be in range [0, {t.dim() - 1}], but got {dim}.",
    )
    kinds = list | tuple
    wrong = f"Gears for dim index {dim} in dim_gears must be a list or tuple, but got"
    _require(isinstance(gears, kinds), f"{wrong} {type(gears)}.")
    assert isinstance(gears, kinds)
    for position, gear in enumerate(gears):
        _require(
            isinstance(gear, int),
            f"Element at index {position} of value for dim index {dim} in dim_gears"
            f" must be an integer, but got {type(gear)}.",
        )
        _require(
            gear != 0,
            f"Gear value at index {position} for dim index {dim} must not be 0, but got"
            f" {gear}.",
        )
    _require(
        _FEWEST_GEARS <= len(gears) <= _MOST_GEARS,
        f"Length of gears for dim index {dim} in dim_gears must be in range"
        f" [{_FEWEST_GEARS}, {_MOST_GEARS}], but got {len(gears)}.",
    )


def _require(holds: bool, text: str) -> None:
    if not holds:
        raise AssertionError(text)
