"""torch_npu.testing.common_utils: marks of tests, and random tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy
import torch

__all__ = [
    "SkipIfNotGteCANNVersion",
    "SupportedDevices",
    "create_common_tensor",
    "create_dtype_tensor",
    "get_npu_device",
]


def SupportedDevices(devices: Sequence[str]) -> Callable[[Any], Any]:
    """A decorator that names the processors of a test. Each test runs here."""
    return lambda function: function


def SkipIfNotGteCANNVersion(version: str) -> Callable[[Any], Any]:
    """A decorator that names the oldest engine of a test. Each test runs here, where
    there is none."""
    return lambda function: function


def get_npu_device() -> str:
    """The name of the device of tests."""
    return "npu:0"


def create_common_tensor(
    item: Sequence[Any], low: float, high: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """A tensor of evenly drawn numbers from `low` to `high`, and the same on the device.

    item  (a dtype of NumPy or PyTorch, a format, a shape)
    """
    dtype, _, shape = item
    drawn = numpy.random.default_rng().uniform(low, high, shape)
    if isinstance(dtype, torch.dtype):
        tensor = torch.from_numpy(drawn).to(dtype)
    else:
        tensor = torch.from_numpy(drawn.astype(dtype))
    return tensor, tensor.npu()  # type: ignore[attr-defined]


def create_dtype_tensor(
    shape: Sequence[int],
    dtype: torch.dtype,
    npu_format: int = -1,
    min_value: float = -5,
    max_value: float = 5,
    no_zero: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    """A tensor of evenly drawn numbers, and the same on the device. `no_zero`: zeros
    become ones."""
    if dtype == torch.bool:
        tensor = torch.randint(0, 2, tuple(shape)).to(dtype)
    else:
        drawn = torch.rand(tuple(shape)) * (max_value - min_value) + min_value
        tensor = drawn.to(dtype)
    if no_zero:
        tensor = torch.where(tensor == 0, torch.ones_like(tensor), tensor)
    return tensor, tensor.npu()  # type: ignore[attr-defined]
