"""Makes `npu` an alias of the host's device wherever PyTorch takes a device.

Tensors stay tensors of the host: `t.npu().device` is `cpu`. Functions that take a
device translate the name first."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.jit._builtins import _find_builtin, _register_builtin
from torch.utils._device import _device_constructors

from anabranch.extension import is_traced

from .names import HOST, host_device, is_npu

__all__ = ["install"]

_LIKE = (
    torch.empty_like,
    torch.full_like,
    torch.ones_like,
    torch.rand_like,
    torch.randint_like,
    torch.randn_like,
    torch.zeros_like,
)
_METHODS = ("to", "new_empty", "new_full", "new_ones", "new_tensor", "new_zeros")


def install() -> None:
    originals = _device_constructors() | set(_LIKE)
    for name in dir(torch):
        function = getattr(torch, name)
        if callable(function) and _is_one_of(function, originals):
            translating = _translating(function)
            # TorchScript finds its operators by the identity of the functions.
            if (operator := _find_builtin(function)) is not None:
                _register_builtin(translating, operator)
            setattr(torch, name, translating)
    # Dynamo calls this function itself for a result that is a symbolic float, when it
    # can trace into no function any more.
    torch.compiler.allow_in_graph(torch.scalar_tensor)
    for name in _METHODS:
        setattr(torch.Tensor, name, _translating(getattr(torch.Tensor, name), name))
    torch.nn.Module.to = _translating(torch.nn.Module.to, "to")
    torch.Tensor.npu = _tensor_npu
    torch.Tensor.is_npu = property(_is_npu)
    torch.nn.Module.npu = _module_npu


def _is_one_of(function: Any, functions: set[Any]) -> bool:
    try:
        return function in functions
    except TypeError:
        return False


# A number names a device of the process's accelerator, if there is one.
_numbers = not torch.accelerator.is_available()


def _is_place(device: Any) -> bool:
    """Whether this names the NPU: a name, or the number of a device (or rank)."""
    return is_npu(device) or (_numbers and type(device) is int)


def _translating(function: Callable[..., Any], name: str = "") -> Callable[..., Any]:
    """Wraps a function: it translates the device. `to` also takes the device by
    position."""
    first = 1 if name == "to" else None

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        device = kwargs.get("device")
        if _is_place(device):
            kwargs["device"] = host_device(device)
        elif first is not None and len(args) > first and _is_place(args[first]):
            args = (*args[:first], host_device(args[first]), *args[first + 1 :])
        return function(*args, **kwargs)

    return call


def _tensor_npu(
    self: torch.Tensor, device: Any = None, non_blocking: bool = False
) -> torch.Tensor:
    """The tensor on the host's device: itself, if it is there."""
    moved = self.to(device=host_device(device), non_blocking=non_blocking)
    if isinstance(moved, torch.nn.Parameter) and not is_traced():
        moved._npu_placed = True  # type: ignore[attr-defined]
    return moved


def _is_npu(self: torch.Tensor) -> bool:
    return self.device == HOST


def _module_npu(self: torch.nn.Module, device: Any = None) -> torch.nn.Module:
    """The module, with parameters and buffers on the host's device."""
    moved = self.to(host_device(device))
    for parameter in moved.parameters():
        parameter._npu_placed = True  # type: ignore[attr-defined]
    return moved
