"""torchair.inference: sizes that an input takes, methods that are compiled once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from anabranch.extension import attach_gears

from ._impl.cache.cache_compile import cache_compile, readable_cache

__all__ = ["cache_compile", "readable_cache", "set_dim_gears"]

FEWEST_GEARS, MOST_GEARS = 2, 100


def set_dim_gears(t: torch.Tensor, dim_gears: Mapping[int, Sequence[int]]) -> None:
    """Says, before the first call, which sizes dimensions of an input take. Other
    tensors of later calls need no such call."""
    known = getattr(t, "dim_gears", None)
    if known is not None and known != dim_gears:
        raise AssertionError(
            f"Tensor {t} already has set dim gears, and it is not supported to set it"
            " again."
        )
    checked: dict[int, Sequence[int]] = {}
    for dim, gears in dim_gears.items():
        _check(t, dim, gears)
        checked[dim] = gears
        attach_gears(t, checked)
    t.dim_gears = dim_gears  # type: ignore[attr-defined]


def _check(t: torch.Tensor, dim: object, gears: object) -> None:
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
        FEWEST_GEARS <= len(gears) <= MOST_GEARS,
        f"Length of gears for dim index {dim} in dim_gears must be in range"
        f" [{FEWEST_GEARS}, {MOST_GEARS}], but got {len(gears)}.",
    )


def _require(holds: bool, text: str) -> None:
    if not holds:
        raise AssertionError(text)
