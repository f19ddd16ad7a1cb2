"""Products of operands of different dtypes, as an NPU takes them: they are promoted, and
the result has the dtype of the first.

PyTorch refuses such products on a host. So the functions that compute products promote
before they call PyTorch."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.jit._builtins import _find_builtin, _register_builtin
from torch.nn import functional

from .names import HOST

__all__ = ["install"]

# The functions, and the name of each one's second operand.
_FUNCTIONS = ((torch, "matmul", "other"), (torch, "mm", "mat2"), (torch, "bmm", "mat2"))
_METHODS = ("__matmul__", "matmul", "mm", "bmm")


def install() -> None:
    for owner, name, second in (*_FUNCTIONS, (functional, "linear", "weight")):
        original = getattr(owner, name)
        promoting = _promoting(original, second)
        # TorchScript finds its operators by the identity of the functions.
        if (operator := _find_builtin(original)) is not None:
            _register_builtin(promoting, operator)
        setattr(owner, name, promoting)
    for name in _METHODS:
        original = getattr(Tensor, name)
        second = "other" if "matmul" in name else "mat2"
        setattr(Tensor, name, _promoting(original, second))


def _promoting(function: Callable[..., Any], second: str) -> Callable[..., Any]:
    """Wraps a function of two operands: a float and a tensor of another dtype are
    promoted."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        left: Any = args[0] if args else kwargs.get("input")
        right: Any = args[1] if len(args) > 1 else kwargs.get(second)
        if not _differ(left, right) or "out" in kwargs:
            return function(*args, **kwargs)
        kind = torch.promote_types(left.dtype, right.dtype)
        args = tuple(_as(kind, value) for value in args)
        kwargs = {name: _as(kind, value) for name, value in kwargs.items()}
        return function(*args, **kwargs).to(left.dtype)

    return call


def _differ(left: Any, right: Any) -> bool:
    if not (isinstance(left, Tensor) and isinstance(right, Tensor)):
        return False
    if left.dtype == right.dtype or not left.dtype.is_floating_point:
        return False
    # autocast converts both operands itself.
    return not right.dtype.is_complex and not torch.is_autocast_enabled(HOST.type)


def _as(kind: torch.dtype, value: Any) -> Any:
    return value.to(kind) if isinstance(value, Tensor) else value
