"""Executables over the same frozen weights: their weights lie in memory once.

Prefill and decode of a language model are programs of their own. The later one is
opened `like` the earlier one, which compares bytes, so a wrong guess costs time alone.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable

import torch

from .. import _C

# To compare smaller weights is not worth a package that outlives its own executable.
SMALLEST = 1 << 20

_executables: weakref.WeakValueDictionary[tuple[int, int], _C.Executable] = (
    weakref.WeakValueDictionary()
)


def find(weights: Iterable[torch.Tensor]) -> _C.Executable | None:
    """An executable that was made for the largest of these weights, if one lives."""
    key = _key(weights)
    return None if key is None else _executables.get(key)


def add(weights: Iterable[torch.Tensor], executable: _C.Executable) -> None:
    """Later executables with the largest of these weights may use this one's."""
    key = _key(weights)
    if key is not None and key not in _executables:
        _executables[key] = executable


def _key(weights: Iterable[torch.Tensor]) -> tuple[int, int] | None:
    """Where the largest of the weights lies, and its bytes."""
    plain = [w for w in weights if type(w) in (torch.Tensor, torch.nn.Parameter)]
    if not plain:
        return None
    largest = max(plain, key=lambda weight: weight.nbytes)
    if largest.nbytes < SMALLEST:
        return None
    return largest.data_ptr(), largest.nbytes
