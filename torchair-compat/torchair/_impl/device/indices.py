"""Indices of int32, as an NPU's operators take them.

PyTorch's operators of a host that copy or gather by one index per element want int64. So
the methods and functions that compute them widen an int32 index before they call PyTorch."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

__all__ = ["NAMES", "install"]

# Of torch and, with and without the underscore, of Tensor. The index is the third
# argument, after the tensor and the dimension.
NAMES = (
    "gather",
    "index_copy",
    "index_fill",
    "scatter",
    "scatter_add",
    "scatter_reduce",
)


def install() -> None:
    for name in NAMES:
        for owner, own in ((torch, name), (Tensor, name), (Tensor, f"{name}_")):
            if (original := getattr(owner, own, None)) is not None:
                setattr(owner, own, _widening(original))


def _widening(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        index = args[2] if len(args) > 2 else kwargs.get("index")
        if not isinstance(index, Tensor) or index.dtype != torch.int32:
            return function(*args, **kwargs)
        if len(args) > 2:
            args = (*args[:2], index.long(), *args[3:])
        else:
            kwargs["index"] = index.long()
        return function(*args, **kwargs)

    return call
