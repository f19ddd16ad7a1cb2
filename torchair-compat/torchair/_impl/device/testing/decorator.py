"""torch_npu.testing.decorator: a test for each of several dtypes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

__all__ = ["Dtypes", "instantiate_tests"]

_MARK = "_dtypes_of_test"


def Dtypes(*dtypes: torch.dtype) -> Callable[[Any], Any]:
    """A decorator that names the dtypes of a test, which takes one as its argument."""

    def mark(function: Any) -> Any:
        setattr(function, _MARK, dtypes)
        return function

    return mark


def instantiate_tests(case: type) -> type:
    """Replaces each test of the class that names dtypes by one for each of them."""
    for name, function in list(vars(case).items()):
        dtypes = getattr(function, _MARK, ())
        if not dtypes:
            continue
        delattr(case, name)
        for dtype in dtypes:
            made = functools.partialmethod(function, dtype)
            setattr(case, f"{name}_{str(dtype).removeprefix('torch.')}", made)
    return case
