"""The state of PyTorch that a trace depends on and that no argument shows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

_modes = torch._C._len_torch_function_stack
_dispatch_modes = torch._C._len_torch_dispatch_stack
_mode_at = torch._C._get_function_stack_at
_is_autocast, _autocast_dtype = torch.is_autocast_enabled, torch.get_autocast_dtype
_is_deterministic = torch._C._get_deterministic_algorithms
_default_dtype = torch.get_default_dtype


def global_state() -> tuple[Any, ...]:
    """The default dtype, the dtype of autocast on CPUs (None: it is off), whether
    algorithms are deterministic, and the active modes: of functions by type and device,
    of operators by number. States are compared by `==`; `str` of equal states is equal
    in all processes."""
    return (
        _default_dtype(),
        _autocast_dtype("cpu") if _is_autocast("cpu") else None,
        _is_deterministic(),
        tuple(_name(_mode_at(i)) for i in range(_modes())) if _modes() else (),
        _dispatch_modes(),
    )


def staying() -> Callable[[], bool]:
    """A function that says whether the state is still that of now."""
    known = global_state()
    dtype, autocast, deterministic, modes, dispatch_modes = known
    if autocast is not None or modes or dispatch_modes:
        return lambda: global_state() == known

    def stays() -> bool:  # without tuples: every call of a method asks
        return (
            _default_dtype() is dtype
            and not _is_autocast("cpu")
            and _is_deterministic() is deterministic
            and not _modes()
            and not _dispatch_modes()
        )

    return stays


def _name(mode: Any) -> tuple[str, str, str]:
    kind = type(mode)
    device = getattr(mode, "device", "")  # of torch.set_default_device
    return (kind.__module__, kind.__qualname__, str(device))
