"""The NPU that this host says it is: scripts choose formats and kernels by its name."""

from __future__ import annotations

import os
from typing import Any

import torch

from ..device.names import HOST, choose_name, chosen_name, host_device

# The numbers of processors in torch_npu.
_NUMBERS = {
    "Ascend910B1": 220,
    "Ascend910B2": 221,
    "Ascend910B2C": 222,
    "Ascend910B3": 223,
    "Ascend910B4": 224,
    "Ascend910B4-1": 225,
    "Ascend910_9391": 250,
    "Ascend910_9392": 251,
    "Ascend910_9381": 252,
    "Ascend910_9382": 253,
    "Ascend910_9372": 254,
    "Ascend910_9362": 255,
    "Ascend310P1": 200,
    "Ascend310P3": 202,
}
_GENERATIONS = {"Ascend950": 260, "Ascend910B": 220, "Ascend910_93": 250}


def set_device_name(name: str) -> None:
    """Makes this the name of the NPU, as ANABRANCH_NPU_NAME does. ValueError: no known NPU
    has this name."""
    _number(name)
    choose_name(name)


def get_soc_version() -> int:
    """The number of the NPU's processor. ValueError: ANABRANCH_NPU_NAME is none."""
    return _number(chosen_name())


def get_option(name: str) -> bytes:
    """The value of an option of an NPU's runtime."""
    return b"enable" if name == "ALLOW_INTERNAL_FORMAT" else b""


def _number(name: str) -> int:
    if name in _NUMBERS:
        return _NUMBERS[name]
    for prefix, number in _GENERATIONS.items():
        if name.startswith(prefix):
            return number
    known = ", ".join([*_NUMBERS, "Ascend950..."])
    raise ValueError(
        f"ANABRANCH_NPU_NAME must be the name of an NPU ({known}), got {name!r}"
    )


def can_device_access_peer(device: Any, peer_device: Any) -> bool:
    host_device(device)
    host_device(peer_device)
    return True


def is_jit_compile_false() -> bool:
    return True


def utilization(device: Any = None) -> int:
    """The share of the CPUs that the last minute had work for, in percent."""
    host_device(device)
    busy = os.getloadavg()[0] / (os.cpu_count() or 1)
    return min(100, round(100 * busy))


def get_autocast_dtype() -> torch.dtype:
    return torch.get_autocast_dtype(HOST.type)


def is_autocast_enabled() -> bool:
    return torch.is_autocast_enabled(HOST.type)


def set_autocast_dtype(dtype: torch.dtype) -> None:
    torch.set_autocast_dtype(HOST.type, dtype)


def set_autocast_enabled(enabled: bool) -> None:
    torch.set_autocast_enabled(HOST.type, enabled)


def get_amp_supported_dtype() -> list[torch.dtype]:
    return [torch.float16, torch.bfloat16]


_affinity: set[int] | None = None


def set_thread_affinity(core_range: list[int] | None = None) -> None:
    """Binds the calling thread to CPUs from the first to the last of the range."""
    global _affinity
    if _affinity is None:
        _affinity = os.sched_getaffinity(0)
    if core_range is not None:
        first, last = core_range
        os.sched_setaffinity(0, set(range(first, last + 1)) & _affinity)


def reset_thread_affinity() -> None:
    """Binds the calling thread to the CPUs that it had before set_thread_affinity."""
    if _affinity is not None:
        os.sched_setaffinity(0, _affinity)
