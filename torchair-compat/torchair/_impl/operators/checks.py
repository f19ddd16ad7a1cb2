"""Checks of an operator's arguments, and the texts of its errors."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Collection
from typing import Any

import torch
from torch._guards import detect_fake_mode
from torch.fx.experimental.proxy_tensor import get_proxy_mode

from anabranch.extension import is_traced

from ..device.tape import is_recording

FLOATS = (torch.float16, torch.bfloat16, torch.float32)
INTEGERS = (torch.int32, torch.int64)


def check(condition: bool, name: str, message: str) -> None:
    """RuntimeError with the operator's name, unless the condition holds."""
    if not condition:
        raise RuntimeError(f"{name}: {message}")


def reads_values(tensor: torch.Tensor) -> bool:
    """Whether code may read the tensor's values. A graph does not know them, and a capture
    of the code's parts would keep them."""
    return type(tensor) is torch.Tensor and not is_traced() and not is_recording()


def inner_sizes(tensor: torch.Tensor) -> contextlib.AbstractContextManager[None]:
    """Where an operator reads numbers that no size of its results has. Dynamo traces the
    operator as one, and asks each number to be in a result. The graph of its parts has
    them."""
    mode = None if get_proxy_mode() else detect_fake_mode([tensor])
    if mode is None or mode.shape_env is None:
        return contextlib.nullcontext()
    return mode.shape_env.ignore_fresh_unbacked_symbols()


def check_dtype(
    value: torch.Tensor | None,
    name: str,
    argument: str,
    allowed: Collection[torch.dtype] = FLOATS,
) -> None:
    """RuntimeError, with the operator and the argument, unless the dtype is allowed."""
    known = ", ".join(str(dtype).removeprefix("torch.") for dtype in allowed)
    check(
        value is None or value.dtype in allowed,
        name,
        f"{argument} must be {known}, got {None if value is None else value.dtype}",
    )


def check_shape(
    value: torch.Tensor | None, name: str, argument: str, *allowed: tuple[Any, ...]
) -> None:
    """RuntimeError, with the operator and the argument, unless the shape is one of
    these."""
    if value is None:
        return
    shape = tuple(value.shape)
    if any(len(shape) == len(other) and shape == other for other in allowed):
        return
    known = " or ".join(dict.fromkeys(map(str, allowed)))
    check(False, name, f"{argument} must have shape {known}, got {shape}")


# Errors of PyTorch's tracing have types of their own, and stay as they are.
_PLAIN = (IndexError, NotImplementedError, RuntimeError, TypeError, ValueError)


def naming(function: Callable[..., Any], schema: Any) -> Callable[..., Any]:
    """Wraps the function: its errors name the operator, and list the arguments that the
    caller gave. RuntimeError for a tensor argument that is None, which PyTorch lets
    pass."""
    name = function.__name__
    needed = [
        (place, argument.name)
        for place, argument in enumerate(schema.arguments)
        if argument.type.kind() == "TensorType"
    ]
    names = [a.name for a in schema.arguments if not a.kwarg_only]

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            for place, argument in needed:
                given = args[place] if place < len(args) else kwargs.get(argument)
                check(given is not None, name, f"{argument} is needed")
            return function(*args, **kwargs)
        except _PLAIN as error:
            if type(error) not in _PLAIN:
                raise
            text = str(error)
            if not text.startswith(f"{name}: "):
                text = f"{name}: {text}"
            given = dict(zip(names, args)) | kwargs
            listed = ", ".join(f"{key} {_shown(v)}" for key, v in given.items())
            raise type(error)(f"{text}\n  arguments of {name}: {listed}") from error

    return call


def _shown(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        dtype = str(value.dtype).removeprefix("torch.")
        return f"{dtype} {tuple(value.shape)}"
    if isinstance(value, list | tuple) and any(
        isinstance(one, torch.Tensor) for one in value
    ):
        return f"[{', '.join(map(_shown, value))}]"
    return repr(value)
