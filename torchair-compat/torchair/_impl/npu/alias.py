"""`npu` as an alias of the host's device, wherever PyTorch takes a device.

Tensors stay tensors of the host: `t.npu().device` is `cpu`. PyTorch's own
parser of device strings can't be taught a name without a device type behind
it, so the functions that take a device translate the name before they call it.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any

import torch
from torch.jit._builtins import _find_builtin, _register_builtin
from torch.utils._device import _device_constructors

__all__ = ["HOST", "host_device", "install"]

HOST = torch.device("cpu")

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


def host_device(device: Any = None) -> Any:
    """The host's device for the names of the NPU; anything else unchanged."""
    if device is None or (isinstance(device, int) and not isinstance(device, bool)):
        device = f"npu:{device or 0}"
    if not isinstance(device, str) or not device.startswith("npu"):
        return device
    if not re.fullmatch(r"npu(:\d+)?", device):
        raise RuntimeError(f"Invalid device string: '{device}'")
    if device not in ("npu", "npu:0"):
        raise RuntimeError(f"invalid device ordinal: {device!r}; there is one device")
    return HOST


def install() -> None:
    originals = _device_constructors() | set(_LIKE)
    for name in dir(torch):
        function = getattr(torch, name)
        if callable(function) and _is_one_of(function, originals):
            translating = _translating(function)
            # TorchScript knows its operators by the functions' identity.
            if (operator := _find_builtin(function)) is not None:
                _register_builtin(translating, operator)
            setattr(torch, name, translating)
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


def _translating(function: Callable[..., Any], name: str = "") -> Callable[..., Any]:
    """`to` takes its device by position as well."""
    first = 1 if name == "to" else None

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        device = kwargs.get("device")
        if isinstance(device, str) and device.startswith("npu"):
            kwargs["device"] = host_device(device)
        elif first is not None and len(args) > first and isinstance(args[first], str):
            args = (*args[:first], host_device(args[first]), *args[first + 1 :])
        return function(*args, **kwargs)

    return call


def _tensor_npu(
    self: torch.Tensor, device: Any = None, non_blocking: bool = False
) -> torch.Tensor:
    """The tensor on the host's device: itself, if it is there."""
    moved = self.to(device=host_device(device), non_blocking=non_blocking)
    if isinstance(moved, torch.nn.Parameter) and not torch.compiler.is_compiling():
        moved._npu_placed = True  # type: ignore[attr-defined]
    return moved


def _is_npu(self: torch.Tensor) -> bool:
    return self.device == HOST


def _module_npu(self: torch.nn.Module, device: Any = None) -> torch.nn.Module:
    """The module, its parameters and buffers on the host's device."""
    moved = self.to(host_device(device))
    for parameter in moved.parameters():
        parameter._npu_placed = True  # type: ignore[attr-defined]
    return moved
