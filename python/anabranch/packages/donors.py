"""Lets executables with equal frozen weights share them in memory.

Prefill and decode of a language model are two programs. The later one is opened `like`
the earlier one, the donor. Opening compares bytes, so a wrong donor only costs time."""

from __future__ import annotations

import weakref
from collections.abc import Iterable

import torch

from .. import _C

# Sharing smaller weights is not worth keeping a donor's package alive.
SMALLEST = 1 << 20

_executables: weakref.WeakValueDictionary[tuple[int, int], _C.Executable] = (
    weakref.WeakValueDictionary()
)


def find(weights: Iterable[torch.Tensor]) -> _C.Executable | None:
    """A living executable that has the largest of these weights; None without one."""
    key = _key(weights)
    return None if key is None else _executables.get(key)


def add(weights: Iterable[torch.Tensor], executable: _C.Executable) -> None:
    """Makes the executable a donor for later ones that have the largest of these
    weights."""
    key = _key(weights)
    if key is not None and key not in _executables:
        _executables[key] = executable


def _key(weights: Iterable[torch.Tensor]) -> tuple[int, int] | None:
    """The address of the largest weight, and its size in bytes."""
    plain = [w for w in weights if type(w) in (torch.Tensor, torch.nn.Parameter)]
    if not plain:
        return None
    largest = max(plain, key=lambda weight: weight.nbytes)
    if largest.nbytes < SMALLEST:
        return None
    return largest.data_ptr(), largest.nbytes
